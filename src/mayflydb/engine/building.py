"""Builds of indexes whose caller waits: defined together, filled in one pass beside other writes, then all ready or all
removed.

Uniqueness holds from the commit that defines an index. Each later write is checked against the entries that exist by then,
and each batch that is linked is checked against those and itself. So the second of two records with one key is found in
either order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Generator, Sequence, Set
from typing import Any, TypeAlias

import msgspec

from mayflydb.engine.catalog import OWNER_MISSING, Index, Node, Nodes, State, next_number, row_of, with_several
from mayflydb.engine.lifecycle.rolling_up import RollUps
from mayflydb.engine.locks import Locked, Locks
from mayflydb.engine.preparing import Pages, Prepared
from mayflydb.engine.record_decisions import not_unique
from mayflydb.engine.transactions import WriteTransaction
from mayflydb.engine.workspace import repeated_indexes
from mayflydb.evaluation.statement import HERE, Computing
from mayflydb.expiry.deadline import visible_at
from mayflydb.model.errors import NotFound, OwnerNotFound
from mayflydb.model.instant import Instant
from mayflydb.model.keys import SortKeys
from mayflydb.model.order import HASH_BYTES, Identity, Order, Position
from mayflydb.model.record import Entry, Record
from mayflydb.store.interface import (
    Change,
    Decision,
    EntryOwners,
    HeldRecords,
    LoadRow,
    Outcome,
    PutRow,
    Read,
    ReplaceEntries,
    Scan,
    Store,
    ask,
)

KeysOf: TypeAlias = Callable[[Record, Index], Sequence[bytes]]
"""The keys of a record in an index, without duplicates, as the front end computes them; pure. An exception ends the build."""

BATCH_SIZE = 128
"""The most records that are linked in one transaction."""

DROPPED_MEANWHILE = "The index was dropped while it was being built."


class IndexRequest(msgspec.Struct, frozen=True):
    """An index to define; the fields are those of `Index`."""

    keys: SortKeys = ()
    unique: bool = False
    spec: dict[str, Any] | None = None


Choose: TypeAlias = Callable[[Node], Sequence[IndexRequest]]
"""The indexes to add to a container, as it is in the transaction; pure, and may refuse by raising."""


def entry(index: Index, key: bytes, partition: bytes) -> Entry:
    """Return the entry of a record with this index key in this partition."""
    # index key | 8 bytes of the partition's hash. Zeros for a unique index: one key is one entry key in all partitions.
    return Entry(index.number, key + (bytes(HASH_BYTES) if index.unique else partition_suffix(partition)))


def partition_suffix(partition: bytes) -> bytes:
    """Return the bytes of a partition that end an entry key."""
    return partition[:HASH_BYTES].ljust(HASH_BYTES, b"\0")


def add_indexes(
    node: Node, wanted: Sequence[IndexRequest], state: State = "building"
) -> tuple[Node, tuple[Index, ...]]:
    """Return the container with new indexes, and these indexes. Their numbers were never used before."""
    before = node.definition
    first = next_number(before)
    new = tuple(Index(number, each.keys, state, each.unique, each.spec) for number, each in enumerate(wanted, first))
    after = msgspec.structs.replace(before, indexes=(*before.indexes, *new), numbered=first + len(new) - 1)
    return msgspec.structs.replace(node, definition=after), new


def put_index_state(node: Node, numbers: Sequence[int], state: State) -> PutRow:
    """Return the change that sets the state of indexes."""
    indexes = tuple(
        msgspec.structs.replace(index, state=state) if index.number in numbers else index
        for index in node.definition.indexes
    )
    return put_indexes(node, indexes)


def put_indexes(node: Node, indexes: tuple[Index, ...]) -> PutRow:
    """Return the change that replaces a container's list of indexes."""
    # Removing the last one must not free its number.
    numbered = max(node.definition.numbered, *(index.number for index in (*node.definition.indexes, *indexes)), 0)
    definition = msgspec.structs.replace(node.definition, indexes=indexes, numbered=numbered)
    return PutRow(row_of(msgspec.structs.replace(node, definition=definition)))


def has_index(node: Node, index: Index) -> bool:
    """Return whether a container has an index in the same state."""
    return any(each.number == index.number and each.state == index.state for each in node.definition.indexes)


class Build:
    """One build of several new indexes of one container."""

    def __init__(
        self,
        store: Store,
        nodes: Nodes,
        container: int,
        keys_of: KeysOf,
        locks: Locks | None = None,
        computing: Computing = HERE,
        roll_ups: RollUps | None = None,
    ) -> None:
        """`locks`: a locked hidden record is not purged to make room. `computing`: computes the keys. `roll_ups`: writes the
        aggregates of records that make room.
        """
        self._locks = Locks() if locks is None else locks
        self._store = store
        self._nodes = nodes
        self._container = container
        self._keys_of = keys_of
        self._pages: Pages[list[Entry]] = Pages(store, container, computing, self._entries_of, len)
        self.indexes: tuple[Index, ...] = ()
        self._roll_ups = roll_ups
        self._written_into: list[int] = []

    async def define(self, choose: Choose) -> bool:
        """Define the chosen indexes; True: the container is empty, so they are ready. Errors: OwnerNotFound, and those of
        `choose`.
        """

        def decide() -> Decision[tuple[tuple[Index, ...], bool]]:
            row = yield from ask(LoadRow(self._container))
            if row is None:
                raise OwnerNotFound(OWNER_MISSING)
            node = self._nodes.of(row)
            wanted = choose(node)
            if not wanted:
                return Outcome((), ((), True))
            empty = not (yield from ask(Scan(self._container, b"", None, Order.CREATED, None, 1)))
            after, new = add_indexes(node, wanted, "ready" if empty else "building")
            return Outcome((PutRow(row_of(after)),), (new, empty))

        self.indexes, ready = (await self._store.write(decide)).reply
        return ready

    async def step(self, after: Position | None, now: Instant) -> Position | None:
        """Link the next batch after a position; None: that was the last one, and the indexes are ready.

        Errors: Conflict (details `index`, `key`, `holder`) for a second record with one key of a unique index, visible at
        `now` or later; NotFound if the indexes were dropped meanwhile; Unavailable if the computation of keys was stopped;
        those of `keys_of`.
        """

        while True:
            try:
                return await self._attempt(after, now, await self._pages.take(after, BATCH_SIZE))
            except Locked as first:
                met = first
            # A transaction that has locked the hidden record may commit and keep it alive, so wait for its end.
            await self._locks.wait_for_turn(met)
            self._locks.end_turn(met.target)

    async def _attempt(self, after: Position | None, now: Instant, prepared: Prepared[list[Entry]]) -> Position | None:
        # A batch may purge hidden records, so transactions that lock records wait for it as for a sweep.
        with self._locks.purge(self._container):
            locked = self._locks.locked_records(self._container)
            reply = (await self._store.write(lambda: self._link_batch(after, now, prepared, locked), "sweep")).reply
        if self._roll_ups is not None:
            for container in self._written_into:
                self._roll_ups.changed(container)
        return reply

    def _link_batch(
        self, after: Position | None, now: Instant, prepared: Prepared[list[Entry]], locked: Set[Identity]
    ) -> Decision[Position | None]:
        row = yield from ask(LoadRow(self._container))
        node = None if row is None else self._nodes.of(row)
        if node is None or not all(has_index(node, index) for index in self.indexes):
            raise NotFound(DROPPED_MEANWHILE)
        present = yield from ask(Scan(self._container, b"", None, Order.CREATED, after, max(1, len(prepared))))
        if not present:
            return Outcome((put_index_state(node, [index.number for index in self.indexes], "ready"),), None)
        linked = self._pages.reconcile(prepared, present)
        changes = yield from self._link(node, linked, now, locked)
        return Outcome(tuple(changes), Position(b"", linked[-1][0].seq))

    def _link(
        self, node: Node, linked: Prepared[list[Entry]], now: Instant, locked: Set[Identity]
    ) -> Generator[Read[Any], Any, list[Change]]:
        records = [record for record, _ in linked]
        owned = {record.seq: entries for record, entries in linked}
        purged, changes = yield from self._purge_conflicting(node, records, owned, now, locked)
        several = {number for own in owned.values() for number in repeated_indexes(own)}
        if not several <= {index.number for index in node.definition.indexes if index.several}:
            changes.append(PutRow(row_of(with_several(node, several))))
        for index in self.indexes:
            entries = tuple(
                (record, tuple(each.key for each in owned[record.seq] if each.index == index.number))
                for record in records
                if record.seq not in purged
            )
            changes.append(ReplaceEntries(self._container, index.number, entries))
        return changes

    def _entries_of(self, record: Record) -> list[Entry]:
        return [entry(index, key, record.partition) for index in self.indexes for key in self._keys_of(record, index)]

    def _purge_conflicting(
        self,
        node: Node,
        records: Sequence[Record],
        owned: dict[int, list[Entry]],
        now: Instant,
        locked: Set[Identity],
    ) -> Generator[Read[Any], Any, tuple[set[int], list[Change]]]:
        """Purge hidden records that share unique entries: return their seqs and the changes. Conflict if two visible records
        share one.

        Locked if a record to purge is `locked`.
        """
        unique = {index.number for index in self.indexes if index.unique}
        unique_entries = dict.fromkeys(each for own in owned.values() for each in own if each.index in unique)
        if not unique_entries:
            return set(), []
        holders = yield from ask(EntryOwners(self._container, tuple(unique_entries)))
        candidates = {record.seq: record for record in (*holders, *records)}
        # A stored record may have been written after `now` was read, at an instant at which a rival was already expired.
        now = max(now, *(record.written for record in candidates.values()))
        sharers: defaultdict[Entry, list[Record]] = defaultdict(list)
        for seq, record in sorted(candidates.items()):
            for each in owned.get(seq) or self._entries_of(record):
                sharers[each].append(record)
        transaction = self._begin_purge(node, now)
        space = yield from transaction.on(node.id)
        purged: set[int] = set()
        for each in unique_entries:
            visible = [record for record in sharers[each] if visible_at(record, node.rules, now)]
            if len(visible) > 1:
                raise not_unique(each, visible[0])
            for record in sharers[each] if len(sharers[each]) > 1 else ():
                if record not in visible and record.seq not in purged:
                    if (identity := (record.partition, record.key)) in locked:
                        raise Locked((node.id, identity))
                    if identity in ((yield from ask(HeldRecords(node.id))) or ()):
                        raise Locked((node.id, identity), elsewhere=True)
                    purged.add(record.seq)
                    yield from space.purge_hidden(record)
        if transaction.rolls_up and self._roll_ups is not None:
            yield from self._roll_ups.roll_up(transaction)
        self._written_into = [container for container, *_ in transaction.expirables]
        return purged, list(transaction.changes)

    def _begin_purge(self, node: Node, now: Instant) -> WriteTransaction:
        if node.definition.lifecycle.roll_up is None or self._roll_ups is None:
            return WriteTransaction(self._nodes, now)
        return self._roll_ups.begin(now)
