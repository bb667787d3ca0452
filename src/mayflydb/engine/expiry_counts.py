"""Previews and forecasts: the effect of a rule, the number of coming expiries, the records affected. Nothing is changed here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from itertools import accumulate, pairwise

import msgspec

from mayflydb.engine.catalog import Node
from mayflydb.engine.count_budget import Allowance, CountBudget
from mayflydb.engine.previews import HORIZONS, SAMPLE, Preview, Tally
from mayflydb.engine.proposals import Proposal
from mayflydb.engine.record_samples import RecordSample, count_numbers, draw_sample
from mayflydb.expiry.deadline import deadline, due_at, earliest_expiry, first_due, visible_at
from mayflydb.expiry.ranges import Lane, due_ranges, lanes
from mayflydb.expiry.rules import Rule
from mayflydb.model.due import DuePath, Path, date_key, date_of
from mayflydb.model.instant import SECOND, Instant, Span
from mayflydb.model.order import Order, Position
from mayflydb.model.record import Record, Totals
from mayflydb.store.interface import Count, CountDue, Due, LastExpiry, LoadRow, Scan, Store

PAGE = 128
"""Records that are read at once: the event loop belongs to a page for about a millisecond."""

SMALL_SAMPLE = 500
"""Records of a sample where one in a hundred does not matter."""

Pause = Callable[[], Awaitable[None]]
"""Lets others run between two pages. An error that it raises ends the count: the time is over, or the client has left."""

let_others_run: Pause = partial(asyncio.sleep, 0)


END: Instant = 1 << 80
"""An instant after every deadline."""


class Census(msgspec.Struct, frozen=True):
    """Visible records by their own ttl: `missing` (or not valid), `never` (-1), `own` (positive)."""

    missing: int
    never: int
    own: int
    exact: bool = True


class RecordCounts(msgspec.Struct, frozen=True):
    """The records of a container: `records` are visible, `hidden` have expired, `due` wait for a purge, hidden or not;
    `own_ttl` have a positive own ttl, `ignored_ttl` an invalid one.

    `exact` False: the counts are estimates.
    """

    records: int
    hidden: int
    due: int
    own_ttl: int
    ignored_ttl: int
    exact: bool = True


class Bucket(msgspec.Struct, frozen=True):
    """Expiries in (after, until]: expired at `until`, alive at `after`."""

    after: Instant
    until: Instant
    count: int


class Forecast(msgspec.Struct, frozen=True):
    """Coming expiries: `due_now` expired and not yet purged, `in_horizon` the sum of the buckets, `later` and `never` the
    rest.

    The last bucket ends at now + horizon. `exact` False: the counts are estimates.
    """

    now: Instant
    buckets: list[Bucket]
    due_now: int
    in_horizon: int
    later: int
    never: int
    exact: bool = True


class DueCounts(msgspec.Struct, frozen=True):
    """The number of stored records that are due at each instant. `exact` False: the counts are estimates."""

    counts: list[int]
    exact: bool = True


class ExpiringNow(msgspec.Struct, frozen=True):
    """Visible records that other rules would expire at once. `complete` False: there are more, or may be."""

    records: list[Record]
    complete: bool


class Expiring(msgspec.Struct, frozen=True):
    """(deadline, record) by deadline. `known_to`: records with a later deadline may be missing."""

    records: list[tuple[Instant, Record]]
    known_to: Instant


class ExpiryCounts:
    """Counts over the due paths: their cost follows the size of the answer."""

    def __init__(self, store: Store, budget: CountBudget | None = None) -> None:
        self._store = store
        self._budget = budget or CountBudget()

    def allow(self) -> Allowance:
        """Return a whole budget, for one answer."""
        return Allowance(self._budget)

    async def draw(self, container: Node, allowance: Allowance) -> RecordSample:
        """Draw a small sample of the records of a container."""
        return await draw_sample(self._store, container.id, min(SMALL_SAMPLE, allowance.take_sample()))

    async def count_due(
        self, container: Node, rules: Sequence[Rule], instants: Sequence[Instant], allowance: Allowance
    ) -> DueCounts:
        """Count as `due_counts` does, by estimate where the allowance does not suffice."""
        sample = await self._sample_beyond(container, rules, allowance)
        if sample is None:
            return DueCounts(await self.due_counts(container.id, rules, instants))
        found = [sum(due_at(record, rules, instant) for record in sample.records) for instant in instants]
        return DueCounts([sample.scale(count) for count in found], sample.is_whole)

    async def due_counts(
        self, container: int, rules: Sequence[Rule], instants: Sequence[Instant], pause: Pause = let_others_run
    ) -> list[int]:
        """Return the number of stored records that are due at each instant (ascending), whatever that costs."""
        counts = [0] * len(instants)
        if _overlap(rules):
            async for record in self._read_due(container, rules, instants[-1], pause):
                ends = deadline(record, rules)
                if ends is not None:
                    # Counted once, at the first instant that reaches the deadline; the sums below carry it on.
                    counts[first_due(ends, instants)] += 1
            return list(accumulate(counts))
        for path in _paths(rules):
            for n, found in enumerate(await self._path_counts(container, path, rules, instants)):
                counts[n] += found
        return counts

    async def _read_due(
        self, container: int, rules: Sequence[Rule], now: Instant, pause: Pause = let_others_run
    ) -> AsyncIterator[Record]:
        """Yield the records that are due at `now`, each once: on the path of the rule with its earliest deadline."""
        async for page in self._read_due_pages(container, rules, now):
            for record in page:
                yield record
            await pause()

    async def _read_due_pages(self, container: int, rules: Sequence[Rule], now: Instant) -> AsyncIterator[list[Record]]:
        """Yield the same by pages of up to PAGE records that were read, of which others may have been left out."""
        for due in due_ranges(rules, now):
            after: tuple[Instant, int] | None = None
            while page := await self._store.read(Due(container, due.path, due.upto, after, PAGE)):
                expiries = [(earliest_expiry(record, rules), record) for record in page]
                yield [record for expiry, record in expiries if expiry is not None and expiry[1] is due.rule]
                after = path_place(page[-1], due.path)

    async def _path_counts(
        self, container: int, path: Path, rules: Sequence[Rule], instants: Sequence[Instant]
    ) -> list[int]:
        bounds = _highest_due_at(rules, path, instants)
        known = [bound for bound in bounds if bound is not None]
        if not known:
            return [0] * len(instants)
        found = await self._store.read(CountDue(container, path, tuple(known)))
        counted = iter(found)
        return [0 if bound is None else next(counted) for bound in bounds]

    async def totals(self, container: int, with_bytes: bool = False) -> Totals:
        """Count the records of a container, with hidden ones. Without `with_bytes` the size of values is not counted."""
        return await self._store.read(Count(container, with_bytes))

    async def usage(self, container: Node, now: Instant) -> tuple[int, int]:
        """Return (visible records, kilobytes stored, with hidden ones)."""
        totals = await self.totals(container.id, with_bytes=True)
        hiding = tuple(rule for rule in container.rules if rule.hides)
        hidden = sum(await self.due_counts(container.id, hiding, [now]))
        return totals.records - hidden, -(-totals.value_bytes // 1024)

    async def count_visible(self, container: Node, now: Instant) -> int | None:
        """Count the visible records from the indexes; None if a record was written or purged meanwhile."""
        hiding = tuple(rule for rule in container.rules if rule.hides)
        before = await self._committed_lsn(container.id)
        totals = await self.totals(container.id)
        (hidden,) = await self.due_counts(container.id, hiding, [now])
        return totals.records - hidden if await self._committed_lsn(container.id) == before else None

    async def _committed_lsn(self, container: int) -> int:
        # A count may see a commit that the catalogue does not show yet. A read of events waits until it is shown.
        await self._store.read(LastExpiry())
        row = await self._store.read(LoadRow(container))
        return 0 if row is None else row.lsn

    async def count_records(self, container: Node, now: Instant, allowance: Allowance) -> RecordCounts:
        """Count the records of a container, by estimate where the allowance does not suffice."""
        hiding = tuple(rule for rule in container.rules if rule.hides)
        sample = await self._sample_beyond(container, container.rules, allowance)
        if sample is not None:
            return _estimate_records(sample, container.rules, hiding, now)
        totals = await self.totals(container.id)
        hidden = due = (await self.due_counts(container.id, hiding, [now]))[0]
        if hiding != tuple(container.rules):
            due = (await self.due_counts(container.id, container.rules, [now]))[0]
        return RecordCounts(totals.records - hidden, hidden, due, totals.own, totals.ignored)

    async def census(self, container: Node, now: Instant) -> Census:
        """Count the visible records by their own ttl, by estimate in a large container."""
        hiding = tuple(rule for rule in container.rules if rule.hides)
        sample = await self._sample_beyond(container, hiding, self.allow())
        if sample is not None:
            shown = [record.override or 0 for record in sample.records if visible_at(record, hiding, now)]
            own, never = sum(own > 0 for own in shown), sum(own < 0 for own in shown)
            missing = sample.scale(len(shown) - own - never)
            return Census(missing, sample.scale(never), sample.scale(own), exact=sample.is_whole)
        totals = await self.totals(container.id)
        if any(rule.slot is not None for rule in hiding):
            owns = [record.override or 0 async for record in self._read_due(container.id, hiding, now)]
            own, never = sum(own > 0 for own in owns), sum(own < 0 for own in owns)
            missing = totals.records - totals.own - totals.never - (len(owns) - own - never)
            return Census(missing, totals.never - never, totals.own - own)
        following = await self._count(container.id, DuePath.ANCHOR, _highest_due(hiding, DuePath.ANCHOR, now))
        own = await self._count(container.id, DuePath.DEADLINE, _highest_due(hiding, DuePath.DEADLINE, now))
        return Census(totals.records - totals.own - totals.never - following, totals.never, totals.own - own)

    async def preview_of(self, container: Node, proposal: Proposal, now: Instant) -> Preview:
        """Preview a change as if it were made now. A date index that does not exist yet needs a look at each record."""
        if proposal.dated is None:
            return await self.preview(container, proposal.rules, now)
        sample = await self._draw_beyond(container, by_record=True, allowance=self.allow())
        tally = Tally(container.rules, proposal.rules, now, proposal.dated)
        if sample is not None:
            tally.add(sample.records)
            return tally.estimate(sample)
        after: Position | None = None
        while page := await self._store.read(Scan(container.id, b"", None, Order.CREATED, after, PAGE)):
            after = Position(b"", page[-1].seq)
            tally.add(page)
            await let_others_run()
        return tally.preview()

    async def _sample_beyond(self, container: Node, rules: Sequence[Rule], allowance: Allowance) -> RecordSample | None:
        """Draw a sample of a container whose count by these rules costs more than is allowed. None: all can be counted."""
        return await self._draw_beyond(container, _overlap(rules), allowance)

    async def _draw_beyond(self, container: Node, by_record: bool, allowance: Allowance) -> RecordSample | None:
        row = await self._store.read(LoadRow(container.id))
        # Where the allowance suffices for all numbers that were ever given out, no record is looked for.
        if row is None or allowance.take(row.seq, by_record):
            return None
        if allowance.take((await count_numbers(self._store, container.id))[1], by_record):
            return None
        sample = await draw_sample(self._store, container.id, allowance.take_sample())
        # Numbers of purged records are not used again: few records may have drawn from many numbers.
        return None if allowance.take(sample.scale(len(sample.records)), by_record) else sample

    async def _estimate(
        self, container: Node, proposed: tuple[Rule, ...], now: Instant, sample: RecordSample
    ) -> Preview:
        tally = Tally(container.rules, proposed, now, None)
        tally.add(sample.records)
        found = tally.estimate(sample)
        is_countable = sample.scale(len(sample.records)) <= self._budget.counted
        if not is_countable or any(rule.hides for rule in container.rules):
            return found
        # A record that is due is so on one path at least, and may be on all. Later ends have more to count: an estimate of many
        # is good without.
        paths = [await self._path_counts(container.id, path, proposed, [now]) for path in _paths(proposed)]
        counts = [due for (due,) in paths]
        expired = min(max(found.expire_now, max(counts, default=0)), sum(counts))
        within = {name: max(count, expired) for name, count in found.expire_within.items()}
        records = max(found.records, expired)
        return msgspec.structs.replace(found, records=records, expire_now=expired, expire_within=within)

    async def preview(
        self, container: Node, proposed: tuple[Rule, ...], now: Instant, may_estimate: bool = True
    ) -> Preview:
        """Preview rules as if they were set now."""
        hiding = tuple(rule for rule in container.rules if rule.hides)
        by_record = _overlap(proposed) or _overlap((*hiding, *proposed))
        sample = await self._draw_beyond(container, by_record, self.allow()) if may_estimate else None
        if sample is not None:
            return await self._estimate(container, proposed, now, sample)
        totals = await self.totals(container.id)
        hidden, still_hidden = await self._count_hidden(container.id, hiding, proposed, now)
        expired = await self.due_counts(container.id, proposed, [now, *(now + span for span in HORIZONS.values())])
        return Preview(
            now=now,
            records=totals.records - hidden,
            expire_now=expired[0] - still_hidden,
            expire_within={name: expired[n] - still_hidden for n, name in enumerate(HORIZONS, start=1)},
            own_ttl=totals.own,
            ignored=totals.ignored,
            never=await self._count_unexpiring(container.id, totals, proposed),
            reappear_now=hidden - still_hidden,
            sample=(await self.find_expiring_now(container, proposed, now, SAMPLE, self.allow())).records,
        )

    async def _count_hidden(
        self, container: int, hiding: Sequence[Rule], proposed: Sequence[Rule], now: Instant
    ) -> tuple[int, int]:
        """Return (records that are hidden now, those of them that would be due under the proposed rules)."""
        if _overlap((*hiding, *proposed)):
            still = [due_at(record, proposed, now) async for record in self._read_due(container, hiding, now)]
            return len(still), sum(still)
        hidden = still_hidden = 0
        for path in _paths(hiding):
            before, after = _highest_due(hiding, path, now), _highest_due(proposed, path, now)
            hidden_here = await self._count(container, path, before)
            hidden += hidden_here
            # Both are counts from the start of one order, so the smaller set lies in the larger one.
            still_hidden += min(hidden_here, await self._count(container, path, after))
        return hidden, still_hidden

    async def _count_unexpiring(self, container: int, totals: Totals, rules: Sequence[Rule]) -> int:
        """Count the records without a deadline under the rules."""
        if any(rule.slot is not None for rule in rules):
            return totals.records - (await self.due_counts(container, rules, [END]))[0]
        expiring = 0
        if any(rule.after is not None for rule in rules):
            expiring += totals.records - totals.own - totals.never
        if any(rule.overrides for rule in rules):
            expiring += totals.own
        return totals.records - expiring

    async def _count(self, container: int, path: Path, bound: Instant | None) -> int:
        if bound is None:
            return 0
        return (await self._store.read(CountDue(container, path, (bound,))))[0]

    async def find_expiring_now(
        self, container: Node, proposed: tuple[Rule, ...], now: Instant, limit: int, allowance: Allowance
    ) -> ExpiringNow:
        """Find visible records that would expire at once under the proposed rules: up to `limit`, as far as is allowed."""
        hiding = tuple(rule for rule in container.rules if rule.hides)
        if _overlap((*hiding, *proposed)):
            return await self._look_for_expiring(container, hiding, proposed, now, limit, allowance)
        found: list[Record] = []
        for path in _paths(proposed):
            upto, hidden = _highest_due(proposed, path, now), _highest_due(hiding, path, now)
            # Start after all records that are hidden already: nothing changes for them.
            after = None if hidden is None else (hidden + 1, 0)
            while upto is not None and len(found) <= limit:
                records = await self._store.read(
                    Due(container.id, path, upto, after, min(PAGE, limit + 1 - len(found)))
                )
                if not records:
                    break
                found += records
                after = path_place(records[-1], path)
                await let_others_run()
        return ExpiringNow(found[:limit], len(found) <= limit)

    async def _look_for_expiring(
        self,
        container: Node,
        hiding: Sequence[Rule],
        proposed: Sequence[Rule],
        now: Instant,
        limit: int,
        allowance: Allowance,
    ) -> ExpiringNow:
        """Find them one by one, as a record may be on several paths."""
        found: list[Record] = []
        async for page in self._read_due_pages(container.id, proposed, now):
            found += [record for record in page if visible_at(record, hiding, now)]
            if len(found) > limit or not allowance.take(PAGE, by_record=True):
                return ExpiringNow(found[:limit], complete=False)
            await let_others_run()
        return ExpiringNow(found, complete=True)

    async def forecast(
        self, container: Node, now: Instant, horizon: Span, buckets: int, allowance: Allowance
    ) -> Forecast:
        """Count expiries per bucket until now + horizon, under the rules in force, by estimate where the allowance does not
        suffice.
        """
        edges = edges_of(now, horizon, buckets)
        sample = await self._sample_beyond(container, container.rules, allowance)
        if sample is not None:
            return _estimate_forecast(sample, container.rules, edges)
        expired = await self.due_counts(container.id, container.rules, edges)
        totals = await self.totals(container.id)
        never = await self._count_unexpiring(container.id, totals, container.rules)
        return _build_forecast(edges, expired, totals.records, never)

    async def find_expiring(
        self, container: Node, after: Instant | None, until: Instant, limit: int, allowance: Allowance
    ) -> Expiring:
        """Find stored records with a deadline in (after, until], by deadline, up to `limit`."""
        found: list[tuple[Instant, Record]] = []
        known_to, rules = until, container.rules
        for lane in lanes(rules):
            upto = lane.highest_due(until)
            if upto is not None:
                expiring = await self._expiring_by(container.id, rules, lane, after, upto, limit, allowance)
                known_to = min(known_to, expiring.known_to)
                found += expiring.records
        found = [each for each in found if each[0] <= known_to]
        return Expiring(sorted(found, key=lambda each: (each[0], each[1].partition, each[1].key))[:limit], known_to)

    async def _expiring_by(
        self,
        container: int,
        rules: Sequence[Rule],
        lane: Lane,
        after: Instant | None,
        upto: Instant,
        limit: int,
        allowance: Allowance,
    ) -> Expiring:
        """Find the records that the rule of one lane expires first: up to `limit`, or to the end of the page that exceeds
        it. `rules`: those of which the lane is made.
        """
        gone = None if after is None else lane.highest_due(after)
        # Start after all records that are due at `after`.
        place = None if gone is None else (gone + 1, 0)
        found: list[tuple[Instant, Record]] = []
        while len(found) < limit:
            page = await self._store.read(Due(container, lane.path, upto, place, PAGE))
            if not page:
                break
            expiries = [(earliest_expiry(record, rules), record) for record in page]
            found += [
                (expiry[0], record) for expiry, record in expiries if expiry is not None and expiry[1] is lane.rule
            ]
            place = path_place(page[-1], lane.path)
            await let_others_run()
            if len(found) < limit and not allowance.take(len(page), by_record=True):
                # Others may have the same value as the last one.
                return Expiring(found, lane.deadline(place[0]) - 1)
        return Expiring(found, END)


def _estimate_records(
    sample: RecordSample, rules: Sequence[Rule], hiding: Sequence[Rule], now: Instant
) -> RecordCounts:
    records = sample.records
    hidden = sum(not visible_at(record, hiding, now) for record in records)
    return RecordCounts(
        records=sample.scale(len(records) - hidden),
        hidden=sample.scale(hidden),
        due=sample.scale(sum(due_at(record, rules, now) for record in records)),
        own_ttl=sample.scale(sum(record.anchor is not None and (record.override or 0) > 0 for record in records)),
        ignored_ttl=sample.scale(sum(record.override == 0 for record in records)),
        exact=sample.is_whole,
    )


def _estimate_forecast(sample: RecordSample, rules: Sequence[Rule], edges: Sequence[Instant]) -> Forecast:
    ends = [deadline(record, rules) for record in sample.records]
    counts = [0] * (len(edges) + 1)
    for end in ends:
        if end is not None:
            counts[first_due(end, edges)] += 1
    expired = [sample.scale(count) for count in accumulate(counts[:-1])]
    return _build_forecast(
        edges, expired, sample.scale(len(ends)), sample.scale(ends.count(None)), exact=sample.is_whole
    )


def _build_forecast(
    edges: Sequence[Instant], expired: Sequence[int], records: int, never: int, exact: bool = True
) -> Forecast:
    """Build a forecast of the records that have expired by each edge, out of all."""
    return Forecast(
        now=edges[0],
        buckets=[
            Bucket(after, until, later - before)
            for (after, until), (before, later) in zip(pairwise(edges), pairwise(expired), strict=True)
        ],
        due_now=expired[0],
        in_horizon=expired[-1] - expired[0],
        # Each count of an estimate is rounded by itself, so that this rest may be one too small.
        later=max(0, records - never - expired[-1]),
        never=never,
        exact=exact,
    )


def edges_of(now: Instant, horizon: Span, buckets: int) -> list[Instant]:
    """Return the bounds of the buckets. The last one is the horizon itself, even if the buckets do not divide it."""
    return [now + horizon * n // buckets for n in range(buckets + 1)]


def _paths(rules: Sequence[Rule]) -> tuple[Path, ...]:
    return tuple(dict.fromkeys(lane.path for lane in lanes(rules)))


def _overlap(rules: Sequence[Rule]) -> bool:
    """Return whether a record may be on several due paths of these rules; no record is on both paths without a slot."""
    paths = _paths(rules)
    return len(paths) > 1 and any(isinstance(path, int) for path in paths)


def path_place(record: Record, path: Path) -> tuple[Instant, int]:
    """Return the position of a record on one of its due paths."""
    if isinstance(path, int):
        return date_of(date_key(dict(record.dates)[path])), record.seq
    anchor = date_of(date_key(record.anchor or 0))
    return anchor + (record.override or 0) * SECOND * (path is DuePath.DEADLINE), record.seq


def _highest_due(rules: Sequence[Rule], path: Path, now: Instant) -> Instant | None:
    """Return the highest value on a path that is due."""
    return _highest_due_at(rules, path, (now,))[0]


def _highest_due_at(rules: Sequence[Rule], path: Path, instants: Sequence[Instant]) -> list[Instant | None]:
    """Return the highest value on a path that is due at each instant; a container has at most one rule per path."""
    found: list[Instant | None] = [None] * len(instants)
    for lane in lanes(rules):
        if lane.path == path:
            found = [lane.highest_due(instant) for instant in instants]
    return found
