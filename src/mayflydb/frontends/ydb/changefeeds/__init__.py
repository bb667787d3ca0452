"""Changefeeds: each change of a table's rows, its removals by TTL included, as a message in a topic."""
