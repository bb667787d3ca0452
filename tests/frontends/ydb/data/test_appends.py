"""Transactions of several clients that run at once, on each kind of store of one process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

import planted
from mayflydb.clock import VirtualClock
from mayflydb.engine.container_snapshot import ContainerSnapshot
from mayflydb.engine.open import open_engine
from mayflydb.frontends.ydb.calls import GrpcCall
from mayflydb.frontends.ydb.executor import Executor
from mayflydb.frontends.ydb.options import Options
from mayflydb.frontends.ydb.schemes.catalog import Schemes
from mayflydb.frontends.ydb.transactions import TransactionControl
from mayflydb.model.instant import SECOND
from store_suite.conftest import STORES
from ydb_queries import executor_of
from yql_appends import Appends, Run, run_appends

NOW = 1_893_456_000 * SECOND
CLIENTS, COUNT = 5, 40


class Session:
    """An owner of transactions."""

    def __init__(self) -> None:
        self.transactions: dict[str, Any] = {}
        self.contended: tuple[Any, ...] = ()
        self.temporary: Any = None


def run_of(executor: Executor) -> Run:
    session = Session()

    async def run(text: str, control: TransactionControl | None) -> tuple[list[Any], str]:
        call = GrpcCall("/local", NOW)
        parts = [part async for part in executor.execute(call, session, text, {}, control)]
        return [row for part in parts for row in part.rows], parts[-1].tx_id

    return run


async def history(store: str, directory: Path, chance: Random) -> Appends:
    opened: Any = await STORES[store](lambda kind: ":memory:" if kind == "memory" else str(directory / "store.db"))
    engine = await open_engine(opened, VirtualClock(NOW))
    schemes = Schemes(engine, Options())
    executor = executor_of(engine, schemes)
    try:
        return await run_appends([run_of(executor) for _ in range(CLIENTS)], chance, COUNT)
    finally:
        await schemes.close()
        await engine.indexes.close()
        await opened.close()


@pytest.mark.parametrize("store", ["contract-reference", "contract-sqlite", "sqlite-file"])
def test_there_is_an_order(store: str, tmp_path: Path, chance: Random) -> None:
    appends = asyncio.run(history(store, tmp_path, chance))
    assert len(appends.holds) > CLIENTS * COUNT // 10
    assert appends.aborted > 0


def nothing(self: ContainerSnapshot, *known: object) -> Any:
    yield from ()


BUGS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "reads are not checked": lambda: patch.object(ContainerSnapshot, "check_reads", nothing),
    "ranges are not checked": lambda: patch.object(ContainerSnapshot, "_ranges_read", lambda self: iter(())),
}


@pytest.mark.parametrize("bug", BUGS)
def test_a_planted_bug_is_found(tmp_path: Path, bug: str) -> None:
    def check(seed: int) -> None:
        directory = tmp_path / str(seed)
        directory.mkdir()
        asyncio.run(history("sqlite-file", directory, Random(seed)))

    with BUGS[bug]():
        assert planted.found(check), f"{bug}: nothing was found"
