"""The admin API under `/_mayfly`: the clock, purges, rules of expiry and counts, for HTTP and for callers in the process."""
