"""TTL as programs usually set it: in YQL and in Python, by each service of each client."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mayflydb.embedded import RunningServer
from stores import STORES

ydb: Any = pytest.importorskip("ydb")

pytestmark = pytest.mark.parametrize("ydb_server", STORES, indirect=True, scope="module")

MINUTE, HOUR = 60, 3600
SET = 'ALTER TABLE `mytable` SET (TTL = Interval("PT1H") ON created_at);'
RESET = "ALTER TABLE `mytable` RESET (TTL);"
CREATE = 'CREATE TABLE `mytable` (id Uint64, expire_at Timestamp, PRIMARY KEY (id)) WITH (TTL = Interval("PT0S") ON expire_at);'
PLAIN = "CREATE TABLE `mytable` (id Uint64, created_at Timestamp, PRIMARY KEY (id))"


async def resolve_answer(answer: Any) -> Any:
    """Return the answer of a call, awaited if the client is asynchronous."""
    return await answer if inspect.isawaitable(answer) else answer


class ServiceClient:
    """One service of one client: `yql` runs a text and gives its rows, `session` is one of the table service."""

    def __init__(self, driver: Any, aio: bool, query: bool) -> None:
        module = ydb.aio if aio else ydb
        self._aio = aio
        self._query = query
        self._pool = (module.QuerySessionPool if query else module.SessionPool)(driver, size=2)
        self._tables = module.SessionPool(driver, size=2)

    async def yql(self, text: str) -> list[Any]:
        if self._query:
            sets = await resolve_answer(self._pool.execute_with_retries(text))
        elif text.startswith(("CREATE", "ALTER", "DROP")):
            await self._retried(self._pool, lambda session: session.execute_scheme(text))
            return []
        else:
            sets = await self._retried(self._pool, lambda session: session.transaction().execute(text, commit_tx=True))
        return [dict(row) for each in sets for row in each.rows]

    async def session(self, work: Callable[[Any], Any]) -> Any:
        return await self._retried(self._tables, work)

    async def _retried(self, pool: Any, work: Callable[[Any], Any]) -> Any:
        return await pool.retry_operation(work) if self._aio else pool.retry_operation_sync(work)

    async def stop(self) -> None:
        for pool in (self._pool, self._tables):
            await resolve_answer(pool.stop())


@asynccontextmanager
async def open_client(server: RunningServer, aio: bool, query: bool) -> AsyncIterator[ServiceClient]:
    place = {"endpoint": server.ydb.endpoint, "database": server.ydb.database}
    driver = ydb.aio.Driver(**place) if aio else ydb.Driver(**place)
    await resolve_answer(driver.wait(10))
    doors = ServiceClient(driver, aio, query)
    try:
        yield doors
        await doors.yql("DROP TABLE `mytable`")
    finally:
        await doors.stop()
        await resolve_answer(driver.stop())


Scenario = Callable[[RunningServer, ServiceClient], Awaitable[None]]


@pytest.fixture(params=["table", "query", "aio table", "aio query"])
def play(request: pytest.FixtureRequest, ydb_server: RunningServer) -> Callable[[Scenario], None]:
    """Run a scenario through one of the doors."""

    def run(scenario: Scenario) -> None:
        async def whole() -> None:
            async with open_client(ydb_server, "aio" in request.param, "query" in request.param) as doors:
                await scenario(ydb_server, doors)

        asyncio.run(whole())

    return run


async def settings_of(doors: ServiceClient) -> Any:
    described = await doors.session(lambda session: session.describe_table("mytable"))
    return described.ttl_settings


async def ids(doors: ServiceClient) -> list[int]:
    return [row["id"] for row in await doors.yql("SELECT id FROM mytable ORDER BY id")]


def date_column(settings: Any) -> tuple[str, int]:
    mode = settings.date_type_column
    return mode.column_name, mode.expire_after_seconds


FILL = """UPSERT INTO mytable (id, {column}) VALUES
    (1, CurrentUtcTimestamp()), (2, NULL), (3, CurrentUtcTimestamp() + Interval("PT2H"))"""


def test_a_table_is_made_with_the_instant_at_which_rows_end(play: Any) -> None:
    async def scenario(server: RunningServer, doors: ServiceClient) -> None:
        await doors.yql(CREATE)
        assert date_column(await settings_of(doors)) == ("expire_at", 0)
        await doors.yql(FILL.format(column="expire_at"))
        assert await ids(doors) == [1, 2, 3]
        server.clock.advance(seconds=MINUTE)
        assert await ids(doors) == [2, 3]
        server.clock.advance(seconds=3 * HOUR)
        assert await ids(doors) == [2]

    play(scenario)


def test_an_interval_is_set_and_taken_away(play: Any) -> None:
    async def scenario(server: RunningServer, doors: ServiceClient) -> None:
        await doors.yql(PLAIN)
        assert await settings_of(doors) is None
        await doors.yql(SET)
        assert date_column(await settings_of(doors)) == ("created_at", HOUR)
        await doors.yql(FILL.format(column="created_at"))
        server.clock.advance(seconds=HOUR - MINUTE)
        assert await ids(doors) == [1, 2, 3]
        server.clock.advance(seconds=HOUR + MINUTE)
        assert await ids(doors) == [2, 3]
        await doors.yql(RESET)
        assert await settings_of(doors) is None
        server.clock.advance(seconds=4 * HOUR)
        assert await ids(doors) == [2, 3]

    play(scenario)


def test_the_same_in_python(play: Any) -> None:
    async def scenario(server: RunningServer, doors: ServiceClient) -> None:
        await doors.session(
            lambda session: session.create_table(
                "mytable",
                ydb.TableDescription()
                .with_column(ydb.Column("id", ydb.OptionalType(ydb.DataType.Uint64)))
                .with_column(ydb.Column("expire_at", ydb.OptionalType(ydb.DataType.Timestamp)))
                .with_primary_key("id")
                .with_ttl(ydb.TtlSettings().with_date_type_column("expire_at")),
            )
        )
        assert date_column(await settings_of(doors)) == ("expire_at", 0)
        await doors.session(lambda session: session.alter_table("mytable", drop_ttl_settings=True))
        assert await settings_of(doors) is None
        await doors.yql("ALTER TABLE mytable ADD COLUMN created_at Timestamp")
        await doors.session(
            lambda session: session.alter_table(
                "mytable", set_ttl_settings=ydb.TtlSettings().with_date_type_column("created_at", 3600)
            )
        )
        assert date_column(await settings_of(doors)) == ("created_at", HOUR)
        await doors.yql(FILL.format(column="created_at"))
        server.clock.advance(seconds=2 * HOUR)
        assert await ids(doors) == [2, 3]
        await doors.session(lambda session: session.alter_table("mytable", drop_ttl_settings=True))
        server.clock.advance(seconds=4 * HOUR)
        assert await ids(doors) == [2, 3]

    play(scenario)
