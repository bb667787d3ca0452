"""Rounds through the directory: each removes the stale places of one container, in the order of the tree.

A round reads the ids of purged records into a map, walks over the container's places in bounded steps, removes those that the
map names, and then forgets the ids. Each step is a write of its own, which shares the writer with users as sweeps do. A round
that was interrupted begins anew: the ids are in the file until its end.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias, TypeVar

import apsw

from mayflydb.model.errors import MayflyError
from mayflydb.store.interface import Committed, Decision, Outcome, Urgency
from mayflydb.store.rows import SEQ_BITS, SEQ_MASK
from mayflydb.store.sqlite.schema import IDENTITY, row_id

T = TypeVar("T")
Submit: TypeAlias = Callable[[Callable[[], Decision[Any]], Urgency], Coroutine[Any, Any, Committed[Any]]]

log = logging.getLogger(__name__)

FEWEST = 4096
"""The fewest stale records for which a round begins while there is other work."""

SHARE = 2
"""A round begins when the stale records are this part of those that the last round left, or that are counted as living before the
first. Rarer rounds would make scans step over more places; more frequent ones walk over more places for each that they remove.
"""

SAMPLE = 1024
"""The places from which the number of a container's records is estimated."""

IDLE_SHARE = 64
"""The same while no records are purged."""

IDLE_SECONDS = 1.0

STEP = 4096
"""The places that a step looks at, at least: about a millisecond."""

PACE = 12
"""The places that a step looks at for each record that was purged since the last one: a round ends before the next is due."""

LONGEST_STEP = 24_576
LONGEST_STEP_ON_LOOP = 6144
"""The most places that a step looks at, where it runs on the writer's thread, and where it runs on the event loop."""

MAP_IDS = 1 << 21
"""The ids that a map covers, a byte for each: SQLite copies the map for each step."""

_RANGES = "SELECT first, last FROM purged WHERE first > ? AND first <= ? ORDER BY first LIMIT ?"
_FORGET = "DELETE FROM purged WHERE first >= ?1 AND first <= ?2 AND substr(?3, first - ?4 + 1, 1) = x'01'"
_END = (
    "SELECT kind, number, record FROM directory WHERE container = ? AND (kind, number, record) > (?, ?, ?)"
    " ORDER BY kind, number, record LIMIT 1 OFFSET ?"
)
_SAMPLED = f"SELECT number FROM directory WHERE container = ? AND kind = {IDENTITY} ORDER BY number LIMIT 1 OFFSET ?"
# Without a subquery SQLite removes the places in the walk that finds them. With `record IN (SELECT ...)` it lists them first and
# then seeks each, which takes three times as long. The end of the walk is the last condition, since it takes longer than the
# bounds of the map, which few living records pass.
_REMOVE = (
    "DELETE FROM directory WHERE container = ?1 AND (kind, number, record) > (?2, ?3, ?4)"
    " AND record <= ?9 AND record >= ?8 AND substr(?10, record - ?8 + 1, 1) = x'01'"
    " AND (kind, number, record) <= (?5, ?6, ?7)"
)

Place: TypeAlias = tuple[int, int, int]
BEGIN: Place = (-1, 0, 0)
_LAST: Place = (1 << 62, 0, 0)


class StaleRecords:
    """The numbers of records by container whose places are stale. A transaction notes them; `commit` or `rollback` ends it."""

    def __init__(self, connection: apsw.Connection) -> None:
        self.numbers = dict.fromkeys(containers_with_stale(connection), 1)
        self.since_step = 0
        """The records that were purged since it was last set to 0."""
        self.reloads = 0
        """The number of times that the tables were replaced: ids from before mean other records."""
        self.grown = asyncio.Event()
        self._pending: dict[int, int] = {}

    def reload(self, connection: apsw.Connection) -> None:
        """Count anew, after the tables were replaced."""
        self.reloads += 1
        self._pending.clear()
        self.numbers.clear()
        self.numbers |= dict.fromkeys(containers_with_stale(connection), 1)

    def note(self, container: int, number: int) -> None:
        """Note records of the transaction under way."""
        self._pending[container] = self._pending.get(container, 0) + number

    def commit(self) -> None:
        """Count what was noted."""
        if self._pending:
            for container, number in self._pending.items():
                self.numbers[container] = self.numbers.get(container, 0) + number
                self.since_step += number
            self._pending.clear()
            self.grown.set()

    def rollback(self) -> None:
        """Discard what was noted."""
        self._pending.clear()

    def subtract(self, container: int, number: int) -> None:
        """Count records whose places were removed."""
        left = self.numbers.pop(container, 0) - number
        if left > 0:
            self.numbers[container] = left


class Marks:
    """The ids of purged records of a container from `first` to `last`: `map` has the byte 1 for each."""

    def __init__(self, first: int) -> None:
        self.first = self.last = first
        self.number = 0
        self._map = bytearray()
        self.map = b""

    def add(self, first: int, last: int) -> None:
        """Add a range that lies behind all others."""
        self._map.extend(bytes(first - self.first - len(self._map)))
        self._map.extend(b"\1" * (last - first + 1))
        self.last = last
        self.number += last - first + 1

    def close(self) -> None:
        """Make the map of what was added."""
        self.map = bytes(self._map)


class Replaced(MayflyError):
    """The tables were replaced during a round, which ends."""


class DirectoryRounds:
    """Makes rounds as they are due, one at a time. `submit` queues a write; `longest`: the most places of one step."""

    def __init__(self, connection: apsw.Connection, stale: StaleRecords, submit: Submit, longest: int) -> None:
        self._connection = connection
        self._stale = stale
        self._submit = submit
        self._longest = longest
        self._left: dict[int, int] = {}
        """Container -> the records that its last round left, or an estimate before the first."""
        self._task: asyncio.Task[None] | None = None
        self._reloads = 0
        """Those of the stale records when the round began."""

    def start(self) -> None:
        """Make rounds on the running event loop until `close`."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name="directory rounds")

    async def close(self) -> None:
        """End the round under way."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        while True:
            due = self.choose(SHARE, FEWEST)
            container = await self._wait() if due is None else due
            if container is not None:
                try:
                    if due is None or container in self._left:
                        await self.make_round(container)
                    else:
                        await self._count_living(container)
                except Replaced:
                    continue
                except MayflyError as error:
                    # The disk may be full, or a page be damaged. The round begins anew after the next purge.
                    log.warning("stale places of container %d could not be removed: %s", container, error)
                except Exception:
                    # A bug: purges go on, and the places stay.
                    log.exception("a round through the places of container %d failed", container)
                else:
                    continue
                self._stale.grown.clear()
                await self._stale.grown.wait()

    async def _wait(self) -> int | None:
        """Wait for purges. After a while without any, return the container that has the most stale records."""
        try:
            async with asyncio.timeout(IDLE_SECONDS if self.choose(IDLE_SHARE, 1) else None):
                await self._stale.grown.wait()
        except TimeoutError:
            return self.choose(IDLE_SHARE, 1)
        self._stale.grown.clear()
        return None

    def choose(self, share: int, fewest: int) -> int | None:
        """Return the container with the most stale records of those where they are at least this share, and this number."""
        numbers = self._stale.numbers
        due = [id for id, number in numbers.items() if number >= max(fewest, self._left.get(id, 0) // share)]
        return max(due, key=numbers.__getitem__, default=None)

    async def make_round(self, container: int) -> None:
        """Remove the stale places of a container. Errors: those of a write; the rest is left to the next round."""
        self._reloads = self._stale.reloads
        marks = await self._collect(container)
        if marks is None:
            self._stale.numbers.pop(container, None)
            return
        place, kept = BEGIN, 0
        while True:
            places = min(self._longest, max(STEP, PACE * self._stale.since_step))
            self._stale.since_step = 0
            found, removed = await self._step(partial(remove_stale, self._connection, container, marks, place, places))
            if found is None:
                break
            place, kept = found, kept + places - removed
        await self._forget(marks)
        self._left[container] = kept // 2
        self._stale.subtract(container, marks.number)
        if not kept:
            del self._left[container]

    async def _count_living(self, container: int) -> None:
        """Estimate the records that the last round would have left, where there was none."""
        self._reloads = self._stale.reloads
        places = await self._step(partial(estimate_places, self._connection, container))
        self._left[container] = max(0, places - self._stale.numbers.get(container, 0))

    async def _collect(self, container: int) -> Marks | None:
        """Read the ranges of purged ids of a container, or as many as a map covers."""
        after, end = row_id(container, 0) - 1, row_id(container, SEQ_MASK)
        marks: Marks | None = None
        while True:
            ranges = await self._step(partial(self._rows, _RANGES, (after, end, STEP)))
            for first, last in ranges:
                if marks is None:
                    marks = Marks(first)
                    end = min(end, first + MAP_IDS - 1)
                if last <= end:
                    marks.add(first, last)
            if len(ranges) < STEP:
                break
            after = ranges[-1][0]
        if marks is not None:
            marks.close()
        return marks

    async def _forget(self, marks: Marks) -> None:
        for first in range(marks.first, marks.last + 1, STEP * 4):
            bounds = (first, min(marks.last, first + STEP * 4 - 1), marks.map, marks.first)
            await self._step(partial(self._rows, _FORGET, bounds))

    def _rows(self, statement: str, bindings: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        return list(self._connection.execute(statement, bindings))

    async def _step(self, work: Callable[[], T]) -> T:
        def decide() -> Decision[T]:
            if self._stale.reloads != self._reloads:
                raise Replaced("the tables were replaced")
            return Outcome((), work())
            yield

        answer: T = (await self._submit(decide, "sweep")).reply
        return answer


def containers_with_stale(connection: apsw.Connection) -> list[int]:
    """Return the containers that have stale places, by one seek for each."""
    found: list[int] = []
    after = 0
    while (first := connection.execute("SELECT min(first) FROM purged WHERE first > ?", (after,)).get) is not None:
        found.append(first >> SEQ_BITS)
        after = row_id(found[-1], SEQ_MASK)
    return found


def estimate_places(connection: apsw.Connection, container: int) -> int:
    """Estimate the records of a container that the directory names, 0 for fewer than SAMPLE.

    Their numbers are hashes, so that a part of these holds as large a part of the records.
    """
    number = connection.execute(_SAMPLED, (container, SAMPLE - 1)).get
    return 0 if number is None else (SAMPLE << 64) // (number + (1 << 63) + 1)


def remove_stale(
    connection: apsw.Connection, container: int, marks: Marks, place: Place, places: int
) -> tuple[Place | None, int]:
    """Remove the stale ones of the next places. Return the last of these, None at the end; and the number of removed ones."""
    found: Place | None = None
    for row in connection.execute(_END, (container, *place, places - 1)):
        found = row
    connection.execute(_REMOVE, (container, *place, *(found or _LAST), marks.first, marks.last, marks.map))
    return found, connection.changes()
