"""The asynchronous client: pools, streams that are left, many sessions, retries, and a server that ends under it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mayflydb.embedded import RunningServer, serve
from ydb_raw import connected

pytestmark = pytest.mark.short

ydb: Any = pytest.importorskip("ydb")

MANY = "SELECT * FROM AS_TABLE(ListMap(ListFromRange(0ul, 300000ul), ($n) -> (<|n: $n, t: 'xxxxxxxxxxxxxxxx'|>)))"


@asynccontextmanager
async def connection(server: RunningServer, **options: Any) -> AsyncIterator[Any]:
    driver = ydb.aio.Driver(endpoint=server.ydb.endpoint, database=server.ydb.database, **options)
    await driver.wait(10)
    try:
        yield driver
    finally:
        await driver.stop()


async def rows_of(pool: Any, text: str, parameters: Any = None) -> list[dict[str, Any]]:
    return [dict(row) for each in await pool.execute_with_retries(text, parameters) for row in each.rows]


async def made(pool: Any, name: str, rows: int = 0) -> str:
    await pool.execute_with_retries(f"CREATE TABLE {name} (id Uint64, n Int64, PRIMARY KEY (id))")
    if rows:
        text = f"UPSERT INTO {name} SELECT * FROM AS_TABLE(ListMap(ListFromRange(0ul, {rows}ul), ($n) -> (<|id: $n, n: 0|>)))"
        await pool.execute_with_retries(text)
    return name


Work = Callable[[Any, RunningServer], Coroutine[Any, Any, None]]


async def many_sessions_at_once(driver: Any, server: RunningServer) -> None:
    async with ydb.aio.QuerySessionPool(driver, size=40) as pool:
        table = await made(pool, "crowd")

        async def one(number: int) -> int:
            await pool.execute_with_retries(
                f"UPSERT INTO {table} (id, n) VALUES ($id, 1)", {"$id": (number, ydb.PrimitiveType.Uint64)}
            )
            found = await rows_of(pool, f"SELECT n FROM {table} WHERE id = {number}ul")
            return int(found[0]["n"])

        assert await asyncio.gather(*map(one, range(200))) == [1] * 200
        assert await rows_of(pool, f"SELECT COUNT(*) AS n FROM {table}") == [{"n": 200}]


async def no_update_is_lost(driver: Any, server: RunningServer) -> None:
    async with ydb.aio.QuerySessionPool(driver, size=8) as pool:
        table = await made(pool, "counted", 1)

        async def add(transaction: Any) -> None:
            async with await transaction.execute(f"SELECT n FROM {table} WHERE id = 0") as results:
                (n,) = [row.n async for part in results for row in part.rows]
            text, given = f"UPSERT INTO {table} (id, n) VALUES (0, $n)", {"$n": (n + 1, ydb.PrimitiveType.Int64)}
            async with await transaction.execute(text, given, commit_tx=True):
                pass

        settings = ydb.RetrySettings(max_retries=500)
        await asyncio.gather(*(pool.retry_tx_async(add, retry_settings=settings) for _ in range(24)))
        assert await rows_of(pool, f"SELECT n FROM {table}") == [{"n": 24}]


async def the_table_service_retries_too(driver: Any, server: RunningServer) -> None:
    async with ydb.aio.SessionPool(driver, size=8) as pool, ydb.aio.QuerySessionPool(driver, size=1) as queries:
        table = await made(queries, "counted_again", 1)

        async def add(session: Any) -> None:
            async with session.transaction(ydb.SerializableReadWrite()) as transaction:
                (found,) = await transaction.execute(f"SELECT n FROM {table} WHERE id = 0")
                text = f"UPSERT INTO {table} (id, n) VALUES (0, {found.rows[0].n + 1})"
                await transaction.execute(text, commit_tx=True)

        settings = ydb.RetrySettings(max_retries=500)
        await asyncio.gather(*(pool.retry_operation(add, retry_settings=settings) for _ in range(24)))
        assert await rows_of(queries, f"SELECT n FROM {table}") == [{"n": 24}]


async def a_stream_that_is_left_frees_its_session(driver: Any, server: RunningServer) -> None:
    async with ydb.aio.QuerySessionPool(driver, size=1) as pool, pool.checkout() as session:
        async with await session.execute(MANY) as results:
            async for _ in results:
                break
        # What was not taken of it is read, or forgotten: the session is there for the next query.
        async with await session.execute("SELECT 1 AS a") as results:
            assert [row.a async for part in results for row in part.rows] == [1]


async def a_query_that_is_cancelled_leaves_the_pool_usable(driver: Any, server: RunningServer) -> None:
    async def read(session: Any, begun: asyncio.Event) -> None:
        async with await session.execute(MANY) as results:
            async for _ in results:
                begun.set()

    async with ydb.aio.QuerySessionPool(driver, size=2) as pool:
        for _ in range(3):
            begun = asyncio.Event()
            waiting = asyncio.create_task(pool.retry_operation_async(lambda session, begun=begun: read(session, begun)))
            await begun.wait()
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        assert await rows_of(pool, "SELECT 1 AS a") == [{"a": 1}]


async def a_transaction_that_is_cancelled_has_done_nothing(driver: Any, server: RunningServer) -> None:
    async with ydb.aio.QuerySessionPool(driver, size=2) as pool:
        table = await made(pool, "cancelled")
        written = asyncio.Event()

        async def work(transaction: Any) -> None:
            async with await transaction.execute(f"UPSERT INTO {table} (id, n) VALUES (1, 1)"):
                pass
            written.set()
            await asyncio.Event().wait()

        waiting = asyncio.create_task(pool.retry_tx_async(work))
        await written.wait()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await rows_of(pool, f"SELECT * FROM {table}") == []


async def tables_are_read_as_streams(driver: Any, server: RunningServer) -> None:
    async with ydb.aio.SessionPool(driver, size=2) as pool, ydb.aio.QuerySessionPool(driver, size=1) as queries:
        table = await made(queries, "read", 2500)

        async def work(session: Any) -> list[int]:
            found: list[int] = []
            async for part in await session.read_table(f"/local/{table}", ordered=True):
                found += [row.id for row in part.rows]
            return found

        assert await pool.retry_operation(work) == list(range(2500))
        async for part in await driver.table_client.scan_query(f"SELECT COUNT(*) AS n FROM {table}"):
            assert [row.n for row in part.result_set.rows] == [2500]


async def a_session_that_is_gone_is_replaced(driver: Any, server: RunningServer) -> None:
    async with ydb.aio.SessionPool(driver, size=1) as tables, ydb.aio.QuerySessionPool(driver, size=1) as queries:
        session = await tables.acquire()
        with connected(server.ydb.endpoint) as raw:
            raw.ask("Ydb.Table.V1.TableService/DeleteSession", session_id=session.session_id)
        await tables.release(session)
        (found,) = await tables.retry_operation(
            lambda session: session.transaction().execute("SELECT 1 AS a", commit_tx=True)
        )
        assert found.rows[0].a == 1
        async with queries.checkout() as session:
            with connected(server.ydb.endpoint) as raw:
                raw.ask("Ydb.Query.V1.QueryService/DeleteSession", session_id=session.session_id)
        assert await rows_of(queries, "SELECT 2 AS a") == [{"a": 2}]


async def a_driver_is_stopped_while_streams_are_open(driver: Any, server: RunningServer) -> None:
    other = ydb.aio.Driver(endpoint=server.ydb.endpoint, database=server.ydb.database)
    await other.wait(10)
    pool = ydb.aio.QuerySessionPool(other, size=3)
    for _ in range(3):
        session = await pool.acquire()
        results = await session.execute(MANY)
        async for _ in results:
            break
    await other.stop(5)
    # The server has noticed, and goes on.
    async with ydb.aio.QuerySessionPool(driver, size=1) as again:
        assert await rows_of(again, "SELECT 1 AS a") == [{"a": 1}]


WORKS: list[Work] = [
    many_sessions_at_once,
    no_update_is_lost,
    the_table_service_retries_too,
    a_stream_that_is_left_frees_its_session,
    a_query_that_is_cancelled_leaves_the_pool_usable,
    a_transaction_that_is_cancelled_has_done_nothing,
    tables_are_read_as_streams,
    a_session_that_is_gone_is_replaced,
    a_driver_is_stopped_while_streams_are_open,
]


@pytest.mark.filterwarnings("ignore:scan_query is deprecated")
@pytest.mark.parametrize("work", WORKS, ids=lambda work: work.__name__)
def test_the_asynchronous_client(ydb_server: RunningServer, work: Work) -> None:
    async def whole() -> None:
        async with connection(ydb_server) as driver:
            await asyncio.wait_for(work(driver, ydb_server), 60)

    asyncio.run(whole())


def test_pools_go_on_after_a_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    options: dict[str, Any] = {"path": tmp_path / "mayfly.db", "port": 0, "mongo_port": -1}

    async def before(server: RunningServer, driver: Any) -> tuple[Any, Any]:
        queries, tables = ydb.aio.QuerySessionPool(driver, size=3), ydb.aio.SessionPool(driver, size=3)
        await made(queries, "kept", 3)
        (found,) = await tables.retry_operation(
            lambda session: session.transaction().execute("SELECT COUNT(*) AS n FROM kept", commit_tx=True)
        )
        assert found.rows[0].n == 3
        return queries, tables

    async def after(queries: Any, tables: Any) -> None:
        assert await rows_of(queries, "SELECT COUNT(*) AS n FROM kept") == [{"n": 3}]
        (found,) = await tables.retry_operation(
            lambda session: session.transaction().execute("SELECT COUNT(*) AS n FROM kept", commit_tx=True)
        )
        assert found.rows[0].n == 3

    async def whole() -> None:
        first = serve(ydb_port=0, **options)
        server = await asyncio.to_thread(first.__enter__)
        port = int(server.ydb.endpoint.rpartition(":")[2])
        async with connection(server) as driver:
            queries, tables = await before(server, driver)
            await asyncio.to_thread(first.__exit__, None, None, None)
            second = serve(ydb_port=port, **options)
            await asyncio.to_thread(second.__enter__)
            try:
                await after(queries, tables)
                await queries.stop()
                await tables.stop()
            finally:
                await asyncio.to_thread(second.__exit__, None, None, None)

    asyncio.run(asyncio.wait_for(whole(), 60))


def test_logging_in_over_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    (tmp_path / "password").write_text("secret\n")
    options: dict[str, Any] = {"ydb_password_file": str(tmp_path / "password"), "ydb_tls_port": 0}

    async def ask(server: RunningServer, authority: bytes, password: str) -> list[dict[str, Any]]:
        credentials = ydb.StaticCredentials.from_user_password
        config = ydb.DriverConfig(
            server.ydb.tls_endpoint, "/local", credentials=credentials("root", password), root_certificates=authority
        )
        async with ydb.aio.Driver(config) as driver:
            await driver.wait(5, fail_fast=True)
            async with ydb.aio.QuerySessionPool(driver) as pool:
                return await rows_of(pool, "SELECT 1 AS a")

    with serve(memory=True, port=0, mongo_port=-1, **options) as server:
        [found] = tmp_path.rglob("ca.pem")
        assert asyncio.run(ask(server, found.read_bytes(), "secret")) == [{"a": 1}]
        with pytest.raises(ydb.ConnectionFailure):
            asyncio.run(ask(server, found.read_bytes(), "wrong"))
