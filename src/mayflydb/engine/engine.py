"""The facade of the engine for front ends, portal and tests: one object, one `now` per request; each topic has its own module."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Sequence
from functools import partial
from typing import Any, Final, TypeVar

from mayflydb.clock import monotonic_us
from mayflydb.engine.access_log import AccessLog, Observer, Observers
from mayflydb.engine.budgets import Budgets
from mayflydb.engine.catalog import OWNER_MISSING, Node, Nodes
from mayflydb.engine.commands import Command, Step, Written
from mayflydb.engine.companions import Companions
from mayflydb.engine.contention import Contention
from mayflydb.engine.dates import DateIndexes
from mayflydb.engine.definitions import Definitions
from mayflydb.engine.expiry_counts import ExpiryCounts
from mayflydb.engine.history import versions
from mayflydb.engine.indexes import Indexes
from mayflydb.engine.lifecycle.accesses import Accesses
from mayflydb.engine.lifecycle.archive_backlog import ArchiveBacklog
from mayflydb.engine.lifecycle.erasure_log import ErasureLog
from mayflydb.engine.lifecycle.legal_holds import LegalHolds
from mayflydb.engine.lifecycle.pasts import Pasts
from mayflydb.engine.lifecycle.scrubbing import Scrubber
from mayflydb.engine.lifecycle.undeletes import Undeletes
from mayflydb.engine.locks import TAKEN, Locked, LockHolder, LockWaits
from mayflydb.engine.meter import Meter
from mayflydb.engine.monitor import Monitor
from mayflydb.engine.ordered_histories import OrderedHistories
from mayflydb.engine.read_set import ReadSet
from mayflydb.engine.reads import Kept, Reads, keep_none, row_at
from mayflydb.engine.reaper import Lease, Reaper
from mayflydb.engine.request_counts import RequestCounts
from mayflydb.engine.scans import SCAN_BATCH, Batch, Scope, scan
from mayflydb.engine.slow_log import SlowLog
from mayflydb.engine.storage_sizes import StorageSizes
from mayflydb.engine.timekeeper import MARK, OF_THE_HOST, Timekeeper
from mayflydb.engine.traces import TraceLog
from mayflydb.engine.transactions import Body, Decided, WriteTransaction, body_of
from mayflydb.engine.upcoming import next_deadline
from mayflydb.engine.workspace import Workspace
from mayflydb.evaluation.evaluators import Evaluators
from mayflydb.evaluation.loop_watch import LoopWatch
from mayflydb.evaluation.statement import Statement
from mayflydb.expiry.deadline import visible_at
from mayflydb.expiry.passes import upcoming
from mayflydb.model.errors import MayflyError, OwnerNotFound, Unsupported, WriteConflict
from mayflydb.model.instant import Instant
from mayflydb.model.order import Order, Position
from mayflydb.model.quota import Quotas
from mayflydb.model.record import Expiry, Record, Version
from mayflydb.store.interface import (
    CatalogRow,
    ChildRows,
    Committed,
    Decision,
    DiskFacts,
    Get,
    History,
    KnownDamage,
    LoadRow,
    NamedNumber,
    Outcome,
    Read,
    Scan,
    Store,
)
from mayflydb.store.snapshots import RESTORES, Snapshots

T = TypeVar("T")


MAX_TRANSACTIONS = 1000
"""Open transactions of all clients, where nothing else is set."""

MAX_TRANSACTION_BYTES = 192 << 20
"""Bytes of the writes of all open transactions, where nothing else is set."""

LONG_WRITE: Final = 1_000
"""A write of so many commands, which holds the writer for about 30 ms, counts as a long one."""


class BatchRefused(MayflyError):
    """A refused transaction: `index` is the command that failed, `cause` its error. Nothing was done."""

    def __init__(self, index: int, cause: MayflyError) -> None:
        super().__init__(cause.message)
        self.index = index
        self.cause = cause


class Engine:
    """One store, one clock, one reaper. Every method takes the `now` that its caller got from `now()`, once per request."""

    snapshots: Snapshots | None = None
    """The snapshots of the store, if it has any."""

    storage_sizes: StorageSizes | None = None
    """The sizes of the store."""

    scrubber: Scrubber | None = None
    """Overwrites what expired, with secure erase."""

    epoch = 0
    """The number of times that everything stored was replaced: what was read before is void."""

    restores = 0
    """The number of restores of the store, in all its time. A position in a history is one of a number of restores."""

    _undone: Instant = 0
    """The latest instant of a time that was undone: the clock was set back from there."""

    def __init__(
        self,
        store: Store,
        time: Timekeeper,
        reaper: Reaper,
        nodes: Nodes,
        definitions: Definitions,
        meter: Meter,
        monitor: Monitor,
        lease: Lease | None = None,
        budgets: Budgets | None = None,
        evaluators: Evaluators | None = None,
        disk: Callable[[], Awaitable[DiskFacts]] | None = None,
        quotas: Quotas | None = None,
        kept: Kept = keep_none,
    ) -> None:
        """`lease`: takes a name for this node, where several nodes share the store. `budgets`: the budgets of requests.

        `evaluators`: the threads on which statements compute. `disk`: reads the state of the store's disk, where its free space
        is looked at; errors: Unavailable. `quotas`: the limits of the server, to which front ends add theirs. `kept`: see `Kept`.
        """
        self.quotas = quotas or Quotas()
        self.open_transactions = self.quotas.get("open_transactions", MAX_TRANSACTIONS)
        self.transaction_bytes = self.quotas.get("transaction_bytes", MAX_TRANSACTION_BYTES)
        self.store, self.lease, self.budgets = store, lease, budgets
        self.evaluators = Evaluators() if evaluators is None else evaluators
        self.loop_watch, self.slow_log = LoopWatch(), SlowLog(monotonic_us, None)
        self.requests = RequestCounts(monotonic_us)
        self.disk, self.kept = disk, kept
        self.nodes, self.meter, self.monitor, self.time, self.reaper = nodes, meter, monitor, time, reaper
        self.definitions, definitions.instant_of = definitions, self._write_instant
        self.companions = Companions(store)
        self.ordered_histories = OrderedHistories(store, nodes)
        self.expiry_counts = ExpiryCounts(store)
        self.accesses = Accesses(time, self.transact, store)
        reaper.prepare_sweeps(self.accesses.flush, self._instant_of_changes)
        self.indexes = Indexes(
            store, nodes, lambda: self._write_instant(0), lease, reaper.locks, self._begin_build, self.accesses.note_all,
            reaper.roll_ups,
        )  # fmt: skip
        self.dates = DateIndexes(store, nodes, reaper.invalidate, self._begin_build)
        self.version_cache = reaper.version_cache
        self.version_cache.max_bytes = self.transaction_bytes.limit // 2
        self._open_lifecycles(nodes)
        self.nodes, self.locks, self.contention = nodes, reaper.locks, Contention()
        self._written_at: Instant = 0
        self._changed_at = self.committed_at = time.latest
        """The instant of the last write that this node has committed; later commits have no earlier instant."""

        self.observe(None, None)
        time.on_roll_back = self._go_back

    def _open_lifecycles(self, nodes: Nodes) -> None:
        """Open what the lifecycle settings of containers are about."""
        store, time = self.store, self.time
        self.undeletes = Undeletes(store, nodes, self.definitions, self.transact, self.now)
        self.holds = LegalHolds(store, nodes, self.now, self.reaper.notifier.notify)
        self.archive_backlog = ArchiveBacklog(store, nodes, time)
        self.pasts = Pasts(store, self.version_cache.wait_for_writes, lambda: time.latest)

    def observe(self, access_log: AccessLog | None, traces: TraceLog | None) -> None:
        """Have requests noted in these from now on, and purges in `traces`."""
        self.access_log, self.traces = access_log, traces
        noting = [each for each in (access_log, traces) if each is not None]
        self.observer: Observer | None
        self.observer = Observers(noting) if len(noting) > 1 else next(iter(noting), None)
        self.reaper.trace(traces)

    def _begin_build(self, container: int) -> Statement:
        """Begin the computations of work on the indexes of a container, which may take as long as it takes."""
        return Statement(self.evaluators, ("indexes", container), None)

    def now(self) -> Coroutine[Any, Any, Instant]:
        """Return the instant of a request."""
        return self.time.now()

    @property
    def reads(self) -> Reads:
        """Access to the committed state, for reads that are composed elsewhere."""
        return self.store

    @property
    def erasure_log(self) -> ErasureLog:
        """The log of what expired."""
        return self.reaper.erasure_log

    @property
    def durable(self) -> bool:
        """Return whether a commit survives the process."""
        return self.store.durable

    @property
    def storage(self) -> str:
        """The kind of store: `memory`, `sqlite` or `postgresql`."""
        return self.store.description.partition(":")[0]

    async def known_damage(self) -> str | None:
        """Return the damage that the store knows of, in words; None: none."""
        return await self.store.read(KnownDamage())

    # --- catalogue -------------------------------------------------------------------------------------------------

    @property
    def catalog_version(self) -> int:
        """A number that grows whenever a committed row appears, changes its definition or goes. Equal numbers mean equal
        catalogues.
        """
        return self.store.catalog_version

    async def node(self, *names: str) -> Node | None:
        """Find the space, database or container at a path of names."""
        row = await row_at(self.store, *names)
        return None if row is None else self.nodes.of(row)

    async def node_by_id(self, id: int) -> Node | None:
        """Find the node with this id."""
        row = await self.store.read(LoadRow(id))
        return None if row is None else self.nodes.of(row)

    async def children(self, parent: int) -> list[Node]:
        """Return the nodes below a parent, by id."""
        return [self.nodes.of(row) for row in await self.store.read(ChildRows(parent))]

    async def children_with_lsns(self, parent: int) -> list[tuple[Node, int]]:
        """Return the nodes below a parent, by id, each with its last committed lsn."""
        return [(self.nodes.of(row), row.lsn) for row in await self.store.read(ChildRows(parent))]

    async def lsn(self, container: int) -> int:
        """Return the last committed lsn of a container."""
        row = await self.store.read(LoadRow(container))
        return 0 if row is None else row.lsn

    # --- reads -----------------------------------------------------------------------------------------------------

    def get_kept(self, container: Node, partition: bytes, key: bytes, now: Instant) -> Record | None:
        """Find a visible record that the store keeps in memory, at once; None: `get` tells."""
        record = self.kept(container.id, partition, key)
        rules = container.rules
        if record is None or (rules and not visible_at(record, rules, now)):
            return None
        accesses = self.accesses
        if accesses.sampler is None and not container.definition.lifecycle.touch:
            return record
        return accesses.note(container, record, now)

    async def get(self, container: Node, partition: bytes, key: bytes, now: Instant) -> Record | None:
        """Find a visible record."""
        record = await self.store.read(Get(container.id, partition, key))
        if record is None or not visible_at(record, container.rules, now):
            return None
        accesses = self.accesses
        if accesses.sampler is None and not container.definition.lifecycle.touch:
            return record
        return accesses.note(container, record, now)

    def scan(
        self, container: Node, scope: Scope, after: Position | None, now: Instant, batch: int = SCAN_BATCH
    ) -> AsyncIterator[Batch]:
        """Yield visible records in order, batch by batch; other requests run between batches."""
        return scan(self.store, container, scope, after, now, batch)

    async def read_stored(self, container: int, after: Position | None, limit: int) -> list[Record]:
        """Return up to `limit` records after a position, by creation, with hidden ones. An empty list is the end."""
        return await self.store.read(Scan(container, b"", None, Order.CREATED, after, limit))

    async def get_stored(self, container: int, partition: bytes, key: bytes) -> Record | None:
        """Find the record with this identity, even if it is hidden."""
        return await self.store.read(Get(container, partition, key))

    async def next_deadline(self, container: int, after: Instant | None = None) -> Instant | None:
        """Return the earliest deadline of a container's stored records, greater than `after` if given; None: no record
        expires.
        """
        return await next_deadline(self.store, self.nodes, container, after)

    async def expiries(self, after: int, limit: int, now: Instant) -> list[Expiry]:
        """Return up to `limit` expiry events of all containers with a number above `after`, by number. HistoryLost if some are
        no longer kept.
        """
        return await self.reaper.events.read(after, limit, now)

    async def last_expiry(self) -> int:
        """Return the number of the last expiry event; 0: there was none."""
        return await self.reaper.events.last()

    async def find_first_kept_expiry(self, now: Instant) -> int:
        """Return the number behind which all expiry events are kept."""
        return await self.reaper.events.find_first_kept(now)

    async def history(self, container: int, after: int, limit: int) -> list[Version]:
        """Return up to `limit` lines of a history after an lsn, as stored: with lines that are too old, and gaps."""
        return await self.store.read(History(container, after, limit))

    async def versions(self, container: Node, after: int, now: Instant) -> list[Version]:
        """Return a page of versions after an lsn, in order; an empty page is the end. HistoryLost if some are no longer kept."""
        return await versions(self.store, container, after, now, SCAN_BATCH)

    async def reset(self) -> None:
        """Delete everything that is stored."""
        await self.store.reset()
        self._forget_content()
        self.meter.forget()
        if self.budgets is not None:
            self.budgets.forget()
        self.monitor.forget(self.time.clock.now())
        await self.reaper.survey()
        self.reaper.notifier.notify()

    async def restore(self, name: str, rising: bool, swapped: Callable[[], None]) -> int:
        """Replace everything that is stored by a snapshot. `rising`: the clock's mark stays if it is later. Return the number of
        records that are left out because their keys were destroyed.

        `swapped`: called when the content is the other one, before anything is read. Errors: Unsupported where the store has no
        snapshots; those of `Snapshots.restore`.
        """

        def renew() -> None:
            self._forget_content()
            self.monitor.forget_members()
            swapped()

        marks = (MARK,) if rising else ()
        shredded = await self.snapshots_or_refusal().restore(name, OF_THE_HOST, marks, renew)
        await self.read_restores()
        await self.monitor.refresh(self.time.clock.now())
        await self.reaper.survey()
        self.reaper.notifier.notify()
        return shredded

    async def read_restores(self) -> None:
        """Read the number of restores."""
        found = await self.store.read(NamedNumber(RESTORES))
        self.restores = found or 0

    def snapshots_or_refusal(self) -> Snapshots:
        """Return the snapshots of the store. Unsupported where it has none."""
        if self.snapshots is None:
            raise Unsupported(
                "a PostgreSQL database has no snapshots here", hint="use those of PostgreSQL: pg_dump, or a base backup"
            )
        return self.snapshots

    def _forget_content(self) -> None:
        self.epoch += 1
        self.accesses.ages.forget()
        self.archive_backlog.forget()
        self.nodes.forget()
        self.version_cache.reset()
        self.pasts.forget()
        self.locks.reset()

    def roll_back(self, instant: Instant) -> None:
        """Follow a clock that a person set back over a store without newer data."""
        self._undone = max(self._undone, self.time.latest)
        self.time.roll_back(instant)

    def _go_back(self, instant: Instant) -> None:
        self._written_at = self._changed_at = self.committed_at = instant
        self.monitor.roll_back(instant)
        self.reaper.roll_back()

    # --- writes ----------------------------------------------------------------------------------------------------

    async def transact(
        self,
        body: Body[T],
        now: Instant,
        holder: LockHolder | None = None,
        lock_waits: LockWaits | None = None,
        waits: bool = True,
        size: int = 1,
    ) -> T:
        """Decide and commit the changes of a body, in any number of containers, as a whole.

        If the body needs a record that an open transaction has locked, the write waits for the end of that transaction,
        holding nothing, and is decided anew. `holder`: the locks of the transaction that this commits; a commit does not wait
        for other locks and gets a WriteConflict instead, as with `waits` False. `lock_waits`: the waits of the client. `size`:
        about the number of its commands. Errors: those of the body, OwnerNotFound, WriteConflict, Unavailable, OutcomeUnknown.
        """
        if size >= LONG_WRITE:
            async with self.time.long_write():
                return await self.transact(body, now, holder, lock_waits, waits)
        return await self._commit(partial(self._decide, body, now), holder, lock_waits, waits)

    async def _commit(
        self,
        decide: Callable[[LockHolder | None], Decision[Decided[T]]],
        holder: LockHolder | None = None,
        lock_waits: LockWaits | None = None,
        waits: bool = True,
    ) -> T:
        """Commit a decision, as `transact` does."""
        if self.time.stands_still:
            await self.time.catch_up()
        # As `version_cache.write` does, without its context.
        cache = self.version_cache
        number = cache.begin()
        try:
            return self._finish_write(await self.store.write(partial(decide, holder)))
        except Locked as first:
            met = first
        finally:
            cache.end(number)
        if holder is not None or not waits:
            # A commit holds locks while it is decided, so a wait for others could be a deadlock.
            raise WriteConflict(TAKEN, container=met.target[0])
        while True:
            await self.locks.wait_for_turn(met, lock_waits)
            turn = met.target
            try:
                with self.version_cache.write():
                    return self._finish_write(await self.store.write(partial(decide, None)))
            except Locked as another:
                met = another
            finally:
                # Until here the turn kept transactions from locking the target again between wake and write.
                self.locks.end_turn(turn)

    def _finish_write(self, committed: Committed[Decided[T]]) -> T:
        self.reaper.notifier.notify()
        reply, expirables, take_note, written = committed.reply
        if written > self.committed_at:
            self.committed_at = written
        if take_note is not None:
            take_note(written)
        # Use the current schedule: it may have changed since the decision.
        for container, rules, own, records in expirables:
            for record in records:
                ahead = upcoming(record, rules, self.monitor.schedule if own is None else own)
                if ahead is not None:
                    self.reaper.notice(container, ahead, own)
        return reply

    def _decide(self, body: Body[T], now: Instant, holder: LockHolder | None) -> Decision[Decided[T]]:
        at, sampler = self._write_instant(now), self.accesses.sampler
        transaction = WriteTransaction(self.nodes, at, self.locks, holder, sampler)
        reply = yield from body(transaction)
        if transaction.rolls_up:
            yield from self.reaper.roll_ups.roll_up(transaction)
        if transaction.publishes:
            yield from self.reaper.publications.publish(transaction)
        for container, replaced in transaction.replaced_versions():
            self.version_cache.note(container, replaced)
        if changes := transaction.changes:
            self._changed_at = transaction.now
        return Outcome(changes, (reply, transaction.expirables, transaction.take_note, transaction.now))

    def write(self, container: int, command: Command, now: Instant) -> Coroutine[Any, Any, Written]:
        """Decide and commit one command. Errors: those of its mode, OwnerNotFound, Unavailable, OutcomeUnknown."""

        return self._commit(partial(self._decide_one, container, command, now))

    def _decide_one(
        self, container: int, command: Command, now: Instant, holder: LockHolder | None
    ) -> Decision[Decided[Written]]:
        """Decide one command, as `_decide` does a body, without a transaction around its workspace."""
        now = self._write_instant(now)
        row: CatalogRow | None = yield LoadRow(container)
        if row is None:
            raise OwnerNotFound(OWNER_MISSING)
        space = Workspace(self.nodes.of(row), now, None, self.locks, holder, self.nodes.hold_filters)
        written = yield from space.run(command)
        if space.expired or space.published:
            # What follows is written into another container, which takes a transaction: this decision is made again.
            return (yield from self._decide(body_of(container, command), now, holder))
        if space.replaced:
            self.version_cache.note(container, space.replaced)
        if space.changes:
            self._changed_at = now
        rules = space.rules
        expirables = ((container, rules, space.schedule, tuple(space.written_records)),) if rules else ()
        sampler = self.accesses.sampler
        take_note = None if sampler is None else partial(sampler.note_write, space.node, written, space.replaced)
        return Outcome(tuple(space.changes), (written, expirables, take_note, now))

    async def write_all(
        self, container: int, commands: Sequence[Command | Step], now: Instant, read_set: ReadSet | None = None
    ) -> list[Written]:
        """Commit all commands or none; each sees the earlier ones. BatchRefused names the first that failed.

        `read_set`: the reads on which the commands depend; WriteConflict if one of them has changed.
        """

        def body(transaction: WriteTransaction) -> Generator[Read[Any], Any, list[Written]]:
            space = yield from transaction.on(container)
            if read_set is not None:
                yield from read_set.check(transaction.lsn(container), space.rules, transaction.now)
            results: list[Written] = []
            for index, command in enumerate(commands):
                try:
                    step = command if isinstance(command, Command) else command(results)
                    results.append((yield from space.run(step)))
                except MayflyError as error:
                    raise BatchRefused(index, error) from error
            return results

        holder = None if read_set is None else read_set.holder
        return await self.transact(body, now, holder, size=len(commands))

    def quiet_since(self, now: Instant) -> Instant:
        """Return the instant of the last decided write. Where other nodes may write, this node cannot know it and returns
        `now`.
        """
        alone = self.lease is None or self.time.clock.mode != "real"
        return max(self._changed_at, self.committed_at) if alone else now

    def _instant_of_changes(self, now: Instant) -> Instant:
        self._changed_at = self._write_instant(now)
        return self._changed_at

    def _write_instant(self, now: Instant) -> Instant:
        # Requests reach the writer in another order than they read the time. A write's instant is never before that of another
        # write, and never before a read that has found a record expired.
        latest = self.time.latest
        # A request that began before the clock was set back does not bring the later time with it.
        if now < latest or latest < now <= self._undone:
            now = latest
        if now > self._written_at:
            self._written_at = now
        return self._written_at
