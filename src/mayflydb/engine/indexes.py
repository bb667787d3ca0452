"""Ordered indexes of containers: lookups, definitions, builds beside other writes, and removals.

An entry key is the index key, which the front end computes from a record, followed by the hash of the record's partition. So
records with one index key lie by partition. From the commit that defines an index, every write maintains it. Older records are
linked in batches; each batch is a decision that lets user writes go first. Queries use an index once it is complete.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec

from mayflydb.engine.building import (
    Build,
    Choose,
    IndexRequest,
    KeysOf,
    add_indexes,
    has_index,
    put_index_state,
    put_indexes,
)
from mayflydb.engine.catalog import Index, Node, Nodes, row_of
from mayflydb.engine.lifecycle.rolling_up import RollUps
from mayflydb.engine.locks import Locks
from mayflydb.engine.reaper import Lease
from mayflydb.evaluation.statement import HERE, Computing
from mayflydb.expiry.deadline import visibility
from mayflydb.model.errors import Conflict, MayflyError, NotFound, Unavailable
from mayflydb.model.instant import SECOND, Instant, Span
from mayflydb.model.keys import SortKeys
from mayflydb.model.order import HASH_BYTES, KeyRange, Position
from mayflydb.model.record import Record
from mayflydb.store.interface import (
    Committed,
    Decision,
    Fetch,
    FetchRange,
    KeyBytes,
    LoadRow,
    Outcome,
    PutRow,
    RemoveEntries,
    ScanIndex,
    SeekIndex,
    Store,
    ask,
)

T = TypeVar("T")

log = logging.getLogger(__name__)

REMOVE_BATCH = 512
"""Entries that are removed in one transaction."""

BUILD_LEASE: Span = 60 * SECOND
"""The time for which a node owns an index build, renewed with each batch."""


Accessed: TypeAlias = Callable[[Node, Sequence[Record], Instant], None]
"""Takes note of visible records of a container that were read at an instant."""


class Indexes:
    """The ordered indexes of all containers of a store."""

    def __init__(
        self,
        store: Store,
        nodes: Nodes,
        instant: Callable[[], Instant],
        lease: Lease | None = None,
        locks: Locks | None = None,
        begin: Callable[[int], Computing] = lambda container: HERE,
        accessed: Accessed = lambda container, records, now: None,
        roll_ups: RollUps | None = None,
    ) -> None:
        """`instant`: returns the instant of a write now. `lease`: takes a build for this node, if other nodes share the
        store.

        `locks`, `roll_ups`: as in Build. `begin`: begins the computation of a container's keys. `accessed`: told of records that
        were read.
        """
        self._accessed = accessed
        self._begin_computing = begin
        self._locks = locks
        self._roll_ups = roll_ups
        self._store = store
        self._nodes = nodes
        self._instant = instant
        self._lease = lease
        self._working: dict[int, asyncio.Task[None]] = {}
        self._awaited: dict[asyncio.Task[Any], int] = {}

    # --- reads -----------------------------------------------------------------------------------------------------

    async def seek(
        self, container: Node, index: Index, ranges: Sequence[KeyRange], limit: int
    ) -> tuple[int, ...] | None:
        """Return the seqs, ascending, of records in ranges of entry keys, with hidden ones; None: more than `limit`."""
        return await self._store.read(SeekIndex(container.id, index.number, tuple(ranges), limit)) if ranges else ()

    async def key_bytes(self, container: int, indexes: Sequence[Index]) -> tuple[int, ...]:
        """The bytes of the keys of each of these indexes."""
        return await self._store.read(KeyBytes(container, tuple(index.number for index in indexes)))

    async def fetch(
        self, container: Node, seqs: Sequence[int], now: Instant, batch: int
    ) -> AsyncIterator[list[Record]]:
        """Yield the visible records among ascending seqs, batch by batch."""
        first, is_visible = 0, visibility(container.rules, now)
        while first < len(seqs):
            wanted = tuple(seqs[first : first + batch])
            records = await self._store.read(Fetch(container.id, wanted))
            full = len(records) < len(wanted) and bool(records)
            first = seqs.index(records[-1].seq, first) + 1 if full else first + len(wanted)
            found = records if is_visible is None else list(filter(is_visible, records))
            self._accessed(container, found, now)
            yield found
            await asyncio.sleep(0)

    async def fetch_few(self, container: Node, seqs: Sequence[int], now: Instant) -> list[Record] | None:
        """Return the visible records among ascending seqs; None where one read does not return all of them."""
        records = await self._store.read(Fetch(container.id, tuple(seqs))) if seqs else []
        if len(records) < len(seqs):
            return None
        is_visible = visibility(container.rules, now)
        found = records if is_visible is None else list(filter(is_visible, records))
        self._accessed(container, found, now)
        return found

    async def fetch_range(
        self, container: Node, index: Index, within: KeyRange, now: Instant, limit: int
    ) -> list[Record] | None:
        """Return the visible records with keys in a range, by seq, each once; None where there are more than `limit`, with
        hidden ones, or more than a page of bytes.
        """
        records = await self._store.read(FetchRange(container.id, index.number, within, limit))
        is_visible = visibility(container.rules, now)
        if records is None:
            return None
        found = records if is_visible is None else list(filter(is_visible, records))
        self._accessed(container, found, now)
        return found

    async def walk(
        self, container: Node, index: Index, within: KeyRange, descending: bool, now: Instant, batch: int
    ) -> AsyncIterator[list[tuple[bytes, Record]]]:
        """Yield (index key, record) for visible records in a range of entry keys, by key, batch by batch.

        A record appears once for each of its keys in the range.
        """
        after: tuple[bytes, int] | None = None
        is_visible = visibility(container.rules, now)
        while True:
            found = await self._store.read(ScanIndex(container.id, index.number, within, descending, after, batch))
            if not found:
                return
            after = found[-1][0], found[-1][1].seq
            shown = [(key[:-HASH_BYTES], record) for key, record in found if is_visible is None or is_visible(record)]
            if container.definition.lifecycle.touch:
                self._accessed(container, [record for _, record in shown], now)
            yield shown
            await asyncio.sleep(0)

    async def has_all(self, container: int, indexes: Iterable[Index]) -> bool:
        """Return whether a container still has these indexes. Callers ask after reading: an index may have been dropped
        meanwhile.
        """
        row = await self._store.read(LoadRow(container))
        return row is not None and all(has_index(self._nodes.of(row), index) for index in indexes)

    # --- building and removing -------------------------------------------------------------------------------------

    async def define(self, container: int, keys: SortKeys, keys_of: KeysOf, most: int) -> None:
        """Define an index over these keys and start its build, unless it exists or there are `most`. Errors: those of a write."""

        def decide() -> Decision[bool]:
            row = yield from ask(LoadRow(container))
            node = None if row is None else self._nodes.of(row)
            if node is None or not _may_define(node.definition.indexes, keys, most):
                return Outcome((), False)
            after, _ = add_indexes(node, [IndexRequest(keys)])
            return Outcome((PutRow(row_of(after)),), True)

        if (await self._store.write(decide)).reply:
            self.resume(container, keys_of)

    def ensure(self, container: int, keys: SortKeys, keys_of: KeysOf, most: int) -> None:
        """Define and build an index over these keys in the background, unless the container is being worked on."""
        self._start(container, lambda: self._begin(container, keys, keys_of, most))

    async def complete(self, container: int, keys: SortKeys, keys_of: KeysOf, most: int) -> Index:
        """Return the index over these keys when it is complete, defined if it is missing. Conflict if there are `most`."""
        await self.define(container, keys, keys_of, most)
        while True:
            found = next((each for each in await self._read_indexes(container) if each.keys == keys), None)
            if found is None or found.state == "dropped":
                raise Conflict(f"the container has {most} built indexes, which is the most")
            if found.state == "ready":
                return found
            self.resume(container, keys_of)
            await self.wait_for(container)

    def resume(self, container: int, keys_of: KeysOf) -> None:
        """Continue unfinished builds and removals of a container in the background, unless it is being worked on."""
        self._start(container, lambda: self._complete(container, keys_of))

    async def define_and_build(self, container: int, choose: Choose, keys_of: KeysOf) -> tuple[Index, ...]:
        """Define the chosen indexes, all or none, and return when all are ready; on failure nothing is left of them.

        The build continues if its caller stops waiting. Errors: OwnerNotFound; those of `choose`, `keys_of`, `Build.step` or
        a write.
        """
        return await asyncio.shield(self._await(container, self._build_all(container, choose, keys_of)))

    async def rebuild(self, container: int, keys_of: KeysOf) -> None:
        """Compute the entries of every ready index anew. Each batch of records is consistent before and after its transaction."""

        async def work() -> None:
            for index in await self._read_indexes(container):
                if index.state == "ready":
                    await self._build(container, index, keys_of)

        await asyncio.shield(self._await(container, work()))

    async def drop(self, container: int, numbers: Collection[int]) -> None:
        """Stop using and writing these indexes; their entries are removed in the background. Errors: those of a write."""
        gone = await self._mark_dropped(container, lambda index: index.number in numbers)
        self._await(container, self._remove_entries(container, gone))

    async def remove_abandoned(self, container: int) -> None:
        """Remove the remains of builds whose callers are gone; call this when a container is first used after a start.

        Builds in progress, here or on another node, stay. Do not mix with indexes that are built in the background only.
        """
        if container in self._awaited.values():
            return
        building = [index for index in await self._read_indexes(container) if index.state == "building"]
        # A lease for no time: it is granted only if no builder holds one.
        left = {index.number for index in building if await self._has_leases(container, [index], 0)}
        if left:
            await self._mark_dropped(container, lambda index: index.number in left and index.state == "building")
        gone = [index for index in await self._read_indexes(container) if index.state == "dropped"]
        if gone:
            self._await(container, self._remove_entries(container, gone))

    def _await(self, container: int, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = asyncio.create_task(work, name=f"indexes of {container}")
        self._awaited[task] = container
        task.add_done_callback(self._forget_task)
        return task

    def _forget_task(self, task: asyncio.Task[Any]) -> None:
        del self._awaited[task]
        if not task.cancelled() and (error := task.exception()) is not None:
            log.info("work on indexes ended: %s", error)

    async def _build_all(self, container: int, choose: Choose, keys_of: KeysOf) -> tuple[Index, ...]:
        build = Build(
            self._store, self._nodes, container, keys_of, self._locks, self._begin_computing(container), self._roll_ups
        )
        if await build.define(choose):
            return build.indexes
        numbers = [index.number for index in build.indexes]
        try:
            after: Position | None = None
            while True:
                # Renewed before each batch, or another node takes the index for abandoned and removes it.
                if not await self._has_leases(container, build.indexes, BUILD_LEASE):
                    raise Unavailable("another node has taken over what was being built")
                after = await build.step(after, self._instant())
                if after is None:
                    return tuple([each for each in await self._read_indexes(container) if each.number in numbers])
        except Exception:
            await self.drop(container, numbers)
            raise

    async def _has_leases(self, container: int, indexes: Sequence[Index], span: Span) -> bool:
        if self._lease is not None:
            for index in indexes:
                if not await self._lease(f"index {index.number} of {container}", span):
                    return False
        return True

    async def _read_indexes(self, container: int) -> tuple[Index, ...]:
        row = await self._store.read(LoadRow(container))
        return () if row is None else self._nodes.of(row).definition.indexes

    async def _mark_dropped(self, container: int, which: Callable[[Index], bool]) -> tuple[Index, ...]:
        """Mark the matching indexes as dropped and return them."""

        def decide() -> Decision[tuple[Index, ...]]:
            row = yield from ask(LoadRow(container))
            node = None if row is None else self._nodes.of(row)
            meant = [] if node is None else [each for each in node.definition.indexes if which(each)]
            gone = [index for index in meant if index.state != "dropped"]
            if node is None or not gone:
                return Outcome((), ())
            row_change = put_index_state(node, [index.number for index in gone], "dropped")
            return Outcome((row_change,), tuple(msgspec.structs.replace(index, state="dropped") for index in gone))

        return (await self._store.write(decide)).reply

    async def _remove_entries(self, container: int, gone: Sequence[Index]) -> None:
        for index in gone:
            await self._remove(container, index)

    def _start(self, container: int, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        if container not in self._working:
            task = asyncio.create_task(self._run_and_log(container, work), name=f"indexes of {container}")
            self._working[container] = task
            task.add_done_callback(lambda _: self._working.pop(container, None))

    async def wait_for(self, container: int) -> None:
        """Wait for the running work on a container."""
        awaited = [task for task, own in self._awaited.items() if own == container]
        tasks = [*awaited, *([self._working[container]] if container in self._working else [])]
        if tasks:
            await asyncio.wait(tasks)

    async def close(self) -> None:
        """Stop all work as it is; `resume` continues it."""
        tasks = [*self._working.values(), *self._awaited]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    async def _run_and_log(self, container: int, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            await work()
        except MayflyError as error:
            # Queries run without the index meanwhile, and ask for it again.
            log.warning("the indexes of container %d are not complete: %s", container, error)

    async def _begin(self, container: int, keys: SortKeys, keys_of: KeysOf, most: int) -> None:
        await self.define(container, keys, keys_of, most)
        await self._complete(container, keys_of)

    async def _complete(self, container: int, keys_of: KeysOf) -> None:
        while (index := await self._find_unfinished(container)) is not None:
            if index.state == "dropped":
                await self._remove(container, index)
            else:
                await self._build(container, index, keys_of)

    async def _find_unfinished(self, container: int) -> Index | None:
        standing = await self._read_indexes(container)
        return next((index for index in standing if index.state != "ready"), None)

    async def _build(self, container: int, index: Index, keys_of: KeysOf) -> None:
        build = Build(
            self._store, self._nodes, container, keys_of, self._locks, self._begin_computing(container), self._roll_ups
        )
        build.indexes = (index,)
        after: Position | None = None
        while True:
            try:
                after = await build.step(after, self._instant())
            except NotFound:
                return
            if after is None:
                return

    async def _remove(self, container: int, index: Index) -> None:
        await self._announce_drop(container, index)
        while True:

            def decide() -> Decision[None]:
                node = yield from self._node_with(container, index)
                return Outcome(() if node is None else (RemoveEntries(container, index.number, REMOVE_BATCH),), None)

            removed: Committed[None] = await self._store.write(decide, "sweep")
            if not removed.purged or removed.purged[0].records < REMOVE_BATCH:
                await self._forget(container, index)
                return

    async def _announce_drop(self, container: int, index: Index) -> None:
        """Return when all nodes know of the drop: a change of the catalogue, even an empty one, is answered only then."""

        def decide() -> Decision[None]:
            node = yield from self._node_with(container, index)
            return Outcome(() if node is None else (PutRow(row_of(node)),), None)

        await self._store.write(decide, "sweep")

    async def _forget(self, container: int, index: Index) -> None:
        def decide() -> Decision[None]:
            node = yield from self._node_with(container, index)
            if node is None:
                return Outcome((), None)
            left = tuple(each for each in node.definition.indexes if each.number != index.number)
            return Outcome((put_indexes(node, left),), None)

        await self._store.write(decide, "sweep")

    def _node_with(self, container: int, index: Index) -> Any:
        """In a decision: find the container, if it still has this index in this state."""
        row = yield from ask(LoadRow(container))
        node = None if row is None else self._nodes.of(row)
        return node if node is not None and has_index(node, index) else None


def drop_ineligible(indexes: Sequence[Index], eligible: Callable[[SortKeys], bool]) -> tuple[Index, ...]:
    """Return the indexes of a container; those whose keys are no longer eligible are marked as dropped."""
    return tuple(
        index if eligible(index.keys) else msgspec.structs.replace(index, state="dropped") for index in indexes
    )


def _may_define(indexes: Sequence[Index], keys: SortKeys, most: int) -> bool:
    standing = [index for index in indexes if index.state != "dropped"]
    return len(standing) < most and all(index.keys != keys for index in standing)
