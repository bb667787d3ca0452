"""Time to live as pure functions: rules in, deadlines and decisions out. No clock, no I/O, no store."""
