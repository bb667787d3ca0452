"""References between records: how a front end's records name the record to which they belong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from mayflydb.engine.catalog import Index, Node
from mayflydb.model.keys import SortKeys
from mayflydb.model.order import KeyRange
from mayflydb.model.record import Record

ABOVE = b"\xff" * 16
"""Follows a prefix in a bound above all keys that begin with the prefix."""


class Children(msgspec.Struct, frozen=True):
    """The records that name one record: their entries lie in `within`, where entries of others may lie too, for which
    `is_child` is false.
    """

    within: KeyRange
    is_child: Callable[[Record], bool]


class CompletesIndexes(Protocol):
    """Completes indexes, as `Indexes` does."""

    async def complete(
        self, container: int, keys: SortKeys, keys_of: Callable[[Record, Index], Sequence[bytes]], most: int
    ) -> Index:
        """Return the index over these keys when it is complete, defined if it is missing. Conflict if there are `most`."""


class References(Protocol):
    """A front end's references. Pure but for `open_index`: decisions call them, on any thread."""

    async def open_index(self, indexes: CompletesIndexes, parent: Node, child: Node, path: str) -> Index:
        """Return the complete index of a container by which records are found that name a record of `parent` at a path.

        BadRequest for a path that cannot name one; Conflict where a client has to create the index.
        """

    def find_children(self, parent: Node, record: Record, child: Node, index: Index) -> Children | None:
        """Return the records of `child` that name a record; None: there can be none."""


def range_of(prefix: bytes) -> KeyRange:
    """Return the range of the entry keys that begin with a prefix."""
    return KeyRange(prefix, prefix + ABOVE)
