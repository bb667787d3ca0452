"""Evaluates clients' queries on threads, within limits of time and memory; the event loop stays free. See DESIGN.md."""
