"""Advice on a ttl: the shortest round span that few of the sampled accesses exceed, and what others would have cost. Pure."""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from mayflydb.expiry.access_ages import LAST_WRITE, RUNGS, AgeCounts, Observations
from mayflydb.model.instant import DAY, Instant, Span

LEAST_SAMPLES: Final = 300
"""Of so many accesses in time, at most one in a hundred of all comes too late, with a probability of 95 %."""

TOLERATED: Final = 1000
"""One in so many sampled accesses may come too late under a proposal; of fewer accesses none."""

WATCHED: Final = 2
"""A proposal was watched for so many times its length, and for a day: ages above it could have been seen."""

NEIGHBOURS: Final = 2
"""Spans below and above the proposed one whose costs are told, too."""

USED_TO_THE_END: Final = 100
"""If more than one in so many accesses is in the last part of the present life, others probably come too late already."""

RECENT: Final[Span] = 2 * DAY
"""Creations still go on if the last one was within this time."""

Kind = Literal["few", "short", "spread", "propose", "shorter", "keep", "to-the-end"]
"""`few`: too few accesses were sampled. `short`: they were watched for too short a time. `spread`: records are used at every age.
`propose`: there is no ttl, and one is proposed. `shorter`: one shorter than the present ttl is. `keep`: the present ttl fits.
`to-the-end`: records are used until they expire, so a longer life may be wanted, and no age above it can be seen.
"""


class Cost(msgspec.Struct, frozen=True):
    """The sampled accesses that would have come too late under a span, and their share of all sampled."""

    span: Span
    late_reads: int
    late_updates: int
    share: float


class Verdict(msgspec.Struct, frozen=True):
    """The advice. `proposed`: for `propose` and `shorter`. `fitting`: the span that the accesses alone suggest, however few they
    are; None: none, or there are no accesses. `costs`: of that span and its neighbours.
    """

    kind: Kind
    fitting: Span | None
    costs: tuple[Cost, ...]

    @property
    def proposed(self) -> Span | None:
        return self.fitting if self.kind in ("propose", "shorter") else None


class Growth(msgspec.Struct, frozen=True):
    """Records and bytes of values that a container gains in a day."""

    records: int
    value_bytes: int


def judge(reads: AgeCounts, updates: AgeCounts, observed: Span, present: Span | None, from_date: bool) -> Verdict:
    """Judge the ages of accesses that were watched for a time. `present`: the ttl in force; None: none. `from_date`: ages count
    from a date, at which a record may expire itself.
    """
    count = reads.count + updates.count
    lowest = 0 if from_date else 1
    fitting = next((n for n in range(lowest, len(RUNGS)) if _late(reads, updates, n) * TOLERATED <= count), None)
    if not count:
        return Verdict("few", None, ())
    span = None if fitting is None else RUNGS[fitting]
    kind = _kind(reads, updates, observed, present, span)
    middle = len(RUNGS) - 1 if fitting is None else fitting
    around = range(max(lowest, middle - NEIGHBOURS), min(len(RUNGS), middle + NEIGHBOURS + 1))
    return Verdict(kind, span, tuple([_cost(reads, updates, n) for n in around]))


def _kind(reads: AgeCounts, updates: AgeCounts, observed: Span, present: Span | None, fitting: Span | None) -> Kind:
    count = reads.count + updates.count
    if count < LEAST_SAMPLES:
        return "few"
    if present is not None and (fitting is None or fitting >= present):
        below = max((n for n, rung in enumerate(RUNGS) if rung < present), default=None)
        late = 0 if below is None else _late(reads, updates, below)
        return "to-the-end" if late * USED_TO_THE_END > count else "keep"
    if fitting is None:
        return "spread"
    if observed < needed_watch(fitting):
        return "short"
    return "propose" if present is None else "shorter"


def needed_watch(span: Span) -> Span:
    """Return the time for which accesses are watched before a span is proposed."""
    return max(DAY, WATCHED * span)


def _late(reads: AgeCounts, updates: AgeCounts, rung: int) -> int:
    return reads.at_least(rung) + updates.at_least(rung)


def _cost(reads: AgeCounts, updates: AgeCounts, rung: int) -> Cost:
    late_reads, late_updates = reads.at_least(rung), updates.at_least(rung)
    share = (late_reads + late_updates) / (reads.count + updates.count)
    return Cost(RUNGS[rung], late_reads, late_updates, round(share, 6))


def find_growth(seen: Observations, now: Instant) -> Growth | None:
    """Return the growth of a container that only grows; None: it does not, or was watched for less than a day.

    It only grows if none of its records was deleted, no sampled update was of a record of a day or more, and records were created
    within two days, or the last tenth of the time that was watched.
    """
    observed = now - seen.since
    if observed < DAY or seen.last_created is None or seen.deleted:
        return None
    updates = seen.updates.get(LAST_WRITE)
    is_updated = updates is not None and updates.at_least(RUNGS.index(DAY)) > 0
    if is_updated or now - seen.last_created > max(RECENT, observed // 10):
        return None
    return Growth(round(seen.created * DAY / observed), round(seen.created_bytes * DAY / observed))
