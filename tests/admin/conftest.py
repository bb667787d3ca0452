"""A server in a thread, emptied before each test, a place for a data file, and containers with items."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from admin.three_protocols import Site
from mayflydb.embedded import RunningServer
from served import Http
from shared_server import file, http, own_data_directory, server, sessions

__all__ = ["file", "http", "own_data_directory", "server", "sessions", "site"]


@pytest.fixture
def site(server: RunningServer, http: Http) -> Iterator[Site]:
    """A container of each protocol with three records."""
    made = Site(server, http)
    yield made
    made.otps.database.client.close()
    made.driver.stop()
