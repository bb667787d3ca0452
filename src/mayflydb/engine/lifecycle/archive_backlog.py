"""The versions that wait for an archive, file by file: each of them is in exactly one file, whatever process ends when.

A file has the versions behind the place of their container up to an end, in order. The end is stored before the file is written.
Afterwards the place moves to it, with which the versions are let go. A writer that ends in between leaves the end, so the same
versions are written under the same name once more.
"""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec

from mayflydb.engine.catalog import ROOT, Node, Nodes
from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.engine.lifecycle import archive_ledger
from mayflydb.engine.lifecycle.archive_ledger import ArchiveProgress, encode_progress, key_of, read_progress
from mayflydb.engine.lifecycle.left_versions import read_left
from mayflydb.engine.lifecycle.retired_versions import SPACE, RetiredVersion, decode_version, forget_versions
from mayflydb.engine.timekeeper import Timekeeper
from mayflydb.engine.workspace import Workspace
from mayflydb.model.order import Order, Position
from mayflydb.store.interface import (
    CatalogRow,
    ChildRows,
    Count,
    Decision,
    DropRow,
    FindRow,
    Get,
    LoadRow,
    Outcome,
    Scan,
    Store,
    ask,
)

ATTEMPTS: Final = 10
"""Attempts to begin a file while other nodes begin one."""

PAGE: Final = 256
"""Versions of one read."""

FILE_RECORDS: Final = 10_000
FILE_BYTES: Final = 16 << 20
"""The most records in one file, and the bytes of values beyond which no further one comes into it."""


class Home(msgspec.Struct, frozen=True):
    """A container of retired versions, the container that they have left, and its names from the protocol's on.

    `dropped`: that container is gone, and its versions are kept until they are archived.
    """

    row: CatalogRow
    owner: Node
    path: tuple[str, ...]
    dropped: bool

    @property
    def ledger(self) -> int:
        return self.owner.definition.ledger or 0


class Backlog(msgspec.Struct, frozen=True):
    """The versions that wait in one container: at most so many, and the archive of the first. `full`: purging waits for them."""

    archive: str | None
    waiting: int
    full: bool


class Batch(msgspec.Struct, frozen=True):
    """The versions of one file of an archive, those behind the place `after` and up to `end`.

    `is_repeated`: another process may have begun the file.
    """

    archive: str
    target: str
    after: int
    end: int
    versions: tuple[RetiredVersion, ...]
    is_repeated: bool = False


class ArchiveBacklog:
    """Reads and moves the places of all archives of one store."""

    def __init__(self, store: Store, nodes: Nodes, time: Timekeeper) -> None:
        self._store = store
        self._nodes = nodes
        self._time = time
        # By container of versions: its last number, all of which are done.
        self._settled: dict[int, int] = {}

    def forget(self) -> None:
        """Forget what is known of the store, when everything in it was replaced."""
        self._settled.clear()

    async def homes(self) -> list[Home]:
        """Return the containers of versions that may wait for an archive."""
        space = await self._store.read(FindRow(ROOT, SPACE))
        rows = [] if space is None else await self._store.read(ChildRows(space.id))
        self._settled = {row.id: seq for row in rows if (seq := self._settled.get(row.id)) is not None}
        found = []
        for row in rows:
            if self._settled.get(row.id) != row.seq:
                found.append(await self._home(row))
                await asyncio.sleep(0)
        return [home for home in found if home is not None]

    async def home_of(self, container: int) -> Home | None:
        """Return the container of versions of a container; None: it has none that an archive concerns."""
        owner = await self._store.read(LoadRow(container))
        id = None if owner is None else self._nodes.of(owner).definition.retired
        row = None if id is None else await self._store.read(LoadRow(id))
        return None if row is None else await self._home(row)

    async def _home(self, row: CatalogRow) -> Home | None:
        left = read_left(self._nodes.of(row))
        if left is not None:
            return Home(row, self._nodes.of(left.owner), left.path, dropped=True)
        owner = await self._store.read(LoadRow(int(row.name)))
        if owner is None or self._nodes.of(owner).definition.ledger is None:
            return None
        names, parent = [owner.name], owner.parent
        while parent != ROOT and (above := await self._store.read(LoadRow(parent))) is not None:
            names.append(above.name)
            parent = above.parent
        return Home(row, self._nodes.of(owner), tuple(reversed(names)), dropped=False)

    async def progress(self, home: Home) -> ArchiveProgress:
        """Return how far the versions of a container are archived."""
        return read_progress(await self._store.read(Get(home.ledger, b"", key_of(home.row.id))))

    async def place(self, home: Home) -> int:
        """Return the number of the last version of a container that is done."""
        return (await self.progress(home)).place

    async def last(self, home: Home) -> int:
        """Return the last number that a version of a container has."""
        row = await self._store.read(LoadRow(home.row.id))
        return 0 if row is None else row.seq

    async def measure(self, home: Home) -> Backlog:
        """Return what waits in a container."""
        place = await self.place(home)
        waiting = max(0, await self.last(home) - place)
        if not waiting:
            self._settled[home.row.id] = place
            return Backlog(None, 0, False)
        first = await self._read(home.row.id, place, 1)
        own = None if home.dropped else home.owner.definition.lifecycle.archive
        archive = own if not first else _archive_of(first[0]) or own
        is_full = own is not None and waiting >= archive_ledger.MOST_WAITING
        # A restore or an unclean end of the store leaves out numbers by the thousand.
        if waiting > PAGE:
            waiting = min(waiting, (await self._store.read(Count(home.row.id))).records)
        return Backlog(archive, waiting, is_full)

    # --- files -----------------------------------------------------------------------------------------------------------

    async def next_batch(self, home: Home, target: str) -> Batch | None:
        """Return the versions of the next file of a container and store its end. None: none waits.

        Errors: those of a write.
        """
        for _ in range(ATTEMPTS):
            progress = await self.progress(home)
            if progress.end > progress.place:
                begun = await self._collect(home, progress.target, progress.place, progress.end)
                return None if begun is None else msgspec.structs.replace(begun, is_repeated=True)
            last = await self.last(home)
            if last <= progress.place:
                return None
            batch = await self._collect(home, target, progress.place, None)
            # Numbers without versions, or with versions that wait for no archive, are passed over.
            end = last if batch is None else batch.end
            is_empty = batch is None or not batch.versions
            after = ArchiveProgress(end if is_empty else progress.place, end, target)
            if await self._put(home, progress, after) and not is_empty:
                return batch
        return None

    async def finish(self, home: Home, batch: Batch) -> bool:
        """Let the versions of a file go, which is in its place. False: another node has done so."""
        before = await self.progress(home)
        if before.place != batch.after:
            return False
        done = await self._put(home, before, ArchiveProgress(batch.end, batch.end, batch.target))
        if done and not home.dropped:
            while await forget_versions(self._store, self._nodes, home.row, self._time.horizon()):
                pass
        return done

    async def clear(self, home: Home) -> None:
        """Remove the versions of a dropped container if none of them waits any longer."""
        if not home.dropped or await self._read(home.row.id, (await self.progress(home)).place, 1):
            return

        def decide() -> Decision[None]:
            found = yield from ask(LoadRow(home.row.id))
            return Outcome(() if found is None else (DropRow(home.row.id),), None)

        await self._store.write(decide)

    async def _put(self, home: Home, before: ArchiveProgress, after: ArchiveProgress) -> bool:
        """Store the progress of a container, unless it is another one by now: then return False."""
        now = await self._time.now()
        key = key_of(home.row.id)

        def decide() -> Decision[bool]:
            row = yield from ask(LoadRow(home.ledger))
            there = yield from ask(Get(home.ledger, b"", key))
            if row is None or read_progress(there) != before:
                return Outcome((), False)
            space = Workspace(self._nodes.of(row), now)
            yield from space.run(Command(Mode.UPSERT, b"", key, Draft(encode_progress(after))))
            return Outcome(tuple(space.changes), True)

        return (await self._store.write(decide)).reply

    async def _collect(self, home: Home, target: str, after: int, end: int | None) -> Batch | None:
        """Collect the versions of a file, up to its `end` if it is begun. None: nothing follows.

        Versions that wait for no archive are passed over; a batch of such versions alone has none.
        """
        versions: list[RetiredVersion] = []
        archive, place, size = "", after, 0
        while page := await self._read(home.row.id, place, PAGE):
            for version in page:
                wanted = _archive_of(version)
                is_other = wanted is not None and archive not in ("", wanted)
                is_full = len(versions) >= FILE_RECORDS or size >= FILE_BYTES
                if (is_other or is_full) if end is None else version.seq > end:
                    return Batch(archive, target, after, place, tuple(versions))
                place = version.seq
                if wanted is not None:
                    archive = wanted
                    versions.append(version)
                    size += len(version.record.value)
            await asyncio.sleep(0)
        return None if place == after else Batch(archive, target, after, place, tuple(versions))

    async def _read(self, home: int, after: int, limit: int) -> list[RetiredVersion]:
        page = await self._store.read(Scan(home, b"", None, Order.CREATED, Position(b"", after), limit))
        return [decode_version(stored) for stored in page]


def _archive_of(version: RetiredVersion) -> str | None:
    return None if version.bequest is None else version.bequest.archive
