"""Background builds after a change, beside other work and across starts; schedules of removal runs."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mayflydb.engine.catalog import Definition, Node
from mayflydb.engine.commands import Command, Mode
from mayflydb.frontends.ydb.rows import RowLayout, partition_of
from mayflydb.frontends.ydb.schemes.copying import TableCopy, copy_tables
from mayflydb.frontends.ydb.schemes.definitions import alter_definition
from mayflydb.frontends.ydb.schemes.specs import AlterSpec, ColumnSpec, DropTtl, IndexSpec, TableSpec, TtlSpec
from mayflydb.frontends.ydb.schemes.staging import HIDDEN_SPACE
from mayflydb.frontends.ydb.tables import TableView
from mayflydb.model.instant import HOUR, MINUTE, SECOND
from mayflydb.model.order import Order
from mayflydb.query.yql.faults import Fault
from mayflydb.query.yql.types import TIMESTAMP, UINT64, UTF8, OptionalType
from mayflydb.store.interface import Scan

COLUMNS = tuple(
    ColumnSpec(name, OptionalType(type))
    for name, type in {"id": UINT64, "at": TIMESTAMP, "n": UINT64, "s": UTF8}.items()
)
PLAIN = TableSpec(COLUMNS, ("id",))
TIMED = TableSpec(COLUMNS, ("id",), ttl=TtlSpec("at", 60))
ROWS = 400


def made(place: Any, spec: TableSpec, rows: int = ROWS) -> TableView:
    view: TableView = place.run(place.schemes.create("/local/t", spec, place.now))
    layout = RowLayout(view)
    commands = []
    for number in range(rows):
        values = [number, number * SECOND, number, f"s{number}"]
        key = layout.key_of(values)
        commands.append(Command(Mode.CREATE, partition_of(key), key, layout.draft(values, key)))
    if commands:
        place.run(place.engine.write_all(view.node.id, commands, place.now))
    return view


def states(place: Any) -> list[str]:
    definition = place.run(place.schemes.get_table("/local/t")).node.definition
    return [each.state for each in (*definition.indexes, *definition.slots)]


INDEXED = AlterSpec(add_indexes=(IndexSpec("by_n", ("n",)),))
CHANGES = [INDEXED, AlterSpec(ttl=TtlSpec("n", 60, "SECONDS")), AlterSpec(ttl=DropTtl())]


@pytest.mark.parametrize("change", CHANGES, ids=["index", "column", "none"])
def test_what_a_stop_has_left_goes_on_at_the_next_start(place: Any, change: AlterSpec) -> None:
    view = made(place, TIMED)

    def changed(node: Node) -> Definition:
        return alter_definition(node.definition, change, place.schemes.ttl_policy, place.now)

    place.run(place.engine.definitions.replace(view.node.id, changed, place.now))
    assert {"building", "dropped"} & set(states(place))
    place.again()
    place.run(place.schemes.builds.wait_until_complete(place.run(place.schemes.get_table("/local/t"))))
    assert set(states(place)) == {"ready"}


def test_dates_are_those_of_the_new_column(place: Any) -> None:
    made(place, TIMED)
    view = place.run(place.schemes.alter("/local/t", AlterSpec(ttl=TtlSpec("n", 60, "MILLISECONDS")), place.now))
    place.run(place.schemes.builds.wait_until_complete(view))
    records = place.run(place.engine.store.read(Scan(view.node.id, b"", None, Order.CREATED, None, 3)))
    assert [dict(each.dates)[view.body.ttl.slot] for each in records] == [0, 1000, 2000]


def test_changes_on_the_heels_of_each_other(place: Any) -> None:
    made(place, TIMED)

    async def all_at_once() -> None:
        for number in range(5):
            await place.schemes.alter(
                "/local/t", AlterSpec(add_indexes=(IndexSpec(f"i{number}", ("n", "s")),)), place.now
            )
            await asyncio.sleep(0)
        await place.schemes.alter("/local/t", AlterSpec(ttl=TtlSpec("n", 0, "SECONDS")), place.now)
        view = await place.schemes.alter("/local/t", AlterSpec(drop_indexes=("i0", "i3")), place.now)
        await place.schemes.builds.wait_until_complete(view)

    place.run(all_at_once())
    assert set(states(place)) == {"ready"}
    assert list(place.run(place.schemes.get_table("/local/t")).indexes) == ["i1", "i2", "i4"]


def test_a_table_that_goes_while_it_is_built(place: Any) -> None:
    made(place, PLAIN)

    async def dropped() -> None:
        view = await place.schemes.alter("/local/t", INDEXED, place.now)
        await place.schemes.drop("/local/t")
        await place.schemes.builds.wait_until_complete(view)

    place.run(dropped())


# --- schedules -------------------------------------------------------------------------------------------------------


def next_run(place: Any, now: int) -> int | None:
    schedule = place.run(place.schemes.get_table("/local/t")).node.definition.schedule
    return None if schedule is None or schedule.until is not None else schedule.next(now + 1) - place.now


def test_runs_begin_at_the_next_tick_and_keep_their_distance(place: Any) -> None:
    made(place, TIMED, 0)
    alter = place.schemes.alter
    assert next_run(place, place.now) == MINUTE
    later = place.now + 10 * MINUTE
    assert next_run(place, later) == HOUR + MINUTE
    place.run(alter("/local/t", AlterSpec(ttl=TtlSpec("at", 5)), later))
    assert next_run(place, later) == HOUR + MINUTE
    place.run(alter("/local/t", AlterSpec(ttl=DropTtl()), later))
    assert next_run(place, later) is None
    place.run(alter("/local/t", AlterSpec(ttl=TtlSpec("n", 5, "SECONDS")), later))
    assert next_run(place, later) == HOUR + MINUTE
    place.run(alter("/local/t", AlterSpec(ttl=TtlSpec("n", 5, "SECONDS", 1800)), later))
    assert next_run(place, later) == 31 * MINUTE


def test_another_default_holds_from_the_next_start_on(place: Any) -> None:
    made(place, TIMED, 0)
    place.now += 2 * MINUTE
    place.again(run_interval=30 * MINUTE)
    assert next_run(place, place.now) == 29 * MINUTE


def test_changes_that_keep_the_rule_keep_the_definition(place: Any) -> None:
    made(place, TIMED, 0)
    alter = place.schemes.alter
    place.run(alter("/local/t", AlterSpec(ttl=TtlSpec("n", 5, "SECONDS")), place.now))

    def stored() -> Any:
        return place.run(place.schemes.get_table("/local/t")).node.definition

    before = stored()
    place.now += 10 * MINUTE
    place.again()
    assert stored() == before
    place.run(alter("/local/t", AlterSpec(ttl=TtlSpec("n", 5, "SECONDS")), place.now))
    assert (stored().rules, stored().schedule) == (before.rules, before.schedule)


# --- copies ----------------------------------------------------------------------------------------------------------


def test_copies_come_all_or_none(place: Any) -> None:
    made(place, TIMED)
    copies = [TableCopy("/local/t", "/local/a/x"), TableCopy("/local/t", "/local/a/y", omit_indexes=True)]
    place.run(copy_tables(place.schemes, copies, place.now))
    for path in ("/local/a/x", "/local/a/y"):
        view = place.run(place.schemes.get_table(path))
        records = place.run(place.engine.store.read(Scan(view.node.id, b"", None, Order.CREATED, None, ROWS)))
        assert len(records) == ROWS
        assert records[5].dates == ((view.body.ttl.slot, 5 * SECOND),)
    with pytest.raises(Fault):
        place.run(
            copy_tables(
                place.schemes, [TableCopy("/local/t", "/local/b"), TableCopy("/local/t", "/local/b")], place.now
            )
        )
    assert place.run(place.schemes.find("/local/b")) is None
    hidden = place.run(place.engine.node(HIDDEN_SPACE))
    assert place.run(place.engine.children(hidden.id)) == []


def test_a_copy_that_was_not_finished_is_gone_after_a_start(place: Any) -> None:
    view = made(place, PLAIN)
    space = place.run(place.engine.definitions.space(HIDDEN_SPACE, place.now))
    place.run(place.engine.definitions.create(space.id, "0", view.node.definition))
    place.again()
    assert place.run(place.engine.children(space.id)) == []
