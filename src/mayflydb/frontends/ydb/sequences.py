"""The stored state of sequences. Each number is given out once, even if its row is never written.

The state of a sequence is a record in a container that belongs to the table (space `ydb sequences`) and is dropped with
it. The record is written when the first number is drawn. Until then the sequence is in the state of the table's
definition. A draw commits before its numbers are used, so neither a rollback nor a crash returns them. Nodes on the
same store draw one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from mayflydb.engine.catalog import Node
from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.companions import home_of
from mayflydb.engine.engine import Engine
from mayflydb.engine.reads import Steps
from mayflydb.engine.transactions import WriteTransaction
from mayflydb.frontends.ydb.serials import Draw, Sequence, SequenceChange, change_sequence, draw_numbers, sequence_name
from mayflydb.frontends.ydb.tables import StoredColumn, TableView
from mayflydb.model.instant import Instant
from mayflydb.query.yql.faults import Fault, Issue
from mayflydb.query.yql.schemas import Effect

SPACE: Final = "ydb sequences"
PARTITION: Final = b"\0" * 8
EXHAUSTED_CODE: Final = 200503
"""The issue code of an exhausted sequence."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Sequence).decode


class Sequences:
    """The sequences of all tables."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def fill_serials(self, view: TableView, effect: Effect, now: Instant) -> Effect:
        """Add values for the Serial columns that a write leaves out. Faults: an exhausted sequence; OwnerNotFound."""
        missing = [] if effect.verb in ("UPDATE", "DELETE") else missing_serials(view, effect.columns)
        if not missing or not effect.rows:
            return effect
        found = [await self.draw(view, column, len(effect.rows), now) for column in missing]
        rows = [(*row, *numbers) for row, numbers in zip(effect.rows, zip(*found, strict=True), strict=True)]
        names = tuple(column.name for column in missing)
        # An UPSERT of an existing row leaves its numbers alone. Key columns are no matter of merging: a new number is a
        # new row.
        generated = tuple(name for name in names if name not in view.table.key) if effect.verb == "UPSERT" else ()
        return msgspec.structs.replace(effect, columns=(*effect.columns, *names), rows=rows, generated=generated)

    async def draw(self, view: TableView, column: StoredColumn, count: int, now: Instant) -> list[int]:
        """Draw the next numbers of a column.

        Faults: the sequence has fewer numbers left, and those are used up; OwnerNotFound.
        """

        def draw_from(before: Sequence) -> tuple[Sequence, Draw]:
            found = draw_numbers(before, count)
            return found.after, found

        found: Draw = await self._transact(view, column, draw_from, now)
        # The last numbers were drawn and are lost; the statement needs more.
        if found.count < count:
            raise _exhaustion(view, column)
        return list(found.numbers)

    async def alter(self, view: TableView, column: StoredColumn, change: SequenceChange, now: Instant) -> None:
        """Change a sequence's settings or position. ValueError for invalid settings; OwnerNotFound."""
        await self._transact(view, column, lambda before: (change_sequence(before, change), None), now)

    async def states(self, view: TableView, now: Instant) -> Mapping[str, Sequence]:
        """Return the sequences of a table in their current state, by column."""
        serial = [column for column in view.body.columns if column.sequence is not None]
        home = await self._engine.node(*home_of(SPACE, view.node.id)) if serial else None
        found: dict[str, Sequence] = {}
        for column in serial:
            assert column.sequence is not None
            record = None if home is None else await self._engine.get(home, PARTITION, _key(column), now)
            found[column.name] = column.sequence if record is None else _decode(record.value)
        return found

    async def copy(self, source: TableView, copy: TableView, now: Instant) -> None:
        """Copy the current state of a table's sequences to a copy of the table."""
        states = await self.states(source, now)
        for column in copy.body.columns:
            if column.sequence is not None and states[column.name] != column.sequence:
                await self._transact(copy, column, _replace_by(states[column.name]), now)

    async def _transact(
        self, view: TableView, column: StoredColumn, change: Callable[[Sequence], tuple[Sequence, Any]], now: Instant
    ) -> Any:
        home = await self._engine.node(*home_of(SPACE, view.node.id))
        # The first draw creates the container of the table's sequences.
        if home is None:
            home = await self._engine.companions.home(SPACE, view.node.id, now)
        return await self._engine.transact(_change_decision(home, column, change), now)


def missing_serials(view: TableView, columns: tuple[str, ...]) -> list[StoredColumn]:
    """Return the Serial columns that a write leaves out."""
    return [column for column in view.body.columns if column.sequence is not None and column.name not in columns]


def _key(column: StoredColumn) -> bytes:
    return str(column.number).encode()


def _replace_by(state: Sequence) -> Callable[[Sequence], tuple[Sequence, None]]:
    return lambda before: (state, None)


def _change_decision(
    home: Node, column: StoredColumn, change: Callable[[Sequence], tuple[Sequence, Any]]
) -> Callable[[WriteTransaction], Steps[Any]]:
    assert column.sequence is not None
    initial = column.sequence

    def decide(transaction: WriteTransaction) -> Steps[Any]:
        space = yield from transaction.on(home.id)
        record = yield from space.get(PARTITION, _key(column))
        before = initial if record is None else _decode(record.value)
        after, reply = change(before)
        if after != before:
            yield from space.run(Command(Mode.UPSERT, PARTITION, _key(column), Draft(_encode(after))))
        return reply

    return decide


def _exhaustion(view: TableView, column: StoredColumn) -> Fault:
    path = f"{view.table.path}/{sequence_name(column.name)}"
    owner = f"[OwnerId: {view.node.parent}, LocalPathId: {view.node.id}]"
    cause = Issue(f"sequence {owner} doesn't have any more values available", EXHAUSTED_CODE)
    whole = Issue(f"Failed to get next val for sequence: {path}, status: SCHEME_ERROR", issues=(cause,))
    return Fault("SCHEME_ERROR", whole)
