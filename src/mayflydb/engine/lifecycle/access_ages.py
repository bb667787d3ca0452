"""Samples the ages at which clients read and update records, for advice on a ttl, and keeps what it saw.

A sample costs a few microseconds, any other access one decrement. What was seen is kept in memory until `flush` adds it to a
companion row of the container; so several nodes, and later processes, add to the same row. A store that ends with its process
gets no rows.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Mapping, Sequence
from itertools import islice
from typing import Any, Final, TypeAlias

import msgspec

from mayflydb.engine.catalog import ROOT, Definition, Node, row_of
from mayflydb.engine.commands import Mode, Written
from mayflydb.engine.companions import home_of
from mayflydb.engine.ordered_histories import ChangeNotifier
from mayflydb.engine.reads import row_at
from mayflydb.engine.version_cache import Replaced
from mayflydb.expiry.access_ages import RUNGS, AgeCounts, Ages, Observations, ages_of
from mayflydb.model.errors import MayflyError
from mayflydb.model.instant import MINUTE, Instant, Span
from mayflydb.model.record import Record
from mayflydb.store.interface import CatalogRow, Decision, DropRow, FindRow, LoadRow, NewId, Outcome, PutRow, Store, ask

log = logging.getLogger(__name__)

SPACE: Final = "access ages"
"""The space of the rows. Two words make it one of companions, so that a row goes with its container."""

MOST_CONTAINERS: Final = 1000
"""Containers that are observed at a time, by about 5 KB each."""

MOST_NAMES: Final = 8
"""Instants of a record from which ages are counted: the last write, and dates."""

DENSE: Final = 1024
"""Samples after which half as many of the accesses to a container are sampled, down to the step that is set."""

MOST_OF_BATCH: Final = 16
"""Samples of one batch of records."""

LARGEST: Final = 16 << 10
"""Bytes of a value in which dates are looked for: they take up to a tenth of a millisecond."""

FLUSH_INTERVAL: Final[Span] = MINUTE
ROWS_PER_COMMIT: Final = 4

_DELETE = Mode.DELETE
"""Before Python 3.12, looking up a member in its class takes ten times as long as this."""

DatesOf: TypeAlias = Callable[[Node, Record], Mapping[str, Instant]]
"""Returns the dates of a record from which its life could count, by field, in a container without rules."""


class WriteTally:
    """The writes of one container in one transaction: what was created and deleted, and the versions that were updated."""

    __slots__ = ("created", "created_bytes", "deleted", "updated")

    def __init__(self) -> None:
        self.created = self.created_bytes = self.deleted = 0
        self.updated: list[Record] = []

    def note(self, before: Record | None, after: Record) -> None:
        """Count a written record. `before`: its visible version; None: it is created."""
        if before is None:
            self.created += 1
            self.created_bytes += len(after.value)
        else:
            self.updated.append(before)


class Use:
    """A container that is observed. `read_in`, `update_in`: the number of accesses up to the next that is sampled."""

    __slots__ = ("changed", "read_in", "sampled", "seen", "update_in")

    def __init__(self, now: Instant) -> None:
        self.read_in = self.update_in = 1
        self.sampled = 0
        self.changed = False
        self.seen = Observations(now)


class AccessAges:
    """Samples accesses. `step`: all accesses to a container at first, and one in so many once many are sampled; 0: none.

    `left_out`: accesses to containers beyond MOST_CONTAINERS, since the process began.
    """

    def __init__(self, store: Store) -> None:
        self.step = 0
        self.left_out = 0
        self.find_dates: DatesOf | None = None
        self._store = store
        self.uses: dict[int, Use] = {}
        self._rest = ChangeNotifier()
        self._flushing = asyncio.Lock()

    # --- what is noted ---------------------------------------------------------------------------------------------------

    def note_read(self, container: Node, record: Record, now: Instant) -> None:
        """Take note of a record that a client read."""
        use = self.uses.get(container.id) or self._begin(container.id, now)
        if use is None:
            return
        use.read_in -= 1
        if use.read_in < 1:
            use.read_in = self._sample(use, use.seen.reads, container, record, now)

    def note_reads(self, container: Node, records: Sequence[Record], now: Instant) -> None:
        """Take note of a batch of records that a client read."""
        use = self.uses.get(container.id) or self._begin(container.id, now)
        if use is not None and records:
            use.read_in = self._sample_batch(use, use.seen.reads, container, records, now, use.read_in)

    def note_write(self, container: Node, written: Written, replaced: Sequence[Replaced], now: Instant) -> None:
        """Take note of a single write that has committed. `replaced`: the versions that it ended, the visible one last."""
        use = self.uses.get(container.id) or self._begin(container.id, now)
        if use is None:
            return
        if written.created:
            use.seen.add_created(1, len(written.record.value), now)
        elif written.mode is _DELETE:
            use.seen.deleted += 1
        elif replaced:
            use.update_in -= 1
            if use.update_in < 1:
                use.update_in = self._sample(use, use.seen.updates, container, replaced[-1].record, now)
        use.changed = True

    def note_transaction(self, tallies: Sequence[tuple[Node, WriteTally]], now: Instant) -> None:
        """Take note of a transaction that has committed."""
        for container, tally in tallies:
            use = self.uses.get(container.id) or self._begin(container.id, now)
            if use is None:
                continue
            if tally.created:
                use.seen.add_created(tally.created, tally.created_bytes, now)
            use.seen.deleted += tally.deleted
            use.changed = True
            if tally.updated:
                ages = use.seen.updates
                use.update_in = self._sample_batch(use, ages, container, tally.updated, now, use.update_in)

    def _begin(self, container: int, now: Instant) -> Use | None:
        if len(self.uses) >= MOST_CONTAINERS:
            self.left_out += 1
            return None
        use = self.uses[container] = Use(now)
        return use

    def _sample_batch(
        self, use: Use, ages: Ages, container: Node, records: Sequence[Record], now: Instant, first: int
    ) -> int:
        """Sample some of a batch, and return the number of accesses up to the next sample. `first`: that before the batch."""
        least = -(-len(records) // MOST_OF_BATCH)
        at = first - 1
        while at < len(records):
            at += max(least, self._sample(use, ages, container, records[at], now))
        return at - len(records) + 1

    def _sample(self, use: Use, ages: Ages, container: Node, record: Record, now: Instant) -> int:
        """Count the ages of a record, and return the number of accesses up to the next sample."""
        dates: Mapping[str, Instant] = {}
        if self.find_dates is not None and not container.definition.rules and len(record.value) <= LARGEST:
            dates = self.find_dates(container, record)
        for name, age in ages_of(record, dates, now):
            counts = ages.get(name)
            if counts is None and len(ages) < MOST_NAMES:
                counts = ages[name] = AgeCounts()
            if counts is not None:
                counts.add(age)
        use.seen.own += bool(record.override)
        use.changed = True
        use.sampled += 1
        return min(self.step, 1 << use.sampled // DENSE)

    # --- what is kept ----------------------------------------------------------------------------------------------------

    async def read(self, container: int) -> Observations | None:
        """Return what was seen of a container; None: nothing."""
        # Between a flush's beginning and its end, what it writes is neither in memory nor in a row.
        async with self._flushing:
            row = await row_at(self._store, *home_of(SPACE, container))
            use = self.uses.get(container)
            if use is not None and use.changed:
                return _add(row, use.seen)
            return _decode(row)

    async def run(self) -> None:
        """Write what was seen each minute until cancelled. After a failure it stays for the next time."""
        while True:
            await self._rest.wait(0, FLUSH_INTERVAL)
            await self.flush()

    async def flush(self) -> None:
        """Add what was seen to the rows. Without a durable store it stays in memory."""
        if not self._store.durable:
            return
        async with self._flushing:
            # A container without accesses since the last time leaves its place to others.
            self.uses = {id: use for id, use in self.uses.items() if use.changed}
            taken = {id: self._take(use) for id, use in self.uses.items()}
            while taken:
                batch = dict(islice(taken.items(), ROWS_PER_COMMIT))
                for id in batch:
                    del taken[id]
                try:
                    await self._write(batch)
                except MayflyError as error:
                    log.warning("ages of accesses could not be written and will be tried again: %s", error)
                    self._give_back(batch | taken)
                    return
                await asyncio.sleep(0)

    async def finish(self, seconds: float) -> None:
        """Write what is left, for at most this long. What cannot be written then is lost."""
        try:
            async with asyncio.timeout(seconds):
                await self.flush()
        except TimeoutError:
            log.warning("ages of the last accesses could not be written within %g s", seconds)

    def _take(self, use: Use) -> Observations:
        seen, use.seen, use.changed = use.seen, Observations(use.seen.since), False
        return seen

    def _give_back(self, left: Mapping[int, Observations]) -> None:
        for id, seen in left.items():
            use = self.uses.setdefault(id, Use(seen.since))
            use.seen.merge(seen)
            use.changed = True

    async def _write(self, batch: Mapping[int, Observations]) -> None:
        def decide() -> Decision[None]:
            space = yield from ask(FindRow(ROOT, SPACE))
            changes: list[PutRow | DropRow] = []
            if space is None:
                at = min(seen.since for seen in batch.values())
                space = row_of(Node((yield from ask(NewId())), ROOT, SPACE, Definition({}, at)))
                changes.append(PutRow(space))
            for id, seen in batch.items():
                changes += yield from _change_row(space.id, id, seen)
            return Outcome(tuple(changes), None)

        await self._store.write(decide, "sweep")

    def forget(self) -> None:
        """Drop what is in memory, as when everything stored was replaced."""
        self.uses.clear()


def _change_row(space: int, container: int, seen: Observations) -> Generator[Any, Any, list[PutRow | DropRow]]:
    """Return the changes that add what was seen to the row of a container; none for one that is gone."""
    if (yield from ask(LoadRow(container))) is None:
        return []
    row = yield from ask(FindRow(space, str(container)))
    after = _add(row, seen)
    id = (yield from ask(NewId())) if row is None else row.id
    body = msgspec.to_builtins(after)
    return [PutRow(row_of(Node(id, space, str(container), Definition(body, after.since))))]


class _Row(msgspec.Struct):
    body: Observations


def _decode(row: CatalogRow | None) -> Observations | None:
    """Return what a row holds; None: nothing, or it is of a version that counted by other spans."""
    try:
        found = None if row is None else msgspec.json.decode(row.data, type=_Row).body
    except msgspec.ValidationError:
        return None
    counts = [] if found is None else [each for ages in (found.reads, found.updates) for each in ages.values()]
    return None if any(len(each.buckets) != len(RUNGS) + 1 for each in counts) else found


def _add(row: CatalogRow | None, seen: Observations) -> Observations:
    """Return what a row holds and what was seen since, which stays as it is."""
    total = _decode(row) or Observations(seen.since)
    total.merge(seen)
    return total
