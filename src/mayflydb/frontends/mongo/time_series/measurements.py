"""Inserts of measurements, within the writer's transaction: the bucket that a new one joins or opens, and its identity.

Buckets close by time alone. The server also closes one at a number of measurements or bytes, and opens another one, which begins
later. So here a measurement lives at most as long as there, and at least for `expireAfterSeconds`.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from bson import DatetimeMS

from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.workspace import Workspace
from mayflydb.frontends.mongo.collections import Collection, Identity, identity_of
from mayflydb.frontends.mongo.decisions import DecisionWorkspace, Steps
from mayflydb.frontends.mongo.time_series.series import Series, decode_start
from mayflydb.model.instant import Instant
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.values import Document

_NUMBER: Final = Struct(">Q")


def refuse_in_transaction(collection: Collection, verb: str = "insert into") -> MqlError:
    """Return the error of a write within a multi-document transaction."""
    text = f"Cannot {verb} a time-series collection in a multi-document transaction"
    return MqlError(263, f"{text}: {collection.namespace}")


class MeasurementWriter:
    """Inserts measurements into one collection, within one transaction of the writer."""

    def __init__(self, collection: Collection, series: Series, workspace: DecisionWorkspace) -> None:
        if not isinstance(workspace, Workspace):
            raise refuse_in_transaction(collection)
        self.workspace = workspace
        self._series = series
        self._opened: dict[bytes, list[Instant]] = {}

    def insert(self, document: Document, draft: Draft) -> Steps[None]:
        """Insert a measurement. Raise MqlError 2 without a date in its time field."""
        series = self._series
        time = series.time_of(document)
        prepared = series.prepare(draft, document)
        start = yield from self._find_bucket(prepared.series, time)
        identity = yield from self._find_identity(document)
        placed = series.place(prepared, document, identity.partition, start)
        yield from self.workspace.run(Command(Mode.CREATE, identity.partition, identity.key, placed))

    def _find_bucket(self, key: bytes, time: DatetimeMS) -> Steps[Instant]:
        """The start of the latest bucket of a series that a time lies in; if there is none, of a new one."""
        series = self._series
        opened = self._opened.setdefault(key, [])
        found = [start for start in opened if series.has_in_bucket(start, time)]
        stored = yield from self.workspace.last_entry(series.index, series.starts_around(key, time))
        if stored is not None:
            found.append(decode_start(stored))
        if found:
            return max(found)
        start = series.round_down(time)
        opened.append(start)
        return start

    def _find_identity(self, document: Document) -> Steps[Identity]:
        """The identity of a measurement. Several may have one `_id`: the second and later ones get a number behind it."""
        identity = identity_of(document["_id"])
        if (yield from self.workspace.get(identity.partition, identity.key)) is None:
            return identity
        number = yield from self.workspace.next_number()
        return Identity(identity.partition, identity.key + _NUMBER.pack(number))
