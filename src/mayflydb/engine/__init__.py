"""The database itself: catalogue, reads under visibility, decided writes, the reaper, and time. Front ends translate to it."""
