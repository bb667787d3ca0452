"""Caches of queries: syntax trees by text, plans by text and schema, and prepared texts by id."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

import msgspec

from mayflydb.frontends.ydb.store_tables import Views
from mayflydb.query.yql.plans import Plan
from mayflydb.query.yql.plans.effort import Effort
from mayflydb.query.yql.schemas import Schemas
from mayflydb.query.yql.statements import Script
from mayflydb.query.yql.types import Type

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

MAX_TREES: Final = 2_000
MAX_PLANS: Final = 2_000
MAX_PREPARED_TEXTS: Final = 10_000

MAX_CACHED_LENGTH: Final = 4 << 20
"""Limit of the length of all cached texts, in characters, for trees and for plans.

A tree is many times as large as its text.
"""

MAX_PREPARED_LENGTH: Final = 64 << 20
"""Limit of the length of all prepared texts, in characters."""


class LruCache(Generic[K, V]):
    """A cache that drops the least recently used entries above a count, or above a total size.

    The newest entry is always kept.
    """

    def __init__(self, max_count: int, max_size: int) -> None:
        self._max_count = max_count
        self._max_size = max_size
        self._size = 0
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """Return the cached value; None if there is none."""
        found = self._entries.get(key)
        if found is None:
            return None
        self._entries.move_to_end(key)
        return found[0]

    def put(self, key: K, value: V, size: int) -> None:
        """Store a value and drop the least recently used ones above the limits."""
        _, before = self._entries.pop(key, (None, 0))
        self._entries[key] = value, size
        self._size += size - before
        # The newest entry stays even if it is larger than the cache: its query is about to run.
        while len(self._entries) > self._max_count or (self._size > self._max_size and len(self._entries) > 1):
            _, (_, dropped_size) = self._entries.popitem(last=False)
            self._size -= dropped_size


class PreparedQuery(msgspec.Struct, eq=False):
    """A plan and its premises: the tables by path, and the last version of the catalogue for which they were confirmed."""

    plan: Plan
    effort: Effort
    schemas: Schemas
    views: Views
    version: int


PlanKey = tuple[str, str, tuple[tuple[str, Type], ...], Hashable]
"""Text, database, and types of the parameters by name."""


class QueryCache:
    """The query caches of one server."""

    def __init__(self) -> None:
        self.trees: LruCache[str, Script] = LruCache(MAX_TREES, MAX_CACHED_LENGTH)
        self._texts_by_id: LruCache[str, str] = LruCache(MAX_PREPARED_TEXTS, MAX_PREPARED_LENGTH)
        self.plans: LruCache[PlanKey, PreparedQuery] = LruCache(MAX_PLANS, MAX_CACHED_LENGTH)

    def keep_text(self, id: str, text: str) -> None:
        """Keep a text under an id, under which any session may execute it."""
        self._texts_by_id.put(id, text, len(text))

    def text_of(self, id: str) -> str | None:
        """Return the prepared text of an id; None if unknown or dropped."""
        return self._texts_by_id.get(id)
