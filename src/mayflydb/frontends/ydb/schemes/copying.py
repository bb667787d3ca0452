"""Copies of tables.

All copies are filled from one snapshot while no path leads to them, and then published together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from mayflydb.engine.catalog import Definition, Node, Slot
from mayflydb.engine.commands import Command, Mode
from mayflydb.engine.engine import Engine
from mayflydb.engine.scans import Scope
from mayflydb.engine.snapshot import Snapshot
from mayflydb.frontends.ydb.rows import RowLayout
from mayflydb.frontends.ydb.schemes.catalog import Schemes
from mayflydb.frontends.ydb.schemes.definitions import body_of, body_to_builtins, with_rule
from mayflydb.frontends.ydb.schemes.faults import path_conflict
from mayflydb.frontends.ydb.tables import TableView, is_primary
from mayflydb.model.instant import Instant

BATCH_ROWS: Final = 256


class TableCopy(msgspec.Struct, frozen=True):
    """A copy of one table. Paths are absolute."""

    source: str
    destination: str
    omit_indexes: bool = False


async def copy_tables(schemes: Schemes, copies: Sequence[TableCopy], now: Instant) -> None:
    """Copy tables as of one instant, all or none. Faults: a source does not exist, or a destination is taken."""
    engine = schemes.engine
    places = [await schemes.split_new(each.destination) for each in copies]
    for each in copies:
        if await schemes.find(each.destination) is not None:
            raise path_conflict(each.destination)
    snapshot, views = await _begin_snapshot(schemes, copies, now)
    created: list[Node] = []
    try:
        for each, view in zip(copies, views, strict=True):
            definition = _copy_definition(schemes, view, each.omit_indexes, now)
            created.append(await schemes.hidden.create(definition, now))
            copy = schemes.view(created[-1], each.destination)
            await _copy_rows(engine, snapshot, view, copy, now)
            await schemes.sequences.copy(view, copy, now)
        named = [(node.id, *place) for node, place in zip(created, places, strict=True)]
        await schemes.publish(named, now)
    # Also after a cancelled call: nothing leads to the hidden tables, so nothing else would drop them before the next
    # start.
    except BaseException:
        for node in created:
            await schemes.hidden.drop(node.id)
        raise
    finally:
        snapshot.close()
    for node in created:
        engine.reaper.invalidate(node.id)


async def _begin_snapshot(
    schemes: Schemes, copies: Sequence[TableCopy], now: Instant
) -> tuple[Snapshot, list[TableView]]:
    """Begin a snapshot. Return it with the tables as it contains them."""
    while True:
        views = [await schemes.get_table(each.source) for each in copies]
        snapshot = await Snapshot.begin(schemes.engine, now, await schemes.database_ids())
        # A table that changed while the snapshot began may differ in it: then another snapshot is taken.
        if [await schemes.find(each.source) for each in copies] == views:
            return snapshot, views
        snapshot.close()


def _copy_definition(schemes: Schemes, view: TableView, omit_indexes: bool, now: Instant) -> Definition:
    before = view.node.definition
    indexes = tuple(
        # The rows are written with all entries, so no index is left to build.
        msgspec.structs.replace(index, state="ready")
        for index in before.indexes
        if index.state != "dropped" and (is_primary(index) or not omit_indexes)
    )
    slots = tuple(Slot(slot.number, "ready") for slot in before.slots if slot.state != "dropped")
    body = msgspec.structs.replace(body_of(before), created=now, changefeeds=())
    copy = Definition(body_to_builtins(body), now, indexes=indexes, slots=slots, numbered=before.numbered)
    return with_rule(copy, schemes.ttl_policy, now)


async def _copy_rows(engine: Engine, snapshot: Snapshot, source: TableView, copy: TableView, now: Instant) -> None:
    layout = RowLayout(copy)
    async for batch in snapshot.scan(source.node.id, Scope(), None, BATCH_ROWS):
        commands = [
            Command(Mode.CREATE, each.partition, each.key, layout.draft(layout.decode(each.value), each.key))
            for each in batch.records
        ]
        if commands:
            await engine.write_all(copy.node.id, commands, now)
