"""A time series collection: its fields, its buckets, and what the engine stores of a measurement.

A measurement is a document of its own. What it shares with the others of its bucket is the start of the bucket, which is its
date in a slot of the collection, so that no deadline is stored: the deadline is start + span + `expireAfterSeconds`. An internal
index holds series and start of each measurement; by it, a write finds the bucket of a new one.

Buckets: https://www.mongodb.com/docs/manual/core/timeseries/timeseries-bucketing/
Expiry: https://www.mongodb.com/docs/manual/core/timeseries/timeseries-automatic-removal/
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from struct import Struct
from typing import Any, Final

import msgspec
from bson import DatetimeMS

from mayflydb.engine.building import entry
from mayflydb.engine.catalog import Definition, Index, Slot, next_number
from mayflydb.engine.commands import Draft
from mayflydb.expiry.rules import Rule
from mayflydb.frontends.mongo.catalog_rows import ReadyIndex, pack_document, parse_index, slots_of, unpack_document
from mayflydb.frontends.mongo.contracts import Contract
from mayflydb.frontends.mongo.rules import date_rule
from mayflydb.model.instant import MILLISECOND, SECOND, Instant
from mayflydb.model.order import KeyRange
from mayflydb.model.record import Dates, Entry, Record
from mayflydb.query.mongo.faults import bad_value
from mayflydb.query.mongo.indexes.keys import compile_keys
from mayflydb.query.mongo.indexes.specs import IndexSpec
from mayflydb.query.mongo.values import Document, decode, encode

# Both are stored in catalogues, so they cannot change.
BODY: Final = "series"
"""The field in the body of a collection that makes it a time series: `{slot, index}`, both numbers of the engine."""

INTERNAL: Final = "internal"
"""The field of an index's row that tells it apart from the indexes of clients."""

SERIES_BYTES: Final = 16
_SECONDS: Final = Struct(">Q")
# Turns the order of signed numbers into that of unsigned bytes.
_OFFSET: Final = 1 << 63

_AFTER_STARTS: Final = b"\xff" * 9
"""Behind every start in a key of the internal index."""

_BUCKETS: Final = IndexSpec("", (("", 1),))
"""The specification of the internal index: a path that no document has, so that no query plan uses it."""


class MeasurementDraft(Draft, frozen=True):
    """A measurement as the engine stores it, without its bucket. `series`: its series, as a digest."""

    series: bytes = b""


class Series(msgspec.Struct, frozen=True):
    """The settings of a time series collection. `span`, `rounding`: seconds. `slot`, `index`: numbers of the engine."""

    time_field: str
    meta_field: str | None
    span: int
    rounding: int
    slot: int
    index: int

    # --- buckets -----------------------------------------------------------------------------------------------------

    def time_of(self, document: Document) -> DatetimeMS:
        """The time of a measurement. Raise MqlError 2 unless it is a date."""
        time = document.get(self.time_field)
        if type(time) is not DatetimeMS:
            raise bad_value(f"'{self.time_field}' must be present and contain a valid BSON UTC datetime value")
        return time

    def series_of(self, document: Document) -> bytes:
        """The series of a measurement, as a digest. Members of the meta value have no order; without one it is another series."""
        if self.meta_field is None or self.meta_field not in document:
            return bytes(SERIES_BYTES)
        meta = document[self.meta_field]
        if type(meta) is dict:
            meta = dict(sorted(meta.items()))
        return blake2b(encode({"": meta}), digest_size=SERIES_BYTES).digest()

    def round_down(self, time: DatetimeMS) -> Instant:
        """The start of the bucket that a measurement of this time opens. Before 1970, too, it is the earlier instant."""
        return int(time) // (self.rounding * 1000) * self.rounding * SECOND

    def starts_around(self, series: bytes, time: DatetimeMS) -> KeyRange:
        """The keys of the internal index for buckets of a series that a time lies in: start <= time < start + span."""
        second = int(time) // 1000
        return KeyRange(series + _encode(second - self.span + 1), series + _encode(second + 1))

    def all_starts(self, series: bytes) -> KeyRange:
        """The keys of the internal index for all buckets of a series."""
        return KeyRange(series, series + _AFTER_STARTS)

    def has_in_bucket(self, start: Instant, time: DatetimeMS) -> bool:
        """Return True if a time lies in the bucket that begins at `start`."""
        return start <= int(time) * MILLISECOND < start + self.span * SECOND

    # --- what is stored ----------------------------------------------------------------------------------------------

    def start_of(self, record: Record) -> Instant:
        """The start of the bucket of a stored measurement."""
        return dict(record.dates)[self.slot]

    def prepare(self, draft: Draft, document: Document) -> MeasurementDraft:
        """Return the draft of a measurement that has no bucket yet. It has no ttl of its own."""
        if isinstance(draft, MeasurementDraft):
            return draft
        return MeasurementDraft(
            draft.value, indexed=draft.indexed, remembered=draft.remembered, series=self.series_of(document)
        )

    def place(self, draft: Draft, document: Document, partition: bytes, start: Instant) -> Draft:
        """Return the draft of a measurement in the bucket that begins at `start`."""
        draft = self.prepare(draft, document)
        plain, key = draft.indexed, draft.series + _encode(start // SECOND)

        def index_entries(indexes: Sequence[Index]) -> tuple[Entry, ...]:
            others = tuple(each for each in indexes if each.number != self.index)
            own = [entry(each, key, partition) for each in indexes if each.number == self.index]
            return (*(plain(others) if plain is not None else ()), *own)

        def find_dates(definition: Definition) -> Dates:
            return self._find_dates(document, definition, start)

        return msgspec.structs.replace(draft, indexed=index_entries, dates=find_dates)

    def _find_dates(self, document: Document, definition: Definition, start: Instant) -> Dates:
        """The start of the bucket, in the slot of the collection and in those of the TTL indexes that the document matches."""
        slots = slots_of(definition)
        expiring = [index for index in definition.indexes if index.number in slots] if slots else ()
        matched = [slots[index.number] for index in expiring if is_within(parse_index(index).spec, document)]
        return ((self.slot, start), *((slot, start) for slot in matched))


def _encode(second: int) -> bytes:
    return _SECONDS.pack(min(max(second + _OFFSET, 0), (1 << 64) - 1))


def decode_start(key: bytes) -> Instant:
    """The start of a bucket, from an entry key of the internal index."""
    (second,) = _SECONDS.unpack_from(key, SERIES_BYTES)
    return (int(second) - _OFFSET) * SECOND


def is_within(spec: IndexSpec, document: Document) -> bool:
    """Return True if a document matches the partial filter of an index."""
    within = compile_keys(spec).filter
    return within is None or within.matches(document)


def find_index_date(series: Series | None, ready: ReadyIndex, record: Record) -> Instant | None:
    """The date of a stored document in the slot of a TTL index; None: it has none there."""
    document = decode(record.value)
    if series is None:
        return ready.find_date(document)
    return series.start_of(record) if is_within(ready.spec, document) else None


# --- the catalogue ---------------------------------------------------------------------------------------------------


def series_in(definition: Definition) -> Series | None:
    """The time series that a catalogue row describes; None: it is another collection."""
    numbers = definition.body.get(BODY)
    return None if numbers is None else build_series(unpack_document(definition.body["options"]), numbers)


def build_series(options: Document, numbers: Any) -> Series:
    """The time series of a collection with these options. `numbers`: those of BODY."""
    given = options["timeseries"]
    span = int(given["bucketMaxSpanSeconds"])
    rounding = int(given.get("bucketRoundingSeconds") or ROUNDING[given["granularity"]])
    return Series(given["timeField"], given.get("metaField"), span, rounding, numbers["slot"], numbers["index"])


SPANS: Final = {"seconds": 3600, "minutes": 86400, "hours": 2592000}
"""Granularity -> `bucketMaxSpanSeconds`."""

ROUNDING: Final = {"seconds": 60, "minutes": 3600, "hours": 86400}
"""Granularity -> the seconds to whose multiples the start of a bucket is rounded down."""


def define_series(definition: Definition, options: Document, contract: Contract) -> Definition:
    """Return the definition of a new, empty collection as a time series, with its indexes, its slot and its rules."""
    first = next_number(definition)
    internal = Index(first, (), "ready", spec={"document": pack_document(_BUCKETS.to_document()), INTERNAL: True})
    indexes, slot = [internal], first + 1
    given = options["timeseries"]
    meta, time = given.get("metaField"), given["timeField"]
    if meta and time and meta != time and "$" not in (meta[0], time[0]):  # Other names cannot be those of indexes.
        spec = IndexSpec(f"{meta}_1_{time}_1", ((meta, 1), (time, 1)))
        indexes.append(Index(first + 2, (), "ready", spec={"document": pack_document(spec.to_document())}))
    body = {**definition.body, BODY: {"slot": slot, "index": first}}
    defined = msgspec.structs.replace(
        definition, body=body, indexes=tuple(indexes), slots=(Slot(slot, "ready"),), numbered=first + 2
    )
    return msgspec.structs.replace(defined, rules=series_rules(defined, contract))


def series_rules(definition: Definition, contract: Contract) -> tuple[Rule, ...]:
    """The rule of `expireAfterSeconds` of the collection; none where it is off."""
    series = series_in(definition)
    seconds = None if series is None else unpack_document(definition.body["options"]).get("expireAfterSeconds")
    if series is None or seconds is None:
        return ()
    return (bucket_rule(series, int(seconds), series.slot, contract),)


def bucket_rule(series: Series, seconds: int, slot: int, contract: Contract) -> Rule:
    """The rule by which whole buckets expire, when `seconds` have passed since their end at the latest."""
    return date_rule(seconds + series.span, slot, contract, False)
