"""The SQLite store: opens the file, answers reads from committed state, and hands writes to the one writer."""

from __future__ import annotations

import asyncio
import fcntl
import os
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import apsw

from mayflydb.clock import Stopwatch, monotonic_us
from mayflydb.model.errors import Corrupt, Unavailable
from mayflydb.model.record import Record
from mayflydb.store.interface import ChildRows, Committed, Decision, FindRow, Get, LoadRow, Outcome, Read, Urgency
from mayflydb.store.sqlite.checkpoint import WriteAheadLog
from mayflydb.store.sqlite.connection import check_library, open_file, open_memory
from mayflydb.store.sqlite.reads import ANSWERS, SLOW, get
from mayflydb.store.sqlite.schema import FORMAT, MIGRATIONS, TABLES
from mayflydb.store.sqlite.transaction import Transaction
from mayflydb.store.sqlite.writer import Writer, error_code

T = TypeVar("T")


def exit_process(reason: str) -> NoReturn:
    """End at once, without a clean close: a close would checkpoint pages that may never have reached the disk."""
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
        self._lock: int | None = None
        log = WriteAheadLog(transaction.connection, halt) if self._durable else None
        self._log = log
        self._writer = Writer(transaction, log, self._writing, halt, stopwatch)

    @classmethod
    async def open(
        cls,
        path: str | None,
        *,
        vfs: str | None = None,
        halt: Callable[[str], None] = exit_process,
        stopwatch: Stopwatch = monotonic_us,
    ) -> SqliteStore:
        """Open or create a store file; `path` None: a memory database. `vfs`: a named SQLite VFS, with one connection only.

        Errors: Unavailable when the file is in use, has a newer format, or refuses the settings that durability needs.
        """
        check_library()
        try:
            if path is None:
                return cls("memory", _prepare(open_memory()), None, halt, stopwatch)
            if vfs is not None:
                return cls(f"sqlite:///{path}", _prepare(open_file(path, vfs, exclusive=True)), None, halt, stopwatch)
            return cls._open_file(Path(path).absolute(), halt, stopwatch)
        except apsw.Error as error:
            raise Unavailable(f"cannot open {path}: {error}") from error

    @classmethod
    def _open_file(cls, path: Path, halt: Callable[[str], None], stopwatch: Stopwatch) -> SqliteStore:
        lock = _lock(path)
        try:
            transaction = _prepare(open_file(str(path)))
            store = cls(f"sqlite:///{path}", transaction, open_file(str(path)), halt, stopwatch)
        except BaseException:
            os.close(lock)
            raise
        store._lock = lock
        return store

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
        kind = type(request)
        if kind is Get:
            return self._get(request)  # type: ignore[arg-type, return-value]  # Get is a Read[Record | None].
        find = ANSWERS.get(kind)
        if find is None:
            return self._catalog_read(request)
        answer: T
        try:
            if kind in SLOW and self._shared:
                answer = await asyncio.get_running_loop().run_in_executor(self._counting, self._count, request)
            else:
                answer = find(self._reader, request)
        except apsw.Error as error:
            raise _read_error(error) from error
        return answer

    def _get(self, request: Get) -> Record | None:
        recent = self._transaction.recent
        record = recent.get(request.container, request.partition, request.key)
        if record is None:
            # Read and cached without a wait in between: a commit cannot publish a newer version before this one is cached.
            try:
                record = get(self._reader, request)
            except apsw.Error as error:
                raise _read_error(error) from error
            if record is not None:
                recent.keep(request.container, record)
        return record

    def _count(self, request: Read[T]) -> T:
        # A connection of its own: the reader's belongs to the event loop, which goes on reading meanwhile.
        if self._counter is None:
            self._counter = open_file(self._description.removeprefix("sqlite://"))
        answer: T = ANSWERS[type(request)](self._counter, request)
        return answer

    def _catalog_read(self, request: Read[T]) -> T:
        catalog = self._transaction.catalog
        answer: Any
        if isinstance(request, LoadRow):
            answer = catalog.row(request.id)
        elif isinstance(request, FindRow):
            answer = catalog.find(request.parent, request.name)
        elif isinstance(request, ChildRows):
            answer = catalog.children(request.parent)
        else:
            raise TypeError(f"no store read outside decisions: {type(request).__name__}")
        return answer  # type: ignore[no-any-return]

    def write(self, decide: Callable[[], Decision[T]], urgency: Urgency = "user") -> Coroutine[Any, Any, Committed[T]]:
        return self._writer.submit(decide, urgency)

    async def reset(self) -> None:
        def everything() -> Decision[None]:
            self._transaction.empty()
            return Outcome((), None)
            yield

        await self._writer.submit(everything, "user")

    async def close(self) -> None:
        await self._writer.close()
        if self._log is not None:
            # An empty log makes the file complete by itself: it can be copied after a clean stop.
            self._log.checkpoint(apsw.SQLITE_CHECKPOINT_TRUNCATE)
        for executor in (self._writing, self._counting):
            if executor is not None:
                executor.shutdown()
        for connection in (self._counter, self._reader, self._transaction.connection):
            if connection is not None:
                connection.close()
        if self._lock is not None:
            os.close(self._lock)


def _prepare(connection: apsw.Connection) -> Transaction:
    """Recover the log; create the tables of a new file, or migrate those of an older one. Unavailable for a newer format."""
    version = connection.pragma("user_version")
    if version > FORMAT:
        raise Unavailable(f"the file has format {version}; this version of Mayfly reads formats up to {FORMAT}")
    if version == 0:
        with connection:
            for statement in TABLES.split(";\n"):
                connection.execute(statement)
            connection.execute("INSERT INTO meta(name, value) VALUES('next_id', 0), ('commit_seq', 0)")
            connection.pragma("user_version", FORMAT)
    elif version < FORMAT:
        with connection:
            for step in range(version, FORMAT):
                connection.execute(MIGRATIONS[step])
            connection.pragma("user_version", FORMAT)
    # The recovered log goes into the file before the first write, so that the log starts empty.
    if connection.pragma("journal_mode") == "wal":
        connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    return Transaction(connection)


def _lock(path: Path) -> int:
    """Keep a second process away, which would not see this one's catalogue and record cache, kept in memory."""
    descriptor = os.open(f"{path}-lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise Unavailable(f"{path} is in use by another Mayfly process") from None
    return descriptor


def _read_error(error: apsw.Error) -> Corrupt | Unavailable:
    if isinstance(error, (apsw.CorruptError, apsw.NotADBError)):
        return Corrupt(f"the store file is damaged: {error}")
    return Unavailable(f"the store could not read ({error_code(error)}): {error}")
