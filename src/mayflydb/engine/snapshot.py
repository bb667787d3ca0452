"""A transaction over several requests of its client: kept in memory, invisible to others until it is committed as a whole.

Isolation is that of a snapshot: the transaction sees the commits before its beginning and its own writes. Its writes are
locked until it is closed, so no purge removes them. With exclusive locks, plain writes of these records wait, and the second
of two transactions that write one record gets a WriteConflict at once. Without exclusive locks the transaction is optimistic:
the first of two that commits wins, the other one gets a WriteConflict and may run again. A serializable transaction that has
written also gets one if a read of it would return something else at the commit.

The store keeps one version of each record. Replaced versions are kept in memory while a snapshot is open (`version_cache`),
as far as this process replaced or purged them. A version written by another process is recognized by its lsn, and reading it
is a WriteConflict. Deletes by other processes are detected only for records that were read before; so are purges beyond
MAX_PURGED, but a serializable transaction ends then. A record created after the beginning is recognized by its seq, and is
not seen.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Generator, Iterable, Sequence, Set
from typing import Any, Final

from mayflydb.engine.building import KeysOf
from mayflydb.engine.catalog import OWNER_MISSING, Index, node_as_of
from mayflydb.engine.commands import Command, Mode, Written
from mayflydb.engine.container_snapshot import CHANGED, Answers, ContainerSnapshot, IndexOverlays
from mayflydb.engine.contention import Target, Turns, order_targets
from mayflydb.engine.done_commands import PROVISIONAL, Done, final
from mayflydb.engine.engine import Engine
from mayflydb.engine.index_overlay import EntryPosition, Found, merge, upto
from mayflydb.engine.locks import TAKEN, Locked, LockHolder
from mayflydb.engine.reads import run_steps
from mayflydb.engine.scans import SCAN_BATCH, Batch, Scope, scan
from mayflydb.engine.transactions import Body, WriteTransaction
from mayflydb.engine.workspace import Workspace
from mayflydb.expiry.deadline import visible_at
from mayflydb.model.errors import Conflict, NotFound, Overloaded, OwnerNotFound, PreconditionFailed, WriteConflict
from mayflydb.model.instant import Instant
from mayflydb.model.order import HASH_BYTES, KeyRange, Order, Position
from mayflydb.model.record import Entry, Record
from mayflydb.store.interface import (
    Allocate,
    CatalogRow,
    ChildRows,
    EntryOwners,
    Get,
    LoadRow,
    Read,
    Scan,
    ScanIndex,
    StillHeld,
    ask,
)

WRITE_OVERHEAD: Final = 1024
"""Bytes of a write that a transaction keeps, besides its value: command, record, locks and the places that it has read."""


class Snapshot:
    """Reads and commands of one transaction, one after the other, over any containers of an engine."""

    def __init__(
        self,
        engine: Engine,
        now: Instant,
        begun: dict[int, CatalogRow],
        parents: frozenset[int],
        serializable: bool = False,
        exclusive: bool = False,
        is_as_of: bool = False,
        takes_turns: bool = False,
    ) -> None:
        self.now = now
        self._is_as_of = is_as_of
        self._holder = LockHolder(now, exclusive)
        self.serializable = serializable
        self.turns = Turns(engine.contention if takes_turns else None)
        self._engine = engine
        self._epoch = engine.epoch
        self._begun = begun
        self._parents = parents
        self._views: dict[int, ContainerSnapshot] = {}
        self._done: list[Done] = []
        self._bodies: list[Body[None]] = []
        self.author = ""
        """The user whose transaction this is, as in `WriteTransaction`."""
        self._last = PROVISIONAL
        self.written_bytes = 0
        engine.version_cache.watch(self)

    @classmethod
    async def begin(
        cls,
        engine: Engine,
        now: Instant,
        parents: Iterable[int] = (),
        serializable: bool = False,
        exclusive: bool = False,
        is_as_of: bool = False,
        takes_turns: bool = False,
        contended: Iterable[Target] = (),
    ) -> Snapshot:
        """Begin at the present commit in containers below `parents`, and in other containers at their first use.

        `exclusive`: lock written records exclusively until `close`. `is_as_of`: `now` is a later instant, and the transaction
        only reads: what will be left then. `takes_turns`: it reads in turns what others contend for. `contended`: where it takes
        its turns before it begins (`Turns.lost`).
        """
        # The cache must watch before the rows are read, or a version that is replaced between the two is missed.
        snapshot = cls(engine, now, {}, frozenset(parents), serializable, exclusive, is_as_of, takes_turns)
        try:
            for target in order_targets(contended):
                await snapshot.turns.take(target, in_order=True)
            await snapshot._read_beginning()
        except BaseException:
            snapshot.close()
            raise
        return snapshot

    async def _read_beginning(self) -> None:
        for parent in self._parents:
            self._begun.update({row.id: row for row in await self._engine.store.read(ChildRows(parent))})

    async def _take_turn(self, target: Target) -> None:
        # A transaction that has read nothing yet sees the commits of its wait.
        if await self.turns.take(target) and not self._views:
            await self._read_beginning()

    def close(self) -> None:
        """End the transaction: release its locks and its claim to old versions."""
        self.turns.end()
        self._engine.version_cache.unwatch(self)
        self._engine.locks.release(self._holder)
        self._engine.transaction_bytes.give(self.written_bytes)
        self.written_bytes = 0

    @property
    def bytes_limit(self) -> int:
        """The limit of `written_bytes`, which all transactions share."""
        return self._engine.transaction_bytes.limit

    @property
    def written(self) -> list[Written]:
        """The results of its commands, with provisional numbers."""
        return [done.written for done in self._done if done.written is not None]

    # --- reads -----------------------------------------------------------------------------------------------------------

    async def get(self, container: int, partition: bytes, key: bytes) -> Record | None:
        """Find the visible record with this identity, as the transaction sees it. Errors: OwnerNotFound, WriteConflict."""
        if self.turns:
            await self._take_turn((container, partition, key))
        view = await self._view(container)
        view.note_blind_read(partition, key)
        steps = view.workspace.get(partition, key)
        found = await run_steps(steps, lambda request: self._answer(view, request, self._read_begun))
        return self._engine.accesses.note(view.node, found, self.now)

    async def scan(
        self, container: int, scope: Scope, after: Position | None = None, batch: int = SCAN_BATCH
    ) -> AsyncIterator[Batch]:
        """Yield visible records as the transaction sees them, batch by batch: stored ones in order, then new ones.

        Errors: OwnerNotFound, WriteConflict.
        """
        view = await self._view(container)
        view.note_scan(scope)
        number = 0 if after is None else after.number
        if number < PROVISIONAL:
            seen: set[int] = set()
            position = after
            async for stretch in scan(self._engine.store, view.node, scope, after, self.now, batch):
                position = stretch.position
                here = self._as_begun(view, stretch.records)
                seen.update(record.seq for record in stretch.records)
                yield Batch(here, position)
            gone = [record for record in self._replaced_versions(view, seen) if scope.has(record.partition)]
            if gone and after is None:
                yield Batch(gone, position or Position(gone[-1].partition, gone[-1].seq))
        new = [
            record
            for record in self._own_records(view)
            if record.seq > max(PROVISIONAL, number) and scope.has(record.partition)
        ]
        if new:
            yield Batch(new, Position(new[-1].partition, new[-1].seq))

    async def fetch(self, container: int, seqs: Sequence[int], batch: int = SCAN_BATCH) -> AsyncIterator[list[Record]]:
        """Yield the visible records with these ascending seqs as the transaction sees them, then all other records that it
        has written.

        An index covers stored versions only: records written here may match the query, too, and the query decides. Errors:
        OwnerNotFound, WriteConflict.
        """
        view = await self._view(container)
        view.note_scan(
            Scope()
        )  # The index ranges behind these seqs are unknown here, so the whole container counts as read.
        given: set[int] = set()
        async for records in self._engine.indexes.fetch(view.node, seqs, self.now, batch):
            here = self._as_begun(view, records)
            given.update(record.seq for record in here)
            yield here
        await self._check_changed(view)
        # Records changed since the beginning may have had other entries then, so the index could miss them.
        gone = self._replaced_versions(view, given)
        given.update(record.seq for record in gone)
        if rest := gone + [record for record in self._own_records(view) if record.seq not in given]:
            yield rest

    async def walk(
        self,
        container: int,
        index: Index,
        within: KeyRange,
        descending: bool,
        keys_of: KeysOf,
        batch: int = SCAN_BATCH,
    ) -> AsyncIterator[list[tuple[bytes, Record]]]:
        """Yield (index key, record) of the visible records in a range of entry keys of a ready index, by entry key, batch by
        batch: as they were at the beginning, with the transaction's writes before the walk.

        The index key lacks the partition suffix of the entry key. A record appears once for each of its keys in the range.
        `keys_of` is the function that built the index. An entry key has LONGEST_ORDERED bytes at most, so `keys_of` may cut
        index keys at LONGEST_ORDERED - HASH_BYTES. Then a range has to be cut likewise (the upper bound upwards), records of
        one cut key come in the order of their partitions, and the caller sorts these and drops records beyond the bounds. In
        a serializable transaction all requested batches count as read. Errors: OwnerNotFound, WriteConflict; its detail
        `scheme` is True for an index that was dropped meanwhile, since a drop removes entries.
        """
        if self.turns:
            await self._take_turn((container, index.number, within))
        view = await self._view(container)
        overlays = view.overlays(index, keys_of)
        began = overlays.own_upto
        own = self._visible_of(view, overlays.own.between(within, None, None, descending))
        read_range = view.read_range(index, within, descending, keys_of) if self.serializable else None
        try:
            async for begun, last in self._walk_batches(view, overlays, index, within, descending, batch, began):
                if read_range is not None:
                    read_range.read(begun, last)
                theirs = begun
                if overlays.first:
                    theirs = [each for each in begun if overlays.first.get(each[1].seq, began) >= began]
                ours: list[Found] = []
                if own:
                    split = len(own) if last is None else upto(own, last, descending)
                    own, ours = own[split:], own[:split]
                if here := merge(theirs, ours, descending):
                    yield [(key[:-HASH_BYTES], record) for key, record in here]
        finally:
            if read_range is not None:
                read_range.is_finished = True
        if read_range is None and self._engine.lease is not None:
            # Another node may have changed records that lay in the range before.
            await self._check_changed(view)

    async def _walk_batches(
        self,
        view: ContainerSnapshot,
        overlays: IndexOverlays,
        index: Index,
        within: KeyRange,
        descending: bool,
        batch: int,
        began: int,
    ) -> AsyncIterator[tuple[list[Found], EntryPosition | None]]:
        """Yield the entries of each batch as they were at the beginning, and its last place; None: the end of the range."""
        after: EntryPosition | None = None
        store = self._engine.store
        version = store.catalog_version
        while True:
            found = await store.read(ScanIndex(view.node.id, index.number, within, descending, after, batch))
            self._check_losses(view.node.id)
            if store.catalog_version != version:
                version = store.catalog_version
                if not await self._engine.indexes.has_all(view.node.id, [index]):
                    # The dropped index may have lost entries already.
                    raise WriteConflict(CHANGED, container=view.node.id, scheme=True)
            view.add_replaced(overlays)
            last = (found[-1][0], found[-1][1].seq) if found else None
            stored = self._stored_at_begin(view, overlays, found, began)
            gone = self._visible_of(view, overlays.gone.between(within, after, last, descending))
            yield merge(stored, gone, descending), last
            if last is None:
                return
            after = last
            await asyncio.sleep(0)

    def _stored_at_begin(
        self, view: ContainerSnapshot, overlays: IndexOverlays, found: list[Found], began: int
    ) -> list[Found]:
        """Return the stored entries that already were so at the beginning; replaced versions are in an overlay."""
        if not overlays.gone and max([each[1].lsn for each in found], default=0) <= view.lsn:
            # Nothing here has changed since the beginning, as in nearly every batch.
            return self._visible_of(view, found)
        begun: list[Found] = []
        for each in found:
            record = each[1]
            if view.is_new(record) or record.seq in overlays.gone:
                continue
            if record.lsn > view.lsn:
                if overlays.first.get(record.seq, began) < began:
                    continue
                raise view.conflict()
            begun.append(each)
        return self._visible_of(view, begun)

    def _visible_of(self, view: ContainerSnapshot, found: list[Found]) -> list[Found]:
        is_visible = view.visibility
        return found if is_visible is None else [each for each in found if is_visible(each[1])]

    async def _check_changed(self, view: ContainerSnapshot) -> None:
        """Raise WriteConflict if a record that the index may have led to has changed, and its old version is unknown."""
        after = Position(b"", view.lsn)
        while changed := await self._engine.store.read(Scan(view.node.id, b"", None, Order.CHANGED, after, SCAN_BATCH)):
            if not all(view.is_new(record) or self._cached_version(view, record.seq) is not None for record in changed):
                raise view.conflict()
            after = Position(changed[-1].partition, changed[-1].lsn)

    def _as_begun(self, view: ContainerSnapshot, stored: Sequence[Record]) -> list[Record]:
        """Return stored records as the transaction sees them."""
        begun = [self._version_at_begin(view, record) for record in stored if not view.is_new(record)]
        return self._visible(view, begun)

    def _version_at_begin(self, view: ContainerSnapshot, stored: Record) -> Record:
        """Return the version of a stored record at the beginning, if it is known, else the stored one."""
        record = stored if stored.lsn <= view.lsn else self._cached_version(view, stored.seq) or stored
        view.note_read(record.partition, record.key, record)
        return record

    def _cached_version(self, view: ContainerSnapshot, seq: int) -> Record | None:
        return self._engine.version_cache.at(view.node.id, seq, view.lsn)

    def _replaced_versions(self, view: ContainerSnapshot, given: Set[int]) -> list[Record]:
        """Return the visible versions at the beginning that were replaced since, except those with given seqs."""
        before = [
            record for record in self._engine.version_cache.all_at(view.node.id, view.lsn) if record.seq not in given
        ]
        for record in before:
            view.note_read(record.partition, record.key, record)
        return self._visible(view, before)

    def _visible(self, view: ContainerSnapshot, records: Iterable[Record]) -> list[Record]:
        found = [view.workspace.current_version(record) for record in records]
        return [record for record in found if record is not None and visible_at(record, view.workspace.rules, self.now)]

    def _own_records(self, view: ContainerSnapshot) -> list[Record]:
        """Return the visible records that the transaction has written, by seq."""
        visible = [
            record for record in view.workspace.written_records if visible_at(record, view.workspace.rules, self.now)
        ]
        return sorted(visible, key=lambda record: record.seq)

    # --- writes ----------------------------------------------------------------------------------------------------------

    async def run(self, container: int, command: Command, blind: bool = False) -> Written:
        """Run a command as the writer would. Errors: those of its mode, which have no effect, and those of `get`; Overloaded
        if the writes of all transactions are too large, after which this one can only be closed.

        `blind`: an UPSERT or DELETE whose client does not need the old record. A concurrent write of the record is no
        conflict then, unless the record is also read here; a merge is repeated at the commit on the record as it is then, so
        the result is provisional. A blind DELETE of a missing record raises NotFound, and is repeated at the commit in any
        case.
        """
        view = await self._view(container)
        # A condition on version or number needs the old record, so such a command is not blind.
        blind = blind and command.mode in (Mode.UPSERT, Mode.DELETE) and command.if_match is command.seq is None
        identity = command.partition, command.key
        if command.mode is not Mode.READ:
            # Lock, then read: a record that is read under an exclusive lock cannot change before the commit.
            await self._lock(view, command)
        if not blind:
            view.note_blind_read(*identity)
        done = Done(container, command, blind)
        try:
            read = self._read_blindly if blind and identity not in view.written else self._read_to_write
            done.written = await run_steps(
                view.workspace.run(command), lambda request: self._answer(view, request, read)
            )
        except OwnerNotFound:
            raise
        except Locked as met:
            raise WriteConflict(TAKEN, container=container) from met
        except NotFound:
            if blind:
                self._done.append(done)
            raise
        if command.mode is not Mode.READ:
            if not view.is_blind(identity):
                view.written.update(dict.fromkeys([identity, (command.partition, command.key_after)]))
            self._charge(len(done.written.record.value))
            self._done.append(done)
        if self._holder.exclusive and command.mode is not Mode.DELETE:
            await self._lock_entries(view, view.workspace.unique(done.written.record))
        return done.written

    def add_body(self, body: Body[None], size: int) -> None:
        """Have a body decided at the commit, behind the commands. Reads of the snapshot do not see its changes. Overloaded as
        in `run`. `size`: the bytes that it keeps.
        """
        self._charge(size)
        self._bodies.append(body)

    def _charge(self, value: int) -> None:
        """Charge a write. Its command keeps the value too, or what makes it."""
        self.turns.renew()
        size = 2 * value + WRITE_OVERHEAD
        if not self._engine.transaction_bytes.take(size):
            raise Overloaded(
                f"The writes of open transactions exceed {self.bytes_limit} bytes, of which this one has {self.written_bytes}."
            )
        self.written_bytes += size

    async def _lock(self, view: ContainerSnapshot, command: Command) -> None:
        """Lock the records that a command writes. With exclusive locks, reads from then on stay valid until the locks are
        released.
        """
        locks, container, gone = self._engine.locks, view.node.id, command.mode is Mode.DELETE
        fresh = await locks.hold(self._holder, container, (command.partition, command.key), gone)
        if command.key_after != command.key:
            fresh |= await locks.hold(self._holder, container, (command.partition, command.key_after), False)
        if fresh and self._holder.exclusive:
            # Wait for writes that were decided before they could see the lock.
            await self._engine.version_cache.wait_for_writes()

    async def _lock_entries(self, view: ContainerSnapshot, entries: tuple[Entry, ...]) -> None:
        if self._engine.locks.take_entries(self._holder, view.node.id, entries):
            await self._engine.version_cache.wait_for_writes()
            for record in await self._engine.store.read(EntryOwners(view.node.id, entries)):
                view.note_read(record.partition, record.key, record)

    async def commit(self, now: Instant, claim: Body[bool] | None = None) -> list[Written]:
        """Run the commands again inside the writer, with final numbers. WriteConflict if that is no longer possible.

        `claim`: decided first, in the same transaction; if it returns False, nothing else is done, and [] is returned.
        """
        # Reads alone are valid at the snapshot's lsns, so nothing is checked.
        if not self._done and not self._bodies:
            return []

        blind, holds = any(done.blind for done in self._done), tuple(self._holder.holds)

        def body(transaction: WriteTransaction) -> Generator[Read[Any], Any, list[Written]]:
            transaction.author = self.author
            if self._epoch != self._engine.epoch:
                raise WriteConflict(CHANGED, container=self._done[0].container if self._done else 0)
            if claim is not None and not (yield from claim(transaction)):
                return []
            # All other purges show in the version of the record.
            if blind and holds and not (yield from ask(StillHeld(holds))):
                raise WriteConflict(CHANGED, container=self._done[0].container)
            written = yield from self._replay(transaction)
            for each in self._bodies:
                yield from each(transaction)
            return written

        return await self._engine.transact(body, now, self._holder, size=len(self._done))

    def _replay(self, transaction: WriteTransaction) -> Generator[Read[Any], Any, list[Written]]:
        pairs: list[tuple[Written, Written]] = []
        last = 0
        try:
            # All checks come before the first command, whose changes would hide what others have committed.
            for container, view in self._views.items():
                if view.written:
                    yield from view.check_writes((yield from transaction.on(container)))
                if self.serializable and view.has_reads:
                    yield from transaction.on(container)
                    yield from view.check_reads(transaction.lsn(container))
            for done in self._done:
                last = done.container
                written = yield from self._rerun(done, (yield from transaction.on(last)), pairs)
                if written is not None:
                    pairs.append((done.written or written, written))
        except (Conflict, NotFound, PreconditionFailed) as refusal:
            # The command was possible on the snapshot, so a concurrent commit is the cause.
            raise WriteConflict(CHANGED, container=last) from refusal
        return [written for _, written in pairs]

    def _rerun(
        self, done: Done, workspace: Workspace, pairs: Sequence[tuple[Written, Written]]
    ) -> Generator[Read[Any], Any, Written | None]:
        try:
            return (yield from workspace.run(final(done.command, pairs)))
        except NotFound:
            # A blind delete of a missing record changes nothing, now as when it first ran.
            if done.blind and done.command.mode is Mode.DELETE:
                return None
            raise

    # --- what both need --------------------------------------------------------------------------------------------------

    async def _view(self, container: int) -> ContainerSnapshot:
        self._check_losses(container)
        view = self._views.get(container)
        if view is None:
            row = await self._engine.store.read(LoadRow(container))
            if row is None:
                raise OwnerNotFound(OWNER_MISSING)
            lsn, seq = self._beginning(row)
            # A commit that ends on several workers, one after the other, may show its lsn before all of its changes. A
            # read in the order of commits waits for commits in progress: later reads are no older than the lsn.
            await self._engine.store.read(Scan(container, b"", None, Order.CHANGED, Position(b"", lsn), 1))
            node, version_cache, locks = self._engine.nodes.of(row), self._engine.version_cache, self._engine.locks
            if self._is_as_of:
                node = node_as_of(node)
            view = self._views[container] = ContainerSnapshot(
                node, lsn, seq, self.now, version_cache, locks, self._holder, self.turns
            )
        return view

    def _check_losses(self, container: int) -> None:
        version_cache = self._engine.version_cache
        if version_cache.has_lost_versions(self) or (self.serializable and version_cache.lost_purged_versions(self)):
            raise WriteConflict(CHANGED, container=container)

    def _beginning(self, row: CatalogRow) -> tuple[int, int]:
        """Return the last numbers of a container at the beginning: none for a container that was created since."""
        begun = self._begun.get(row.id)
        if begun is None and row.parent in self._parents:
            return 0, 0
        return (row.lsn, row.seq) if begun is None else (begun.lsn, begun.seq)

    async def _answer(self, view: ContainerSnapshot, request: Read[Any], answer: Answers) -> Any:
        if isinstance(request, Allocate):
            self._last += 1
            return self._last, self._last if request.seq else 0
        found = await self._engine.store.read(request)
        if isinstance(request, Get):
            return answer(view, request, found)
        if isinstance(request, EntryOwners):
            for record in found:
                view.note_read(record.partition, record.key, record)
        return found

    def _read_begun(self, view: ContainerSnapshot, request: Get, stored: Record | None) -> Record | None:
        """Return the record at a place as it was at the beginning, given the stored one."""
        begun = self._version_at_place(view, request, stored)
        if begun is not None and view.is_new(begun):
            begun = None  # The place was empty, and that counts as read.
        view.note_read(request.partition, request.key, begun)
        return begun

    def _read_to_write(self, view: ContainerSnapshot, request: Get, stored: Record | None) -> Record | None:
        """Return the record at a place that is to be written; it must be unchanged since the beginning."""
        if stored is None and self._read_begun(view, request, None) is not None:
            raise view.conflict()
        view.note_read(request.partition, request.key, stored)
        return stored

    def _read_blindly(self, view: ContainerSnapshot, request: Get, stored: Record | None) -> Record | None:
        """Return the record at a place, as far as it is known."""
        begun = self._version_at_place(view, request, stored)
        begun = None if begun is not None and view.is_new(begun) else begun
        view.note_blind_write((request.partition, request.key), begun)
        return begun

    def _version_at_place(self, view: ContainerSnapshot, request: Get, stored: Record | None) -> Record | None:
        if stored is not None and stored.lsn <= view.lsn:
            return stored
        return self._engine.version_cache.at_place(view.node.id, request.partition, request.key, view.lsn) or stored
