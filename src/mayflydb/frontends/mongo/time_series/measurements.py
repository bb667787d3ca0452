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
from mayflydb.model.instant import MILLISECOND, Instant
from mayflydb.model.order import KeyRange
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
        # The start of the newest stored bucket of a series, as it was when the transaction first asked; [] without one.
        self._newest: dict[bytes, list[Instant]] = {}

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
        stored = yield from self._find_stored(key, time)
        found = [start for start in (*opened, *stored) if series.has_in_bucket(start, time)]
        if found:
            return max(found)
        start = series.round_down(time)
        opened.append(start)
        return start

    def _find_stored(self, key: bytes, time: DatetimeMS) -> Steps[list[Instant]]:
        """The start of the only stored bucket of a series that may be the one of a time; none if there is none."""
        # Measurements mostly come in the order of their times, so one read for each series is enough.
        if key not in self._newest:
            self._newest[key] = yield from self._read_last(self._series.all_starts(key))
        newest = self._newest[key]
        if not newest or newest[0] <= int(time) * MILLISECOND:
            return newest
        return (yield from self._read_last(self._series.starts_around(key, time)))

    def _read_last(self, within: KeyRange) -> Steps[list[Instant]]:
        entry = yield from self.workspace.last_entry(self._series.index, within)
        return [] if entry is None else [decode_start(entry)]

    def _find_identity(self, document: Document) -> Steps[Identity]:
        """The identity of a measurement. Several may have one `_id`: the second and later ones get a number behind it."""
        identity = identity_of(document["_id"])
        if (yield from self.workspace.get(identity.partition, identity.key)) is None:
            return identity
        number = yield from self.workspace.next_number()
        return Identity(identity.partition, identity.key + _NUMBER.pack(number))
