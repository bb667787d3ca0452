"""A server in a thread, emptied before each test, and a place for a data file."""

from shared_server import file, http, own_data_directory, server

__all__ = ["file", "http", "own_data_directory", "server"]
