"""Accesses of records: reads by key and by index, which may prolong lives, and whose ages tell which ttl would fit.

A read never writes and never waits. It notes the record; a task writes the notes of a moment together.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Generator, Sequence
from itertools import islice
from typing import Any, Final, TypeAlias

from mayflydb.engine.catalog import Node
from mayflydb.engine.lifecycle.access_ages import AccessAges
from mayflydb.engine.timekeeper import Timekeeper
from mayflydb.engine.transactions import Body, WriteTransaction
from mayflydb.expiry.sliding import needs_touch
from mayflydb.model.errors import MayflyError, OwnerNotFound
from mayflydb.model.instant import Instant
from mayflydb.model.order import Identity
from mayflydb.model.record import Record
from mayflydb.store.interface import Get, Read, Store, ask

log = logging.getLogger(__name__)

MOST_NOTES: Final = 20_000
"""Records that wait for their new life; reads of others leave theirs as it is."""

BATCH_SIZE: Final = 256
"""Records that one transaction touches: neighbours share pages, so that many cost less than each alone."""

INLINE_BATCH_SIZE: Final = 32
"""The same for a store that works on the event loop itself."""

REST_SECONDS: Final = 0.05
"""The time in which notes are gathered."""

Transact: TypeAlias = Callable[[Body[Any], Instant], Awaitable[Any]]


class Accesses:
    """Takes note of the records that requests of clients read."""

    def __init__(self, time: Timekeeper, transact: Transact, store: Store) -> None:
        self.touched = 0
        """Records that got a new life by a read, since the process began."""

        self.missed = 0
        """Reads that should have prolonged a life and did not: too many waited, or the store could not write."""

        self._time = time
        self._transact = transact
        self._batch = BATCH_SIZE if store.durable else INLINE_BATCH_SIZE
        self.ages = AccessAges(store)
        """The ages of records that were read and updated, as far as they were sampled."""

        self.sampler: AccessAges | None = None
        """The same while accesses are sampled; None: they are not."""

        self._notes: dict[tuple[int, Identity], Instant] = {}
        self._task: asyncio.Task[None] | None = None
        self._writing = asyncio.Lock()

    def sample(self, step: int) -> None:
        """Sample accesses from now on: of a busy container one in so many; 0: none."""
        self.ages.step = step
        self.sampler = self.ages if step else None

    def note(self, container: Node, record: Record | None, now: Instant) -> Record | None:
        """Take note of a visible record that was read at an instant, and return it; None: there was none."""
        sampler, interval = self.sampler, container.definition.lifecycle.touch
        if sampler is not None and record is not None:
            use = sampler.uses.get(container.id)
            # Most reads are not sampled, and end here.
            if use is not None and use.read_in > 1:
                use.read_in -= 1
            elif now <= self._time.latest:
                sampler.note_read(container, record, now)
        if interval and record is not None:
            self._note_touch(container, record, now, interval)
        return record

    def note_all(self, container: Node, records: Sequence[Record], now: Instant) -> None:
        """Take note of several records."""
        interval = container.definition.lifecycle.touch
        if self.sampler is not None and now <= self._time.latest:
            self.sampler.note_reads(container, records, now)
        if interval:
            for record in records:
                self._note_touch(container, record, now, interval)

    def _note_touch(self, container: Node, record: Record, now: Instant, interval: int) -> None:
        # A read as of a later instant changes nothing.
        if now <= self._time.latest and needs_touch(record, container.rules, now, interval):
            self._add((container.id, (record.partition, record.key)), now)

    def _add(self, note: tuple[int, Identity], now: Instant) -> None:
        if len(self._notes) >= MOST_NOTES and note not in self._notes:
            self.missed += 1
            return
        self._notes[note] = now
        if self._task is None:
            self._task = asyncio.create_task(self._write_later(), name="touches")

    async def _write_later(self) -> None:
        try:
            async with asyncio.timeout(REST_SECONDS):
                await asyncio.Event().wait()
        except TimeoutError:
            await self.flush()
        finally:
            self._task = None

    async def flush(self) -> None:
        """Write all notes. Purges and moves of the clock wait for it, so that no record that was read expires too soon."""
        # Notes that another call is writing are not in the table any more.
        if not self._notes and not self._writing.locked():
            return
        async with self._writing:
            while self._notes:
                batch = list(islice(self._notes.items(), self._batch))
                for note, _ in batch:
                    del self._notes[note]
                try:
                    self.touched += await self._touch(batch)
                except OwnerNotFound:
                    pass  # Dropped meanwhile, with its records.
                except MayflyError as error:
                    # As on a full disk: reads go on, and lives are not prolonged.
                    self.missed += len(batch)
                    log.warning("%d records that were read got no new life: %s", len(batch), error)
                await asyncio.sleep(0)

    async def _touch(self, batch: Sequence[tuple[tuple[int, Identity], Instant]]) -> int:
        def body(transaction: WriteTransaction) -> Generator[Read[Any], Any, int]:
            touched = 0
            for (container, identity), read in batch:
                space = yield from transaction.on(container)
                record = yield from ask(Get(container, *identity))
                if record is not None:
                    touched += yield from space.touch(record, read)
            return touched

        done: int = await self._transact(body, await self._time.now())
        return done

    async def close(self) -> None:
        """Write what is noted, and end."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        await self.flush()
