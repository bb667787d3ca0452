"""The composition root: what a server is put together from, and how each of its ports is taken."""
