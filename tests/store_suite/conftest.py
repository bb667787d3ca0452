"""The stores that the suite runs on, by name."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from mayflydb.store.contract import Contract, Mirror
from mayflydb.store.interface import Store
from mayflydb.store.reference import ReferenceStore
from mayflydb.store.sqlite.store import SqliteStore
from store_suite.subject import Subject


async def _reference(path: Path) -> Store:
    return ReferenceStore()


async def _contract_reference(path: Path) -> Store:
    return Contract(ReferenceStore())


async def _sqlite_file(path: Path) -> Store:
    return await SqliteStore.open(str(path / "store.db"))


async def _sqlite_memory(path: Path) -> Store:
    return await SqliteStore.open(None)


async def _contract_sqlite(path: Path) -> Store:
    return Contract(await SqliteStore.open(None))


async def _mirror(path: Path) -> Store:
    return Mirror(ReferenceStore(), await SqliteStore.open(None))


STORES: dict[str, Callable[[Path], Awaitable[Store]]] = {
    "reference": _reference,
    "contract-reference": _contract_reference,
    "sqlite-file": _sqlite_file,
    "sqlite-memory": _sqlite_memory,
    "contract-sqlite": _contract_sqlite,
    "mirror": _mirror,
}


@pytest.fixture
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, runner: asyncio.Runner, tmp_path: Path) -> Iterator[Subject]:
    async def opened() -> Store:
        return await STORES[request.param](tmp_path)

    subject = Subject(runner.run(opened()), runner)
    yield subject
    if not subject.closed:
        runner.run(subject.store.close())


@pytest.fixture
def container(store: Subject) -> int:
    """A container to put records into."""
    return store.container()
