"""What people meet besides the protocols: the admin API under `/_mayfly`, metrics, pages."""
