"""Spaces, databases and containers: the contents of catalogue rows.

The tree is space (one per protocol) > database > container. Rules are stored here and nowhere else, so that a change of
retention is one row, however large the container is. Users, scripts and other objects beside containers have a space of their
own (see `companions`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from mayflydb.engine.lifecycle.hold_filters import HoldFilters
from mayflydb.expiry.as_of import rules_as_of
from mayflydb.expiry.guard import HeldPurge
from mayflydb.expiry.legal_hold import LegalHold
from mayflydb.expiry.lifecycle import NO_LIFECYCLE, HeldRollUp, Lifecycle
from mayflydb.expiry.passes import Schedule
from mayflydb.expiry.past import Past, remember_rules, rules_at
from mayflydb.expiry.rules import Rule, with_grace
from mayflydb.expiry.undelete import Undelete
from mayflydb.model.instant import Instant, Span
from mayflydb.model.keys import SortKeys
from mayflydb.model.order import FIRST_ORDERED
from mayflydb.store.interface import CatalogRow, ChildRows, Store

NODE_MISSING = "there is no such node in the catalogue"
OWNER_MISSING = "the node above does not exist"
NAME_TAKEN = "this name is taken below the same parent"
"""Texts of refusals, as in `record_decisions`."""

ROOT = 0
"""The parent of all spaces."""


def is_of_companions(space: str) -> bool:
    """Return whether a space holds companions of nodes: its name is the name of their space and one more word (`shop users`)."""
    return " " in space


class PartitionRange(msgspec.Struct, frozen=True, omit_defaults=True):
    """A hash range of a container, [lower, upper) as upper-case hexadecimal; `parents` are the ranges it was split from."""

    id: str
    lower: str
    upper: str
    parents: tuple[str, ...] = ()


class Run(msgspec.Struct, frozen=True):
    """A pass over one container: its start, the number of records it processed, and the number of those it erased.

    A pass processes all records, as passes without an index over dates do; here that costs nothing.
    """

    instant: Instant
    processed: int
    erased: int


Paused = Literal["purge", "expiry"]
"""The paused part of a container. `purge`: nothing is purged, and expired records are hidden as usual. `expiry`: nothing
expires.
"""


State = Literal["building", "ready", "dropped"]


class Index(msgspec.Struct, frozen=True, omit_defaults=True):
    """An ordered index: its entries bear this number, and their keys are of these paths, each ascending or descending.

    `spec`: the front end's description of the keys, as JSON; `keys` is empty then. `unique`: no two visible records own
    entries with one key, even in different partitions. `several`: some record has, or had, more than one entry; without it
    each record has one key. `building`: written with every record, and incomplete for older records. `ready`: complete.
    `dropped`: no longer written; its entries are being removed. `guarded`: no write gives a record a key that another visible
    record has; records that shared one before keep it.
    """

    number: int
    keys: SortKeys
    state: State = "building"
    unique: bool = False
    spec: Mapping[str, Any] | None = None
    several: bool = False
    guarded: bool = False


class Slot(msgspec.Struct, frozen=True, omit_defaults=True):
    """The place of a date that one date index finds in each record, and the number of its entries; `state` as in Index."""

    number: int
    state: Literal["building", "ready", "dropped"] = "building"


class Definition(msgspec.Struct, frozen=True, omit_defaults=True):
    """The content of a database's or container's row. `body` is the protocol's own description, as the front end wrote it.

    `version` counts the changes of the definition and `written` is the instant of the last one. `offer` is the throughput
    that was provisioned for this database or container itself, as the front end describes it. `paused` and `indexes` are no
    part of the protocol's description and change without a new version. `history` is the time for which each version of a
    record is kept (None: never recorded; 0: no longer recorded); on a database or space it applies to nodes that are created
    below. `ordered`: the node whose numbers order the histories of several containers. `keeps`: a dropped container whose
    history this row keeps. `former`: (lsn, parent's name, name) of each earlier name, valid up to the lsn. `numbered`: the
    highest number that an index or slot ever had, as far as it is known. `schedule`: the container's own passes, for rules
    with `passes`; None: those of the monitor. `run`: the last pass that erased records, or was made on demand. `lifecycle`:
    settings beyond the protocol's. `held`: the purge that the guard holds; `confirmed`: the instant of the last confirmation.
    `undelete`: the undelete that is under way, during which nothing is purged. `retired`: the container of the versions that are
    kept after they have ended; None: there never was one. `past`: the earlier states that can be read; None: none can. `holds`:
    the legal holds, released ones until what they preserved is removed. `preserved`: the container of what they preserved; None:
    there never was a hold. `ledger`: the container that has the progress of its archive. `held_roll_up`: why expired records
    wait to be rolled up; None: they do not. `publisher`: the space of the front end that is told of each change
    of a record, in the transaction that makes it; None: none is.
    """

    body: Mapping[str, Any]
    written: Instant
    version: int = 1
    rules: tuple[Rule, ...] = ()
    ranges: tuple[PartitionRange, ...] = ()
    offer: Mapping[str, Any] | None = None
    paused: Paused | None = None
    indexes: tuple[Index, ...] = ()
    history: Span | None = None
    ordered: int | None = None
    keeps: int | None = None
    former: tuple[tuple[int, str, str], ...] = ()
    slots: tuple[Slot, ...] = ()
    numbered: int = FIRST_ORDERED - 1
    schedule: Schedule | None = None
    run: Run | None = None
    lifecycle: Lifecycle = NO_LIFECYCLE
    held: HeldPurge | None = None
    undelete: Undelete | None = None
    confirmed: Instant | None = None
    retired: int | None = None
    holds: tuple[LegalHold, ...] = ()
    preserved: int | None = None
    past: Past | None = None
    ledger: int | None = None
    held_roll_up: HeldRollUp | None = None
    publisher: str | None = None

    @property
    def is_held(self) -> bool:
        """Return whether the guard holds the purge of the container, or it waits because a roll-up fails."""
        return self.held is not None or self.held_roll_up is not None


class Node(msgspec.Struct, frozen=True):
    """A database or container: its position in the tree and its definition."""

    id: int
    parent: int
    name: str
    definition: Definition

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules in force."""
        definition = self.definition
        if definition.paused == "expiry":
            return ()
        grace = definition.lifecycle.grace
        return with_grace(definition.rules, grace) if grace else definition.rules

    @property
    def expires_by_record(self) -> bool:
        """Return whether something happens to each record that expires, so that purges read the records."""
        lifecycle = self.definition.lifecycle
        return (
            bool(self.definition.holds)
            or lifecycle.keeps_versions
            or bool(lifecycle.cascade)
            or lifecycle.roll_up is not None
            or self.definition.publisher is not None
        )

    @property
    def body(self) -> Mapping[str, Any]:
        return self.definition.body


def node_as_of(node: Node) -> Node:
    """Return the container for a read as of a later instant."""
    return msgspec.structs.replace(
        node, definition=msgspec.structs.replace(node.definition, rules=rules_as_of(node.definition.rules))
    )


def node_as_of_past(node: Node, at: Instant) -> Node:
    """Return a container that keeps its past for a read as of an earlier instant, by the rules of then. Reads touch nothing."""
    definition = node.definition
    if definition.past is None:
        return node
    rules = rules_at(definition.past, node.rules, at)
    # Versions from before an index was built may have had several entries in it.
    indexes = tuple([msgspec.structs.replace(index, several=True) for index in definition.indexes])
    then = msgspec.structs.replace(definition, rules=rules, indexes=indexes, paused=None, lifecycle=NO_LIFECYCLE)
    return msgspec.structs.replace(node, definition=then)


def with_rules_remembered(before: Node, after: Node, now: Instant) -> Node:
    """Return the container after a change at `now`, with the rules of before if they were others and it keeps its past."""
    past = after.definition.past
    if past is None or before.rules == after.rules:
        return after
    past = remember_rules(past, before.rules, after.definition.lifecycle.history, now)
    return msgspec.structs.replace(after, definition=msgspec.structs.replace(after.definition, past=past))


def next_number(definition: Definition) -> int:
    """Return a number for a new index or slot. Numbers are never reused: records may have stale dates in dropped slots."""
    indexes, slots = definition.indexes, definition.slots
    taken = [*(index.number for index in indexes), *(slot.number for slot in slots)]
    return max(definition.numbered, *taken, FIRST_ORDERED - 1) + 1


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Definition).decode


def node_of(row: CatalogRow) -> Node:
    """Decode a row, committed or not."""
    return Node(row.id, row.parent, row.name, _decode(row.data))


def with_several(node: Node, numbers: Collection[int]) -> Node:
    """Return the container with these indexes marked as having several entries of one record."""
    indexes = tuple(
        msgspec.structs.replace(index, several=True) if index.number in numbers else index
        for index in node.definition.indexes
    )
    return msgspec.structs.replace(node, definition=msgspec.structs.replace(node.definition, indexes=indexes))


MAX_NODES: Final = 10_000
"""Decoded rows that are kept. Half of them go at once: those that were not used while the other half were."""


class Nodes:
    """Decoded rows, cached while definition, name and parent stay the same."""

    def __init__(self) -> None:
        self.hold_filters = HoldFilters[Node]()
        """The filters of legal holds, which every transaction over these rows asks."""
        self._nodes: dict[int, tuple[bytes, Node]] = {}
        self._older: dict[int, tuple[bytes, Node]] = {}

    def __len__(self) -> int:
        return len(self._nodes) + len(self._older)

    def of(self, row: CatalogRow) -> Node:
        """Return the node that a row describes."""
        known = self._nodes.get(row.id)
        if known is None:
            known = self._older.pop(row.id, None)
            if known is not None:
                self._keep(row.id, known)
        # The lsn of a row moves with every write, but it is not in the data, so the node stays.
        if known is not None and known[0] == row.data:
            node = known[1]
            if node.name == row.name and node.parent == row.parent:
                return node
        node = node_of(row)
        self._keep(row.id, (row.data, node))
        return node

    def recall(self, id: int) -> Node | None:
        """Return the node of a row that was read lately; None if it is not kept."""
        found = self._nodes.get(id) or self._older.get(id)
        return None if found is None else found[1]

    def _keep(self, id: int, known: tuple[bytes, Node]) -> None:
        if len(self._nodes) >= MAX_NODES // 2:
            self._nodes, self._older = {}, self._nodes
        self._nodes[id] = known

    def forget_container(self, container: int) -> None:
        """Drop the row of a container that is gone."""
        self._nodes.pop(container, None)
        self._older.pop(container, None)

    def forget(self) -> None:
        """Clear the cache after a reset."""
        self._nodes.clear()
        self._older.clear()


def row_of(node: Node) -> CatalogRow:
    """Encode a node as a row."""
    return CatalogRow(node.id, node.parent, node.name, _encode(node.definition))


def check_rows(rows: Sequence[CatalogRow]) -> None:
    """Raise ValueError for a row that cannot be read."""
    for row in rows:
        node_of(row)


async def catalogue(store: Store) -> list[CatalogRow]:
    """Return every row, by id."""
    found: list[CatalogRow] = []
    parents = [ROOT]
    while parents:
        children = await store.read(ChildRows(parents.pop()))
        found += children
        parents += [row.id for row in children]
    return sorted(found, key=lambda row: row.id)
