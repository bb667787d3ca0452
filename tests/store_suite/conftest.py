"""The stores that the suite runs on, by name."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from citus import Citus
from mayflydb.store.interface import Store
from mayflydb.store.postgres import PostgresStore
from mayflydb.store.postgres.connection import connect
from mayflydb.store.sqlite.store import SqliteStore
from postgres_cluster import Cluster
from store_suite.contract import Contract, Mirror
from store_suite.reference import ReferenceStore
from store_suite.subject import Subject

Place = Callable[[str], str]
"""Where a store of this kind (`file`, `postgres`, `citus`) is to be made: a path, or a url."""


async def _reference(place: Place) -> Store:
    return ReferenceStore()


async def _contract_reference(place: Place) -> Store:
    return Contract(ReferenceStore())


async def _sqlite_file(place: Place) -> Store:
    return await SqliteStore.open(place("file"))


async def _sqlite_memory(place: Place) -> Store:
    return await SqliteStore.open(None)


async def _contract_sqlite(place: Place) -> Store:
    return Contract(await SqliteStore.open(None))


async def _mirror(place: Place) -> Store:
    return Mirror(ReferenceStore(), await SqliteStore.open(None))


async def _postgres(place: Place, kind: str = "postgres") -> Store:
    url = place(kind)
    # A new database takes ten times as long as new tables.
    connection = await connect(url)
    await connection.execute("DROP SCHEMA IF EXISTS mayfly CASCADE")
    await connection.close()
    return await PostgresStore.open(url)


async def _citus(place: Place) -> Store:
    return await _postgres(place, "citus")


async def _contract_postgres(place: Place) -> Store:
    return Contract(await _postgres(place))


STORES: dict[str, Callable[[Place], Awaitable[Store]]] = {
    "reference": _reference,
    "contract-reference": _contract_reference,
    "sqlite-file": _sqlite_file,
    "sqlite-memory": _sqlite_memory,
    "contract-sqlite": _contract_sqlite,
    "mirror": _mirror,
    "postgres": _postgres,
    "contract-postgres": _contract_postgres,
    "citus": _citus,
}


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="session")
def database(postgres: Cluster) -> str:
    """The url of a PostgreSQL database for one test after the other."""
    return postgres.fresh()


@pytest.fixture(scope="session")
def distributed_database(citus_cluster: Citus) -> str:
    """The same, with Citus."""
    return citus_cluster.fresh()


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, runner: asyncio.Runner, tmp_path: Path) -> Iterator[Subject]:
    def place(kind: str) -> str:
        if kind == "file":
            return str(tmp_path / "store.db")
        return str(request.getfixturevalue("database" if kind == "postgres" else "distributed_database"))

    async def opened() -> Store:
        return await STORES[request.param](place)

    subject = Subject(runner.run(opened()), runner)
    yield subject
    if not subject.closed:
        runner.run(subject.store.close())


@pytest.fixture
def container(store: Subject) -> int:
    """A container to put records into."""
    return store.container()
