"""Versions of records that were replaced or purged here, kept while an open snapshot may read them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Final
from weakref import WeakKeyDictionary, WeakSet

import msgspec

from mayflydb.model.record import Record

MAX_VERSIONS: Final = 100_000
"""The largest number of versions kept; beyond it, the oldest open snapshots can read no more."""


MAX_VERSION_BYTES: Final = 96 << 20
"""The bytes of versions that are kept, likewise, where nothing else is set."""

MAX_PURGED: Final = 10_000
"""The largest number of purged versions kept; their values have to be read from the store, unlike those of replaced ones."""


class Replaced(msgspec.Struct, frozen=True):
    """A version and the lsn of the change that ended it: it was stored from its own lsn up to that one."""

    record: Record
    until: int


class _Note(msgspec.Struct, frozen=True, eq=False):
    """A replaced version of a container, under the number of its note."""

    number: int
    container: int
    what: Replaced
    purged: bool


class _Log:
    """The seqs of replaced records of a container, in order. The first ones may have been dropped."""

    __slots__ = ("dropped", "seqs")

    def __init__(self) -> None:
        self.seqs: deque[int] = deque()
        self.dropped = 0

    def drop(self) -> None:
        """Drop the first one."""
        self.seqs.popleft()
        self.dropped += 1


class _Write:
    """A write under way. A generator's context would take three times as long, and every write has one."""

    __slots__ = ("_cache", "_number")

    def __init__(self, cache: VersionCache) -> None:
        self._cache = cache

    def __enter__(self) -> None:
        self._number = self._cache.begin()

    def __exit__(self, *raised: object) -> None:
        self._cache.end(self._number)


class VersionCache:
    """Replaced versions of this process. They are noted before the commit; notes of rolled-back changes are never visible,
    since the stored version takes precedence.

    Notes are numbered. A snapshot may read all notes from the first one that was not known to be committed at its beginning;
    notes before those of the oldest snapshot are dropped. Sweeps are decided on another thread, which only queues their
    purged versions.
    """

    def __init__(self) -> None:
        self._watchers: WeakKeyDictionary[object, int] = WeakKeyDictionary()
        self._lost: WeakSet[object] = WeakSet()
        self._lost_purged: WeakSet[object] = WeakSet()
        self._under_way: dict[int, None] = {}
        self._settling: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._purged: deque[tuple[int, list[Replaced]]] = deque()
        self._unwatched: deque[tuple[int, int, list[Replaced]]] = deque()
        self._notes: deque[_Note] = deque()
        self._by_seq: dict[int, dict[int, list[Replaced]]] = {}
        self._by_place: dict[tuple[int, bytes, bytes], list[Replaced]] = {}
        self._log: dict[int, _Log] = {}
        self._last = 0
        self.max_bytes = MAX_VERSION_BYTES
        self._bytes = 0
        self._purged_count = 0
        self._purged_since = 0

    # --- who wants it ------------------------------------------------------------------------------------------------

    def watch(self, snapshot: object) -> None:
        """Keep versions replaced from now on, or in a commit in progress, until the snapshot ends or `unwatch`."""
        # A later snapshot never starts before an earlier one, so the first watcher has the oldest number.
        # From the oldest write in progress on: its commit may follow the beginning of the snapshot.
        self._watchers[snapshot] = next(iter(self._under_way), self._last + 1)
        for number, container, replaced in self._unwatched:
            self._keep(number, container, replaced)
        self._unwatched.clear()

    def unwatch(self, snapshot: object) -> None:
        """Release the versions that a snapshot may read."""
        self._watchers.pop(snapshot, None)
        self._prune()

    def has_lost_versions(self, snapshot: object) -> bool:
        """Return whether a version was dropped that a snapshot may read."""
        return snapshot in self._lost

    def lost_purged_versions(self, snapshot: object) -> bool:
        """Return whether a purged version was not kept although a snapshot may read it."""
        self._take_over()
        return snapshot in self._lost_purged

    @property
    def wants_purged(self) -> bool:
        """Return whether a snapshot is open, so that purged versions must be noted."""
        return bool(self._watchers)

    # --- what is noted -----------------------------------------------------------------------------------------------

    def write(self) -> _Write:
        """A write: notes made inside are committed when it ends, or not at all."""
        return _Write(self)

    def begin(self) -> int:
        """Begin a write; return its number."""
        self._last += 1
        self._under_way[self._last] = None
        return self._last

    def end(self, number: int) -> None:
        """End a write."""
        under_way, unwatched = self._under_way, self._unwatched
        del under_way[number]
        if self._purged or self._notes or self._log:
            self._prune()
        elif unwatched:
            # Without an open snapshot, as most of the time: only writes in progress keep versions.
            wanted = next(iter(under_way), self._last + 1)
            while unwatched and unwatched[0][0] < wanted:
                unwatched.popleft()
        if self._settling:
            self._settle()

    async def wait_for_writes(self) -> None:
        """Wait until all writes in progress are committed or dropped."""
        if self._under_way:
            waiter = asyncio.get_running_loop().create_future()
            # Up to the newest write in progress. Later writes see the lock for which the caller waits.
            self._settling.append((next(reversed(self._under_way)), waiter))
            await waiter

    def _settle(self) -> None:
        oldest = next(iter(self._under_way), self._last + 1)
        while self._settling and self._settling[0][0] < oldest:
            waiter = self._settling.popleft()[1]
            if not waiter.done():
                waiter.set_result(None)

    def note(self, container: int, replaced: Iterable[Replaced]) -> None:
        """Note versions that are about to be replaced."""
        self._last += 1
        # The dictionary below it, whose length is known without a call of Python code. A snapshot that has just ended may count.
        if not self._watchers.data:  # type: ignore[attr-defined]
            # A snapshot may begin before this commit, so keep the versions until then.
            self._unwatched.append((self._last, container, list(replaced)))
            return
        self._keep(self._last, container, replaced)
        # The oldest snapshot keeps the most versions. It ends with a conflict, and memory stays bounded.
        while (len(self._notes) > MAX_VERSIONS or self._bytes > self.max_bytes) and (
            oldest := next(iter(self._watchers), None)
        ) is not None:
            self._lost.add(oldest)
            self.unwatch(oldest)

    def note_purge(self, container: int, lsn: int, records: Iterable[Record]) -> None:
        """Note records that are about to be purged from a container at an lsn. On any thread."""
        # A deque's append is atomic, so that no lock is needed. The purge allocates its lsns later in its transaction, from
        # lsn + 1 on.
        self._purged.append((container, [Replaced(record, lsn + 1) for record in records]))

    def _take_over(self) -> None:
        """Take over the purged versions that the writer's thread has queued."""
        while self._purged:
            container, versions = self._purged.popleft()
            if self._purged_count + len(versions) > MAX_PURGED:
                # Open snapshots lose these versions. The count starts again for later snapshots.
                self._lost_purged.update(self._watchers)
                self._purged_count, self._purged_since = 0, self._last
                continue
            self._last += 1
            self._purged_count += len(versions)
            self._keep(self._last, container, versions, purged=True)

    def reset(self) -> None:
        """Drop everything after a reset of the store: open snapshots can read no more."""
        self._lost.update(self._watchers)
        self._watchers.clear()
        self._prune()

    def _keep(self, number: int, container: int, replaced: Iterable[Replaced], purged: bool = False) -> None:
        kept = self._by_seq.setdefault(container, {})
        log = self._log.setdefault(container, _Log())
        for each in replaced:
            record = each.record
            log.seqs.append(record.seq)
            self._notes.append(_Note(number, container, each, purged))
            self._bytes += len(record.value)
            _append(kept.setdefault(record.seq, []), each)
            _append(self._by_place.setdefault((container, record.partition, record.key), []), each)

    def _prune(self) -> None:
        """Drop the versions that no snapshot may read."""
        self._take_over()
        if self._notes or self._unwatched:
            self._drop_unread()
        if self._log and not self._notes and not self._watchers:
            # Empty, and without snapshots that have counted them: otherwise each dropped container would leave its own.
            self._log.clear()
            self._by_seq.clear()

    def _drop_unread(self) -> None:
        last = self._last + 1
        wanted = next(iter(self._under_way), last)
        if self._watchers:
            wanted = min(next(iter(self._watchers.values()), last), wanted)
        while self._unwatched and self._unwatched[0][0] < wanted:
            self._unwatched.popleft()
        while self._notes and self._notes[0].number < wanted:
            self._drop(self._notes.popleft())

    def _drop(self, note: _Note) -> None:
        record = note.what.record
        self._bytes -= len(record.value)
        self._log[note.container].drop()
        self._purged_count -= note.purged and note.number > self._purged_since
        kept, place = self._by_seq[note.container], (note.container, record.partition, record.key)
        if _remove_first(kept.get(record.seq, []), note.what):
            kept.pop(record.seq, None)
        if _remove_first(self._by_place.get(place, []), note.what):
            self._by_place.pop(place, None)

    # --- what is known -----------------------------------------------------------------------------------------------

    def at(self, container: int, seq: int, lsn: int) -> Record | None:
        """Find the version of a record that was stored at an lsn and was replaced since; None: not known."""
        self._take_over()
        return _at(self._by_seq.get(container, {}).get(seq, ()), lsn)

    def at_place(self, container: int, partition: bytes, key: bytes, lsn: int) -> Record | None:
        """Find the version with this identity that was stored at an lsn and was replaced since; None: not known."""
        self._take_over()
        return _at(self._by_place.get((container, partition, key), ()), lsn)

    def replaced_since(self, container: int, after: int) -> tuple[list[int], int]:
        """Return the seqs of replaced versions of a container, in order, without the first `after` and without dropped ones;
        and the count of all.
        """
        self._take_over()
        log = self._log.get(container)
        if log is None:
            return [], 0
        upto = log.dropped + len(log.seqs)
        # From the end, since few are new.
        return list(islice(reversed(log.seqs), max(0, upto - after)))[::-1], upto

    def all_at(self, container: int, lsn: int) -> list[Record]:
        """Return all versions that were stored at an lsn and have been replaced since, by seq."""
        self._take_over()
        kept = self._by_seq.get(container, {})
        return [record for seq in sorted(kept) if (record := _at(kept[seq], lsn)) is not None]


def _append(versions: list[Replaced], last: Replaced) -> None:
    """Append a version; notes of this version or later ones are of rolled-back changes and go."""
    while versions and versions[-1].record.lsn >= last.record.lsn:
        versions.pop()
    versions.append(last)


def _remove_first(versions: list[Replaced], first: Replaced) -> bool:
    """Remove the first version if it is this one; return whether the list is empty."""
    if versions and versions[0] is first:
        del versions[0]
    return not versions


def _at(versions: Iterable[Replaced], lsn: int) -> Record | None:
    return next((each.record for each in versions if each.record.lsn <= lsn < each.until), None)
