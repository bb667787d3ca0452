"""The sweeper: carries out one purge request at a time, as a sequence of bounded sweeps.

The planner chooses each sweep from the agenda's backlog, and the sweep's own transaction decides which records are due.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Final

from mayflydb.engine.billing import Billing
from mayflydb.engine.catalog import Nodes, Run
from mayflydb.engine.lifecycle.cascades import containers_below
from mayflydb.engine.lifecycle.guard import Guard, Pass
from mayflydb.engine.lifecycle.record_purge import Surroundings
from mayflydb.engine.lifecycle.references import References
from mayflydb.engine.lifecycle.rolling_up import RollUpHeld, RollUps
from mayflydb.engine.locks import Locked, Locks
from mayflydb.engine.monitor import Monitor
from mayflydb.engine.ordered_histories import ChangeNotifier
from mayflydb.engine.publishing import Publications
from mayflydb.engine.purge_decision import SweepReply, purge_due
from mayflydb.engine.runs import PassSettings, Runs
from mayflydb.engine.surveyor import Surveyor
from mayflydb.engine.sweep_progress import SweepProgress
from mayflydb.engine.traces import TraceLog
from mayflydb.engine.transactions import ExpirableRecords
from mayflydb.engine.version_cache import VersionCache
from mayflydb.expiry.agenda import Agenda
from mayflydb.expiry.passes import Schedule, Upcoming, upcoming
from mayflydb.expiry.sweep import Limits, PurgeRequest, Sweep, SweepResult, next_sweep
from mayflydb.model.errors import MayflyError
from mayflydb.model.histogram import Histogram
from mayflydb.model.instant import SECOND, Instant, Span
from mayflydb.store.interface import Committed, Decision, Store

log = logging.getLogger("mayflydb.engine.reaper")
"""Of the reaper, which is what operators of a server know."""


class Delayed(Exception):
    """A container cannot be swept by the present request."""


DELAY_BOUNDS: Final = tuple(
    n * SECOND // 10 for n in (1, 5, 10, 20, 50, 100, 300, 600, 3000, 9000, 36_000, 216_000, 864_000)
)
"""Upper bounds of the delays of purges that are counted, in microseconds: 0.1 s to a day."""


class Sweeper:
    """Purges due records of one store. `limits` may be replaced between two requests."""

    def __init__(
        self,
        store: Store,
        nodes: Nodes,
        agenda: Agenda,
        surveyor: Surveyor,
        limits: Limits,
        billing: Billing,
        monitor: Monitor,
        pass_settings: PassSettings,
        locks: Locks,
        version_cache: VersionCache,
        notifier: ChangeNotifier,
        guard: Guard,
        roll_ups: RollUps,
        latest: Callable[[], Instant],
    ) -> None:
        """`latest`: returns the latest instant that a client may have read."""
        self.limits = limits
        self.runs = Runs(nodes)
        self.purge_counts: Counter[int] = Counter()
        self.purge_delays: dict[str, Histogram] = {}
        self.traces: TraceLog | None = None
        self.prepare: Callable[[], Awaitable[None]] = _prepare_nothing
        self.make_room: Callable[[int], Awaitable[bool]] = _make_no_room
        """Has the archive of a container accept what waits; False: it does not."""
        self.waiting: set[int] = set()
        """Containers whose purge waits for their archive."""
        self.shortage: Span | None = None
        """The host time until an exhausted budget can pay for a sweep again; None: no budget ended the last request."""
        self._store = store
        self._nodes = nodes
        self._agenda = agenda
        self._surveyor = surveyor
        self._billing = billing
        self._monitor = monitor
        self._pass_settings = pass_settings
        self._locks = locks
        self._version_cache = version_cache
        self._notifier = notifier
        self._guard = guard
        self.references: dict[str, Callable[[], References]] = {}
        """The references between records of each front end, by space."""

        self.publications = Publications()
        self._children: Counter[int] = Counter()
        self._latest = latest
        self._roll_ups = roll_ups
        self.notice: Callable[[int, Upcoming, Schedule | None], None] = lambda container, ahead, own: None
        """Called with the deadline of each record that a sweep has written."""
        self._last: SweepResult | None = None
        self._sweeping = asyncio.Lock()

    def is_stopped(self, container: int) -> bool:
        """Return whether the monitor or the pass settings have switched off purging of a container."""
        return self._monitor.is_stopped(container) or (
            not self._pass_settings.enabled and self._agenda.schedule(container) is not None
        )

    # --- requests --------------------------------------------------------------------------------------------------

    @property
    def is_busy(self) -> bool:
        """Return whether a request is under way."""
        return self._sweeping.locked()

    async def wait_for_rest(self, seconds: float) -> None:
        """Wait for the end of the request that is under way, but not for longer than so many seconds."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds), self._sweeping:
                pass

    async def sweep_due(self, request: PurgeRequest) -> Counter[int]:
        """Sweep until nothing is left that the request names; return the number of purged records by container.

        Errors: those of a write, which may leave due records behind.
        """
        progress = SweepProgress()
        self._guard.observe(request.horizon)
        await self.prepare()
        async with self._sweeping:
            self._children.clear()
            while (sweep := await self._choose(request, progress.excluded)) is not None:
                container = sweep.container
                affordable, wait = await self._billing.affordable(container) if request.within_budget else (None, 0)
                if affordable == 0:
                    progress.waits[container] = wait
                    continue
                permit = progress.take_pass(container) or await self._guard.look(container, request)
                if permit.records == 0:
                    progress.leave_out(container)
                    continue
                if self.traces is not None and container not in progress.began:
                    progress.began[container] = self.traces.stopwatch()
                before = self._children.total()
                try:
                    removed = await self._sweep_and_pay(sweep, affordable, request, permit)
                except Delayed:
                    progress.leave_out(container)
                    continue
                progress.note(container, removed, self._children.total() - before, permit)
                if container in self.waiting and (request.within_budget or not await self.make_room(container)):
                    progress.leave_out(container)
                progress.rounds[container] += bool(removed) and self._monitor.has_member(container)
            await self._store_finished_runs()
            self._monitor.count_rounds(max(0, max(progress.rounds.values(), default=1) - 1))
            if request.within_budget:
                self.shortage = min(progress.waits.values(), default=None)
            progress.done.update(self._children)
            self._note_purges(progress.done, progress.began)
            return progress.done

    def _note_purges(self, done: Counter[int], began: Mapping[int, int]) -> None:
        """Note the purges of a request that has ended, of containers whose row is still known."""
        if self.traces is None:
            return
        for container, records in done.items():
            node = self._nodes.recall(container)
            if records and node is not None and container in began:
                database = self._nodes.recall(node.parent)
                causes = tuple(dict.fromkeys(rule.cause for rule in node.rules))
                self.traces.note_purge(
                    self._monitor.space_of(container), "" if database is None else database.name, node.name, causes,
                    records, began[container],
                )  # fmt: skip

    async def _choose(self, request: PurgeRequest, excluded: dict[int, Span]) -> Sweep | None:
        """Return the next sweep; None: the request is done."""
        await self._surveyor.refresh()
        await self._monitor.learn_members(self._agenda.containers)
        return next_sweep(self._agenda.backlog(request, self.is_stopped, excluded), self._last, self.limits)

    async def _sweep_and_pay(self, sweep: Sweep, affordable: int | None, request: PurgeRequest, permit: Pass) -> int:
        """Sweep at most the `affordable` number of records (None: no budget pays for them); return the number of purged ones."""
        node = self._nodes.recall(sweep.container)
        most = self.limits.by_record if node is not None and node.expires_by_record else None
        limit = min(limit for limit in (sweep.limit, affordable, permit.records, most) if limit is not None)
        removed = await self._sweep_or_postpone(sweep, limit, request, permit)
        await self._billing.pay(sweep.container, removed, from_unused=affordable is not None)
        return removed

    async def make_pass(self, container: int, request: PurgeRequest) -> Run:
        """Make a pass on demand over one container, which `request` names; return the removal run.

        Errors: NotFound; those of a write, which may leave due records behind.
        """
        self._agenda.resume(container)
        with self._surveyor.ignore_pause(container):
            done = await self.sweep_due(request)
        run = Run(request.now, 0, done[container])
        committed = await self._store.write(
            lambda: self.runs.finish_on_demand(container, run, self._pass_settings.tick)
        )
        self.runs.count(committed.reply)
        return committed.reply

    async def _store_finished_runs(self) -> None:
        # A stored result says that its pass has ended, so the result of a failed pass waits.
        for container, run in self.runs.take_finished(self._agenda.is_postponed):
            self.runs.count((await self._store.write(partial(self.runs.finish, container, run), "sweep")).reply)

    # --- one sweep -------------------------------------------------------------------------------------------------

    async def _sweep_or_postpone(self, sweep: Sweep, limit: int, request: PurgeRequest, permit: Pass) -> int:
        """Sweep; if a container with its own schedule cannot be swept, postpone it and let the others go on."""
        container = sweep.container
        schedule = self._agenda.schedule(container)
        try:
            removed = await self._sweep(sweep, limit, request, permit)
        except MayflyError as error:
            if schedule is None or error.retryable or request.override == "demanded":
                raise
            log.warning("the purge of container %d failed and will be tried again later: %s", container, error)
            self._agenda.postpone(container, request.now + self._pass_settings.retry)
            return 0
        if schedule is not None:
            self._agenda.resume(container)
        if removed and schedule is not None and request.override != "demanded":
            began = None if request.overrides_pass(own=True) else schedule.last(request.horizon)
            self.runs.add_erased(container, request.now if began is None else began, removed)
        return removed

    async def _sweep(self, sweep: Sweep, limit: int, request: PurgeRequest, permit: Pass) -> int:
        """Purge up to `limit` records in one transaction, fewer than planned where a budget says so; return their number."""
        container = sweep.container
        self._agenda.count_turn(container)
        # The same schedule if the store decides the transaction again.
        schedule = self._monitor.schedule
        with (
            self._locks.purge(container) as spared,
            self._lock_around(container) as around,
            self._version_cache.write(),
        ):
            if spared is None:
                self._agenda.mark_unknown(container)
                return 0
            decide = partial(
                purge_due, self._nodes, container, limit, request, schedule, self._version_cache, spared, True, permit.rules,
                around,
            )  # fmt: skip
            committed = await self._store_sweep(container, request, decide)
        reply = committed.reply
        self._note_wait(container, reply.waits)
        purges = committed.purged if reply.purged is None else reply.purged
        removed = sum(purged.records for purged in purges)
        size = sum(purged.value_bytes for purged in purges)
        # The planned limit: a poor budget of one container must not make the sweeps of all others small.
        self._last = SweepResult(container, sweep.limit, removed, committed.held)
        self.purge_counts[container] += removed
        for end, purged in zip(reply.ends, purges, strict=True):
            if purged.records:
                self._note_delay(container, request.now - end)
        self._monitor.count_sweep(container, removed, size, committed.held)
        for child, number in reply.children.items():
            self._children[child] += number
            self.purge_counts[child] += number
            self._agenda.mark_unknown(child)
        self._note_deadlines(reply.written)
        if removed or reply.children:
            self._notifier.notify()
        # The next record of the container is found by a read.
        self._agenda.mark_unknown(container)
        return removed

    @contextmanager
    def _lock_around(self, container: int) -> Iterator[Surroundings]:
        """Purge in the containers around one, too: transactions that lock their records meanwhile wait for the end."""
        with ExitStack() as stack:
            spared = {id: stack.enter_context(self._locks.purge(id)) for id in containers_below(self._nodes, container)}
            known = {id: frozenset(locked) for id, locked in spared.items() if locked is not None}
            yield Surroundings(self.references, known, self._latest(), self._roll_ups, self.publications)

    def _note_wait(self, container: int, waits: bool) -> None:
        if waits and container not in self.waiting:
            node = self._nodes.recall(container)
            log.warning(
                "the purge of %s waits until its archive accepts the expired records that are stored for it;"
                " `mayfly archives list` tells why it does not",
                container if node is None else node.name,
            )
            self.waiting.add(container)
        elif not waits:
            self.waiting.discard(container)

    async def _store_sweep(
        self, container: int, request: PurgeRequest, decide: Callable[[], Decision[SweepReply]]
    ) -> Committed[SweepReply]:
        """Commit a sweep. Delayed: records cannot be rolled up, or an open transaction has locked their aggregate."""
        try:
            return await self._store.write(decide, "sweep")
        except RollUpHeld as held:
            await self._roll_ups.hold(held, request.now)
            raise Delayed from held
        except Locked as locked:
            self._agenda.mark_unknown(container)
            raise Delayed from locked

    def _note_deadlines(self, written: Sequence[ExpirableRecords]) -> None:
        for container, rules, own, records in written:
            for record in records:
                ahead = upcoming(record, rules, self._monitor.schedule if own is None else own)
                if ahead is not None:
                    self.notice(container, ahead, own)

    def _note_delay(self, container: int, delay: Span) -> None:
        space = self._monitor.space_of(container)
        self.purge_delays.setdefault(space, Histogram(DELAY_BOUNDS)).add(max(0, delay))


async def _prepare_nothing() -> None:
    return


async def _make_no_room(_: int) -> bool:
    return False
