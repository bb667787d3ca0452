"""Listening sockets and the connections they take, whatever is spoken over them."""
