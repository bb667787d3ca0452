"""Locks of open transactions on the records that they have written: no purge removes a locked record, and with an exclusive
lock no other writer changes it.

Locks are kept in memory, on the event loop. A purge leaves out the records that are locked when it begins; a transaction that
takes a lock waits for running purges, then reads the record. So either the purge sees the lock, or the transaction sees the
purge. Locks are released after their transaction was applied or dropped.

Where several nodes share a store, the store keeps their purges away in the same way (`Holds`). Plain writes of other nodes do
not wait.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Final, TypeAlias

from mayflydb.model.errors import Unavailable, WriteConflict
from mayflydb.model.instant import Instant
from mayflydb.model.order import Identity
from mayflydb.model.record import Entry
from mayflydb.store.interface import MAX_HELD, Holds

TAKEN: Final = "Another open transaction, or a write that has waited for one, writes that record."

MAX_LOCKS: Final = 1_000_000
"""Locks of all open transactions together."""

MAX_SPARED: Final = MAX_HELD
"""Locked records of a container that a purge can leave out; with more of them, the container is not purged."""

RETRY_SECONDS: Final = 0.05
"""Seconds between two attempts of a write that needs a record locked by another node."""

LockTarget: TypeAlias = tuple[int, Identity | Entry]
"""(container, a record's identity or a unique entry)"""

Spared: TypeAlias = tuple[Identity, ...]
"""Records that a purge leaves out."""


class Locked(Exception):
    """A decision needs a record or entry that an open transaction has locked. The decision has changed nothing.

    `elsewhere`: the lock is on another node, which does not announce its release.
    """

    def __init__(self, target: LockTarget, elsewhere: bool = False) -> None:
        super().__init__(target)
        self.target = target
        self.elsewhere = elsewhere


class LockWaits:
    """The waits of one client for locks; they end when the client leaves."""

    def __init__(self) -> None:
        self._waits: set[asyncio.Future[None]] = set()
        self._over = False

    def begin(self, wait: asyncio.Future[None]) -> None:
        """Register a wait; it is cancelled when the client leaves, or has left."""
        self._waits.add(wait)
        if self._over:
            wait.cancel()

    def end(self, wait: asyncio.Future[None]) -> None:
        """Unregister a wait."""
        self._waits.discard(wait)

    def cancel(self) -> None:
        """Cancel all waits, present and future: the client has left."""
        self._over = True
        for wait in tuple(self._waits):
            wait.cancel()


class LockHolder:
    """The locks of one open transaction. `now`: the instant of its view; expiry of records that it has locked is judged at
    this instant.

    `exclusive`: other writers wait, or get a WriteConflict. Otherwise the locks keep only purges away.
    """

    __slots__ = ("ended", "entries", "exclusive", "holds", "now", "records")

    def __init__(self, now: Instant, exclusive: bool) -> None:
        self.now = now
        self.exclusive = exclusive
        self.ended = False
        self.holds: list[int] = []
        self.records: dict[int, dict[Identity, bool]] = {}
        self.entries: dict[tuple[int, Entry], None] = {}

    def has(self, container: int, identity: Identity) -> bool:
        """Return whether this transaction has locked a record."""
        return identity in self.records.get(container, ())

    def instant_for(self, container: int, identity: Identity, now: Instant) -> Instant:
        """Return the instant at which expiry of a record is judged: the transaction's own for records it has locked, else
        `now`.
        """
        return self.now if self.has(container, identity) else now


class Locks:
    """The lock table of an engine, with its waiting writers."""

    def __init__(self, released: Callable[[int], None] = lambda container: None, holds: Holds | None = None) -> None:
        """`released`: called with a container whose locks were released. `holds`: announces locks to other nodes that share
        the store.
        """
        self._released = released
        self._holds = holds
        self._records: dict[int, dict[Identity, list[LockHolder]]] = {}
        self._entries: dict[tuple[int, Entry], LockHolder] = {}
        self._queues: dict[LockTarget, deque[asyncio.Future[None]]] = {}
        self._turns: Counter[LockTarget] = Counter()
        self._purges: dict[asyncio.Event, int] = {}
        self._count = 0
        self.conflicts = 0
        """Number of times that a writer met a lock, since the process began."""

    def __len__(self) -> int:
        return self._count

    @property
    def waiting(self) -> int:
        """Number of writers that wait for a lock."""
        return sum(map(len, self._queues.values()))

    def list_locked(self, limit: int) -> list[tuple[int, Identity, bool]]:
        """Return (container, identity, exclusive) of records that open transactions have locked, at most `limit`."""
        found = (
            (container, identity, any(holder.exclusive for holder in holders))
            for container, records in self._records.items()
            for identity, holders in records.items()
        )
        return list(islice(found, limit))

    # --- for transactions --------------------------------------------------------------------------------------------

    def take(self, holder: LockHolder, container: int, identity: Identity, gone: bool) -> bool:
        """Lock a record; True: the lock is new. `gone`: the transaction removes the record.

        Errors: WriteConflict, Unavailable.
        """
        # A turn belongs to a plain write that has waited. Transactions yield to it, or the write could starve.
        taken = holder.exclusive and (
            self._turns[container, identity] or self._exclusive_holders(container, identity, holder)
        )
        if holder.ended or taken:
            raise self._conflict(container)
        fresh = not holder.has(container, identity)
        if fresh:
            self._add()
            self._records.setdefault(container, {}).setdefault(identity, []).append(holder)
        holder.records.setdefault(container, {})[identity] = gone
        return fresh

    async def hold(self, holder: LockHolder, container: int, identity: Identity, gone: bool) -> bool:
        """Lock as `take` does, then wait for running purges that do not know of the lock, on all nodes."""
        fresh = self.take(holder, container, identity, gone)
        if fresh:
            await self._wait_for_purges(container)
        if fresh and self._holds is not None:
            number = await self._holds.hold(container, identity)
            holder.holds.append(number)
            # The transaction ended while the lock was announced: no later release would withdraw it.
            if holder.ended:
                self._holds.release([number])
                raise self._conflict(container)
        return fresh

    def take_entries(self, holder: LockHolder, container: int, entries: Iterable[Entry]) -> bool:
        """Lock unique entries, if the holder is exclusive; True: one lock is new. Errors: WriteConflict, Unavailable."""
        fresh = False
        for entry in entries if holder.exclusive else ():
            target = container, entry
            if holder.ended or self._turns[target] or self._entries.get(target, holder) is not holder:
                raise self._conflict(container)
            if target not in holder.entries:
                self._add()
                self._entries[target] = holder
                holder.entries[target] = None
                fresh = True
        return fresh

    def _conflict(self, container: int) -> WriteConflict:
        self.conflicts += 1
        return WriteConflict(TAKEN, container=container)

    def _add(self) -> None:
        if self._count >= MAX_LOCKS:
            raise Unavailable(f"open transactions have written {MAX_LOCKS} records")
        self._count += 1

    def release(self, holder: LockHolder) -> None:
        """Release all locks of an ended transaction. Waiting writers are woken in the order of their arrival."""
        # `ended` first: a `hold` under way sees it, and withdraws what it has announced.
        records, entries = holder.records, holder.entries
        holder.ended, holder.records, holder.entries = True, {}, {}
        if self._holds is not None:
            self._holds.release(holder.holds)
        for container, identities in records.items():
            held = self._records[container]
            for identity in identities:
                held[identity].remove(holder)
                if not held[identity]:
                    del held[identity]
            # A transaction may hold very many locks, and most have no waiters.
            if self._queues:
                for identity in identities:
                    self._wake((container, identity))
            if not held:
                del self._records[container]
        for target in entries:
            del self._entries[target]
            self._wake(target)
        self._count -= sum(map(len, records.values())) + len(entries)
        # After all locks are gone, so that the reaper's next read finds none of them.
        for container in records:
            self._released(container)

    def reset(self) -> None:
        """Release all locks after the store was emptied."""
        holders = {id(each): each for held in self._records.values() for some in held.values() for each in some}
        for holder in [*holders.values(), *self._entries.values()]:
            self.release(holder)

    # --- for plain writes --------------------------------------------------------------------------------------------

    def __bool__(self) -> bool:
        """Return whether any lock exists, so that a writer has to check."""
        return bool(self._count)

    def check(self, container: int, identity: Identity, holder: LockHolder | None) -> None:
        """Raise Locked if another transaction has exclusively locked a record."""
        if self._exclusive_holders(container, identity, holder):
            raise Locked((container, identity))

    def check_expired(self, container: int, identity: Identity, holder: LockHolder | None) -> None:
        """Raise Locked if another transaction, exclusive or not, may have prevented a record's expiry."""
        if any(each is not holder for each in self._records.get(container, {}).get(identity, ())):
            raise Locked((container, identity))

    def check_gone(self, container: int, identity: Identity, holder: LockHolder | None) -> None:
        """Raise Locked if another transaction has exclusively locked a record and removes it."""
        if any(owner.records[container][identity] for owner in self._exclusive_holders(container, identity, holder)):
            raise Locked((container, identity))

    def check_entry(self, container: int, entry: Entry, owner: Identity | None, holder: LockHolder | None) -> None:
        """Raise Locked if another transaction decides about a unique entry. `owner`: the record that has the entry now, if
        any.
        """
        holding = self._entries.get((container, entry))
        if owner is None:
            if holding is not None and holding is not holder:
                raise Locked((container, entry))
        elif holding is None or holding is holder:
            # A transaction that has written the owner and keeps its entry holds a lock on the owner as well.
            self.check(container, owner, holder)

    def _exclusive_holders(self, container: int, identity: Identity, holder: LockHolder | None) -> list[LockHolder]:
        found = self._records.get(container, {}).get(identity)
        return [] if found is None else [each for each in found if each.exclusive and each is not holder]

    async def wait_for_turn(self, met: Locked, lock_waits: LockWaits | None = None) -> None:
        """Wait until a record or entry is free. No transaction locks it until `end_turn`. `lock_waits`: the waits of the
        client.
        """
        target = met.target
        if met.elsewhere:
            await self._rest(lock_waits)
        # No await between check and turn, so no transaction locks the target in between.
        if not self._is_locked(*target):
            self._turns[target] += 1
            return
        self.conflicts += 1
        queue = self._queues.setdefault(target, deque())
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue.append(woken)
        try:
            await _wait(woken, lock_waits)
        except BaseException:
            # Woken and cancelled at once: the turn was given already, and is handed back.
            if woken.done() and not woken.cancelled():
                self.end_turn(target)
            else:
                queue.remove(woken)
                # A release takes the whole queue away, and later writers may have begun another one.
                if not queue and self._queues.get(target) is queue:
                    del self._queues[target]
            raise

    async def _rest(self, lock_waits: LockWaits | None) -> None:
        self.conflicts += 1
        loop = asyncio.get_running_loop()
        over: asyncio.Future[None] = loop.create_future()
        timer = loop.call_later(RETRY_SECONDS, _end, over)
        try:
            await _wait(over, lock_waits)
        finally:
            timer.cancel()

    def _is_locked(self, container: int, what: Identity | Entry) -> bool:
        if isinstance(what, Entry):
            return (container, what) in self._entries
        return what in self._records.get(container, {})

    def end_turn(self, target: LockTarget) -> None:
        """End the turn of a writer that has written, or will not write."""
        self._turns[target] -= 1
        if not self._turns[target]:
            del self._turns[target]

    def _wake(self, target: LockTarget) -> None:
        for woken in self._queues.pop(target, ()):
            if not woken.done():
                self._turns[target] += 1
                woken.set_result(None)

    # --- for purges --------------------------------------------------------------------------------------------------

    def spared_records(self, container: int) -> Spared | None:
        """Return the locked records of a container, which no purge removes; None: too many to leave out."""
        held = self._records.get(container, {})
        return tuple(held) if len(held) <= MAX_SPARED else None

    @contextmanager
    def purge(self, container: int) -> Iterator[Spared | None]:
        """Run a purge that leaves out the yielded records. A transaction that locks a record meanwhile waits for the end
        before reading it.
        """
        ended = asyncio.Event()
        self._purges[ended] = container
        try:
            # No await between registration and this look: a lock is either spared here, or finds the purge and waits for it.
            yield self.spared_records(container)
        finally:
            del self._purges[ended]
            ended.set()

    def locked_records(self, container: int) -> frozenset[Identity]:
        """Return all locked records of a container."""
        return frozenset(self._records.get(container, ()))

    async def _wait_for_purges(self, container: int) -> None:
        # Only purges that run now. Later ones see the lock.
        ends = [ended for ended, each in self._purges.items() if each == container]
        for ended in ends:
            await ended.wait()


def _end(wait: asyncio.Future[None]) -> None:
    if not wait.done():
        wait.set_result(None)


async def _wait(wait: asyncio.Future[None], lock_waits: LockWaits | None) -> None:
    if lock_waits is None:
        await wait
        return
    lock_waits.begin(wait)
    try:
        await wait
    finally:
        lock_waits.end(wait)
