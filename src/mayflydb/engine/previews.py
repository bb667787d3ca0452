"""Previews: the effect of other rules, and the counts of it record by record."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from mayflydb.engine.record_samples import RecordSample
from mayflydb.expiry.deadline import deadline, due_at, visible_at
from mayflydb.expiry.rules import Rule
from mayflydb.model.instant import DAY, HOUR, Instant, Span
from mayflydb.model.record import Record

SAMPLE = 10

HORIZONS: dict[str, Span] = {"1h": HOUR, "1d": DAY, "7d": 7 * DAY}


class Preview(msgspec.Struct, frozen=True):
    """The effect of other rules, all counts at one `now`.

    `records`: visible now. `expire_now`: of those, hidden in the next request. `expire_within`: expired by then, including
    these. `own_ttl`: with a positive own ttl; `ignored`: with an invalid one; `never`: without a deadline. `reappear_now`:
    hidden, not yet purged, and visible again under the new rules. `sample`: some of the records that would expire at once.
    `dated`: with a date in the date index that is to be built; None: none is. `exact` False: the counts are estimates.
    """

    now: Instant
    records: int
    expire_now: int
    expire_within: dict[str, int]
    own_ttl: int
    ignored: int
    never: int
    reappear_now: int
    sample: list[Record]
    exact: bool = True
    dated: int | None = None


class Tally:
    """Counts records one by one, as a preview does."""

    def __init__(
        self,
        current: Sequence[Rule],
        proposed: Sequence[Rule],
        now: Instant,
        dated: Callable[[Record], Record] | None,
    ) -> None:
        self._current, self._proposed, self._dated = current, proposed, dated
        self._ends = [now, *(now + span for span in HORIZONS.values())]
        self._with_date = 0
        self._visible = self._own = self._ignored = self._never = self._reappear = 0
        self._expired = [0] * len(self._ends)
        self._sample: list[Record] = []

    def add(self, records: Sequence[Record]) -> None:
        """Count these records."""
        for stored in records:
            record = stored if self._dated is None else self._dated(stored)
            self._with_date += record is not stored
            shown = visible_at(stored, self._current, self._ends[0])
            due = [due_at(record, self._proposed, end) for end in self._ends]
            self._visible += shown
            self._own += stored.anchor is not None and (stored.override or 0) > 0
            self._ignored += stored.override == 0
            self._reappear += not shown and not due[0]
            self._never += deadline(record, self._proposed) is None
            if shown or not due[0]:
                self._expired = [count + each for count, each in zip(self._expired, due, strict=True)]
            if shown and due[0] and len(self._sample) < SAMPLE:
                self._sample.append(record)

    def preview(self, scale: Callable[[int], int] = int) -> Preview:
        """Return the counts, each of them scaled."""
        return Preview(
            now=self._ends[0],
            records=scale(self._visible),
            expire_now=scale(self._expired[0]),
            expire_within={name: scale(self._expired[n]) for n, name in enumerate(HORIZONS, start=1)},
            own_ttl=scale(self._own),
            ignored=scale(self._ignored),
            never=scale(self._never),
            reappear_now=scale(self._reappear),
            sample=self._sample,
            dated=None if self._dated is None else scale(self._with_date),
        )

    def estimate(self, sample: RecordSample) -> Preview:
        """Return the counts of the container that the counts of its sample suggest."""
        found = self.preview(sample.scale)
        if sample.is_whole:
            return found
        # No sample shows that no record expires: without the 1, a change that expires records might not be asked about.
        expired = max(found.expire_now, 1 if self._proposed else 0)
        within = {name: max(count, expired) for name, count in found.expire_within.items()}
        records = max(found.records, expired)
        return msgspec.structs.replace(found, records=records, expire_now=expired, expire_within=within, exact=False)
