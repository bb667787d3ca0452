"""Spaces, databases and containers: what the catalogue's rows say.

The tree is space (one per protocol) > database > container. Rules live here and nowhere else, so that a change of
retention is one row, whatever the container holds. What belongs to a database and is no container has its own space (see
`companions`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Literal

import msgspec

from mayflydb.expiry.passes import Schedule
from mayflydb.expiry.rules import Rule
from mayflydb.model.instant import Instant, Span
from mayflydb.model.keys import SortKeys
from mayflydb.model.order import FIRST_ORDERED
from mayflydb.store.interface import Children, Row, Store

NODE_MISSING = "there is no such node in the catalogue"
OWNER_MISSING = "the node above does not exist"
NAME_TAKEN = "this name is taken below the same parent"
"""Texts of refusals, as in `decide`."""

ROOT = 0
"""The parent of all spaces."""


def is_of_companions(space: str) -> bool:
    """Whether a space holds what belongs to nodes of another one: its name is that one's and a word more (`shop users`)."""
    return " " in space


class PartitionRange(msgspec.Struct, frozen=True, omit_defaults=True):
    """A hash range of a container, [lower, upper) as upper-case hexadecimal; `parents` are the ranges it was split from."""

    id: str
    lower: str
    upper: str
    parents: tuple[str, ...] = ()


class Run(msgspec.Struct, frozen=True):
    """A pass over one container: when it began, how many records it looked at, and how many of them it erased.

    It looks at all, as those do that have no index over dates; here that costs nothing.
    """

    instant: Instant
    processed: int
    erased: int


Paused = Literal["purge", "expiry"]
"""What stands still in a container. `purge`: nothing is removed, what is due is hidden as ever. `expiry`: nobody dies."""


State = Literal["building", "ready", "dropped"]


class Index(msgspec.Struct, frozen=True, omit_defaults=True):
    """An ordered index: its entries bear this number, and their keys are of these paths, each ascending or descending.

    What its keys are of may also be told by `spec`, in the front end's words, that JSON gives back as they are; then `keys` is
    empty. `unique`: no two visible records own entries with one key, be they in different partitions.
    `several`: some record has, or had, more than one entry; as long as none had, a key is a record's only one.
    `building`: written with every record, and missing those that were there before. `ready`: complete. `dropped`: no longer
    written; what is left of it is being removed.
    """

    number: int
    keys: SortKeys
    state: State = "building"
    unique: bool = False
    spec: Mapping[str, Any] | None = None
    several: bool = False


class Slot(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where records have the date that one date index finds in them, and the number of its entries; `state` as in Index."""

    number: int
    state: Literal["building", "ready", "dropped"] = "building"


class Definition(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the row of a database or container holds. `body` is the protocol's own description, as the front end wrote it.

    `version` counts the changes of the definition and `written` is the instant of the last one. `offer` is the throughput
    that was provisioned for this very database or container, in the front end's words. `paused` and `indexes` are no part of the
    protocol's description: they are changed without a new version. `history` is how long each version of a record is remembered
    (None: never was any; 0: no more); of a database or space, of what is made below it. `ordered`: the node whose numbers order
    the histories of several containers. `keeps`: a container that is dropped, and that this row keeps the history of. `former`:
    (lsn, parent's name, name) of each name it had up to there. `numbered` is the highest number that an index or slot ever had,
    as far as it is known. `schedule`: when passes of this very container are made, for its rules with `passes`; None: when the
    monitor's are. `run`: the last one that erased something, or was made on demand.
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


class Node(msgspec.Struct, frozen=True):
    """A database or container: its place in the tree and its definition."""

    id: int
    parent: int
    name: str
    definition: Definition

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules in force."""
        definition = self.definition
        return () if definition.paused == "expiry" else definition.rules

    @property
    def body(self) -> Mapping[str, Any]:
        return self.definition.body


def next_number(definition: Definition) -> int:
    """A number for another index or slot. Numbers are not used again: records may have stale dates in slots that are gone."""
    indexes, slots = definition.indexes, definition.slots
    taken = [*(index.number for index in indexes), *(slot.number for slot in slots)]
    return max(definition.numbered, *taken, FIRST_ORDERED - 1) + 1


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Definition).decode


def node_of(row: Row) -> Node:
    """The node that a row describes, committed or not."""
    return Node(row.id, row.parent, row.name, _decode(row.data))


def with_several(node: Node, numbers: Collection[int]) -> Node:
    """The container with these indexes marked as those in which a record has several entries."""
    indexes = tuple(
        msgspec.structs.replace(index, several=True) if index.number in numbers else index
        for index in node.definition.indexes
    )
    return msgspec.structs.replace(node, definition=msgspec.structs.replace(node.definition, indexes=indexes))


class Nodes:
    """Rows decoded once, as long as their definition, name and place stay the same."""

    def __init__(self) -> None:
        self._nodes: dict[int, tuple[bytes, Node]] = {}

    def of(self, row: Row) -> Node:
        """The node that a row describes."""
        known = self._nodes.get(row.id)
        if known is not None and known[0] == row.data:
            node = known[1]
            if node.name == row.name and node.parent == row.parent:
                return node
        node = node_of(row)
        self._nodes[row.id] = (row.data, node)
        return node

    def forget(self) -> None:
        """Everything was reset."""
        self._nodes.clear()


def row_of(node: Node) -> Row:
    """The row that describes a node."""
    return Row(node.id, node.parent, node.name, _encode(node.definition))


async def catalogue(store: Store) -> list[Row]:
    """Every row, by id."""
    found: list[Row] = []
    parents = [ROOT]
    while parents:
        children = await store.read(Children(parents.pop()))
        found += children
        parents += [row.id for row in children]
    return sorted(found, key=lambda row: row.id)
