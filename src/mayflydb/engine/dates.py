"""Date indexes: slots for the dates of records, numbered, filled beside other writes, and emptied.

A change of the container's definition defines a slot (`with_slot`); every later write gives its record a date there, as its
draft says. Older records get their dates in batches, without a new version, and may expire by them from then on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import msgspec

from mayflydb.engine.catalog import Definition, Node, Nodes, Slot, next_number, row_of
from mayflydb.engine.preparing import Pages, Prepared
from mayflydb.evaluation.statement import HERE, Computing
from mayflydb.model.due import date_key
from mayflydb.model.instant import Instant
from mayflydb.model.order import Order, Position
from mayflydb.model.record import Dates, Record
from mayflydb.store.interface import (
    Allocate,
    Change,
    Committed,
    Decision,
    LoadRow,
    Outcome,
    Put,
    PutRow,
    RemoveEntries,
    ReplaceEntries,
    Scan,
    Store,
    ask,
)

DateOf: TypeAlias = Callable[[Record], Instant | None]
"""The date of a record in one slot, as the front end computes it; pure."""

BATCH_SIZE = 128
"""The most records that are processed in one transaction."""


def with_slot(definition: Definition) -> tuple[Definition, int]:
    """Return a definition with one more slot, to be built, and the slot's number, which is never reused."""
    number = next_number(definition)
    slots = (*definition.slots, Slot(number))
    return msgspec.structs.replace(definition, slots=slots, numbered=number), number


def without_slot(definition: Definition, number: int) -> Definition:
    """Return a definition in which a slot is dropped and its rules are gone; `remove` does the rest."""
    rules = tuple(rule for rule in definition.rules if rule.slot != number)
    slots = _with_state(definition.slots, number, "dropped")
    return msgspec.structs.replace(definition, rules=rules, slots=slots)


class DateIndexes:
    """The date indexes of all containers of a store."""

    def __init__(
        self,
        store: Store,
        nodes: Nodes,
        changed: Callable[[int], None],
        begin: Callable[[int], Computing] = lambda container: HERE,
    ) -> None:
        """`changed` is called with a container whose records may expire earlier than was known. `begin`: begins the computation
        of a container's dates.
        """
        self._store = store
        self._nodes = nodes
        self._changed = changed
        self._begin = begin

    async def build(self, container: int, slot: int, date_of: DateOf) -> bool:
        """Give the records of a container their dates in a slot; True: the slot is ready, False: it was dropped meanwhile.

        May be called again after an interruption. Errors: those of a write; Unavailable if the computation was stopped.
        """
        after: Position | None = None
        pages: Pages[Instant | None] = Pages(self._store, container, self._begin(container), date_of, lambda date: 1)
        while True:
            prepared = await pages.take(after, BATCH_SIZE)

            def decide(
                after: Position | None = after, prepared: Prepared[Instant | None] = prepared
            ) -> Decision[Position | bool]:
                node = yield from self._node_with(container, slot, "dropped")
                if node is None:
                    return Outcome((), False)
                present = yield from ask(Scan(container, b"", None, Order.CREATED, after, max(1, len(prepared))))
                if not present:
                    return Outcome((_put_slots(node, _with_state(node.definition.slots, slot, "ready")),), True)
                dated = pages.reconcile(prepared, present)
                changes = _date_changes(container, slot, dated)
                if changes:
                    # No version is new, but the lsn must move: nodes that cache the container's row rely on it to see changes.
                    yield from ask(Allocate(container, seq=False))
                return Outcome(tuple(changes), Position(b"", dated[-1][0].seq))

            reply = (await self._store.write(decide, "sweep")).reply
            self._changed(container)
            if not isinstance(reply, Position):
                return reply
            after = reply

    async def remove(self, container: int, slot: int) -> None:
        """Remove the entries of a dropped slot, then the slot. Dates of records in the slot stay, without meaning."""
        await self._announce_drop(container, slot)
        while True:

            def decide() -> Decision[None]:
                node = yield from self._node_with(container, slot, "building", "ready")
                return Outcome(() if node is None else (RemoveEntries(container, slot, BATCH_SIZE),), None)

            removed: Committed[None] = await self._store.write(decide, "sweep")
            if not removed.purged or removed.purged[0].records < BATCH_SIZE:
                await self._forget(container, slot)
                return

    async def _announce_drop(self, container: int, slot: int) -> None:
        """Return when all nodes know of the drop: a change of the catalogue, even an empty one, is answered only then."""

        def decide() -> Decision[None]:
            node = yield from self._node_with(container, slot, "building", "ready")
            return Outcome(() if node is None else (PutRow(row_of(node)),), None)

        await self._store.write(decide, "sweep")

    async def _forget(self, container: int, slot: int) -> None:
        def decide() -> Decision[None]:
            node = yield from self._node_with(container, slot, "building", "ready")
            if node is None:
                return Outcome((), None)
            return Outcome(
                (_put_slots(node, tuple(each for each in node.definition.slots if each.number != slot)),), None
            )

        await self._store.write(decide, "sweep")

    def _node_with(self, container: int, slot: int, *unless: str) -> Any:
        """In a decision: find the container, if it has this slot in none of these states."""
        row = yield from ask(LoadRow(container))
        node = None if row is None else self._nodes.of(row)
        slots = () if node is None else node.definition.slots
        return node if any(each.number == slot and each.state not in unless for each in slots) else None


def _date_changes(container: int, slot: int, found: Prepared[Instant | None]) -> list[Change]:
    """Return the changes that give records their dates in a slot; none for records that have them."""
    changes: list[Change] = []
    linked: list[tuple[Record, tuple[bytes, ...]]] = []
    for record, date in found:
        if date is not None and dict(record.dates).get(slot) != date:
            dated = msgspec.structs.replace(record, dates=_dates_with(record.dates, slot, date))
            changes.append(Put(container, dated, insert=False))
            linked.append((dated, (date_key(date),)))
    return [*changes, ReplaceEntries(container, slot, tuple(linked))] if linked else changes


def _dates_with(dates: Dates, slot: int, date: Instant) -> Dates:
    return tuple(sorted([*((other, at) for other, at in dates if other != slot), (slot, date)]))


def _with_state(slots: tuple[Slot, ...], number: int, state: Literal["ready", "dropped"]) -> tuple[Slot, ...]:
    return tuple(Slot(number, state) if each.number == number else each for each in slots)


def _put_slots(node: Node, slots: tuple[Slot, ...]) -> PutRow:
    definition = msgspec.structs.replace(node.definition, slots=slots)
    return PutRow(row_of(msgspec.structs.replace(node, definition=definition)))
