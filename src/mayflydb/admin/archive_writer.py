"""The writer of archives: puts expired versions into files, in order, each into exactly one."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec

from mayflydb.admin.archive_lines import describe_version, encode_file
from mayflydb.admin.archive_names import CONTENT_TYPES, Format, file_name, parse_url
from mayflydb.admin.archive_places import ArchiveSites, File, write_file
from mayflydb.admin.own_threads import run_apart
from mayflydb.admin.targets import ContainerTarget, TargetResolver
from mayflydb.clock import monotonic_us, wall_us
from mayflydb.engine.catalog import Node
from mayflydb.engine.engine import Engine
from mayflydb.engine.lifecycle.archive_backlog import FILE_RECORDS, Backlog, Batch, Home
from mayflydb.engine.lifecycle.archive_ledger import SPACE
from mayflydb.engine.reaper import LEASE
from mayflydb.model.errors import MayflyError, NotFound
from mayflydb.model.instant import SECOND, Instant, to_datetime

log = logging.getLogger("mayflydb.admin.archives")

LOOK_SECONDS: Final = 5.0
"""The longest time between two looks: other nodes purge, and add archives, without telling this one."""

REST_SECONDS: Final = 1.0
"""The shortest time between two looks: each write is a piece of news."""

LONGEST_WAIT_SECONDS: Final = 300
"""The longest wait after a file that was not accepted. Nothing is given up."""


class Archive(msgspec.Struct, frozen=True):
    """An archive as it is stored. `every`: seconds after which a record that waits is written. `serial`: no other archive's."""

    url: str
    format: Format
    every: int
    serial: str


class Written(msgspec.Struct, frozen=True):
    """Numbers of files and records."""

    files: int = 0
    records: int = 0

    def plus(self, more: Written) -> Written:
        """Return the sums."""
        return Written(self.files + more.files, self.records + more.records)


class WriterProgress(msgspec.Struct):
    """The files of one archive by this process. `next_at`: the host's instant before which none is tried again."""

    files: int = 0
    records: int = 0
    failed: int = 0
    attempts: int = 0
    next_at: Instant = 0
    last_file: str = ""
    error: str = ""
    turn: asyncio.Lock = msgspec.field(default_factory=asyncio.Lock)


class ArchiveWriter:
    """Writes the files of all archives of one engine. `run` does so in the background."""

    def __init__(self, engine: Engine, targets: TargetResolver, sites: ArchiveSites, token: str) -> None:
        """`token`: of this process, for the names of files that are not complete."""
        self._engine = engine
        self._targets = targets
        self._sites = sites
        self._token = token
        self._backlog = engine.archive_backlog
        self._progress: dict[str, WriterProgress] = {}
        self._since: dict[int, Instant] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._running: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()

    async def nodes(self) -> list[Node]:
        """Return the nodes of all archives."""
        space = await self._engine.node(SPACE)
        return [] if space is None else await self._engine.children(space.id)

    async def find(self, name: str) -> Node:
        """Return the node of an archive. NotFound."""
        node = await self._engine.node(SPACE, name)
        if node is None:
            raise NotFound(f"there is no archive {name}", hint="`mayfly archives list` shows them")
        return node

    def progress(self, name: str) -> WriterProgress:
        """Return what this process has written into an archive."""
        return self._progress.setdefault(name, WriterProgress())

    def target_of(self, home: Home) -> str:
        """Return the target of the container that versions have left."""
        return self._targets.name(*home.path)

    # --- the loop ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to write files."""
        self._engine.reaper.let_archives_accept(self.make_room)
        self._running = asyncio.create_task(self._run(), name="archives")

    async def close(self) -> None:
        """Stop as it is; the next start repeats a file that was not confirmed."""
        tasks = [*self._tasks.values(), *([] if self._running is None else [self._running])]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def wake(self) -> None:
        """Have the loop look at once: there is an archive, or one fewer."""
        self._changed.set()

    async def _run(self) -> None:
        notifier = self._engine.reaper.notifier
        while not notifier.closed:
            heard, nodes = notifier.notifications, []
            self._changed.clear()
            try:
                nodes = await self.nodes()
                if nodes and (self._engine.lease is None or await self._engine.lease(SPACE, LEASE)):
                    await self._begin_files()
            except MayflyError as error:
                log.warning("archives are looked at again in %d s: %s", LOOK_SECONDS, error)
            # Each write notifies: without archives that must cost nothing, and with them little.
            await self._pause(REST_SECONDS if nodes else LOOK_SECONDS)
            if nodes and not self._since and not self._changed.is_set():
                await notifier.wait(heard, int(LOOK_SECONDS * SECOND))

    async def _pause(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    async def _begin_files(self) -> None:
        """Begin to write what is due into each archive that has no file under way."""
        due: dict[str, list[Home]] = {}
        archives = {node.name: archive_of(node) for node in await self.nodes()}
        since, self._since = self._since, {}
        for home in await self._backlog.homes():
            backlog = await self._backlog.measure(home)
            if not backlog.waiting:
                await self._backlog.clear(home)
                continue
            self._since[home.row.id] = since.get(home.row.id, monotonic_us())
            archive = archives.get(backlog.archive or "")
            if self._is_due(home, backlog, archive):
                due.setdefault(backlog.archive or "", []).append(home)
            await asyncio.sleep(0)
        for name, homes in due.items():
            if name not in self._tasks and self.progress(name).next_at <= monotonic_us():
                task = asyncio.create_task(self._write_due(homes), name=f"archive {name}")
                self._tasks[name] = task
                task.add_done_callback(partial(self._end_task, name))

    def _end_task(self, name: str, task: asyncio.Task[None]) -> None:
        self._tasks.pop(name, None)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a file of the archive %s could not be made", name, exc_info=error)
            self._note_failure(name, f"{type(error).__name__}: {error}")

    def _is_due(self, home: Home, backlog: Backlog, archive: Archive | None) -> bool:
        if archive is None or home.dropped or backlog.waiting >= FILE_RECORDS:
            return True
        return monotonic_us() - self._since[home.row.id] >= archive.every * SECOND

    async def _write_due(self, homes: Sequence[Home]) -> None:
        for home in homes:
            _, error = await self.write_waiting(home)
            if error:
                break
            self._since.pop(home.row.id, None)

    # --- on demand ---------------------------------------------------------------------------------------------------

    async def make_room(self, container: int) -> bool:
        """Write a file of what waits for the archive of a container. False: it does not accept it now."""
        home = await self._backlog.home_of(container)
        if home is None:
            return False
        backlog = await self._backlog.measure(home)
        if self.progress(backlog.archive or "").next_at > monotonic_us():
            return False
        written, error = await self.write_waiting(home, 1)
        return not error and (written.files > 0 or not (await self._backlog.measure(home)).full)

    async def discard(self, name: str) -> None:
        """Let go of all that waits for an archive, without writing it."""
        for home in await self._backlog.homes():
            while (await self._backlog.measure(home)).archive == name:
                batch = await self._backlog.next_batch(home, self.target_of(home))
                if batch is None or batch.archive != name:
                    break
                await self._backlog.finish(home, batch)
            await self._backlog.clear(home)

    async def write_waiting(self, home: Home, number: int | None = None) -> tuple[Written, str]:
        """Write files of a container until so many versions are done (None: all that wait now), or one file is not accepted:
        return the reason, or an empty text.
        """
        written = Written()
        try:
            end = await self._backlog.last(home) if number is None else await self._backlog.place(home) + number
            while await self._backlog.place(home) < end:
                batch = await self._backlog.next_batch(home, self.target_of(home))
                if batch is None:
                    break
                more, error = await self._write_batch(home, batch)
                if error:
                    return written, error
                # Everything was replaced meanwhile, as by a reset.
                if not more.files and await self._backlog.place(home) == batch.after:
                    break
                written = written.plus(more)
            await self._backlog.clear(home)
        except MayflyError as failure:
            self._note_failure(home.owner.definition.lifecycle.archive or "", str(failure))
            return written, str(failure)
        return written, ""

    # --- files -------------------------------------------------------------------------------------------------------

    async def _write_batch(self, home: Home, batch: Batch) -> tuple[Written, str]:
        """Write one file and let its versions go. Return also the reason why it was not accepted, or an empty text."""
        progress = self.progress(batch.archive)
        async with progress.turn:
            # Another task may have written it meanwhile.
            if await self._backlog.place(home) != batch.after:
                return Written(), ""
            node = await self._engine.node(SPACE, batch.archive)
            if node is None:
                error = f"there is no archive {batch.archive}; add it again, or remove it with --discard"
            else:
                error = await self._encode_and_write(home, archive_of(node), batch)
            if error:
                self._note_failure(batch.archive, error)
                return Written(), error
            if progress.error:
                log.info("the archive %s accepts files again", batch.archive)
            progress.attempts, progress.error, progress.next_at = 0, "", 0
            if not await self._backlog.finish(home, batch):
                return Written(), ""
            progress.files, progress.records = progress.files + 1, progress.records + len(batch.versions)
        return Written(1, len(batch.versions)), ""

    async def _encode_and_write(self, home: Home, archive: Archive, batch: Batch) -> str:
        container = self._targets.former_container(home.path[0], home.path[1], batch.target, home.owner)
        try:
            # Large documents would hold the event loop.
            content = await run_apart(partial(_encode, batch, container, archive.format), "archive")
        except MayflyError as refusal:
            return str(refusal)
        lsns = batch.versions[0].until, batch.versions[-1].until
        origin = archive.serial + (f".{self._engine.restores}" if self._engine.restores else "")
        name = file_name(batch.target, origin, home.owner.id, lsns, archive.format)
        error = await self.write(archive, name, content, CONTENT_TYPES[archive.format], batch.is_repeated)
        if not error:
            self.progress(batch.archive).last_file = name
        return error

    async def write(self, archive: Archive, name: str, content: bytes, type: str, is_repeated: bool = False) -> str:
        """Write a file into an archive. Return the reason why it was not accepted, or an empty text."""
        file = File(name, content, type, self._token, is_repeated)
        moment = to_datetime(wall_us()).strftime("%Y%m%dT%H%M%SZ")
        try:
            address = parse_url(archive.url)
            await run_apart(partial(write_file, address, self._sites, file, moment), "archive")
        except (OSError, MayflyError) as error:
            return str(error)
        return ""

    def _note_failure(self, name: str, error: str) -> None:
        progress = self.progress(name)
        progress.failed, progress.attempts = progress.failed + 1, progress.attempts + 1
        progress.next_at = monotonic_us() + min(LONGEST_WAIT_SECONDS, 2**progress.attempts) * SECOND
        if not progress.error:
            log.warning("the archive %s does not accept a file, and is tried again until it does: %s", name, error)
        progress.error = error


def _encode(batch: Batch, container: ContainerTarget, form: Format) -> bytes:
    return encode_file([describe_version(version, container) for version in batch.versions], form)


def archive_of(node: Node) -> Archive:
    """Return the archive that a node stands for."""
    return msgspec.convert(node.body, Archive)
