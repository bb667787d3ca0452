"""Records of a collection that match a query: by `_id`, by an index, or by a scan, in the order that was asked for."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any, Final, Protocol

import msgspec
from bson import Regex

from mayflydb.engine.engine import Engine, Scope
from mayflydb.frontends.mongo.collections import Collection, place_of
from mayflydb.frontends.mongo.cursors import Moment
from mayflydb.model.record import Record
from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.filter import Filter
from mayflydb.query.mongo.sort import Sort
from mayflydb.query.mongo.values import Document, decode
from mayflydb.store.interface import Position

MANY: Final = 4_000
"""Rows that are sorted on a thread, so that others need not wait."""


class Row:
    """A record and the document it holds, decoded when somebody looks."""

    __slots__ = ("_document", "record")

    def __init__(self, record: Record) -> None:
        self.record = record
        self._document: Document | None = None

    @property
    def document(self) -> Document:
        if self._document is None:
            self._document = decode(self.record.value)
        return self._document


class Select(msgspec.Struct, frozen=True):
    """Which documents, in what order. `filter` None: all of them."""

    query: Document
    env: Env
    filter: Filter | None = None
    sort: Sort | None = None
    order: Document = {}
    skip: int = 0
    limit: int = 0
    hint: Any = None


_PATTERNS: Final = (Regex, re.Pattern)


def only_id(query: Document) -> Any:
    """The `_id` that the query is equal to, in a list; None where it is no such query."""
    if len(query) != 1 or "_id" not in query:
        return None
    value = query["_id"]
    if type(value) is dict:
        if len(value) == 1 and "$eq" in value and type(value["$eq"]) not in _PATTERNS:
            return [value["$eq"]]
        return None if any(name.startswith("$") for name in value) else [value]
    if type(value) is list:
        return None  # An array of an _id's would match, too.
    return None if type(value) in _PATTERNS else [value]


class View(Protocol):
    """What a command sees: committed state, or that of its transaction."""

    def rows(self, collection: Collection, select: Select, moment: Moment) -> AsyncIterator[list[Row]]:
        """What matches, in no promised order, hidden records left out."""


class Committed:
    """Everything that is committed."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def rows(self, collection: Collection, select: Select, moment: Moment) -> AsyncIterator[list[Row]]:
        """By `_id` where the query says it, else by scanning."""
        ids = only_id(select.query) if select.env.collation.is_simple else None
        if ids is not None and select.hint is None:
            yield await self._by_id(collection, ids, moment)
            return
        after: Position | None = None
        while True:
            async for batch in self._engine.scan(collection.node, Scope(), after, moment.now):
                after = batch.position
                yield matching(batch.records, select.filter)
                break
            else:
                return

    async def _by_id(self, collection: Collection, ids: Sequence[Any], moment: Moment) -> list[Row]:
        found: list[Row] = []
        for id in ids:
            place = place_of(id)
            record = await self._engine.get(collection.node, place.partition, place.key, moment.now)
            if record is not None:
                found.append(Row(record))
        return found


def matching(records: Iterable[Record], filter: Filter | None) -> list[Row]:
    """Those that match, as rows."""
    rows = [Row(record) for record in records]
    return rows if filter is None else [row for row in rows if filter.matches(row.document)]


async def rows(view: View, collection: Collection, select: Select, moment: Moment) -> AsyncIterator[list[Row]]:
    """The rows, in order; skip and limit done."""
    source = view.rows(collection, select, moment)
    if select.sort is not None:
        source = _sorted(source, select)
    skip, left = select.skip, select.limit or None
    async for batch in source:
        if skip:
            skip, batch = max(0, skip - len(batch)), batch[skip:]
        if left is not None:
            batch = batch[:left]
            left -= len(batch)
        if batch:
            yield batch
        if left == 0:
            return


async def _sorted(source: AsyncIterator[list[Row]], select: Select) -> AsyncIterator[list[Row]]:
    sort = select.sort
    assert sort is not None
    wanted = select.skip + select.limit if select.limit else 0
    kept: list[tuple[Any, Row]] = []
    async for batch in source:
        kept += [(sort.key(row.document), row) for row in batch]
        if wanted and len(kept) > max(4 * wanted, 1_000):
            kept = sorted(kept, key=_first)[:wanted]
    if len(kept) > MANY:
        kept = await asyncio.to_thread(sorted, kept, key=_first)
    else:
        kept.sort(key=_first)
    yield [row for _, row in kept]


def _first(pair: tuple[Any, Row]) -> Any:
    return pair[0]
