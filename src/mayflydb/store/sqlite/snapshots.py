"""Snapshots of a SQLite store: whole copies of its database, and the return to one of them.

A copy is a database of one file. Those of a file lie in the directory `<file>-snapshots` beside it, those of a memory store in
memory (SQLite's VFS `memdb`). A copy is made page by page within one read transaction. A restore replaces all rows in one write
transaction, for which other writes and all reads wait.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar
from urllib.parse import quote

import apsw

from mayflydb.clock import monotonic_us
from mayflydb.model.errors import BadRequest, Conflict, Corrupt, NotFound, OutOfSpace, Overloaded, TooLarge, Unavailable
from mayflydb.model.hints import Hint
from mayflydb.model.instant import SECOND
from mayflydb.model.snapshots import SavedSnapshot
from mayflydb.store.interface import CatalogRow
from mayflydb.store.sqlite.catalog import Catalog
from mayflydb.store.sqlite.connection import open_copy, prepare_copy
from mayflydb.store.sqlite.damage import describe, is_damage
from mayflydb.store.sqlite.schema import FORMAT, SEALING_FORMAT
from mayflydb.store.sqlite.sealing import foreign_keys
from mayflydb.store.sqlite.space import is_full
from mayflydb.store.sqlite.transaction import CONTENT, Transaction, content_of

T = TypeVar("T")

Accept = Callable[[bytes, Sequence[CatalogRow]], None]
"""Looks at what was kept with a snapshot, and at its catalogue. BadRequest if they are none."""

MAX_SNAPSHOTS: Final = 32

MAX_MEMORY: Final = 1 << 30
"""Bytes of all snapshots of a memory store."""

EXAMINE_TIME: Final = 120 * SECOND
"""The time that the examination of a received snapshot may take."""

CHUNK: Final = 256 * 1024
"""Bytes of a snapshot that are read or written at a time."""

SUFFIX: Final = ".snapshot"
UNFINISHED: Final = ".unfinished"
RECEIVED: Final = ".received"
"""Drafts: a copy of this store, and bytes that a client sends. One of each at a time. No snapshot has such a name."""

NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")

_FACTS: Final = "CREATE TABLE snapshot(facts BLOB NOT NULL)"

_numbers: Final = itertools.count()


class Bytes(Protocol):
    """The bytes of one snapshot."""

    def size(self) -> int:
        """Return their number."""

    def read(self, place: int, size: int) -> bytes:
        """Return some of them."""

    def write(self, place: int, part: bytes) -> None:
        """Write some."""

    def close(self) -> None:
        """Close."""


class FileBytes:
    """The bytes of a file. SQLite's own functions would take care of the checksums of pages, which are bytes here."""

    def __init__(self, path: Path, flags: int) -> None:
        self._descriptor = os.open(path, flags | os.O_CLOEXEC)

    def size(self) -> int:
        return os.fstat(self._descriptor).st_size

    def read(self, place: int, size: int) -> bytes:
        return os.pread(self._descriptor, size, place)

    def write(self, place: int, part: bytes) -> None:
        left = memoryview(part)
        while left:
            written = os.pwrite(self._descriptor, left, place)
            left, place = left[written:], place + written

    def close(self) -> None:
        os.close(self._descriptor)


class MemoryBytes:
    """The bytes of a database of `memdb`."""

    def __init__(self, address: str) -> None:
        name = address.removeprefix("file:").partition("?")[0]
        self._file = apsw.VFSFile("memdb", name, [apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_MAIN_DB, 0])

    def size(self) -> int:
        return self._file.xFileSize()

    def read(self, place: int, size: int) -> bytes:
        return self._file.xRead(size, place)

    def write(self, place: int, part: bytes) -> None:
        self._file.xWrite(part, place)

    def close(self) -> None:
        self._file.xClose()


class Places(Protocol):
    """The place of the snapshots of one store, and of its drafts. Its methods wait for the disk, and run on a thread."""

    def sizes(self) -> dict[str, int]:
        """Return the bytes of each snapshot, by name."""

    def connect(self, name: str) -> apsw.Connection:
        """Return a connection to a snapshot, read-only, or to a draft."""

    def address(self, name: str) -> str:
        """Return the URI of a snapshot."""

    def begin(self, draft: str) -> None:
        """Make a draft."""

    def finish(self, draft: str, name: str) -> None:
        """Make a draft the snapshot of a name. One that had it is gone."""

    def discard(self, draft: str) -> None:
        """Remove a draft, if it is there."""

    def remove(self, name: str) -> None:
        """Remove a snapshot."""

    def open(self, name: str) -> Bytes:
        """Open a snapshot or a draft for its bytes."""

    def room(self) -> int:
        """Return the bytes that a new snapshot may have."""


class DirectoryPlaces:
    """Snapshots beside a file. `free`: reads the bytes that they may take."""

    def __init__(self, path: Path, vfs: str | None, free: Callable[[], int]) -> None:
        self._path = path
        self._vfs = vfs
        self._free = free

    def sizes(self) -> dict[str, int]:
        if not self._path.exists():
            return {}
        found = {each.name.removesuffix(SUFFIX): each for each in self._path.glob(f"*{SUFFIX}")}
        return {name: path.stat().st_size for name, path in sorted(found.items()) if NAME.fullmatch(name)}

    def address(self, name: str) -> str:
        return f"file:{quote(str(self._file(name)))}?mode=ro"

    def connect(self, name: str) -> apsw.Connection:
        if name in (UNFINISHED, RECEIVED):
            return open_copy(str(self._file(name)), self._vfs)
        return open_copy(self.address(name), self._vfs, read_only=True)

    def begin(self, draft: str) -> None:
        self._path.mkdir(mode=0o700, exist_ok=True)
        self.discard(draft)
        # Created here with its mode: other users of the machine must not read it.
        os.close(os.open(self._file(draft), os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_WRONLY, 0o600))

    def finish(self, draft: str, name: str) -> None:
        # The order matters after a power cut: first the content, then the name, then the directory that holds the name.
        place = self._file(draft)
        for path in (place, self._path, self._path.parent):
            if path == self._path:
                place.rename(self._file(name))
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)

    def discard(self, draft: str) -> None:
        self._file(draft).unlink(missing_ok=True)

    def remove(self, name: str) -> None:
        self._file(name).unlink()

    def open(self, name: str) -> Bytes:
        return FileBytes(self._file(name), os.O_RDWR if name in (UNFINISHED, RECEIVED) else os.O_RDONLY)

    def room(self) -> int:
        return self._free()

    def _file(self, name: str) -> Path:
        return self._path / (name if name in (UNFINISHED, RECEIVED) else f"{name}{SUFFIX}")


class MemoryPlaces:
    """Snapshots in memory. A database of `memdb` lives as long as a connection to it."""

    def __init__(self) -> None:
        self._kept: dict[str, tuple[str, apsw.Connection]] = {}
        self._drafts: dict[str, tuple[str, apsw.Connection]] = {}

    def sizes(self) -> dict[str, int]:
        return {name: self._size(address) for name, (address, _) in sorted(self._kept.items())}

    def _size(self, address: str) -> int:
        file = MemoryBytes(address)
        try:
            return file.size()
        finally:
            file.close()

    def address(self, name: str) -> str:
        return (self._kept.get(name) or self._drafts[name])[0]

    def connect(self, name: str) -> apsw.Connection:
        return open_copy(self.address(name), read_only=name not in self._drafts)

    def begin(self, draft: str) -> None:
        self.discard(draft)
        address = f"file:/mayfly-snapshot-{os.getpid()}-{next(_numbers)}?vfs=memdb"
        self._drafts[draft] = address, open_copy(address)

    def finish(self, draft: str, name: str) -> None:
        if name in self._kept:
            self.remove(name)
        self._kept[name] = self._drafts.pop(draft)

    def discard(self, draft: str) -> None:
        if draft in self._drafts:
            self._drafts.pop(draft)[1].close()

    def remove(self, name: str) -> None:
        self._kept.pop(name)[1].close()

    def open(self, name: str) -> Bytes:
        return MemoryBytes(self.address(name))

    def room(self) -> int:
        return MAX_MEMORY - sum(
            map(self._size, (address for address, _ in (*self._kept.values(), *self._drafts.values())))
        )


class RunAlone(Protocol):
    """Runs work on a thread, on the writer's connection, between two transactions (`Writer.run_alone`)."""

    async def __call__(self, work: Callable[[], T], publish: Callable[[T], None] = ...) -> T: ...


class SqliteSnapshots:
    """The snapshots of one store. One operation at a time; a second one waits."""

    def __init__(
        self,
        transaction: Transaction,
        places: Places,
        run_alone: RunAlone,
        connect: Callable[[], apsw.Connection] | None,
    ) -> None:
        """`connect`: opens a connection to copy from; None: the writer's is the only one (memory)."""
        self._transaction = transaction
        self._places = places
        self._run_alone = run_alone
        self._connect = connect
        self._working = asyncio.Lock()
        self._is_receiving = False
        self._columns = {table: _columns(transaction.connection, table) for table in CONTENT}

    async def list_all(self) -> list[SavedSnapshot]:
        """Return all snapshots, by name. Those that cannot be read, and unfinished ones, are left out."""
        async with self._working:
            return await self._in_thread(self._list)

    async def find(self, name: str) -> SavedSnapshot:
        """Return the facts of a snapshot. NotFound, Corrupt."""
        async with self._working:
            return await self._in_thread(partial(self._find, name))

    async def save(self, name: str, describe_state: Callable[[], Awaitable[bytes]]) -> SavedSnapshot:
        """Copy the present state under a name. A snapshot that had the name is replaced when the new one is complete.

        `describe_state`: returns what is kept with it, asked once the state that is copied is fixed. BadRequest for a name that
        is none, Conflict if there are too many, OutOfSpace.
        """
        async with self._working:
            await self._in_thread(partial(self._check_room, name, self._size()))
            if self._connect is None:
                facts = await describe_state()
                await self._run_alone(partial(self._copy, self._transaction.connection, name, facts))
            else:
                source = await self._in_thread(partial(_begin_reading, self._connect))
                try:
                    facts = await describe_state()
                    await self._in_thread(partial(self._copy, source, name, facts))
                finally:
                    await self._in_thread(source.close)
            return await self._in_thread(partial(self._find, name))

    async def restore(self, name: str, kept: Sequence[str], rising: Sequence[str], swapped: Callable[[], None]) -> int:
        """Replace everything that is stored by a snapshot. Return the number of records left out: their keys were destroyed.

        `kept`: the named numbers that stay as they are; `rising`: those that keep the larger value. `swapped`: called when the
        change is visible, before anything else is read. Errors: NotFound, Corrupt, OutOfSpace; Conflict: it is sealed with other
        keys; Unavailable: nothing was done.
        """
        async with self._working:
            await self._in_thread(partial(self._find, name))
            address = self._places.address(name)

            def publish(replaced: tuple[Sequence[CatalogRow], int]) -> None:
                self._transaction.renew(replaced[0])
                swapped()

            return (await self._run_alone(partial(self._replace, address, kept, rising), publish))[1]

    async def needed_keys(self) -> tuple[int, ...]:
        """Return the serial numbers of the keys that snapshots have."""
        async with self._working:
            return await self._in_thread(self._needed_keys)

    async def delete(self, name: str) -> None:
        """Remove a snapshot. NotFound."""
        async with self._working:
            await self._in_thread(partial(self._remove, name))

    async def read(self, name: str) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of a snapshot. NotFound. One that is replaced meanwhile is read to its end, or Unavailable."""
        async with self._working:
            await self._in_thread(partial(self._find, name))
            file = await self._in_thread(partial(self._places.open, name))
        try:
            place, size = 0, file.size()
            while place < size:
                part = await self._in_thread(partial(file.read, place, min(CHUNK, size - place)))
                if not part:
                    raise Unavailable(f"the snapshot {name} ended before its {size} bytes")
                yield part
                place += len(part)
        finally:
            file.close()

    async def receive(self, name: str, parts: AsyncIterator[bytes], size: int, accept: Accept) -> SavedSnapshot:
        """Take a snapshot that `read` gave, of this store or of another one. `size`: their number, 0: not known.

        `accept`: gets what was kept with it, and its catalogue, before it is taken. A client that is slow holds up no other
        operation. Errors: those of `accept`; BadRequest if it is none, Conflict if there are too many, OutOfSpace, TooLarge,
        Overloaded while another one is received. Then it leaves nothing.
        """
        if self._is_receiving:
            raise Overloaded("another snapshot is being uploaded", hint="try again when it is complete")
        self._is_receiving = True
        try:
            async with self._working:
                room = await self._in_thread(partial(self._check_room, name, size))
                await self._in_thread(partial(self._places.begin, RECEIVED))
            file = await self._in_thread(partial(self._places.open, RECEIVED))
            try:
                await self._fill(file, parts, room)
            finally:
                await self._in_thread(file.close)
            await self._in_thread(partial(self._examine, accept))
            async with self._working:
                await self._in_thread(partial(self._check_room, name, 0))
                await self._in_thread(partial(self._places.finish, RECEIVED, name))
                return await self._in_thread(partial(self._find, name))
        finally:
            await self._in_thread(partial(self._places.discard, RECEIVED))
            self._is_receiving = False

    async def _fill(self, file: Bytes, parts: AsyncIterator[bytes], room: int) -> None:
        place = 0
        async for part in parts:
            if place + len(part) > room:
                raise TooLarge(f"there is room for snapshots of {room} bytes")
            try:
                await self._in_thread(partial(file.write, place, part))
            except (OSError, apsw.Error) as error:
                raise OutOfSpace(f"the disk took {place} bytes of the snapshot: {error}") from error
            place += len(part)

    # --- on a thread -----------------------------------------------------------------------------------------------------

    def _in_thread(self, work: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(None, work)

    def _size(self) -> int:
        connection = self._transaction.connection
        return int(connection.pragma("page_count")) * int(connection.pragma("page_size"))

    def _list(self) -> list[SavedSnapshot]:
        found = []
        for name in self._places.sizes():
            try:
                found.append(self._find(name))
            except Corrupt:
                continue
        return found

    def _find(self, name: str) -> SavedSnapshot:
        size = self._places.sizes().get(name)
        if size is None:
            raise NotFound(f"there is no snapshot {name}", hint=Hint("no-snapshot"))
        try:
            connection = self._places.connect(name)
            try:
                return SavedSnapshot(name, size, _check(connection))
            finally:
                connection.close()
        except (apsw.Error, BadRequest) as error:
            raise Corrupt(f"the snapshot {name} cannot be read: {error}") from error

    def _check_room(self, name: str, size: int) -> int:
        if not NAME.fullmatch(name):
            hint = "letters, digits, and . _ - behind the first character, at most 64 of them"
            raise BadRequest(f"{name!r} is no name of a snapshot", hint=hint)
        sizes = self._places.sizes()
        if name not in sizes and len(sizes) >= MAX_SNAPSHOTS:
            raise Conflict(f"there are {MAX_SNAPSHOTS} snapshots, which is the limit", hint=Hint("too-many-snapshots"))
        room = self._places.room()
        if size > room:
            raise OutOfSpace(f"a snapshot takes {size} bytes, and there is room for {max(0, room)}")
        return room

    def _copy(self, source: apsw.Connection, name: str, facts: bytes) -> None:
        self._places.begin(UNFINISHED)
        copy = self._places.connect(UNFINISHED)
        try:
            prepare_copy(copy)
            with copy.backup("main", source, "main") as backup:
                backup.step(-1)
            # Of one file: a log beside it would not belong to a copy of the copy.
            copy.pragma("journal_mode", "delete")
            copy.execute(_FACTS)
            copy.execute("INSERT INTO snapshot VALUES(?)", (facts,))
            copy.close()
            self._places.finish(UNFINISHED, name)
        except apsw.FullError as error:
            raise OutOfSpace("the disk has no room for the snapshot") from error
        except apsw.Error as error:
            if is_damage(error):
                self._transaction.damage.note(error)
            raise Corrupt(f"the store could not be copied: {describe(error)}") from error
        finally:
            copy.close()
            self._places.discard(UNFINISHED)

    def _needed_keys(self) -> tuple[int, ...]:
        found: set[int] = set()
        for name in self._places.sizes():
            try:
                with contextlib.closing(self._places.connect(name)) as connection:
                    found.update(serial for (serial,) in connection.execute("SELECT serial FROM sealing"))
            except apsw.Error:
                # One that cannot be read, or of a format without segments: no restore of it needs a key.
                continue
        return tuple(found)

    def _replace(self, address: str, kept: Sequence[str], rising: Sequence[str]) -> tuple[list[CatalogRow], int]:
        try:
            return self._transaction.replace_all_by(address, kept, rising)
        except apsw.Error as error:
            if is_full(error):
                raise OutOfSpace("the disk has no room for the restore: nothing was done") from error
            raise Unavailable(f"the store could not be replaced, and is as it was: {describe(error)}") from error

    def _examine(self, accept: Accept) -> None:
        """Look at what was received. BadRequest names what is wrong with it."""
        connection = None
        try:
            connection = self._places.connect(RECEIVED)
            # A file of a client may be made so that a look at it never ends.
            until = monotonic_us() + EXAMINE_TIME
            connection.set_progress_handler(lambda: monotonic_us() > until, 10_000)
            facts = _check(connection)
            tables = content_of(connection.pragma("user_version"))
            for table in tables:
                if _columns(connection, table) != self._columns[table]:
                    raise BadRequest(f"the table {table} of the snapshot has other columns")
            if "sealing" in tables and self._transaction.sealing.is_foreign(connection, "main"):
                raise foreign_keys()
            found = connection.pragma("quick_check")
            if found != "ok":
                raise BadRequest(f"the snapshot is damaged: {found}")
            accept(facts, Catalog.read_rows(connection))
        except apsw.InterruptError as error:
            raise BadRequest(f"the snapshot could not be examined in {EXAMINE_TIME // SECOND} seconds") from error
        except apsw.Error as error:
            raise BadRequest(f"that is no snapshot: {error}") from error
        except (TypeError, ValueError) as error:
            raise BadRequest(f"the snapshot cannot be read: {error}") from error
        finally:
            if connection is not None:
                connection.close()

    def _remove(self, name: str) -> None:
        if name not in self._places.sizes():
            raise NotFound(f"there is no snapshot {name}", hint=Hint("no-snapshot"))
        self._places.remove(name)


def _columns(connection: apsw.Connection, table: str) -> list[Any]:
    return connection.execute('SELECT name, type, "notnull", pk FROM pragma_table_info(?)', (table,)).fetchall()


def _begin_reading(connect: Callable[[], apsw.Connection]) -> apsw.Connection:
    """Return a connection that sees the present state until it is closed."""
    source = connect()
    source.execute("BEGIN")
    source.execute("SELECT 1 FROM meta").get  # noqa: B018 -- the first read fixes the state
    return source


def _check(connection: apsw.Connection) -> bytes:
    """Return what was kept with a snapshot. BadRequest for a database that is none, or of another format."""
    version = connection.pragma("user_version")
    found = connection.execute("SELECT name, type FROM sqlite_schema").fetchall()
    tables = {name for name, type in found if type == "table"}
    # Nothing else that a statement over these tables could run: no view, no trigger.
    if not {*content_of(version), "meta", "snapshot"} <= tables or {type for _, type in found} - {"table", "index"}:
        raise BadRequest("that is no snapshot of Mayfly")
    if version not in (FORMAT, SEALING_FORMAT - 1):
        raise BadRequest(f"the snapshot has format {version}, and this version of Mayfly has format {FORMAT}")
    facts = connection.execute("SELECT facts FROM snapshot").get
    if not isinstance(facts, bytes):
        raise BadRequest("that is no snapshot of Mayfly")
    return facts
