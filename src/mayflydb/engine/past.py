"""What records were before they were changed here, kept while a snapshot is open that may want it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from weakref import WeakSet

import msgspec

from mayflydb.model.record import Record

MOST: Final = 100_000
"""Versions that are kept at most; with more of them, all are forgotten, and snapshots that are open can read no more."""


MOST_DEATHS: Final = 10_000
"""Versions that are kept at most of records that were purged; of those, whole values come from the store to be kept."""


class Replaced(msgspec.Struct, frozen=True):
    """A version and the lsn of the change that ended it: it was what was stored from its own lsn on until then."""

    record: Record
    until: int


class Past:
    """Of the changes that this process makes. They are noted before they are committed; of one that is not, nothing ever shows,
    since what is still stored comes first."""

    def __init__(self) -> None:
        self._watchers: WeakSet[object] = WeakSet()
        self._by_seq: dict[int, dict[int, list[Replaced]]] = {}
        self._by_place: dict[tuple[int, bytes, bytes], list[Replaced]] = {}
        self._log: dict[int, list[int]] = {}
        self._count = 0
        self._deaths = 0
        self.unmourned = 0
        """How often something was purged and not kept, while somebody might have wanted it."""
        self.losses = 0
        """How often all were forgotten while somebody might have wanted them."""

    def watch(self, snapshot: object) -> None:
        """Keep what is replaced from now on, for as long as the snapshot is there and has not been left."""
        self._watchers.add(snapshot)

    @property
    def wants_deaths(self) -> bool:
        """Whether somebody may want what is purged now."""
        return bool(self._watchers)

    def note_deaths(self, container: int, lsn: int, records: Iterable[Record]) -> None:
        """These are about to be purged from a container that has come to an lsn."""
        dead = [Replaced(record, lsn + 1) for record in records]
        if self._deaths + len(dead) > MOST_DEATHS:
            # Whoever is open now can read no more; of whoever comes after him it is counted anew.
            self.unmourned += 1
            self._deaths = 0
            return
        self._deaths += len(dead)
        self.note(container, dead)

    def leave(self, snapshot: object) -> None:
        """It wants nothing any more."""
        self._watchers.discard(snapshot)
        if not self._watchers:
            self._forget()

    def note(self, container: int, replaced: Iterable[Replaced]) -> None:
        """These are about to be replaced."""
        if not self._watchers:
            if self._count:
                self._forget()
            return
        kept = self._by_seq.setdefault(container, {})
        log = self._log.setdefault(container, [])
        for each in replaced:
            record = each.record
            log.append(record.seq)
            self._count += _noted(kept.setdefault(record.seq, []), each)
            _noted(self._by_place.setdefault((container, record.partition, record.key), []), each)
        if self._count > MOST:
            self.losses += 1
            self._forget()

    def at(self, container: int, seq: int, lsn: int) -> Record | None:
        """The version of a record that was stored at an lsn, if it was replaced since; None: not known."""
        return _at(self._by_seq.get(container, {}).get(seq, ()), lsn)

    def at_place(self, container: int, partition: bytes, key: bytes, lsn: int) -> Record | None:
        """The version that was stored with this identity at an lsn, if it was replaced since; None: not known."""
        return _at(self._by_place.get((container, partition, key), ()), lsn)

    def noted(self, container: int, after: int) -> list[int]:
        """The seqs of all that were replaced in a container, in order, but the first `after` of them."""
        return self._log.get(container, [])[after:]

    def all_at(self, container: int, lsn: int) -> list[Record]:
        """All that were stored at an lsn and have been replaced since, by seq."""
        kept = self._by_seq.get(container, {})
        return [record for seq in sorted(kept) if (record := _at(kept[seq], lsn)) is not None]

    def reset(self) -> None:
        """Everything that is stored was forgotten: snapshots that are open can read no more."""
        self.losses += 1
        self._forget()

    def _forget(self) -> None:
        self._by_seq.clear()
        self._by_place.clear()
        self._log.clear()
        self._deaths = 0
        self._count = 0


def _noted(versions: list[Replaced], last: Replaced) -> int:
    """How many versions more there are. A change that was noted of this one, or of one after it, came to nothing."""
    before = len(versions)
    while versions and versions[-1].record.lsn >= last.record.lsn:
        versions.pop()
    versions.append(last)
    return len(versions) - before


def _at(versions: Iterable[Replaced], lsn: int) -> Record | None:
    return next((each.record for each in versions if each.record.lsn <= lsn < each.until), None)
