"""What clients can ask: one function per command, found by resource, feed or not, and method."""
