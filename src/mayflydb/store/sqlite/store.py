"""The SQLite store: opens the file, answers reads from committed state, and hands writes to the one writer."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn, TypeVar

import apsw

from mayflydb.clock import Stopwatch, monotonic_us
from mayflydb.model.errors import Corrupt, Unavailable
from mayflydb.model.record import Record
from mayflydb.store.interface import (
    ChildRows,
    Committed,
    Decision,
    DiskFacts,
    FindRow,
    Get,
    KnownDamage,
    LoadRow,
    Outcome,
    Read,
    Urgency,
)
from mayflydb.store.sqlite.checkpoint import WriteAheadLog
from mayflydb.store.sqlite.connection import check_library, open_file, open_memory
from mayflydb.store.sqlite.damage import describe, is_damage
from mayflydb.store.sqlite.data_file import DataFile
from mayflydb.store.sqlite.prepare import prepare
from mayflydb.store.sqlite.reads import ANSWERS, SLOW, get
from mayflydb.store.sqlite.space import Space, SpaceLimits, is_full
from mayflydb.store.sqlite.transaction import Transaction
from mayflydb.store.sqlite.volume import FileVolume, Volume
from mayflydb.store.sqlite.writer import Writer, error_code

T = TypeVar("T")

log = logging.getLogger(__name__)

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
    ) -> None:
        """`reader`: a connection for reads on the event loop; None: reads share the writer's (memory, simulated disks)."""
        self._description = description
        self._transaction = transaction
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
        is_own = (lambda: True) if file is None else file.is_own
        reserve = 0 if space is None else space.reserve
        connection, damage = transaction.connection, transaction.damage
        log = WriteAheadLog(connection, halt, damage, is_own, reserve, self._interrupt) if self._durable else None
        self._log = log
        self._writer = Writer(transaction, log, self._writing, halt, stopwatch, space)

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
    ) -> SqliteStore:
        """Open or create a store file; `path` None: a memory database. `vfs`: a named SQLite VFS, with one connection only.

        `limits`: of the free space on the disk; None: it is not looked at. `volume`: the disk; None: that of the file.

        Errors: Unavailable when the file is in use, has a newer format, another database's log beside it, or refuses the
        settings that durability needs.
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
            return cls._open_file(file, halt, stopwatch, space)
        except apsw.Error as error:
            if is_damage(error):
                hint = "`mayfly doctor` says what can be mended"
                raise Corrupt(f"{path} is damaged: {describe(error)}", hint=hint) from error
            raise Unavailable(f"cannot open {path}: {error}") from error

    @classmethod
    def _open_file(
        cls, file: DataFile, halt: Callable[[str], None], stopwatch: Stopwatch, space: Space | None
    ) -> SqliteStore:
        opened: list[apsw.Connection] = []

        def connect() -> apsw.Connection:
            opened.append(open_file(str(file.path), file.vfs()))
            return opened[-1]

        def open_writer() -> Transaction:
            while opened:  # By an attempt that found the disk full.
                opened.pop().close()
            return prepare(connect(), file)

        try:
            transaction = _open_in(space, open_writer)
            store = cls(f"sqlite:///{file.path}", transaction, connect(), halt, stopwatch, file, space)
        except BaseException:
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
        find = ANSWERS.get(kind)
        if find is None:
            return self._read_memory(request)
        answer: T
        try:
            if kind in SLOW and self._shared:
                answer = await asyncio.get_running_loop().run_in_executor(self._counting, self._count, request)
            else:
                answer = find(self._reader, request)
        except (apsw.Error, Corrupt) as error:
            raise self._read_error(error) from error
        return answer

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
            except (apsw.Error, Corrupt) as error:
                raise self._read_error(error) from error
            if record is None:
                self._transaction.damage.refuse_absence()
            else:
                recent.keep(request.container, record)
        return record

    def _count(self, request: Read[T]) -> T:
        # A connection of its own: the reader's belongs to the event loop, which goes on reading meanwhile.
        if self._counter is None:
            assert self._file is not None
            self._counter = open_file(str(self._file.path), self._file.vfs())
        answer: T = ANSWERS[type(request)](self._counter, request)
        return answer

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

    async def reset(self) -> None:
        def everything() -> Decision[None]:
            self._transaction.remove_all()
            return Outcome((), None)
            yield

        await self._writer.submit(everything, "user")

    def _read_error(self, error: apsw.Error | Corrupt) -> Corrupt | Unavailable:
        if isinstance(error, Corrupt) or is_damage(error):
            self._transaction.damage.note(error)
            return Corrupt(f"the store file is damaged: {describe(error)}")
        if isinstance(error, apsw.InterruptError):
            return Unavailable("the read took so long that the store's log grew over its limit")
        return Unavailable(f"the store could not read ({error_code(error)}): {error}")

    async def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
        await self._writer.close()
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
