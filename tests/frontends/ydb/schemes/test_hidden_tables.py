"""Hidden tables: what an interruption, the end of a session and a stop of the server leave of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from mayflydb.frontends.ydb.schemes.definitions import new_table
from mayflydb.frontends.ydb.schemes.specs import ColumnSpec, TableSpec
from mayflydb.frontends.ydb.schemes.staging import HIDDEN_SPACE, HiddenTables
from mayflydb.frontends.ydb.schemes.table_from_query import FilledTable, create_table_of_rows
from mayflydb.frontends.ydb.schemes.temporary import MAX_TABLES, TemporaryTables
from mayflydb.query.yql.faults import Fault
from mayflydb.query.yql.schemas import Row
from mayflydb.query.yql.types import INT64

SPEC = TableSpec((ColumnSpec("id", INT64),), ("id",))
MADE = FilledTable("/local/made", SPEC, ("id",))


def hidden(place: Any) -> list[str]:
    """The names of all hidden tables."""

    async def names() -> list[str]:
        space = await place.engine.node(HIDDEN_SPACE)
        return [] if space is None else [node.name for node in await place.engine.children(space.id)]

    found: list[str] = place.run(names())
    return found


def fill(place: Any, batches: AsyncIterator[Sequence[Row]]) -> Any:
    return create_table_of_rows(place.schemes, MADE, batches, place.now, "ann")


@pytest.mark.parametrize("end", ["cancelled", "failed", "stopped"])
def test_an_interrupted_table_is_no_table(place: Any, end: str) -> None:
    async def interrupted() -> None:
        begun = asyncio.Event()

        async def batches() -> AsyncIterator[Sequence[Row]]:
            yield [(number,) for number in range(1000)]
            begun.set()
            if end == "failed":
                raise ValueError
            await asyncio.Event().wait()

        task = asyncio.create_task(fill(place, batches()))
        await begun.wait()
        # It is being filled, and no path leads to it.
        assert await place.schemes.find(MADE.path) is None
        space = await place.engine.node(HIDDEN_SPACE)
        assert space is not None
        if end == "stopped":
            assert [node.name for node in await place.engine.children(space.id)] == ["0 0"]
            kept.append(task)
            return
        if end == "cancelled":
            task.cancel()
        await asyncio.wait([task])

    kept: list[asyncio.Task[Any]] = []
    place.run(interrupted())
    if end == "stopped":
        # The next start finds what a crash has left.
        place.again()
    assert hidden(place) == []
    assert place.run(place.schemes.find(MADE.path)) is None
    for task in kept:
        task.cancel()
        place.run(asyncio.wait([task]))


def test_a_path_that_was_taken_meanwhile(place: Any) -> None:
    async def batches() -> AsyncIterator[Sequence[Row]]:
        yield [(1,)]
        await place.schemes.create(MADE.path, SPEC, place.now)

    with pytest.raises(Fault) as caught:
        place.run(fill(place, batches()))
    assert caught.value.status == "SCHEME_ERROR"
    assert hidden(place) == []


def test_tables_of_a_session_end_with_it(place: Any) -> None:
    temporary = TemporaryTables(place.schemes)
    assert not temporary
    for name in ("a", "b"):
        place.run(temporary.create(f"/local/{name}", SPEC, place.now, "ann"))
    assert (bool(temporary), hidden(place)) == (True, ["0 0", "0 1"])
    place.run(temporary.drop("/local/a"))
    assert hidden(place) == ["0 1"]

    async def end() -> None:
        temporary.end()
        await place.schemes.hidden.close()
        # One that came too late.
        await temporary.create("/local/late", SPEC, place.now, "ann")
        await place.schemes.hidden.close()

    place.run(end())
    assert hidden(place) == []
    assert place.run(temporary.find("/local/b")) is None


def test_a_session_has_so_many(place: Any) -> None:
    temporary = TemporaryTables(place.schemes)
    for number in range(MAX_TABLES):
        place.run(temporary.create(f"/local/{number}", SPEC, place.now, "ann"))
    with pytest.raises(Fault, match="Too many temporary tables"):
        place.run(temporary.create("/local/more", SPEC, place.now, "ann"))


def test_servers_that_share_a_store_leave_each_others_alone(place: Any) -> None:
    """A lease of an owner's number is free when its server is gone."""
    held: dict[str, str] = {}

    def server(name: str) -> HiddenTables:
        async def lease(number: str, span: int) -> bool:
            return held.setdefault(number, name) == name

        place.engine.lease = lease
        return HiddenTables(place.engine)

    async def create(tables: HiddenTables) -> None:
        await tables.create(new_table(SPEC, "ann", place.schemes.ttl_policy, place.now), place.now)

    place.run(create(server("first")))
    second = server("second")
    place.run(second.drop_unfinished())
    place.run(create(second))
    assert hidden(place) == ["0 0", "1 1"]
    # The first one is gone; a third one starts.
    held.clear()
    held[f"{HIDDEN_SPACE} 1"] = "second"
    third = server("third")
    place.run(third.drop_unfinished())
    assert hidden(place) == ["1 1"]
    place.run(create(third))
    assert hidden(place) == ["1 1", "0 1"]
