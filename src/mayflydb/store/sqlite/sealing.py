"""Sealed values: AES-256-GCM under a key for each segment of a container, which lies in another file (`key_file`).

A segment is a range of lsns, so a version tells its segment by its lsn, and the index by lsn tells whether a segment is empty. A new
version of a record belongs to the newest segment; the key of the old one lives only as long as other versions of that segment. The
row of a record holds the sealed value, under the row's own checksum; so the doctor, sizes and purges in SQL need no key. Objects in
memory hold plain values. Records are sealed as changes are applied and opened as reads are answered, for which `Sealing` is asked.

    nonce 12 | encrypted value | tag 16      associated data: container, lsn, partition, key
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Sequence
from pathlib import Path
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

import apsw

from mayflydb.model.errors import Conflict, Corrupt, Unavailable
from mayflydb.model.record import Record
from mayflydb.store import interface
from mayflydb.store.interface import Segment
from mayflydb.store.sqlite.counters import Counters
from mayflydb.store.sqlite.key_file import KeyFile, Name
from mayflydb.store.sqlite.schema import GONE, LIVE, PLAIN, UNDONE

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

NONCE_BYTES: Final = 12
OVERHEAD: Final = NONCE_BYTES + 16
"""The bytes by which a sealed value is longer."""

MOST_VERSIONS: Final = 1 << 31
"""The lsns of one segment. Random nonces of 96 bits are safe for 2^32 values under a key."""

NONCES: Final = 256
"""Nonces that are drawn at a time."""

KEYS: Final = "keys"
"""The name in `meta` of the id of the file of keys."""

_PLACE: Final = Struct("<qqq").pack
_KNOWN = (
    f"SELECT container, first, number, state, serial, mark FROM sealing WHERE state IN ({LIVE}, {PLAIN})"
    " AND (?1 IS NULL OR container = ?1) ORDER BY container, first"
)
_OF = f"SELECT id, first, number, state FROM sealing WHERE container = ? AND state IN ({LIVE}, {PLAIN}) ORDER BY first"
_ADD = "INSERT INTO sealing(container, first, number, state, serial, mark) VALUES(?, ?, ?, ?, ?, ?)"
_IS_STORED = (
    "SELECT EXISTS (SELECT 1 FROM record INDEXED BY record_lsn WHERE container = ?1 AND lsn >= ?2 AND lsn < ?3)"
    " OR EXISTS (SELECT 1 FROM history WHERE container = ?1 AND lsn >= ?2 AND lsn < ?3)"
)
NO_LSN: Final = (1 << 63) - 1


class Ranges:
    """The segments of one container: from which lsn on which cipher seals; None: none does."""

    def __init__(self) -> None:
        self.firsts: list[int] = []
        self.ciphers: list[AESGCM | None] = []
        self.number = -1
        """The number of the newest segment."""

    def cipher(self, lsn: int) -> AESGCM | None:
        """Return the cipher of a version."""
        at = bisect_right(self.firsts, lsn) - 1
        return None if at < 0 else self.ciphers[at]


class Sealing:
    """Seals and opens the records of one data file. `is_on`: false while no segment was ever begun, so that nothing is to be done."""

    def __init__(self, connection: apsw.Connection, path: Path | None) -> None:
        """`path`: of the file of keys; None: a memory database, which has none. Unavailable if it has not the keys of the file."""
        self._connection = connection
        self._path = path
        id = connection.execute("SELECT value FROM meta WHERE name = ?", (KEYS,)).get
        self.id: int | None = id
        self._keys: KeyFile | None = None
        self._ranges: dict[int, Ranges] = {}
        self._ciphers: dict[Name, AESGCM] = {}
        self._nonces = b""
        self._is_changed = False
        self.is_on = id is not None
        if id is not None:
            if path is None:
                raise Unavailable("a store in memory has no keys")
            self._keys = KeyFile.open(path, id)

    # --- records ---------------------------------------------------------------------------------------------------------

    def seal(self, container: int, record: Record) -> Record:
        """Return the record to store."""
        ranges = self._ranges.get(container)
        cipher = None if ranges is None else ranges.cipher(record.lsn)
        if cipher is None:
            return record
        nonce = self._nonce()
        return _with_value(record, nonce + cipher.encrypt(nonce, record.value, _associated(container, record)))

    def seal_put(self, change: interface.Put) -> interface.Put:
        """Return the change to apply."""
        if change.container not in self._ranges:
            return change
        return interface.Put(
            change.container, self.seal(change.container, change.record), change.insert, change.entries
        )

    def open(self, container: int, record: Record) -> Record:
        """Return a stored record with its plain value. Corrupt if its key does not open it."""
        ranges = self._ranges.get(container)
        cipher = None if ranges is None else ranges.cipher(record.lsn)
        if cipher is None:
            return record
        sealed = record.value
        try:
            plain = cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], _associated(container, record))
        except Exception as error:
            raise Corrupt(f"record {record.seq} of container {container} is not opened by its key") from error
        return _with_value(record, plain)

    def open_answer(self, request: interface.Read[Any], answer: Any) -> Any:
        """Return the answer to a read with plain values."""
        opener = _OPENERS.get(type(request))
        if opener is None or answer is None:
            return answer
        container: int = request.container  # type: ignore[attr-defined]  # Each of these names its container.
        return opener(self, container, answer) if container in self._ranges else answer

    def _nonce(self) -> bytes:
        if not self._nonces:
            self._nonces = os.urandom(NONCE_BYTES * NONCES)
        nonce, self._nonces = self._nonces[:NONCE_BYTES], self._nonces[NONCE_BYTES:]
        return nonce

    # --- the transaction -------------------------------------------------------------------------------------------------

    def load(self, container: int | None = None) -> list[tuple[int, int, int]]:
        """Read the segments of a container, or of all, as the writer's connection sees them.

        Return (container, first, lsn behind the last) of those whose keys were destroyed after this copy of the data was made.
        """
        found: dict[int, Ranges] = {}
        lost: list[tuple[int, int]] = []
        for id, first, number, state, *name in self._connection.execute(_KNOWN, (container,)):
            cipher = self._cipher(Name(*name)) if state == LIVE else None
            if state == LIVE and cipher is None:
                lost.append((id, first))
            known = found.setdefault(id, Ranges())
            known.firsts.append(first)
            known.number = number
            known.ciphers.append(cipher)
        if container is None:
            self._ranges = found
        else:
            # Replaced as a whole: the event loop reads while a sweep on the writer's thread changes segments.
            self._ranges = {**self._ranges, **found} if found else _without(self._ranges, container)
        return [(id, first, self._end(id, first)) for id, first in lost]

    def _cipher(self, name: Name) -> AESGCM | None:
        known = self._ciphers.get(name)
        if known is not None:
            return known
        assert self._keys is not None
        key = self._keys.read(name)
        if key is not None:
            self._ciphers[name] = _cipher_of(key)
        return self._ciphers.get(name)

    def _end(self, container: int, first: int) -> int:
        firsts = self._ranges[container].firsts
        at = bisect_right(firsts, first)
        return firsts[at] if at < len(firsts) else NO_LSN

    def check(self) -> None:
        """Raise Unavailable if no key can be made."""
        if self._path is None:
            raise Unavailable("a store in memory has no keys")
        if self._keys is None:
            KeyFile.create(self._path)

    def is_begun(self, change: interface.BeginSegment) -> bool:
        """Return True if the newest segment is the one that a change would begin. Nearly every write asks."""
        known = self._ranges.get(change.container)
        if known is None or known.ciphers[-1] is None:
            return not change.sealed
        return change.sealed and change.number <= known.number and change.first - known.firsts[-1] < MOST_VERSIONS

    def begin(self, change: interface.BeginSegment) -> None:
        """Begin a segment in the transaction."""
        if self.is_begun(change):
            return
        self._add(change.container, change.first, change.number, change.sealed)
        self.load(change.container)

    def _add(self, container: int, first: int, number: int, sealed: bool) -> None:
        self._is_changed = True
        name = Name(0, 0)
        if sealed:
            name, key = self._keys_or_new().add()
            self._ciphers[name] = _cipher_of(key)
        self._connection.execute(_ADD, (container, first, number, LIVE if sealed else PLAIN, *name))

    def _keys_or_new(self) -> KeyFile:
        if self._keys is None:
            assert self._path is not None, "the engine has asked `check`"
            self._keys = KeyFile.create(self._path)
            self.id = self._keys.id
            self._connection.execute("INSERT OR REPLACE INTO meta(name, value) VALUES(?, ?)", (KEYS, self.id))
        self.is_on = True
        return self._keys

    def shred_empty(self, counters: Counters, change: interface.ShredEmpty) -> None:
        """Make the empty segments of a container `gone`."""
        segments: list[Any] = self._connection.execute(_OF, (change.container,)).fetchall()
        self._is_changed = True
        for n, (id, first, number, state) in enumerate(segments):
            is_newest = n + 1 == len(segments)
            end = NO_LSN if is_newest else segments[n + 1][1]
            if state != LIVE or self._connection.execute(_IS_STORED, (change.container, first, end)).get:
                continue
            if is_newest and not change.dropped:
                last = counters.lsn(change.container)
                if number >= change.number:
                    continue
                if last < first:
                    self._connection.execute("UPDATE sealing SET number = ? WHERE id = ?", (change.number, id))
                    continue
                self._add(change.container, last + 1, change.number, sealed=True)
            self._connection.execute("UPDATE sealing SET state = ? WHERE id = ?", (GONE, id))
        self.load(change.container)

    def shred_undone(self, change: interface.ShredUndone) -> None:
        """Make the undone segments `gone` that no snapshot needs."""
        undone = self._connection.execute("SELECT id, serial FROM sealing WHERE state = ?", (UNDONE,)).fetchall()
        gone = [(GONE, id) for id, serial in undone if serial not in change.needed]
        self._connection.executemany("UPDATE sealing SET state = ? WHERE id = ?", gone)

    def forget(self, change: interface.ForgetSegments) -> None:
        """Forget segments that are `gone`."""
        self._connection.executemany(
            f"DELETE FROM sealing WHERE container = ? AND first = ? AND state = {GONE}", change.segments
        )

    def read_rows(self) -> list[Any]:
        """Return the rows of all segments that have, or had, a key."""
        return self._connection.execute(
            "SELECT container, first, number, state, serial, mark FROM sealing WHERE serial"
        ).fetchall()

    def keep_undone(self, before: Sequence[Any]) -> None:
        """Keep the keys of segments that a restore has undone. `before`: the rows before it."""
        self._is_changed = True
        self.is_on = self.is_on or self._keys is not None
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

    def renew(self, container: int, first: int, last: int | None) -> None:
        """Forget a segment whose key was destroyed after this copy of the data was made. The newest one gets another key.

        `last`: the last lsn of the container that was given out; None: it is dropped.
        """
        self._is_changed = True
        ((id, number),) = self._connection.execute(
            f"SELECT id, number FROM sealing WHERE container = ? AND first = ? AND state = {LIVE}", (container, first)
        )
        if last is not None and self._end(container, first) == NO_LSN:
            self._add(container, last + 1, number, sealed=True)
        self._connection.execute("DELETE FROM sealing WHERE id = ?", (id,))

    def flush(self) -> None:
        """Sync the new keys, before the COMMIT of what they seal. apsw.Error."""
        if self._keys is not None:
            self._keys.flush()

    def rollback(self) -> None:
        """Read the segments again as they were before the transaction."""
        if not self._is_changed:
            return
        self._is_changed = False
        if self._keys is not None:
            self._keys.discard()
        self.id = self._connection.execute("SELECT value FROM meta WHERE name = ?", (KEYS,)).get
        if self.id is None:
            self._keys, self.is_on = None, False
        self._ciphers = {}
        self.load()

    def commit(self) -> None:
        """Keep the changes of the transaction."""
        self._is_changed = False

    def destroy(self) -> list[Segment]:
        """Destroy the keys of the segments that are `gone`, and return these. Between two transactions. Unavailable."""
        gone: list[Any] = self._connection.execute(
            "SELECT container, first, number, serial, mark FROM sealing WHERE state = ?", (GONE,)
        ).fetchall()
        if gone and self._keys is not None:
            try:
                self._keys.destroy([Name(*row[3:]) for row in gone])
            except OSError as error:
                raise Unavailable(f"keys could not be destroyed: {error.strerror}") from error
            for row in gone:
                self._ciphers.pop(Name(*row[3:]), None)
        return [Segment(container, first, number, "gone") for container, first, number, *_ in gone]


def is_sealed_elsewhere(connection: apsw.Connection, schema: str, id: int | None) -> bool:
    """Return True if a copy of a data file has segments, and not those of the file of keys with this id."""
    if not connection.execute(f"SELECT EXISTS (SELECT 1 FROM {schema}.sealing WHERE state = ?)", (LIVE,)).get:
        return False
    found = connection.execute(f"SELECT value FROM {schema}.meta WHERE name = ?", (KEYS,)).get
    return found is None or found != id


def sealed_elsewhere() -> Conflict:
    """The refusal of a snapshot whose keys are not here."""
    hint = "restore it on the server that saved it, and move what it holds with `mayfly copy`"
    return Conflict("the snapshot has records that are sealed with the keys of another store", hint=hint)


def _without(ranges: dict[int, Ranges], container: int) -> dict[int, Ranges]:
    return {id: known for id, known in ranges.items() if id != container}


def _cipher_of(key: bytes) -> AESGCM:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    return AESGCM(key)


def _associated(container: int, record: Record) -> bytes:
    partition = record.partition
    return _PLACE(container, record.lsn, len(partition)) + partition + record.key


def _with_value(record: Record, value: bytes) -> Record:
    return Record(
        record.partition, record.key, value, record.written, record.anchor, record.override, record.lsn, record.seq, record.dates
    )  # fmt: skip


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
