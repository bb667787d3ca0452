"""The server that YDB's tests talk to: one per module, in memory, with a virtual clock. Tables are the test's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from mayflydb.embedded import RunningServer, serve
from stores import place

ydb: Any = pytest.importorskip("ydb")
"""Taken for untyped: few of its functions say that they have types."""

START = "2030-01-01T00:00:00Z"


@pytest.fixture(scope="module")
def ydb_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """In memory; on another store where a test parametrizes this fixture indirectly with one of `stores.STORES`."""
    store = getattr(request, "param", "memory")
    directory = tmp_path_factory.mktemp(store)
    with pytest.MonkeyPatch.context() as patch:
        # A certificate authority is made for TLS, and kept here.
        patch.setenv("XDG_DATA_HOME", str(directory))
        options: dict[str, Any] = {"clock": "virtual", "clock_start": START, "ydb_min_run_interval": "1s"}
        with serve(**place(store, request, directory), port=0, mongo_port=-1, ydb_tls_port=0, **options) as server:
            yield server


@pytest.fixture(scope="module")
def ydb_driver(ydb_server: RunningServer) -> Iterator[Any]:
    """One connected driver for the tests of a module."""
    with ydb_server.ydb.driver() as driver:
        yield driver


@pytest.fixture(scope="module")
def table_pool(ydb_driver: Any) -> Iterator[Any]:
    """Sessions of the table service."""
    with ydb.SessionPool(ydb_driver, size=10) as pool:
        yield pool


@pytest.fixture(scope="module")
def query_pool(ydb_driver: Any) -> Iterator[Any]:
    """Sessions of the query service."""
    with ydb.QuerySessionPool(ydb_driver, size=10) as pool:
        yield pool


@pytest.fixture
def table_session(table_pool: Any) -> Iterator[Any]:
    """A session of the table service, to be used by one test."""
    with table_pool.checkout() as session:
        yield session


@pytest.fixture
def query_session(query_pool: Any) -> Iterator[Any]:
    """A session of the query service, attached."""
    with query_pool.checkout() as session:
        yield session
