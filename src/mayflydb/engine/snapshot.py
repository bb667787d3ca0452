"""A transaction that lives as long as its client likes: kept in memory, seen by nobody, and committed as a whole at its end.

It is optimistic, and isolated as a snapshot is. It sees what was committed when it began and what it has done itself; it takes no
locks. Whoever of two that write one record commits first wins, the other one gets a WriteConflict and may run again.

The store keeps one version of each record. Those that were replaced since are kept in memory while a snapshot is open, as far as
this process replaced them. One that another process changed is told by its lsn, and is a WriteConflict for whoever meets it; one
that was removed there, or purged, is missing, which is told only if it was met before that. One that was made since is told by
its seq, and is not seen.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterable, Sequence, Set
from typing import Any, Final, TypeVar

import msgspec

from mayflydb.engine.catalog import Node
from mayflydb.engine.commands import Command, Mode, Written
from mayflydb.engine.engine import SCAN_BATCH, Batch, Engine, Scope, scan
from mayflydb.engine.transactions import Body, Transaction
from mayflydb.engine.workspace import Workspace
from mayflydb.expiry.deadline import visible_at
from mayflydb.model.errors import Conflict, NotFound, OwnerNotFound, PreconditionFailed, WriteConflict
from mayflydb.model.instant import Instant
from mayflydb.model.record import Record
from mayflydb.store.interface import Allocate, Children, Get, Holders, Load, Order, Position, Read, Row, Scan

T = TypeVar("T")

CHANGED: Final = "What the transaction works with was changed by somebody else."

PROVISIONAL: Final = 1 << 60
"""Lsns and seqs from here on are for the time being: no container comes to them."""


class Snapshot:
    """Reads and commands of one transaction, one after the other, over any containers of an engine."""

    def __init__(self, engine: Engine, now: Instant, begun: dict[int, Row], parents: frozenset[int]) -> None:
        self.now = now
        self._engine = engine
        self._begun = begun
        self._parents = parents
        self._parts: dict[int, _Part] = {}
        self._done: list[tuple[int, Command, Written]] = []
        self._last = PROVISIONAL
        engine.past.watch(self)
        self._losses = engine.past.losses

    @classmethod
    async def begin(cls, engine: Engine, now: Instant, parents: Iterable[int] = ()) -> Snapshot:
        """From what is committed now in the containers below these nodes; in others from what is when they are first met."""
        known = frozenset(parents)
        begun: dict[int, Row] = {}
        # From before its beginning on it is known what is replaced.
        snapshot = cls(engine, now, begun, known)
        begun.update({row.id: row for parent in known for row in await engine.store.read(Children(parent))})
        return snapshot

    def close(self) -> None:
        """Nothing will be read here any more."""
        self._engine.past.leave(self)

    @property
    def written(self) -> list[Written]:
        """What its commands did, by numbers for the time being."""
        return [written for _, _, written in self._done]

    # --- reads -----------------------------------------------------------------------------------------------------------

    async def get(self, container: int, partition: bytes, key: bytes) -> Record | None:
        """The visible record with this identity, as it is here. Errors: OwnerNotFound, WriteConflict."""
        part = await self._part(container)
        return await self._driven(part, part.space.get(partition, key), writes=False)

    async def scan(
        self, container: int, scope: Scope, after: Position | None = None, batch: int = SCAN_BATCH
    ) -> AsyncIterator[Batch]:
        """Visible records as they are here, stretch by stretch: those that are stored, in order, then those that are new.

        Errors: OwnerNotFound, WriteConflict.
        """
        part = await self._part(container)
        number = 0 if after is None else after.number
        if number < PROVISIONAL:
            seen: set[int] = set()
            position = after
            async for stretch in scan(self._engine.store, part.node, scope, after, self.now, batch):
                position = stretch.position
                here = self._here(part, stretch.records)
                seen.update(record.seq for record in stretch.records)
                yield Batch(here, position)
            gone = [record for record in self._gone(part, seen) if scope.has(record.partition)]
            if gone and after is None:
                yield Batch(gone, position or Position(gone[-1].partition, gone[-1].seq))
        new = [
            record
            for record in self._own(part)
            if record.seq > max(PROVISIONAL, number) and scope.has(record.partition)
        ]
        if new:
            yield Batch(new, Position(new[-1].partition, new[-1].seq))

    async def fetch(self, container: int, seqs: Sequence[int], batch: int = SCAN_BATCH) -> AsyncIterator[list[Record]]:
        """The visible records with these ascending seqs as they are here, then all others that were written here.

        An index knows what is stored: what has been written here may belong to its answer, too, and the query tells. Errors:
        OwnerNotFound, WriteConflict.
        """
        part = await self._part(container)
        given: set[int] = set()
        async for records in self._engine.indexes.fetch(part.node, seqs, self.now, batch):
            here = self._here(part, records)
            given.update(record.seq for record in here)
            yield here
        await self._check_changed(part)
        # Those that have changed since may have been where the index led to before that.
        gone = self._gone(part, given)
        given.update(record.seq for record in gone)
        if rest := gone + [record for record in self._own(part) if record.seq not in given]:
            yield rest

    async def _check_changed(self, part: _Part) -> None:
        """WriteConflict if a record that an index may have led to before has been changed, and is not known as it was."""
        after = Position(b"", part.lsn)
        while changed := await self._engine.store.read(Scan(part.node.id, b"", None, Order.CHANGED, after, SCAN_BATCH)):
            if not all(part.is_new(record) or self._before(part, record.seq) is not None for record in changed):
                raise WriteConflict(CHANGED)
            after = Position(changed[-1].partition, changed[-1].lsn)

    def _here(self, part: _Part, stored: Sequence[Record]) -> list[Record]:
        """What stored records are here."""
        begun = [self._began(part, record) for record in stored if not part.is_new(record)]
        return self._visible(part, begun)

    def _began(self, part: _Part, stored: Record) -> Record:
        """The version of a stored record that was there at the beginning, if it is known."""
        record = stored if stored.lsn <= part.lsn else self._before(part, stored.seq) or stored
        part.met(record.partition, record.key, record)
        return record

    def _before(self, part: _Part, seq: int) -> Record | None:
        return self._engine.past.at(part.node.id, seq, part.lsn)

    def _gone(self, part: _Part, given: Set[int]) -> list[Record]:
        """What was there at the beginning and has been replaced since, and is not among those given."""
        before = [record for record in self._engine.past.all_at(part.node.id, part.lsn) if record.seq not in given]
        for record in before:
            part.met(record.partition, record.key, record)
        return self._visible(part, before)

    def _visible(self, part: _Part, records: Iterable[Record]) -> list[Record]:
        found = [part.space.now_is(record) for record in records]
        return [record for record in found if record is not None and visible_at(record, part.space.rules, self.now)]

    def _own(self, part: _Part) -> list[Record]:
        """By seq."""
        visible = [record for record in part.space.kept if visible_at(record, part.space.rules, self.now)]
        return sorted(visible, key=lambda record: record.seq)

    # --- writes ----------------------------------------------------------------------------------------------------------

    async def run(self, container: int, command: Command) -> Written:
        """Decide a command as the writer would. Errors: those of its mode, which leave nothing behind, and those of `get`."""
        part = await self._part(container)
        written = await self._driven(part, part.space.run(command))
        if command.mode is not Mode.READ:
            part.written.update(
                dict.fromkeys([(command.partition, command.key), (command.partition, command.key_after)])
            )
            self._done.append((container, command, written))
        return written

    async def commit(self, now: Instant, claim: Body[bool] | None = None) -> list[Written]:
        """Do what its commands have done, all of it, by numbers that last. WriteConflict if that is not possible any more.

        `claim`: decided first, in the same transaction; where it says False, nothing else is done, and [] returned.
        """
        if not self._done:
            return []

        def body(transaction: Transaction) -> Generator[Read[Any], Any, list[Written]]:
            if claim is not None and not (yield from claim(transaction)):
                return []
            return (yield from self._replay(transaction))

        return await self._engine.transact(body, now)

    def _replay(self, transaction: Transaction) -> Generator[Read[Any], Any, list[Written]]:
        written: list[Written] = []
        try:
            for container, part in self._parts.items():
                if part.written:
                    yield from part.check((yield from transaction.on(container)))
            for container, command, _ in self._done:
                space = yield from transaction.on(container)
                written.append((yield from space.run(self._final(command, written))))
        except (Conflict, NotFound, PreconditionFailed) as refusal:
            # It was possible by what was there when it ran.
            raise WriteConflict(CHANGED) from refusal
        return written

    def _final(self, command: Command, written: Sequence[Written]) -> Command:
        """A command with the numbers that records written here have got."""
        version, number = command.if_match, command.seq
        if (version or 0) < PROVISIONAL and (number or 0) < PROVISIONAL:
            return command
        pairs = [(ours.record, theirs.record) for ours, theirs in zip(self.written, written, strict=False)]
        versions: dict[int | None, int] = {ours.lsn: theirs.lsn for ours, theirs in pairs}
        numbers: dict[int | None, int] = {ours.seq: theirs.seq for ours, theirs in pairs}
        return msgspec.structs.replace(
            command, if_match=versions.get(version, version), seq=numbers.get(number, number)
        )

    # --- what both need --------------------------------------------------------------------------------------------------

    async def _part(self, container: int) -> _Part:
        if self._engine.past.losses != self._losses:
            raise WriteConflict(CHANGED)
        part = self._parts.get(container)
        if part is None:
            row = await self._engine.store.read(Load(container))
            if row is None:
                raise OwnerNotFound("Owner resource does not exist")
            lsn, seq = self._beginning(row)
            # Where a commit ends on several workers, one after the other, that lsn may be seen before all that belongs to it. A
            # read in the order of commits waits for those under way: what is read from here on is no older than the lsn.
            await self._engine.store.read(Scan(container, b"", None, Order.CHANGED, Position(b"", lsn), 1))
            part = self._parts[container] = _Part(self._engine.nodes.of(row), lsn, seq, self.now)
        return part

    def _beginning(self, row: Row) -> tuple[int, int]:
        """The last numbers that had been given out in a container: in one that is younger, none."""
        begun = self._begun.get(row.id)
        if begun is None and row.parent in self._parents:
            return 0, 0
        return (row.lsn, row.seq) if begun is None else (begun.lsn, begun.seq)

    async def _driven(self, part: _Part, decision: Generator[Read[Any], Any, T], writes: bool = True) -> T:
        answer: Any = None
        while True:
            try:
                request = decision.send(answer)
            except StopIteration as end:
                reply: T = end.value
                return reply
            answer = await self._answer(part, request, writes)

    async def _answer(self, part: _Part, request: Read[Any], writes: bool) -> Any:
        if isinstance(request, Allocate):
            self._last += 1
            return self._last, self._last if request.seq else 0
        found = await self._engine.store.read(request)
        if isinstance(request, Get):
            if not writes:
                return self._read(part, request, found)
            if found is None and self._read(part, request, None) is not None:
                raise WriteConflict(CHANGED)
            part.met(request.partition, request.key, found)
        elif isinstance(request, Holders):
            for record in found:
                part.met(record.partition, record.key, record)
        return found

    def _read(self, part: _Part, request: Get, stored: Record | None) -> Record | None:
        """What was at a place at the beginning, by what is there now."""
        begun = stored
        if stored is None or stored.lsn > part.lsn:
            begun = self._engine.past.at_place(part.node.id, request.partition, request.key, part.lsn) or stored
        if begun is not None and part.is_new(begun):
            return None
        part.met(request.partition, request.key, begun)
        return begun


class _Part:
    """What is known of one container."""

    __slots__ = ("_now", "_seq", "_versions", "lsn", "node", "space", "written")

    def __init__(self, node: Node, lsn: int, seq: int, now: Instant) -> None:
        self.node = node
        self.space = Workspace(node, now)
        self.written: dict[tuple[bytes, bytes], None] = {}
        self.lsn = lsn
        self._seq = seq
        self._now = now
        self._versions: dict[tuple[bytes, bytes], int | None] = {}

    def is_new(self, stored: Record) -> bool:
        """Whether it was made since the beginning, by somebody else."""
        return stored.seq > self._seq

    def met(self, partition: bytes, key: bytes, stored: Record | None) -> None:
        """This is stored there. WriteConflict if it is not what was there at the beginning, or was met before."""
        if stored is not None and not visible_at(stored, self.space.rules, self._now):
            stored = None  # Whether it is purged or not makes no difference to anybody.
        version = None if stored is None else stored.lsn
        if (version or 0) > self.lsn or self._versions.setdefault((partition, key), version) != version:
            raise WriteConflict(CHANGED)

    def check(self, space: Workspace) -> Generator[Read[Any], Any, None]:
        """In the committing transaction, before it writes anything. WriteConflict if somebody else wrote what is written here."""
        for identity in self.written:
            record = yield from space.get(*identity)
            if (None if record is None else record.lsn) != self._versions.get(identity):
                raise WriteConflict(CHANGED)
