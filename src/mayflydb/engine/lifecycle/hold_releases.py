"""Releases of legal holds: what no other hold preserves is removed for good, and expiries get their events.

A release stands in the row of its container. Batches remove versions, each with its events in one transaction, and the hold goes
with the last one. The next start goes on with a release that a stopped process left.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Generator, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import msgspec

from mayflydb.engine.catalog import Node, Nodes, catalogue, row_of
from mayflydb.engine.lifecycle.hold_record import free_name, open_record
from mayflydb.engine.lifecycle.preserved_versions import decode_hold_version, page_of, remove_preserved
from mayflydb.expiry.legal_hold import MOST, LegalHold
from mayflydb.model.errors import MayflyError
from mayflydb.model.instant import Instant
from mayflydb.store.interface import Allocate, Change, Decision, LoadRow, Outcome, PutRow, Read, Store, ask

log = logging.getLogger(__name__)

BATCH_SIZE: Final = 128
"""Preserved versions that one transaction looks at."""

INLINE_BATCH_SIZE: Final = 32
"""The same for a store that works on the event loop itself."""

PAUSE_SECONDS: Final = 1.0
"""The wait after an error of the store, before a release goes on."""

Now: TypeAlias = Callable[[], Awaitable[Instant]]


class ReleaseProgress(msgspec.Struct, frozen=True):
    """The progress of a release. `removed`: versions that this process removed; `expired`: those of them with an expiry event."""

    removed: int = 0
    expired: int = 0
    is_done: bool = False


class _Step(msgspec.Struct, frozen=True):
    """The result of one batch. `after`: the place to go on from; None: nothing is left."""

    removed: int
    expired: int
    after: int | None


class HoldReleases:
    """The releases that this process works on."""

    def __init__(self, store: Store, nodes: Nodes, now: Now, notify: Callable[[], None]) -> None:
        """`notify`: called after events were published."""
        self._store = store
        self._nodes = nodes
        self._now = now
        self._notify = notify
        self._batch = BATCH_SIZE if store.durable else INLINE_BATCH_SIZE
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._progress: dict[str, ReleaseProgress] = {}
        self._ending = asyncio.Event()

    def start(self, container: int, name: str) -> None:
        """Begin, or go on, with a release that is stored."""
        if name in self._tasks:
            return
        # A process knows the last releases alone.
        while len(self._progress) >= MOST:
            self._progress.pop(next(iter(self._progress)))
        self._progress[name] = ReleaseProgress()
        task = asyncio.create_task(self._run(container, name), name=f"release of the hold {name}")
        self._tasks[name] = task
        task.add_done_callback(lambda _: self._tasks.pop(name, None))

    async def resume(self) -> None:
        """Go on with the releases that are stored."""
        for row in await catalogue(self._store):
            for hold in self._nodes.of(row).definition.holds:
                if hold.released is not None:
                    self.start(row.id, hold.name)

    def progress(self, name: str) -> ReleaseProgress | None:
        """Return how far the last release of a name in this process is; None: there was none."""
        return self._progress.get(name)

    async def wait(self, name: str, seconds: float | None) -> None:
        """Wait for the end of a release, for at most so long; None: however long it takes."""
        task = self._tasks.get(name)
        if task is not None:
            await asyncio.wait([task], timeout=seconds)

    async def close(self) -> None:
        """Stop all releases as they are; the next start goes on with them."""
        self._ending.set()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    # --- the work --------------------------------------------------------------------------------------------------------

    async def _run(self, container: int, name: str) -> None:
        after: int | None = 0
        while after is not None:
            try:
                step = await self._take_batch(container, name, after)
                self._count(name, step)
                after = step.after
                await asyncio.sleep(0)
            except MayflyError as error:
                log.warning("the release of the hold %s goes on in a second: %s", name, error)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(PAUSE_SECONDS):
                        await self._ending.wait()
        known = self._progress.get(name, ReleaseProgress())
        self._progress[name] = msgspec.structs.replace(known, is_done=True)
        log.info("the hold %s is released, and %d versions are removed", name, known.removed)

    def _count(self, name: str, step: _Step) -> None:
        known = self._progress.get(name, ReleaseProgress())
        self._progress[name] = ReleaseProgress(known.removed + step.removed, known.expired + step.expired)
        if step.expired:
            self._notify()

    async def _take_batch(self, container: int, name: str, after: int) -> _Step:
        """Remove what is free among one page of preserved versions, in one transaction; behind the last page, the hold."""
        now = await self._now()
        home = await open_record(self._store, now)
        return (await self._store.write(partial(self._remove_batch, home, container, name, after, now), "sweep")).reply

    def _remove_batch(self, home: int, container: int, name: str, after: int, now: Instant) -> Decision[_Step]:
        row = yield from ask(LoadRow(container))
        node = None if row is None else self._nodes.of(row)
        hold = None if node is None else find_hold(node, name)
        # Another node may have finished, or everything was restored.
        if node is None or hold is None or hold.released is None or node.definition.preserved is None:
            return Outcome((), _Step(0, 0, None))
        # First, so that no other node has removed a version of this page.
        yield from ask(Allocate(node.definition.preserved, seq=False))
        page = yield from ask(page_of(node.definition.preserved, after, self._batch))
        if not page:
            return Outcome((yield from _forget(home, node, hold)), _Step(0, 0, None))
        kept = {each.number for each in node.definition.holds if each.released is None}
        changes: list[Change] = []
        removed = expired = 0
        for stored in page:
            preserved = decode_hold_version(stored)
            if kept.isdisjoint(preserved.matches.holds):
                changes += yield from remove_preserved(node, preserved, stored, now)
                removed += 1
                expired += preserved.cause is not None
        return Outcome(tuple(changes), _Step(removed, expired, page[-1].seq))


def find_hold(node: Node, name: str) -> LegalHold | None:
    """Return the hold with this name on a container."""
    return next((each for each in node.definition.holds if each.name == name), None)


def put_holds(node: Node, holds: Sequence[LegalHold], preserved: int | None) -> PutRow:
    """Return the change that gives a container these holds, and the container of what they preserve."""
    definition = msgspec.structs.replace(node.definition, holds=tuple(holds), preserved=preserved)
    return PutRow(row_of(msgspec.structs.replace(node, definition=definition)))


def _forget(home: int, node: Node, hold: LegalHold) -> Generator[Read[Any], Any, tuple[Change, ...]]:
    """Return the changes that take a hold out of its container, and free its name."""
    left = [each for each in node.definition.holds if each is not hold]
    changes: list[Change] = [put_holds(node, left, node.definition.preserved)]
    yield from free_name(home, hold, changes)
    return tuple(changes)
