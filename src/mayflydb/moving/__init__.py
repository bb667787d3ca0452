"""Copies everything from one store to another, or to a file and back. Ids, versions, times and remaining lives stay."""
