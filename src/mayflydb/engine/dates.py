"""Date indexes: the slots in which records have their dates, numbered, filled while others write, and emptied.

A slot is defined by a change of the container's definition (`with_slot`); from then on every write gives its record a date
there, as its draft says. What was stored before gets its dates stretch by stretch, as the version it is, and may die of them
from then on.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypeAlias

import msgspec

from mayflydb.engine.catalog import Definition, Node, Nodes, Slot, next_number, row_of
from mayflydb.model.due import date_key
from mayflydb.model.instant import Instant
from mayflydb.model.order import Order, Position
from mayflydb.model.record import Dates, Record
from mayflydb.store.interface import (
    Allocate,
    Change,
    Committed,
    Decision,
    Link,
    Load,
    Outcome,
    Put,
    PutRow,
    Scan,
    Store,
    Unlink,
    ask,
)

DateOf: TypeAlias = Callable[[Record], Instant | None]
"""The date of a record in one slot, which is the front end's business; pure."""

BATCH_SIZE = 128
"""Records that are looked at in one transaction."""


def with_slot(definition: Definition) -> tuple[Definition, int]:
    """A definition with one slot more, which is to be built, and its number: no other had it, and none will."""
    number = next_number(definition)
    slots = (*definition.slots, Slot(number))
    return msgspec.structs.replace(definition, slots=slots, numbered=number), number


def without_slot(definition: Definition, number: int) -> Definition:
    """A definition in which a slot is dropped, and its rules are gone; `remove` does the rest."""
    rules = tuple(rule for rule in definition.rules if rule.slot != number)
    slots = _with_state(definition.slots, number, "dropped")
    return msgspec.structs.replace(definition, rules=rules, slots=slots)


class DateIndexes:
    """Those of all containers of a store."""

    def __init__(self, store: Store, nodes: Nodes, changed: Callable[[int], None]) -> None:
        """`changed` is told the container whose records may die earlier than was known."""
        self._store = store
        self._nodes = nodes
        self._changed = changed

    async def build(self, container: int, slot: int, date_of: DateOf) -> bool:
        """Give the records of a container their dates in a slot; True when it is ready, False if it was dropped meanwhile.

        May be called again after it was interrupted. Errors: those of a write.
        """
        after: Position | None = None
        while True:

            def decide(after: Position | None = after) -> Decision[Position | bool]:
                node = yield from self._node_with(container, slot, "dropped")
                if node is None:
                    return Outcome((), False)
                records = yield from ask(Scan(container, b"", None, Order.CREATED, after, BATCH_SIZE))
                if not records:
                    return Outcome((_put_slots(node, _with_state(node.definition.slots, slot, "ready")),), True)
                changes = _date_changes(container, slot, records, date_of)
                if changes:
                    # No version is new, but who has guessed that nothing has changed here must not be right.
                    yield from ask(Allocate(container, seq=False))
                return Outcome(tuple(changes), Position(b"", records[-1].seq))

            reply = (await self._store.write(decide, "sweep")).reply
            self._changed(container)
            if not isinstance(reply, Position):
                return reply
            after = reply

    async def remove(self, container: int, slot: int) -> None:
        """Forget a dropped slot, entry by entry. The dates that records had there stay, and mean nothing."""
        await self._announce_drop(container, slot)
        while True:

            def decide() -> Decision[None]:
                node = yield from self._node_with(container, slot, "building", "ready")
                return Outcome(() if node is None else (Unlink(container, slot, BATCH_SIZE),), None)

            removed: Committed[None] = await self._store.write(decide, "sweep")
            if not removed.purged or removed.purged[0].records < BATCH_SIZE:
                await self._forget(container, slot)
                return

    async def _announce_drop(self, container: int, slot: int) -> None:
        """Returns when all nodes know that it is dropped: a change of the catalogue, be it none, is answered then."""

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
        """In a decision: the container, if it has this slot in none of these states."""
        row = yield from ask(Load(container))
        node = None if row is None else self._nodes.of(row)
        slots = () if node is None else node.definition.slots
        return node if any(each.number == slot and each.state not in unless for each in slots) else None


def _date_changes(container: int, slot: int, records: list[Record], date_of: DateOf) -> list[Change]:
    """What gives these records their dates in a slot; nothing for those that have them."""
    changes: list[Change] = []
    linked: list[tuple[Record, tuple[bytes, ...]]] = []
    for record in records:
        date = date_of(record)
        if date is not None and dict(record.dates).get(slot) != date:
            dated = msgspec.structs.replace(record, dates=_dates_with(record.dates, slot, date))
            changes.append(Put(container, dated, insert=False))
            linked.append((dated, (date_key(date),)))
    return [*changes, Link(container, slot, tuple(linked))] if linked else changes


def _dates_with(dates: Dates, slot: int, date: Instant) -> Dates:
    return tuple(sorted([*((other, at) for other, at in dates if other != slot), (slot, date)]))


def _with_state(slots: tuple[Slot, ...], number: int, state: Literal["ready", "dropped"]) -> tuple[Slot, ...]:
    return tuple(Slot(number, state) if each.number == number else each for each in slots)


def _put_slots(node: Node, slots: tuple[Slot, ...]) -> PutRow:
    definition = msgspec.structs.replace(node.definition, slots=slots)
    return PutRow(row_of(msgspec.structs.replace(node, definition=definition)))
