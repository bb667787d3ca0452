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


class Recent(Generic[K, V]):
    """As many as were asked for last."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """What is kept under a key."""
        found = self._kept.get(key)
        if found is not None:
            self._kept.move_to_end(key)
        return found

    def put(self, key: K, value: V) -> None:
        """Keep it; the one that nobody has asked for longest goes."""
        self._kept[key] = value
        self._kept.move_to_end(key)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)


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
        self._scripts: Recent[str, Script] = Recent(SCRIPTS)
        self._ids: Recent[str, str] = Recent(PREPARED)
        self.plans: Recent[PlanKey, Prepared] = Recent(PLANS)

    def script(self, text: str) -> Script:
        """The tree of a text. Faults: those of a text that cannot be read."""
        found = self._scripts.get(text)
        if found is None:
            found = parse(text)
            self._scripts.put(text, found)
        return found

    def keep(self, id: str, text: str) -> None:
        """A text may be executed by this id from now on, in any session."""
        self._ids.put(id, text)

    def text_of(self, id: str) -> str | None:
        """The text that was prepared under an id, as long as it is kept."""
        return self._ids.get(id)
