"""Sessions, and what they make of commands: numbered writes that may be repeated, and transactions."""
