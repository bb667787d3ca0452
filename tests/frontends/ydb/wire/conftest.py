"""Raw calls to the module's server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mayflydb.embedded import RunningServer
from ydb_raw import Raw, connected


@pytest.fixture
def raw(ydb_server: RunningServer) -> Iterator[Raw]:
    """A channel of the test's own."""
    with connected(ydb_server.ydb.endpoint) as client:
        yield client
