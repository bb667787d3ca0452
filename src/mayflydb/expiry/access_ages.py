"""Ages at which records are read and updated, counted by round spans: those that a proposal may have. Pure.

An age counts from the instant from which the life of the record would: its last write, or a date in it. So an access of an age
of D or more would have come too late under a ttl of D, and is counted as such exactly.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping
from typing import Final

import msgspec

from mayflydb.model.instant import DAY, HOUR, MINUTE, SECOND, Instant, Span
from mayflydb.model.record import Record

RUNGS: Final[tuple[Span, ...]] = (
    0,
    *(n * SECOND for n in (10, 30)),
    *(n * MINUTE for n in (1, 2, 5, 10, 15, 30)),
    *(n * HOUR for n in (1, 2, 4, 8, 12)),
    *(n * DAY for n in (1, 2, 3, 7, 14, 30, 60, 90, 180, 365, 730, 1825, 3650)),
)
"""The spans by which ages are counted, ascending. 0 is one of dates alone: a record may expire at its date."""

LAST_WRITE: Final = "write"
"""The name of ages since the last write."""


def slot_ages(slot: int) -> str:
    """Return the name of ages since the date in a slot."""
    return f"slot {slot}"


def field_ages(field: str) -> str:
    """Return the name of ages since the date in a field that no rule counts from."""
    return f"field {field}"


class AgeCounts(msgspec.Struct):
    """Ages by rung. `buckets`: bucket n has those from RUNGS[n - 1] to below RUNGS[n], the last one all above. `longest`: in
    microseconds, below 0 for a date ahead.
    """

    buckets: list[int] = msgspec.field(default_factory=lambda: [0] * (len(RUNGS) + 1))
    longest: Span = -(1 << 62)

    def add(self, age: Span) -> None:
        """Count an age."""
        self.buckets[bisect_right(RUNGS, age)] += 1
        self.longest = max(self.longest, age)

    def merge(self, other: AgeCounts) -> None:
        """Count the ages of another."""
        self.buckets = [a + b for a, b in zip(self.buckets, other.buckets, strict=True)]
        self.longest = max(self.longest, other.longest)

    @property
    def count(self) -> int:
        """The number of ages."""
        return sum(self.buckets)

    def at_least(self, rung: int) -> int:
        """Count the ages that are not below RUNGS[rung]."""
        return sum(self.buckets[rung + 1 :])

    def quantile(self, share: float) -> Span | None:
        """Return a span that at least this share of the ages does not exceed: the end of a bucket, or the longest age. None:
        there are no ages.
        """
        wanted, seen = share * self.count, 0
        for bound, found in zip((*RUNGS, self.longest), self.buckets, strict=True):
            seen += found
            if seen and seen >= wanted:
                return min(bound, self.longest)
        return None


Ages = dict[str, AgeCounts]
"""By the name of the instant from which they count."""


class Observations(msgspec.Struct, omit_defaults=True):
    """The accesses to one container that were seen from an instant on.

    `reads`, `updates`: sampled. `own`: sampled accesses of records with an own ttl, which no default concerns. `created`,
    `created_bytes`, `deleted`: all records that clients created and deleted. `last_created`: the instant of the last creation.
    """

    since: Instant
    reads: Ages = {}
    updates: Ages = {}
    own: int = 0
    created: int = 0
    created_bytes: int = 0
    deleted: int = 0
    last_created: Instant | None = None

    def add_created(self, records: int, value_bytes: int, now: Instant) -> None:
        """Count records that were created."""
        self.created += records
        self.created_bytes += value_bytes
        self.last_created = now

    def merge(self, other: Observations) -> None:
        """Add what was seen in another time, or by another process."""
        self.since = min(self.since, other.since)
        for mine, theirs in ((self.reads, other.reads), (self.updates, other.updates)):
            for name, ages in theirs.items():
                mine.setdefault(name, AgeCounts()).merge(ages)
        self.own += other.own
        self.created += other.created
        self.created_bytes += other.created_bytes
        self.deleted += other.deleted
        if other.last_created is not None:
            self.last_created = max(other.last_created, self.last_created or other.last_created)


def ages_of(record: Record, dates: Mapping[str, Instant], now: Instant) -> Iterator[tuple[str, Span]]:
    """Yield the ages of a record by the names of the instants that they count from. `dates`: those of fields without a rule."""
    # A record with an own ttl does not follow a default.
    if not record.override:
        # A transaction may read what it wrote a moment after its own instant.
        yield LAST_WRITE, max(0, now - (record.written if record.anchor is None else record.anchor))
    for slot, date in record.dates:
        yield slot_ages(slot), now - date
    for field, date in dates.items():
        yield field_ages(field), now - date
