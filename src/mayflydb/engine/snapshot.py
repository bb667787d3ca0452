"""A transaction that lives as long as its client likes: kept in memory, seen by nobody, and committed as a whole at its end.

It is isolated as a snapshot is. It sees what was committed when it began and what it has done itself. What it has written is
locked until it is closed: nothing purges it meanwhile. With exclusive locks plain writes of it wait, and of two transactions that
write one record the second gets a WriteConflict at once. Otherwise it is optimistic: the first of them that commits wins, the
other one gets a WriteConflict and may run again. So does a serializable one that has written something, and would not read at
its end what it has read.

The store keeps one version of each record. Those that were replaced since are kept in memory while a snapshot is open, as far as
this process replaced or purged them. One that another process changed is told by its lsn, and is a WriteConflict for whoever
meets it; one that was removed there is missing, which is told only if it was met before that, and so are those that were purged
beyond MAX_PURGED, but a serializable one ends then. One that was made since is told by its seq, and is not seen.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Sequence, Set
from typing import Any, Final, TypeAlias, TypeVar

import msgspec

from mayflydb.engine.building import KeysOf
from mayflydb.engine.catalog import OWNER_MISSING, Index
from mayflydb.engine.commands import Command, Mode, Written
from mayflydb.engine.container_snapshot import CHANGED, ContainerSnapshot, IndexOverlays
from mayflydb.engine.engine import SCAN_BATCH, Batch, Engine, Scope, scan
from mayflydb.engine.index_overlay import Found, Place, merge
from mayflydb.engine.locks import TAKEN, Locked, LockHolder
from mayflydb.engine.transactions import Body, Transaction
from mayflydb.engine.workspace import Workspace
from mayflydb.expiry.deadline import visible_at
from mayflydb.model.errors import Conflict, NotFound, OwnerNotFound, PreconditionFailed, WriteConflict
from mayflydb.model.instant import Instant
from mayflydb.model.order import HASH_BYTES, KeyRange, Order, Position
from mayflydb.model.record import Entry, Record
from mayflydb.store.interface import Allocate, Children, Get, Holders, Load, Read, Row, Scan, Stands, Walk, ask

T = TypeVar("T")

PROVISIONAL: Final = 1 << 60
"""Lsns and seqs from here on are for the time being: no container comes to them."""


class Snapshot:
    """Reads and commands of one transaction, one after the other, over any containers of an engine."""

    def __init__(
        self,
        engine: Engine,
        now: Instant,
        begun: dict[int, Row],
        parents: frozenset[int],
        serializable: bool = False,
        exclusive: bool = False,
    ) -> None:
        self.now = now
        self._holder = LockHolder(now, exclusive)
        self.serializable = serializable
        self._engine = engine
        self._begun = begun
        self._parents = parents
        self._views: dict[int, ContainerSnapshot] = {}
        self._done: list[_Done] = []
        self._last = PROVISIONAL
        engine.version_cache.watch(self)

    @classmethod
    async def begin(
        cls,
        engine: Engine,
        now: Instant,
        parents: Iterable[int] = (),
        serializable: bool = False,
        exclusive: bool = False,
    ) -> Snapshot:
        """From what is committed now in the containers below these nodes; in others from what is when they are first met.

        `exclusive`: of what it writes, until it is closed.
        """
        known = frozenset(parents)
        begun: dict[int, Row] = {}
        # From before its beginning on it is known what is replaced.
        snapshot = cls(engine, now, begun, known, serializable, exclusive)
        begun.update({row.id: row for parent in known for row in await engine.store.read(Children(parent))})
        return snapshot

    def close(self) -> None:
        """Nothing will be read here any more, and nothing committed: its locks are released."""
        self._engine.version_cache.unwatch(self)
        self._engine.locks.release(self._holder)

    @property
    def written(self) -> list[Written]:
        """What its commands did, by numbers for the time being."""
        return [done.written for done in self._done if done.written is not None]

    # --- reads -----------------------------------------------------------------------------------------------------------

    async def get(self, container: int, partition: bytes, key: bytes) -> Record | None:
        """The visible record with this identity, as it is here. Errors: OwnerNotFound, WriteConflict."""
        view = await self._view(container)
        view.note_blind_read(partition, key)
        return await self._drive(view, view.workspace.get(partition, key), self._read_begun)

    async def scan(
        self, container: int, scope: Scope, after: Position | None = None, batch: int = SCAN_BATCH
    ) -> AsyncIterator[Batch]:
        """Visible records as they are here, stretch by stretch: those that are stored, in order, then those that are new.

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
        """The visible records with these ascending seqs as they are here, then all others that were written here.

        An index knows what is stored: what has been written here may belong to its answer, too, and the query tells. Errors:
        OwnerNotFound, WriteConflict.
        """
        view = await self._view(container)
        view.note_scan(Scope())  # Nobody tells what the index was asked for.
        given: set[int] = set()
        async for records in self._engine.indexes.fetch(view.node, seqs, self.now, batch):
            here = self._as_begun(view, records)
            given.update(record.seq for record in here)
            yield here
        await self._check_changed(view)
        # Those that have changed since may have been where the index led to before that.
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
        """(index key, record) of the visible records in a range of entry keys of a ready index, in order of their entry keys, as
        they were at the beginning and with what had been written here when the walk began; stretch by stretch.

        The index key is without what of the partition ends an entry key. A record comes once for each of its keys in the range.
        `keys_of` is what the index was built with. An entry key has LONGEST_ORDERED bytes at most, so it may have to cut index
        keys at LONGEST_ORDERED - HASH_BYTES. Then a range has to be cut likewise (the upper bound upwards), records of one cut
        key come in the order of their partitions, and the caller sorts those and leaves out what lies beyond his bounds.
        In a serializable transaction all stretches that were asked for count as read. Errors: OwnerNotFound, WriteConflict; its
        detail `scheme` is True for an index that was dropped meanwhile, since that loses its entries.
        """
        view = await self._view(container)
        overlays = view.overlays(index, keys_of)
        began = overlays.own_upto
        own = self._visible_of(view, overlays.own.between(within, None, None, descending))
        read_range = view.read_range(index, within, descending, keys_of) if self.serializable else None
        try:
            async for begun, last in self._walk_batches(view, overlays, index, within, descending, batch, began):
                if read_range is not None:
                    read_range.read(begun, last)
                split = len(own) if last is None else _upto(own, last, descending)
                theirs = [each for each in begun if overlays.first.get(each[1].seq, began) >= began]
                own, ours = own[split:], own[:split]
                if here := merge(theirs, ours, descending):
                    yield [(key[:-HASH_BYTES], record) for key, record in here]
        finally:
            if read_range is not None:
                read_range.is_finished = True
        if read_range is None and self._engine.lease is not None:
            # Another node may have changed what lay in the range before.
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
    ) -> AsyncIterator[tuple[list[Found], Place | None]]:
        """What was there at the beginning, and up to where; None: to the end."""
        after: Place | None = None
        store = self._engine.store
        version = store.catalog_version
        while True:
            found = await store.read(Walk(view.node.id, index.number, within, descending, after, batch))
            self._check_losses(view.node.id)
            if store.catalog_version != version:
                version = store.catalog_version
                if not await self._engine.indexes.has_all(view.node.id, [index]):
                    # It may have lost entries already.
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
        self, view: ContainerSnapshot, overlays: IndexOverlays, found: Sequence[Found], began: int
    ) -> list[Found]:
        """Which of these were stored like this at the beginning; those that have been replaced since are on a shelf."""
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

    def _visible_of(self, view: ContainerSnapshot, found: Sequence[Found]) -> list[Found]:
        return [each for each in found if view.visible(each[1])] if view.workspace.rules else list(found)

    async def _check_changed(self, view: ContainerSnapshot) -> None:
        """WriteConflict if a record that an index may have led to before has been changed, and is not known as it was."""
        after = Position(b"", view.lsn)
        while changed := await self._engine.store.read(Scan(view.node.id, b"", None, Order.CHANGED, after, SCAN_BATCH)):
            if not all(view.is_new(record) or self._cached_version(view, record.seq) is not None for record in changed):
                raise view.conflict()
            after = Position(changed[-1].partition, changed[-1].lsn)

    def _as_begun(self, view: ContainerSnapshot, stored: Sequence[Record]) -> list[Record]:
        """What stored records are here."""
        begun = [self._version_at_begin(view, record) for record in stored if not view.is_new(record)]
        return self._visible(view, begun)

    def _version_at_begin(self, view: ContainerSnapshot, stored: Record) -> Record:
        """The version of a stored record that was there at the beginning, if it is known."""
        record = stored if stored.lsn <= view.lsn else self._cached_version(view, stored.seq) or stored
        view.note_read(record.partition, record.key, record)
        return record

    def _cached_version(self, view: ContainerSnapshot, seq: int) -> Record | None:
        return self._engine.version_cache.at(view.node.id, seq, view.lsn)

    def _replaced_versions(self, view: ContainerSnapshot, given: Set[int]) -> list[Record]:
        """What was there at the beginning and has been replaced since, and is not among those given."""
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
        """By seq."""
        visible = [
            record for record in view.workspace.written_records if visible_at(record, view.workspace.rules, self.now)
        ]
        return sorted(visible, key=lambda record: record.seq)

    # --- writes ----------------------------------------------------------------------------------------------------------

    async def run(self, container: int, command: Command, blind: bool = False) -> Written:
        """Decide a command as the writer would. Errors: those of its mode, which leave nothing behind, and those of `get`.

        `blind`: of an UPSERT or a DELETE whose sender does not want to know what was there. It is no conflict if somebody else
        writes that record meanwhile, unless it is read here, too; a merge is made again from what is there at the end. So what
        it gives is for the time being. A blind DELETE that meets nothing raises NotFound, and is done at the end in any case.
        """
        view = await self._view(container)
        blind = blind and command.mode in (Mode.UPSERT, Mode.DELETE) and command.if_match is command.seq is None
        identity = command.partition, command.key
        if command.mode is not Mode.READ:
            await self._lock(view, command)
        if not blind:
            view.note_blind_read(*identity)
        done = _Done(container, command, blind)
        try:
            answer = self._read_blindly if blind and identity not in view.written else self._read_to_write
            done.written = await self._drive(view, view.workspace.run(command), answer)
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
            self._done.append(done)
        if self._holder.exclusive and command.mode is not Mode.DELETE:
            await self._lock_entries(view, view.workspace.unique(done.written.record))
        return done.written

    async def _lock(self, view: ContainerSnapshot, command: Command) -> None:
        """Lock what a command writes. What is read from then on stays so until the locks are released, if they are exclusive."""
        locks, container, gone = self._engine.locks, view.node.id, command.mode is Mode.DELETE
        fresh = await locks.hold(self._holder, container, (command.partition, command.key), gone)
        if command.key_after != command.key:
            fresh |= await locks.hold(self._holder, container, (command.partition, command.key_after), False)
        if fresh and self._holder.exclusive:
            # Writes that have been decided without knowing of the lock.
            await self._engine.version_cache.wait_for_writes()

    async def _lock_entries(self, view: ContainerSnapshot, entries: tuple[Entry, ...]) -> None:
        if self._engine.locks.take_entries(self._holder, view.node.id, entries):
            await self._engine.version_cache.wait_for_writes()
            for record in await self._engine.store.read(Holders(view.node.id, entries)):
                view.note_read(record.partition, record.key, record)

    async def commit(self, now: Instant, claim: Body[bool] | None = None) -> list[Written]:
        """Do what its commands have done, all of it, by numbers that last. WriteConflict if that is not possible any more.

        `claim`: decided first, in the same transaction; where it says False, nothing else is done, and [] returned.
        """
        if not self._done:
            return []

        blind, holds = any(done.blind for done in self._done), tuple(self._holder.holds)

        def body(transaction: Transaction) -> Generator[Read[Any], Any, list[Written]]:
            if claim is not None and not (yield from claim(transaction)):
                return []
            # Of all else that was purged meanwhile its version tells.
            if blind and holds and not (yield from ask(Stands(holds))):
                raise WriteConflict(CHANGED, container=self._done[0].container)
            return (yield from self._replay(transaction))

        return await self._engine.transact(body, now, self._holder)

    def _replay(self, transaction: Transaction) -> Generator[Read[Any], Any, list[Written]]:
        pairs: list[tuple[Written, Written]] = []
        last = 0
        try:
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
            # It was possible by what was there when it ran.
            raise WriteConflict(CHANGED, container=last) from refusal
        return [written for _, written in pairs]

    def _rerun(
        self, done: _Done, workspace: Workspace, pairs: Sequence[tuple[Written, Written]]
    ) -> Generator[Read[Any], Any, Written | None]:
        try:
            return (yield from workspace.run(_final(done.command, pairs)))
        except NotFound:
            if done.blind and done.command.mode is Mode.DELETE:
                return None
            raise

    # --- what both need --------------------------------------------------------------------------------------------------

    async def _view(self, container: int) -> ContainerSnapshot:
        self._check_losses(container)
        view = self._views.get(container)
        if view is None:
            row = await self._engine.store.read(Load(container))
            if row is None:
                raise OwnerNotFound(OWNER_MISSING)
            lsn, seq = self._beginning(row)
            # Where a commit ends on several workers, one after the other, that lsn may be seen before all that belongs to it. A
            # read in the order of commits waits for those under way: what is read from here on is no older than the lsn.
            await self._engine.store.read(Scan(container, b"", None, Order.CHANGED, Position(b"", lsn), 1))
            node, version_cache, locks = self._engine.nodes.of(row), self._engine.version_cache, self._engine.locks
            view = self._views[container] = ContainerSnapshot(
                node, lsn, seq, self.now, version_cache, locks, self._holder
            )
        return view

    def _check_losses(self, container: int) -> None:
        version_cache = self._engine.version_cache
        if version_cache.has_lost_versions(self) or (self.serializable and version_cache.lost_purged_versions(self)):
            raise WriteConflict(CHANGED, container=container)

    def _beginning(self, row: Row) -> tuple[int, int]:
        """The last numbers that had been given out in a container: in one that is younger, none."""
        begun = self._begun.get(row.id)
        if begun is None and row.parent in self._parents:
            return 0, 0
        return (row.lsn, row.seq) if begun is None else (begun.lsn, begun.seq)

    async def _drive(self, view: ContainerSnapshot, decision: Generator[Read[Any], Any, T], answer: _Answers) -> T:
        reply: Any = None
        while True:
            try:
                request = decision.send(reply)
            except StopIteration as end:
                result: T = end.value
                return result
            reply = await self._answer(view, request, answer)

    async def _answer(self, view: ContainerSnapshot, request: Read[Any], answer: _Answers) -> Any:
        if isinstance(request, Allocate):
            self._last += 1
            return self._last, self._last if request.seq else 0
        found = await self._engine.store.read(request)
        if isinstance(request, Get):
            return answer(view, request, found)
        if isinstance(request, Holders):
            for record in found:
                view.note_read(record.partition, record.key, record)
        return found

    def _read_begun(self, view: ContainerSnapshot, request: Get, stored: Record | None) -> Record | None:
        """What was at a place at the beginning, by what is there now."""
        begun = self._version_at_place(view, request, stored)
        if begun is not None and view.is_new(begun):
            begun = None  # Nothing was there, which counts as read.
        view.note_read(request.partition, request.key, begun)
        return begun

    def _read_to_write(self, view: ContainerSnapshot, request: Get, stored: Record | None) -> Record | None:
        """What is at a place that is to be written, and was there at the beginning."""
        if stored is None and self._read_begun(view, request, None) is not None:
            raise view.conflict()
        view.note_read(request.partition, request.key, stored)
        return stored

    def _read_blindly(self, view: ContainerSnapshot, request: Get, stored: Record | None) -> Record | None:
        """What was at a place, as far as it is known."""
        begun = self._version_at_place(view, request, stored)
        begun = None if begun is not None and view.is_new(begun) else begun
        view.note_blind_write((request.partition, request.key), begun)
        return begun

    def _version_at_place(self, view: ContainerSnapshot, request: Get, stored: Record | None) -> Record | None:
        if stored is not None and stored.lsn <= view.lsn:
            return stored
        return self._engine.version_cache.at_place(view.node.id, request.partition, request.key, view.lsn) or stored


_Answers: TypeAlias = Callable[[ContainerSnapshot, Get, Record | None], Record | None]
"""What a decision is told that asks for the record at a place, of which this is stored now."""


class _Done(msgspec.Struct):
    """A command that was run; `written` None: it was blind, and met nothing."""

    container: int
    command: Command
    blind: bool
    written: Written | None = None


def _final(command: Command, pairs: Sequence[tuple[Written, Written]]) -> Command:
    """A command with the numbers that records written here have got: (as it was here, as it is at the end) of each."""
    version, number = command.if_match, command.seq
    if (version or 0) < PROVISIONAL and (number or 0) < PROVISIONAL:
        return command
    versions: dict[int | None, int] = {ours.record.lsn: theirs.record.lsn for ours, theirs in pairs}
    numbers: dict[int | None, int] = {ours.record.seq: theirs.record.seq for ours, theirs in pairs}
    return msgspec.structs.replace(command, if_match=versions.get(version, version), seq=numbers.get(number, number))


def _upto(found: Sequence[Found], last: Place, descending: bool) -> int:
    """How many of these, which are in order, come no later than a place."""

    def beyond(each: Found) -> bool:
        place = each[0], each[1].seq
        return place < last if descending else place > last

    return bisect_left(found, True, key=beyond)
