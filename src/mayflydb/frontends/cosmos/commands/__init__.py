"""The commands of the REST API: one function per command. `table` finds it by resource, feed or not, and method."""
