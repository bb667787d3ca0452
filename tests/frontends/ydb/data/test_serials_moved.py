"""Tables with Serial columns, moved to another store: numbers go on where they were."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from mayflydb.clock import VirtualClock
from mayflydb.engine.open import open_engine
from mayflydb.frontends.ydb.calls import GrpcCall
from mayflydb.frontends.ydb.options import Options
from mayflydb.frontends.ydb.schemes.catalog import Schemes
from mayflydb.model.instant import SECOND
from mayflydb.moving.copy import copy
from mayflydb.moving.source import StoreSource
from mayflydb.store.interface import Store
from mayflydb.store.sqlite import SqliteStore
from moving.test_files import quiet, read, write
from store_suite.contract import Contract
from store_suite.reference import ReferenceStore
from ydb_queries import executor_of

NOW = 1_893_456_000 * SECOND


async def inserted(store: Store, *texts: str) -> list[Any]:
    """The rows of queries over a store, which is opened and left again."""
    engine = await open_engine(store, VirtualClock(NOW))
    schemes = Schemes(engine, Options())
    executor = executor_of(engine, schemes)
    found: list[Any] = []
    for text in texts:
        call = GrpcCall("/local", NOW)
        async for part in executor.execute(call, None, text, {}):
            found += part.rows
    await schemes.close()
    await engine.indexes.close()
    return found


INSERT = "INSERT INTO t (v) VALUES ('x') RETURNING id, n"


@pytest.mark.parametrize("through_a_file", [False, True])
def test_numbers_go_on_in_another_store(tmp_path: Path, through_a_file: bool) -> None:
    async def work() -> None:
        source: Store = await SqliteStore.open(str(tmp_path / "source.db"))
        target: Store = Contract(ReferenceStore())
        found = await inserted(
            source,
            "CREATE TABLE t (id Serial, n BigSerial, v Utf8, PRIMARY KEY (id))",
            "ALTER SEQUENCE `/local/t/_serial_column_n` START WITH 100 INCREMENT BY 5 RESTART",
            INSERT,
            INSERT,
        )
        assert found == [(1, 100), (2, 105)]
        if through_a_file:
            await write(source, tmp_path / "all.mayfly")
            await read(tmp_path / "all.mayfly", target)
        else:
            await copy(await StoreSource.open(source), target, quiet)
        assert await inserted(target, INSERT, "SELECT id, n FROM t ORDER BY id") == [
            (3, 110),
            (1, 100),
            (2, 105),
            (3, 110),
        ]
        await source.close()
        await target.close()

    asyncio.run(work())
