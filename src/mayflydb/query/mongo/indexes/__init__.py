"""Indexes: what they are over, the keys they hold, and the plans of queries that use them."""
