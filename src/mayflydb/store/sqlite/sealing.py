"""Sealed records: values are encrypted under a key for each segment of a container. Keys lie in another file (`key_file`).

A segment is a range of lsns. So a version tells its segment by its lsn, and the index by lsn tells whether a segment is empty. A
new version of a record belongs to the newest segment, so an old key is needed only as long as other versions of its time are.

The row of a record holds the sealed value, under the row's own checksum: the doctor, sizes and purges in SQL need no key. Objects
in memory hold plain values. Records are sealed as changes are applied, and opened as reads are answered.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import apsw

from mayflydb.model.errors import Conflict, Unavailable
from mayflydb.model.record import Record
from mayflydb.store import interface
from mayflydb.store.segments import BeginSegment, ForgetSegments, KeySegment, ShredEmpty, ShredUndone
from mayflydb.store.sqlite.ciphers import MOST_VERSIONS, Cipher
from mayflydb.store.sqlite.counters import Counters
from mayflydb.store.sqlite.key_file import KeyFile, KeyName
from mayflydb.store.sqlite.schema import GONE, LIVE, PLAIN, UNDONE

KEYS: Final = "keys"
"""The name in `meta` of the id of the file of keys."""

NO_LSN: Final = (1 << 63) - 1

_KNOWN = (
    f"SELECT container, first, number, state, serial, mark FROM sealing WHERE state IN ({LIVE}, {PLAIN})"
    " AND (?1 IS NULL OR container = ?1) ORDER BY container, first"
)
_OF = f"SELECT id, first, number, state FROM sealing WHERE container = ? AND state IN ({LIVE}, {PLAIN}) ORDER BY first"
_ADD = "INSERT INTO sealing(container, first, number, state, serial, mark) VALUES(?, ?, ?, ?, ?, ?)"
_SET_STATE = "UPDATE sealing SET state = ? WHERE id = ?"
_IS_STORED = (
    "SELECT EXISTS (SELECT 1 FROM record INDEXED BY record_lsn WHERE container = ?1 AND lsn >= ?2 AND lsn < ?3)"
    " OR EXISTS (SELECT 1 FROM history WHERE container = ?1 AND lsn >= ?2 AND lsn < ?3 AND length(value))"
)
_KEYS_ID = "SELECT value FROM {0}.meta WHERE name = ?"


class Ranges:
    """The segments of one container: from which lsn on which cipher seals; None: none does. `number`: that of the newest."""

    __slots__ = ("ciphers", "firsts", "number")

    def __init__(self) -> None:
        self.firsts: list[int] = []
        self.ciphers: list[Cipher | None] = []
        self.number = -1

    def cipher(self, lsn: int) -> Cipher | None:
        """Return the cipher of a version."""
        at = bisect_right(self.firsts, lsn) - 1
        return None if at < 0 else self.ciphers[at]

    def end(self, first: int) -> int:
        """Return the lsn behind the last one of a segment."""
        at = bisect_right(self.firsts, first)
        return self.firsts[at] if at < len(self.firsts) else NO_LSN


class Sealing:
    """Seals and opens the records of one data file. `is_on`: False while it has no keys, so that nothing is to be done.

    `id`: that of its file of keys; None: it has none.
    """

    def __init__(self, connection: apsw.Connection, path: Path | None) -> None:
        """`path`: of the file of keys; None: a memory database, which has none. Unavailable if its keys are not there."""
        self._connection = connection
        self._path = path
        self._keys: KeyFile | None = None
        self._ranges: dict[int, Ranges] = {}
        self._ciphers: dict[KeyName, Cipher] = {}
        self._is_changed = False
        self.id: int | None = connection.execute(_KEYS_ID.format("main"), (KEYS,)).get
        self.is_on = self.id is not None
        if self.id is not None:
            if path is None:
                raise Unavailable("a store in memory has no keys")
            self._keys = KeyFile.open(path, self.id)

    # --- records ---------------------------------------------------------------------------------------------------------

    def seal_put(self, change: interface.Put) -> interface.Put:
        """Return the change to apply."""
        ranges = self._ranges.get(change.container)
        cipher = None if ranges is None else ranges.cipher(change.record.lsn)
        if cipher is None:
            return change
        return interface.Put(
            change.container, cipher.seal(change.container, change.record), change.insert, change.entries
        )

    def open(self, container: int, record: Record) -> Record:
        """Return a stored record with its plain value. Corrupt if its key does not open it."""
        ranges = self._ranges.get(container)
        cipher = None if ranges is None else ranges.cipher(record.lsn)
        return record if cipher is None else cipher.open(container, record)

    def open_answer(self, request: interface.Read[Any], answer: Any) -> Any:
        """Return the answer to a read with plain values."""
        opener = _OPENERS.get(type(request))
        if opener is None or answer is None:
            return answer
        container: int = request.container  # type: ignore[attr-defined]  # Each of these names its container.
        return opener(self, container, answer) if container in self._ranges else answer

    # --- segments --------------------------------------------------------------------------------------------------------

    def load(self, container: int | None = None) -> list[tuple[int, int, int]]:
        """Read the segments of a container, or of all, as the writer's connection sees them.

        Return (container, first, lsn behind the last) of those whose keys were destroyed after this copy of the data was made.
        """
        found: dict[int, Ranges] = {}
        lost: list[tuple[int, int]] = []
        for id, first, number, state, *name in self._connection.execute(_KNOWN, (container,)):
            cipher = self._cipher(KeyName(*name)) if state == LIVE else None
            if state == LIVE and cipher is None:
                lost.append((id, first))
            known = found.setdefault(id, Ranges())
            known.firsts.append(first)
            known.ciphers.append(cipher)
            known.number = number
        # Replaced as a whole: the event loop reads while a sweep on the writer's thread changes segments.
        others = {} if container is None else {id: known for id, known in self._ranges.items() if id != container}
        self._ranges = others | found
        return [(id, first, found[id].end(first)) for id, first in lost]

    def _cipher(self, name: KeyName) -> Cipher | None:
        if name not in self._ciphers:
            assert self._keys is not None
            key = self._keys.read(name)
            if key is None:
                return None
            self._ciphers[name] = Cipher(key)
        return self._ciphers[name]

    def check(self) -> None:
        """Raise Unavailable if no key can be made."""
        if self._path is None:
            raise Unavailable("a store in memory has no keys")
        if self._keys is None:
            self._keys = KeyFile.create(self._path)

    def is_begun(self, change: BeginSegment) -> bool:
        """Return True if the newest segment is the one that a change would begin. Nearly every write asks."""
        known = self._ranges.get(change.container)
        if known is None or known.ciphers[-1] is None:
            return not change.sealed
        is_same = change.number <= known.number and change.first - known.firsts[-1] < MOST_VERSIONS
        return change.sealed and is_same

    def without_begun(self, changes: tuple[interface.Change, ...]) -> tuple[interface.Change, ...]:
        """Return changes without a first one that would begin a segment that is there, as that of nearly every write would."""
        first = changes[0] if changes else None
        return changes[1:] if isinstance(first, BeginSegment) and self.is_begun(first) else changes

    def begin(self, change: BeginSegment) -> None:
        """Begin a segment in the transaction."""
        if not self.is_begun(change):
            self._add(change.container, change.first, change.number, change.sealed)
            self.load(change.container)

    def _add(self, container: int, first: int, number: int, sealed: bool) -> None:
        self._is_changed = True
        name = KeyName(0, 0)
        if sealed:
            name, key = self._keys_or_new().add()
            self._ciphers[name] = Cipher(key)
        self._connection.execute(_ADD, (container, first, number, LIVE if sealed else PLAIN, *name))

    def _keys_or_new(self) -> KeyFile:
        if self._keys is None:
            assert self._path is not None, "the engine has asked `check`"
            self._keys = KeyFile.create(self._path)
        if self.id is None:
            self.id = self._keys.id
            self._connection.execute("INSERT OR REPLACE INTO meta(name, value) VALUES(?, ?)", (KEYS, self.id))
        self.is_on = True
        return self._keys

    def shred_empty(self, counters: Counters, change: ShredEmpty) -> None:
        """Make the empty segments of a container `gone`."""
        self._is_changed = True
        segments: list[Any] = self._connection.execute(_OF, (change.container,)).fetchall()
        ends = [*(row[1] for row in segments[1:]), NO_LSN]
        for (id, first, number, state), end in zip(segments, ends, strict=True):
            if state != LIVE or self._connection.execute(_IS_STORED, (change.container, first, end)).get:
                continue
            if end == NO_LSN and not change.dropped:
                last = counters.lsn(change.container)
                if number >= change.number:
                    continue
                if last < first:
                    # Never used: it waits for another day.
                    self._connection.execute("UPDATE sealing SET number = ? WHERE id = ?", (change.number, id))
                    continue
                self._add(change.container, last + 1, change.number, sealed=True)
            self._connection.execute(_SET_STATE, (GONE, id))
        self.load(change.container)

    def shred_undone(self, change: ShredUndone) -> None:
        """Make the undone segments `gone` that no snapshot needs."""
        undone = self._connection.execute("SELECT id, serial FROM sealing WHERE state = ?", (UNDONE,)).fetchall()
        self._connection.executemany(_SET_STATE, [(GONE, id) for id, serial in undone if serial not in change.needed])

    def forget(self, change: ForgetSegments) -> None:
        """Forget segments that are `gone`."""
        self._connection.executemany(
            f"DELETE FROM sealing WHERE container = ? AND first = ? AND state = {GONE}", change.segments
        )

    def destroy(self) -> list[KeySegment]:
        """Destroy the keys of the segments that are `gone`, and return these. Between two transactions. Unavailable."""
        gone: list[Any] = self._connection.execute(
            "SELECT container, first, number, serial, mark FROM sealing WHERE state = ?", (GONE,)
        ).fetchall()
        names = [KeyName(*row[3:]) for row in gone]
        if names and self._keys is not None:
            try:
                self._keys.destroy(names)
            except OSError as error:
                raise Unavailable(f"keys could not be destroyed: {error.strerror}") from error
        for name in names:
            self._ciphers.pop(name, None)
        return [KeySegment(container, first, number, "gone") for container, first, number, *_ in gone]

    # --- other copies of the data ----------------------------------------------------------------------------------------

    def is_foreign(self, connection: apsw.Connection, schema: str) -> bool:
        """Return True if a copy of a data file has records that are sealed, and not with keys of this file of keys."""
        if not connection.execute(f"SELECT EXISTS (SELECT 1 FROM {schema}.sealing WHERE state = ?)", (LIVE,)).get:
            return False
        found = connection.execute(_KEYS_ID.format(schema), (KEYS,)).get
        return found is None or found != self.id

    def read_rows(self) -> list[Any]:
        """Return the rows of all segments that have, or had, a key."""
        return self._connection.execute(
            "SELECT container, first, number, state, serial, mark FROM sealing WHERE serial"
        ).fetchall()

    def keep_undone(self, before: Sequence[Any]) -> None:
        """Keep the keys of segments that a restore has undone. `before`: the rows before it."""
        self._is_changed = True
        there = {serial for (serial,) in self._connection.execute("SELECT serial FROM sealing")}
        undone = [
            (container, first, number, GONE if state == GONE else UNDONE, serial, mark)
            for container, first, number, state, serial, mark in before
            if serial not in there
        ]
        self._connection.executemany(_ADD, undone)

    def make_all_gone(self) -> None:
        """Make all segments `gone`: everything was removed."""
        self._is_changed = True
        self._connection.execute("DELETE FROM sealing WHERE state = ?", (PLAIN,))
        self._connection.execute("UPDATE sealing SET state = ?", (GONE,))
        self.load()

    def renew(self, container: int, first: int, end: int, last: int | None) -> None:
        """Forget a segment whose key was destroyed after this copy of the data was made. The newest one gets another key.

        `end`: the lsn behind its last. `last`: the last lsn of the container that was given out; None: it is dropped.
        """
        self._is_changed = True
        rows: list[Any] = self._connection.execute(
            f"SELECT id, number FROM sealing WHERE container = ? AND first = ? AND state = {LIVE}", (container, first)
        ).fetchall()
        ((id, number),) = rows
        if last is not None and end == NO_LSN:
            self._add(container, last + 1, number, sealed=True)
        self._connection.execute("DELETE FROM sealing WHERE id = ?", (id,))

    # --- the end of a transaction ----------------------------------------------------------------------------------------

    @property
    def has_unwritten(self) -> bool:
        """True if keys were made that are not on the disk."""
        return self._keys is not None and self._keys.has_unwritten

    def flush(self) -> None:
        """Sync the new keys, before the COMMIT of what they seal. apsw.Error."""
        if self._keys is not None:
            self._keys.flush()

    def close(self) -> None:
        """Release the file of keys."""
        if self._keys is not None:
            self._keys.close()

    def commit(self) -> None:
        """Keep the changes of the transaction."""
        self._is_changed = False

    def rollback(self) -> None:
        """Read the segments again as they were before the transaction."""
        if not self._is_changed:
            return
        self._is_changed = False
        if self._keys is not None:
            self._keys.discard()
        self.id = self._connection.execute(_KEYS_ID.format("main"), (KEYS,)).get
        self.is_on = self.id is not None
        self._ciphers = {}
        self.load()


def foreign_keys() -> Conflict:
    """The refusal of a snapshot whose keys are not here."""
    hint = "restore it on the server that saved it, and move what it holds with `mayfly copy`"
    return Conflict("the snapshot has records that are sealed with the keys of another store", hint=hint)


def _open_all(sealing: Sealing, container: int, records: Sequence[Record]) -> list[Record]:
    return [sealing.open(container, record) for record in records]


def _open_pairs(sealing: Sealing, container: int, pairs: Sequence[tuple[bytes, Record]]) -> list[tuple[bytes, Record]]:
    return [(key, sealing.open(container, record)) for key, record in pairs]


_OPENERS: Final[dict[type, Callable[[Sealing, int, Any], Any]]] = {
    interface.Get: Sealing.open,
    interface.Scan: _open_all,
    interface.EntryOwners: _open_all,
    interface.Fetch: _open_all,
    interface.FetchRange: _open_all,
    interface.Due: _open_all,
    interface.ScanIndex: _open_pairs,
}
"""The reads that answer with records."""
