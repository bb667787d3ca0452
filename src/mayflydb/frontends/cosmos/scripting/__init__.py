"""Stored procedures, triggers and user-defined functions: JavaScript without I/O, within a time and memory, off the loop."""
