"""Stored procedures, triggers and user-defined functions: JavaScript on threads, without I/O, with limits of time and memory."""
