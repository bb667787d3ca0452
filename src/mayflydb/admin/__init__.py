"""The admin API under `/_mayfly`: clock, purges, TTL settings and counts, over HTTP and for callers in the same process."""
