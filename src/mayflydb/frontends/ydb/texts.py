"""What texts of queries were found to be, kept while they are asked for again: trees by text, plans by what they rest on."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

import msgspec

from mayflydb.frontends.ydb.store_tables import Views
from mayflydb.query.yql.parser import parse
from mayflydb.query.yql.plans import Plan
from mayflydb.query.yql.schemas import Schemas
from mayflydb.query.yql.statements import Script
from mayflydb.query.yql.types import Type

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

SCRIPTS: Final = 2_000
PLANS: Final = 2_000
PREPARED: Final = 10_000

LENGTH: Final = 4 << 20
"""Characters of all texts whose trees, or plans, are kept: those are many times as large."""

LENGTH_PREPARED: Final = 64 << 20
"""Characters of all texts that are kept as such."""


class Recent(Generic[K, V]):
    """As many as were asked for last, and no more than `room` in size together; but the last one in any case."""

    def __init__(self, most: int, room: int) -> None:
        self._most = most
        self._room = room
        self._size = 0
        self._kept: OrderedDict[K, tuple[V, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: K) -> V | None:
        """What is kept under a key."""
        found = self._kept.get(key)
        if found is None:
            return None
        self._kept.move_to_end(key)
        return found[0]

    def put(self, key: K, value: V, size: int) -> None:
        """Keep it; those that nobody has asked for longest go."""
        _, before = self._kept.pop(key, (None, 0))
        self._kept[key] = value, size
        self._size += size - before
        while len(self._kept) > self._most or (self._size > self._room and len(self._kept) > 1):
            _, (_, gone) = self._kept.popitem(last=False)
            self._size -= gone


class Prepared(msgspec.Struct, eq=False):
    """A plan, and what it was made for: the tables by path, and the version of the catalogue in which they last were those."""

    plan: Plan
    schemas: Schemas
    views: Views
    version: int


PlanKey = tuple[str, str, tuple[tuple[str, Type], ...]]
"""The text, the database, and the types of the parameters by name."""


class Texts:
    """The caches of one server."""

    def __init__(self) -> None:
        self._scripts: Recent[str, Script] = Recent(SCRIPTS, LENGTH)
        self._ids: Recent[str, str] = Recent(PREPARED, LENGTH_PREPARED)
        self.plans: Recent[PlanKey, Prepared] = Recent(PLANS, LENGTH)

    def script(self, text: str) -> Script:
        """The tree of a text. Faults: those of a text that cannot be read."""
        found = self._scripts.get(text)
        if found is None:
            found = parse(text)
            self._scripts.put(text, found, len(text))
        return found

    def keep(self, id: str, text: str) -> None:
        """A text may be executed by this id from now on, in any session."""
        self._ids.put(id, text, len(text))

    def text_of(self, id: str) -> str | None:
        """The text that was prepared under an id, as long as it is kept."""
        return self._ids.get(id)
