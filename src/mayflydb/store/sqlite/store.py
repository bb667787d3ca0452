"""The SQLite store: opens the file, answers reads from committed state, and hands writes to the one writer."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import apsw

from mayflydb.clock import Stopwatch, monotonic_us
from mayflydb.model.errors import Corrupt, Unavailable
from mayflydb.model.record import Record
from mayflydb.store.interface import (
    PAGE_BYTES,
    ChildRows,
    Committed,
    Count,
    CountDue,
    CountPlain,
    Decision,
    DiskFacts,
    Fetch,
    FetchRange,
    FindRow,
    Get,
    KeyBytes,
    KnownDamage,
    LoadRow,
    Outcome,
    Read,
    Scan,
    SeekIndex,
    Urgency,
)
from mayflydb.store.sqlite.checkpoint import WriteAheadLog
from mayflydb.store.sqlite.connection import check_library, open_file, open_memory
from mayflydb.store.sqlite.damage import READ_ERRORS, describe, is_damage
from mayflydb.store.sqlite.data_file import DataFile
from mayflydb.store.sqlite.directory_rounds import LONGEST_STEP, LONGEST_STEP_ON_LOOP, DirectoryRounds
from mayflydb.store.sqlite.kept_counts import CountRequest
from mayflydb.store.sqlite.keys import SqliteKeys
from mayflydb.store.sqlite.prepare import prepare
from mayflydb.store.sqlite.reads import ANSWERS, count_some_due, fetch, fetch_range, get, scan_in_steps, seek_index
from mayflydb.store.sqlite.snapshots import DirectoryPlaces, MemoryPlaces, SqliteSnapshots
from mayflydb.store.sqlite.space import Space, SpaceLimits, is_full
from mayflydb.store.sqlite.transaction import Transaction
from mayflydb.store.sqlite.volume import FileVolume, Volume, file_sizes
from mayflydb.store.sqlite.writer import Writer, error_code

T = TypeVar("T")

log = logging.getLogger(__name__)

_SEQ = attrgetter("seq")

MOST_ON_LOOP = 4000
"""So many records are counted on the event loop, in less than a millisecond; the way to another thread takes half of one."""

WATCH_SECONDS = 0.4
"""The interval of looks at the file. An overwritten file is noticed at the second look, so each change within a second."""


def exit_process(reason: str) -> NoReturn:
    """End the process at once, without a clean close: a close would checkpoint pages that may never have reached the disk."""
    os.write(2, f"mayfly: {reason}; stopping, the log will be recovered at the next start\n".encode())
    os._exit(70)


class SqliteStore:
    """One file, or one memory database. `open` builds it."""

    def __init__(
        self,
        description: str,
        transaction: Transaction,
        reader: apsw.Connection | None,
        halt: Callable[[str], None],
        stopwatch: Stopwatch,
        file: DataFile | None = None,
        space: Space | None = None,
        secure: bool = False,
    ) -> None:
        """`reader`: a connection for reads on the event loop; None: reads share the writer's (memory, simulated disks)."""
        self._description = description
        self._transaction = transaction
        self._sealing = transaction.sealing
        self._reader = reader or transaction.connection
        self._shared = reader is not None
        self._durable = description != "memory"
        self._writing = ThreadPoolExecutor(1, "mayfly-writer") if self._shared else None
        self._counting = ThreadPoolExecutor(1, "mayfly-counter") if self._shared else None
        self._counter: apsw.Connection | None = None
        self._file = file
        self._watching: asyncio.TimerHandle | None = None
        self._lost: str | None = None
        self._space = space
        self._secure = secure
        is_own = (lambda: True) if file is None else file.is_own
        reserve = 0 if space is None else space.reserve
        connection, damage = transaction.connection, transaction.damage
        log = WriteAheadLog(connection, halt, damage, is_own, reserve, self._interrupt) if self._durable else None
        self._log = log
        self._writer = Writer(transaction, log, self._writing, halt, stopwatch, space)
        longest = LONGEST_STEP if self._shared else LONGEST_STEP_ON_LOOP
        self._rounds = DirectoryRounds(connection, transaction.stale, self._writer.submit, longest)
        self._rounds.start()

    @classmethod
    async def open(
        cls,
        path: str | None,
        *,
        vfs: str | None = None,
        halt: Callable[[str], None] = exit_process,
        stopwatch: Stopwatch = monotonic_us,
        limits: SpaceLimits | None = None,
        volume: Volume | None = None,
        secure: bool = False,
        keys: Path | None = None,
    ) -> SqliteStore:
        """Open or create a store file; `path` None: a memory database. `vfs`: a named SQLite VFS, with one connection only.

        `limits`: of the free space on the disk; None: it is not looked at. `volume`: the disk; None: that of the file. `secure`:
        what is deleted from the file is overwritten; `scrub` makes it complete. `keys`: the file of keys; None: beside it.

        Errors: Unavailable when the file is in use, has a newer format, another database's log beside it, sealed records and not
        their keys, or refuses the settings that durability needs.
        """
        check_library()
        try:
            if path is None:
                return cls("memory", prepare(open_memory()), None, halt, stopwatch)
            if vfs is not None:
                space = None if limits is None or volume is None else Space(volume, limits, stopwatch)
                transaction = _open_in(space, lambda: prepare(open_file(path, vfs, exclusive=True)))
                return cls(f"sqlite:///{path}", transaction, None, halt, stopwatch, space=space)
            file = DataFile.take(path)
            space = None if limits is None else Space(volume or FileVolume(file.path), limits, stopwatch)
            return cls._open_file(file, halt, stopwatch, space, secure, keys)
        except apsw.Error as error:
            if is_damage(error):
                hint = "`mayfly doctor` says what can be mended"
                raise Corrupt(f"{path} is damaged: {describe(error)}", hint=hint) from error
            raise Unavailable(f"cannot open {path}: {error}") from error

    @classmethod
    def _open_file(
        cls,
        file: DataFile,
        halt: Callable[[str], None],
        stopwatch: Stopwatch,
        space: Space | None,
        secure: bool,
        keys: Path | None,
    ) -> SqliteStore:
        opened: list[apsw.Connection] = []
        transaction: Transaction | None = None

        def connect() -> apsw.Connection:
            opened.append(open_file(str(file.path), file.vfs(), secure=secure))
            return opened[-1]

        def open_writer() -> Transaction:
            while opened:  # By an attempt that found the disk full.
                opened.pop().close()
            return prepare(connect(), file, keys or Path(f"{file.path}-keys"))

        try:
            transaction = _open_in(space, open_writer)
            store = cls(f"sqlite:///{file.path}", transaction, connect(), halt, stopwatch, file, space, secure)
        except BaseException:
            if transaction is not None:
                transaction.sealing.close()
            for connection in opened:
                # A log that is not the file's own must not be copied into it.
                connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
                connection.close()
            file.close()
            raise
        store._watch()
        return store

    def _watch(self) -> None:
        """Check that the file is still in its place, and schedule the next check."""
        assert self._file is not None
        change = self._file.find_change()
        if change is None:
            self._watching = asyncio.get_running_loop().call_later(WATCH_SECONDS, self._watch)
            return
        self._lost = f"{change} while it was served: nothing is answered until the server is started again"
        log.critical("%s", self._lost)
        self._writer.abandon_file(self._lost)

    @property
    def description(self) -> str:
        return self._description

    @property
    def durable(self) -> bool:
        return self._durable

    @property
    def catalog_version(self) -> int:
        return self._transaction.catalog.version

    async def read(self, request: Read[T]) -> T:
        if self._lost is not None:
            raise Unavailable(self._lost)
        kind = type(request)
        if self._writer.uncommitted is not None and kind in ANSWERS and not self._is_cached(request):
            await self._writer.wait_for_commit()
        if kind is Get:
            return self._get(request)  # type: ignore[arg-type, return-value]  # Get is a Read[Record | None].
        if kind is FetchRange:
            return self._fetch_range(request)  # type: ignore[arg-type, return-value]
        find = ANSWERS.get(kind)
        if find is None:
            return self._read_memory(request)
        answer: T
        try:
            if isinstance(request, Count | CountDue | CountPlain | KeyBytes):
                answer = await self._count(request)
            elif kind is Scan:
                answer = await self._scan(request)  # type: ignore[arg-type, assignment]  # Its type was just compared.
            else:
                answer = find(self._reader, request)
            if self._sealing.is_on:
                answer = self._sealing.open_answer(request, answer)
        except READ_ERRORS as error:
            raise self._read_error(error) from error
        return answer

    async def _scan(self, request: Scan) -> list[Record]:
        steps = scan_in_steps(self._reader, request)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                found: list[Record] = end.value
                return found
            await asyncio.sleep(0)
            await self._writer.wait_for_commit()

    def snapshots(self) -> SqliteSnapshots:
        """Return the snapshots of this store: beside its file, or in memory."""
        file = self._file
        if file is None:
            return SqliteSnapshots(self._transaction, MemoryPlaces(), self._writer.run_alone, None)
        space = Space(FileVolume(file.path), SpaceLimits(0, 0), monotonic_us) if self._space is None else self._space
        places = DirectoryPlaces(Path(f"{file.path}-snapshots"), file.vfs(), space.room)
        connect = partial(open_file, str(file.path), file.vfs())
        return SqliteSnapshots(self._transaction, places, self._writer.run_alone, connect)

    def keys(self, snapshots: SqliteSnapshots) -> SqliteKeys | None:
        """Return the keys of this store, which may seal values; None: it is in memory."""
        return None if self._file is None else SqliteKeys(self._sealing, snapshots, self._writer.run_alone)

    def find_kept(self, container: int, partition: bytes, key: bytes) -> Record | None:
        """Return a committed record that is kept as an object; None: `read` tells."""
        return None if self._lost is not None else self._transaction.recent.get(container, partition, key)

    def _is_cached(self, request: Read[Any]) -> bool:
        """Return whether the answer is in the cache of records, which holds committed ones alone."""
        recent = self._transaction.recent
        return isinstance(request, Get) and recent.get(request.container, request.partition, request.key) is not None

    def _get(self, request: Get) -> Record | None:
        recent = self._transaction.recent
        record = recent.get(request.container, request.partition, request.key)
        if record is None:
            # Read and cached without a wait in between: a commit cannot publish a newer version before this one is cached.
            try:
                record = get(self._reader, request)
            except READ_ERRORS as error:
                raise self._read_error(error) from error
            if record is None:
                self._transaction.damage.refuse_absence()
            else:
                if self._sealing.is_on:
                    record = self._sealing.open(request.container, record)
                recent.keep(request.container, record)
        return record

    def _fetch_range(self, request: FetchRange) -> list[Record] | None:
        reader, transaction, container = self._reader, self._transaction, request.container
        try:
            seqs = seek_index(reader, SeekIndex(container, request.index, (request.range,), request.limit))
            if not seqs:
                return None if seqs is None else []
            found = transaction.recent.get_all(container, seqs)
            missing = tuple([seq for seq, record in zip(seqs, found, strict=True) if record is None])
            read = fetch(reader, Fetch(container, missing)) if missing else []
            if self._sealing.is_on:
                read = self._sealing.open_answer(request, read)
            if not transaction.is_published:
                # A commit on the writer's thread may lie between the two reads, and be newer than the cache.
                return self._fetch_range_at_once(request)
        except READ_ERRORS as error:
            raise self._read_error(error) from error
        if len(read) < len(missing):
            return None
        records: list[Record] = [record for record in found if record is not None]
        if read:
            for record in read:
                transaction.recent.keep(container, record)
            records = sorted([*records, *read], key=_SEQ)
        return records if sum([len(record.value) for record in records]) <= PAGE_BYTES else None

    def _fetch_range_at_once(self, request: FetchRange) -> list[Record] | None:
        """Read entries and records as one consistent view of the file."""
        # In memory, nothing is read while a transaction is under way, so there is none to nest in.
        self._reader.execute("BEGIN")
        try:
            found = fetch_range(self._reader, request)
            return self._sealing.open_answer(request, found) if self._sealing.is_on else found
        finally:
            self._reader.execute("COMMIT")

    async def _count(self, request: CountRequest) -> Any:
        counts = self._transaction.counts
        answer = counts.find(request)
        if answer is None:
            place = counts.place_for(request.container)
            if isinstance(request, CountDue):
                some = count_some_due(self._reader, request, MOST_ON_LOOP)
                if not some:
                    return (0,) * len(request.upto)
                takes_long = some == MOST_ON_LOOP
            else:
                takes_long = self._takes_long(request)
            if self._shared and takes_long:
                answer = await asyncio.get_running_loop().run_in_executor(self._counting, self._count_beside, request)
            else:
                answer = ANSWERS[type(request)](self._reader, request)
            counts.keep(place, request, answer)
        return answer

    def _takes_long(self, request: Count | CountPlain | KeyBytes) -> bool:
        row = self._transaction.catalog.row(request.container)
        # The size of values is read from the records themselves, not from an index.
        return (isinstance(request, Count) and request.with_bytes) or row is None or row.seq > MOST_ON_LOOP

    def _count_beside(self, request: CountRequest) -> Any:
        # A connection of its own: the reader's belongs to the event loop, which goes on reading meanwhile.
        if self._counter is None:
            assert self._file is not None
            self._counter = open_file(str(self._file.path), self._file.vfs(), secure=self._secure)
        return ANSWERS[type(request)](self._counter, request)

    def _interrupt(self) -> None:
        """End a read of the counting connection. Reads of the other one are short."""
        if self._counter is not None:
            self._counter.interrupt()

    def _read_memory(self, request: Read[T]) -> T:
        catalog = self._transaction.catalog
        answer: Any
        if isinstance(request, LoadRow):
            answer = catalog.row(request.id)
        elif isinstance(request, FindRow):
            answer = catalog.find(request.parent, request.name)
        elif isinstance(request, ChildRows):
            answer = catalog.children(request.parent)
        elif isinstance(request, KnownDamage):
            answer = self._transaction.damage.found
        else:
            raise TypeError(f"no store read outside decisions: {type(request).__name__}")
        return answer  # type: ignore[no-any-return]

    def write(self, decide: Callable[[], Decision[T]], urgency: Urgency = "user") -> Coroutine[Any, Any, Committed[T]]:
        return self._writer.submit(decide, urgency)

    async def disk(self) -> DiskFacts:
        """Return the state of the disk of a store with limits. Unavailable if it cannot be read."""
        if self._space is None:
            raise TypeError("a store without limits does not look at its disk")
        try:
            return await asyncio.get_running_loop().run_in_executor(None, self._space.facts)
        except OSError as error:
            raise Unavailable(f"the free space of the disk could not be read: {error}") from error

    async def sizes(self) -> dict[str, int]:
        """Return the bytes of the files of the store by kind, or those of its memory. Unavailable if they cannot be read."""
        if self._file is None:
            ((pages, size),) = self._reader.execute(
                "SELECT page_count, page_size FROM pragma_page_count, pragma_page_size"
            )
            return {"memory": int(pages) * int(size)}
        path = self._file.path
        try:
            return await asyncio.get_running_loop().run_in_executor(None, file_sizes, path)
        except OSError as error:
            raise Unavailable(f"the sizes of the store's files could not be read: {error}") from error

    async def reset(self) -> None:
        def everything() -> Decision[None]:
            self._transaction.remove_all()
            return Outcome((), None)
            yield

        await self._writer.submit(everything, "user")

    def _give_back_numbers(self) -> Decision[None]:
        """Store the last numbers of the containers; where that fails, those that were reserved become gaps."""
        self._transaction.give_back_numbers()
        return Outcome((), None)
        yield

    def _read_error(self, error: Exception) -> Corrupt | Unavailable:
        if is_damage(error):
            self._transaction.damage.note(error)
            return Corrupt(f"the store file is damaged: {describe(error)}")
        if isinstance(error, apsw.InterruptError):
            return Unavailable("the read took so long that the store's log grew over its limit")
        return Unavailable(f"the store could not read ({error_code(error)}): {error}")

    async def scrub(self, insist: bool) -> bool:
        """Overwrite what is left of deleted records in the file and its log. False: a long read needs the log, which is told to
        end if `insist`. For a store that is `secure`.
        """
        return await self._writer.scrub(insist)

    async def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
        await self._rounds.close()
        has_reserved = self._durable and self._transaction.catalog.has_reserved
        await self._writer.close(self._give_back_numbers if has_reserved else None)
        if self._log is not None:
            # An empty log makes the file complete by itself: it can be copied after a clean stop.
            self._log.checkpoint(apsw.SQLITE_CHECKPOINT_TRUNCATE)
        for executor in (self._writing, self._counting):
            if executor is not None:
                executor.shutdown()
        # In memory, the reader is the writer's connection.
        for connection in {self._counter, self._reader, self._transaction.connection}:
            if connection is not None:
                connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, int(self._lost is not None))
                connection.close()
        self._sealing.close()
        if self._file is not None:
            self._file.close()


def _open_in(space: Space | None, open_database: Callable[[], Transaction]) -> Transaction:
    """Open a database. If the disk is so full that this fails, its reserve is released first."""
    if space is None:
        return open_database()
    space.look()
    try:
        return open_database()
    except apsw.Error as error:
        if not is_full(error):
            raise
        space.release()
        return open_database()
