"""A server in a thread, emptied before each test, a place for a data file, and a container with three items."""

from shared_server import file, http, own_data_directory, server, sessions

__all__ = ["file", "http", "own_data_directory", "server", "sessions"]
