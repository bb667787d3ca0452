"""What answers each command; `table` is the list of all."""
