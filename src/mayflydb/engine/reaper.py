"""The reaper: the background loop that purges due records as soon as the clock's horizon allows.

The loop sleeps until the agenda's next purge, and asks the sweeper for all that is due. `expiry/agenda` knows what comes next,
`engine/surveyor` reads it from the store, `engine/sweeper` carries out requests.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

from mayflydb.engine.billing import Billing
from mayflydb.engine.catalog import Nodes, Run
from mayflydb.engine.expiry_events import ExpiryEvents
from mayflydb.engine.housekeeping import DEFAULT_RETENTION, Housekeeping, Retention
from mayflydb.engine.lifecycle.erasure_log import ErasureLog
from mayflydb.engine.lifecycle.guard import Guard
from mayflydb.engine.lifecycle.references import References
from mayflydb.engine.lifecycle.rolling_up import RollUps
from mayflydb.engine.lifecycle.shredding import Shredding
from mayflydb.engine.locks import Locks
from mayflydb.engine.monitor import Monitor
from mayflydb.engine.ordered_histories import ChangeNotifier
from mayflydb.engine.runs import DEFAULT_PASS_SETTINGS, PassSettings
from mayflydb.engine.surveyor import Surveyor
from mayflydb.engine.sweeper import Sweeper
from mayflydb.engine.timekeeper import Timekeeper
from mayflydb.engine.traces import TraceLog
from mayflydb.engine.version_cache import VersionCache
from mayflydb.expiry.agenda import Agenda
from mayflydb.expiry.guard import GuardLimits
from mayflydb.expiry.passes import Schedule, Upcoming
from mayflydb.expiry.sweep import Limits, PurgeRequest
from mayflydb.model.errors import MayflyError
from mayflydb.model.histogram import Histogram
from mayflydb.model.instant import MILLISECOND, MINUTE, SECOND, Instant, Span
from mayflydb.store.interface import Holds, Store

log = logging.getLogger(__name__)

FOREVER: Instant = 1 << 80
LONGEST_SLEEP: Span = MINUTE
"""The clock is asked again at least this often, since the host's time may be set during a sleep."""

LEASE: Span = 10 * SECOND
"""The time for which a node owns the sweeps, renewed at each turn. Another node takes over when it has run out."""

LOOK: Span = 5 * SECOND
"""The longest time until writes of other nodes are noticed."""

RETRY: Span = SECOND
SHORTEST_WAIT: Span = 50 * MILLISECOND
"""The shortest wait between two looks at an exhausted budget."""

WAY_SECONDS: Final = 0.25
"""The wait of a reader of events before each page while records are purged."""

Lease: TypeAlias = Callable[[str, Span], Awaitable[bool]]
"""Takes or renews a name for a time; False: another node has it."""


class Reaper:
    """One per store. `run` is the background loop, limited by budgets; `sweep_due` is the same work on demand."""

    def __init__(
        self,
        store: Store,
        time: Timekeeper,
        nodes: Nodes,
        limits: Limits,
        billing: Billing,
        monitor: Monitor,
        interval: Span = SECOND,
        lease: Lease | None = None,
        pass_settings: PassSettings = DEFAULT_PASS_SETTINGS,
        holds: Holds | None = None,
        retention: Retention = DEFAULT_RETENTION,
        guard: GuardLimits | None = None,
    ) -> None:
        """`monitor`: the schedule of passes. `lease`: elects the node that sweeps, where several nodes share the store.

        Without a lease this node is the only one. `pass_settings`: the passes over containers with a schedule of their own.
        `holds`: keeps purges of other nodes from records that are locked on this one. `guard`: the limits of unexpected expiries.
        """
        self.pass_settings = pass_settings
        self.notifier = ChangeNotifier()
        self.version_cache = VersionCache()  # Gets the versions that are purged.
        self.locks = Locks(
            self.invalidate, holds
        )  # Records that open transactions have locked, which no purge removes.
        self._time = time
        self._monitor = monitor
        self._nodes = nodes
        self._interval = interval
        self._lease = lease
        self._wake = asyncio.Event()
        self._agenda = Agenda()
        self._billing = billing
        self._surveyor = Surveyor(store, nodes, time, monitor, self.locks, self._agenda, self._forget)
        self.roll_ups = RollUps(store, nodes, self.locks)
        self.roll_ups.changed = self.invalidate
        self.guard = Guard(store, nodes, time, guard)
        self.guard.changed = self.invalidate
        self._sweeper = Sweeper(
            store, nodes, self._agenda, self._surveyor, limits, billing, monitor, pass_settings,
            self.locks, self.version_cache, self.notifier, self.guard, self.roll_ups, lambda: time.latest,
        )  # fmt: skip
        self._sweeper.notice = self.notice
        self.publications = self._sweeper.publications
        self.events = ExpiryEvents(store, time, retention.events)
        self.erasure_log = ErasureLog(store, time, nodes, self.notifier)
        self.shredding = Shredding(store, time, nodes, self.erasure_log)
        self.events.read_bound = self.erasure_log.read_cursor
        self._housekeeping = Housekeeping(store, nodes, limits.most, self.events, retention.history)
        monitor.listen(self.survey)

    def trace(self, traces: TraceLog | None) -> None:
        """Have purges noted from now on."""
        self._sweeper.traces = traces

    def prepare_sweeps(
        self, prepare: Callable[[], Awaitable[None]], instant_of_writes: Callable[[Instant], Instant]
    ) -> None:
        """Have `prepare` done before the sweeps of each request. `instant_of_writes`: that of a write that is decided now."""
        self._sweeper.prepare = prepare
        self.roll_ups.instant_of_writes = instant_of_writes

    def refer(self, spaces: Mapping[str, Callable[[], References]]) -> None:
        """Take the references between the records of each front end, by space."""
        self._sweeper.references.update(spaces)

    def let_archives_accept(self, make_room: Callable[[int], Awaitable[bool]]) -> None:
        """Have the archive of a container accept what waits where a purge on demand meets its limit."""
        self._sweeper.make_room = make_room

    # --- news ------------------------------------------------------------------------------------------------------

    def notice(self, container: int, ahead: Upcoming, own: Schedule | None = None) -> None:
        """Take note of a written record's deadline and purge instant. `own`: its container's own schedule."""
        if own is None:
            is_sooner = self._agenda.note_write(container, ahead)
        else:
            is_sooner = self._agenda.note_scheduled_write(container, ahead, own, own.last(self._time.horizon()))
        if is_sooner:
            self._wake.set()

    def invalidate(self, container: int) -> None:
        """Read the state of a container again: its rules have changed, or it is gone."""
        self._agenda.mark_unknown(container)
        self._wake.set()
        self.notifier.notify()

    def wake(self) -> None:
        """Wake the loop: the clock was moved, or runs again."""
        self._wake.set()

    def roll_back(self) -> None:
        """Forget finished passes: the clock was set back, and passes are counted from there."""
        self._agenda.roll_back()
        self._wake.set()

    async def survey(self) -> None:
        """Read the states of all containers again; at the start, and after a reset."""
        await self._surveyor.survey()
        self._wake.set()

    def _forget(self, container: int) -> None:
        """Drop what this process has counted of a container that is gone."""
        self._sweeper.purge_counts.pop(container, None)
        self._sweeper.waiting.discard(container)
        self._billing.forget_container(container)
        self._monitor.forget_container(container)
        self._nodes.forget_container(container)

    # --- questions -------------------------------------------------------------------------------------------------

    async def next_deadline(self) -> Instant | None:
        """Return the earliest deadline of all stored records that may be purged; it may be in the past."""
        await self._surveyor.refresh()
        return self._agenda.next_deadline()

    async def next_pass(self, container: int) -> Instant | None:
        """Return the instant of the next purge of a container with its own schedule, if a record in it expires."""
        await self._surveyor.refresh()
        return self._agenda.next_pass(container)

    @property
    def purge_counts(self) -> Counter[int]:
        """The number of purged records by container, since the process began."""
        return self._sweeper.purge_counts

    @property
    def purge_delays(self) -> Mapping[str, Histogram]:
        """The delays of purges by the space of their container, since the process began: of each, its earliest deadline's."""
        return self._sweeper.purge_delays

    @property
    def run_totals(self) -> tuple[int, int]:
        """(processed, erased) records of all passes over containers with a schedule of their own, since the process began."""
        return self._sweeper.runs.processed, self._sweeper.runs.erased_in_all

    async def give_way(self, place: int) -> None:
        """Let a reader of events, which has read them up to a place, wait while a purge is under way, for a moment at most: it
        would slow the purge down. A reader that is far behind does not wait, or events would be removed unread.
        """
        if self._sweeper.is_busy and not await self.events.is_far_behind(place):
            await self._sweeper.wait_for_rest(WAY_SECONDS)

    # --- purges on demand ------------------------------------------------------------------------------------------

    async def sweep_due(self, request: PurgeRequest) -> Counter[int]:
        """Purge all records that a request names; return the number of records by container."""
        done = await self._sweeper.sweep_due(request)
        await self.shredding.run_after(done)
        return done

    async def run_now(self, container: int, now: Instant) -> Run:
        """Make a pass over one container at once, even if it is paused, and count the next pass from it; return the removal
        run.

        Errors: NotFound; those of a write, which may leave due records behind.
        """
        request = PurgeRequest(self._time.horizon(), now, "run now", frozenset((container,)), override="demanded")
        run = await self._sweeper.make_pass(container, request)
        self.invalidate(container)
        return run

    async def sweep_as_scheduled(self) -> Counter[int]:
        """Run one turn of the loop: purge due records that budgets can pay for."""
        request = PurgeRequest(self._time.horizon(), await self._time.now(), "sweep", within_budget=True)
        return await self.sweep_due(request)

    # --- the loop --------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Run until cancelled. After a failure of the store the loop tries again; waiting loses nothing."""
        while True:
            # Before the work, not after it: a wake that comes meanwhile is not lost.
            self._wake.clear()
            # Here, too, for a node without requests: it must begin to doubt a jump when the others do.
            self._time.observe()
            try:
                if await self._has_the_lease():
                    await self._work()
                await self._sleep()
            except MayflyError as error:
                log.warning("a sweep failed and will be tried again: %s", error)
                await self._pause(RETRY)

    async def _work(self) -> None:
        await self._housekeeping.clear_dropped()
        await self.shredding.run_at_times(self._time.horizon())
        if await self._housekeeping.forget_old(self._time.horizon()):
            self._wake.set()
        if self._runs_by_itself():
            await self.sweep_as_scheduled()

    @property
    def rest(self) -> Span:
        """The pause of the loop after a turn, so that records that expire within it are purged together. Shorter after a
        budget was exhausted, or unused budget would be lost meanwhile.
        """
        shortage = self._sweeper.shortage
        return self._interval if shortage is None else min(self._interval, max(shortage, SHORTEST_WAIT))

    async def _has_the_lease(self) -> bool:
        if self._lease is None:
            return True
        if not await self._lease("reaper", LEASE):
            return False
        # Other nodes write without telling this one.
        await self._monitor.refresh(await self._time.now())
        await self.survey()
        # The survey wakes the loop, which is awake and reads all states now.
        self._wake.clear()
        return True

    def _runs_by_itself(self) -> bool:
        # A frozen clock stands still for the reaper too: there only `advance` and `purge` remove records.
        return self._time.clock.until(self._time.clock.now()) is not None

    async def _sleep(self) -> None:
        await self._pause(self.rest)
        await self._surveyor.refresh()
        purge = self._agenda.next_purge(self._sweeper.is_stopped)
        wait = self._time.clock.until(FOREVER if purge is None else purge)
        if wait is None:
            await self._wake.wait()
        elif not self._wake.is_set():
            await self._pause(min(wait, LONGEST_SLEEP if self._lease is None else LOOK))

    async def _pause(self, span: Span) -> None:
        # Not wait_for, which loses a cancellation that arrives together with the wake.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(span / SECOND):
                await self._wake.wait()
