"""A server in a thread, emptied before each test, and a container with three items."""

from shared_server import http, own_data_directory, server, sessions

__all__ = ["http", "own_data_directory", "server", "sessions"]
