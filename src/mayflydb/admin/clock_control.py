"""Reads and moves the clock, for the admin API and for callers in the same process."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from shlex import quote
from typing import Any, Final, Literal

import msgspec

from mayflydb.admin import formats
from mayflydb.admin.targets import ContainerTarget, TargetResolver
from mayflydb.clock import Clock, ClockMode, Jump, ProcessClock, SystemClock, VirtualClock, wall_us
from mayflydb.engine.catalog import Node
from mayflydb.engine.clock_follower import ClockFollower
from mayflydb.engine.clock_mover import AdvanceResult, ClockMover, SweepMode, newest_write
from mayflydb.engine.clock_moves import ClockMove, Kind
from mayflydb.engine.engine import Engine
from mayflydb.engine.timekeeper import Verdict
from mayflydb.model.errors import BadRequest, Conflict, Forbidden
from mayflydb.model.hints import Hint
from mayflydb.model.instant import LAST_INSTANT, SECOND, Instant, Span

Note = Callable[[Literal["clock", "reset"], str], Awaitable[None]]
"""Tells streams of events that a person did something: its kind, and a word for it."""


_NEWER: Final = Hint("clock-newer")


class ClockState(msgspec.Struct, frozen=True):
    """The clock at one moment, as a snapshot keeps it."""

    now: Instant
    mode: ClockMode
    frozen: bool


async def keep_nothing(is_real: bool) -> str | None:
    """Save nothing before a move of the clock."""
    return None


class ClockControl:
    """Reads and moves the clock.

    `allowed`: the clock may be moved. A move makes a real clock virtual. `shared`: other nodes use the same database, so a real
    clock stays real. `host_clock`: builds a clock that believes the host's. `note`: tells others of each change.
    `storage`: returns the store's URL, as people may see it.
    """

    def __init__(
        self,
        engine: Engine,
        targets: TargetResolver,
        allowed: bool,
        shared: bool,
        host_clock: Callable[[], SystemClock],
        note: Note,
        storage: Callable[[], str],
    ) -> None:
        self._storage = storage
        self._note = note
        self._host_clock = host_clock
        self._engine = engine
        self._targets = targets
        self._allowed = allowed
        self._shared = shared
        self._clock_mover: ClockMover | None = None
        self.moving = asyncio.Lock()
        """Held while the clock is moved, or a snapshot is restored."""
        self.before_move: Callable[[bool], Awaitable[str | None]] = keep_nothing
        """Called before a move through time, with True for a real clock. Returns the snapshot that it saved, or None."""
        self._began_real = engine.time.clock.mode == "real"
        if isinstance(engine.time.clock, VirtualClock):
            self._clock_mover = ClockMover(engine, engine.time.clock)

    async def show(self) -> dict[str, Any]:
        """Return now, mode, frozen, offset_seconds (ahead of the host's clock), jump (null: the host's clock has not jumped) and
        next_expiry (null: no record will expire).
        """
        shown = self.describe(await self._engine.now())
        return shown | {"next_expiry": formats.time_or_none(await self.next_expiry())}

    def describe(self, now: Instant) -> dict[str, Any]:
        """Return the same without `next_expiry`, which would read the store."""
        clock = self._engine.time.clock
        return {
            "now": formats.time(now),
            "mode": clock.mode,
            "frozen": _is_frozen(clock),
            "offset_seconds": round((clock.shift if isinstance(clock, SystemClock) else now - wall_us()) / SECOND),
            "jump": _describe_jump(self._engine.time.observe()),
        }

    async def next_expiry(self) -> Instant | None:
        """Return the earliest deadline after now over all containers; None: no record will expire."""
        now = await self._engine.now()
        await self._engine.accesses.flush()
        containers = await self._targets.list_containers()
        found = [await self._engine.next_deadline(container.node.id, now) for container in containers]
        return min((deadline for deadline in found if deadline is not None), default=None)

    async def advance(self, span: Span | None, sweep: SweepMode = "scheduled") -> dict[str, Any]:
        """Advance by a span, or (None) to the next expiry if there is one. Return when all purges on the way are done."""
        self._check_movable("moved")
        # One move at a time: two walks at once would purge at instants in a mixed order.
        async with self.moving:
            if self._clock_mover is None:
                self._check_own()
            containers = await self._targets.list_containers()
            nodes = [container.node for container in containers]
            now = await self._engine.now()
            to = (await self.next_expiry() or now) if span is None else now + span
            if to > LAST_INSTANT:
                raise BadRequest("the clock ends with the year 9999")
            saved = await self._prepare_move("advance", now, to)
            clock_mover = await self._get_clock_mover()
            walk = await clock_mover.walk(to, nodes, sweep)
            await self._note("clock", "advance")
            return self._summarize_walk(walk, to - now, containers, saved)

    async def set(self, to: Instant, force: bool = False) -> dict[str, Any]:
        """Advance to an instant. Conflict for an instant in the past, unless `force` is given and nothing stored is newer."""
        self._check_movable("moved")
        if not 0 <= to <= LAST_INSTANT:
            raise BadRequest("the clock runs from 1970 to the end of 9999")
        async with self.moving:
            containers = await self._targets.list_containers()
            now = await self._engine.now()
            if to < now:
                # Checked first, so that the refusal names --force only where it would help.
                await self._check_nothing_newer(to, containers)
                if not force:
                    raise Conflict("that is in the past", hint=Hint("clock-back"))
                (await self._get_clock_mover()).roll_back(to)
                await self._engine.time.lower_mark()
                await self._engine.time.keep_move(ClockMove("set", wall_us(), to))
                await self._note("clock", "set")
                return await self.show()
            if self._clock_mover is None:
                self._check_own()
            saved = await self._prepare_move("set", now, to)
            clock_mover = await self._get_clock_mover()
            walk = await clock_mover.walk(to, [container.node for container in containers], "scheduled")
            await self._note("clock", "set")
            return self._summarize_walk(walk, to - now, containers, saved)

    async def freeze(self) -> dict[str, Any]:
        """Stop the clock. A real clock becomes virtual, and so does one that follows the process's, where it stands."""
        self.check_allowed("stopped")
        async with self.moving:
            (await self._get_clock_mover()).freeze()
            await self._note("clock", "freeze")
        return await self.show()

    async def resume(self) -> dict[str, Any]:
        """Let a frozen clock run again. A real clock always runs."""
        self._check_movable("moved")
        async with self.moving:
            if self._clock_mover is not None:
                self._clock_mover.resume()
                await self._note("clock", "resume")
        return await self.show()

    async def follow_host(self) -> dict[str, Any]:
        """Return to the host's clock. Conflict if the store holds anything newer than the host's time."""
        self._check_movable("moved")
        async with self.moving:
            if self._clock_mover is not None:
                clock = self._host_clock()
                goes_back = (wall := clock.now()) < await self._engine.now()
                if goes_back:
                    await self._check_nothing_newer(
                        wall, await self._targets.list_containers(), self._newer_than_host()
                    )
                    self._engine.roll_back(wall)
                self._engine.time.follow(clock)
                if goes_back:
                    await self._engine.time.lower_mark()
                await self._engine.time.forget_move()
                self._clock_mover = None
                self._engine.reaper.wake()
                await self._note("clock", "reset")
        return await self.show()

    async def return_to_start(self) -> None:
        """After a reset of the store: set a virtual clock back to its start. Frozen stays frozen, running stays running."""
        async with self.moving:
            clock = self._engine.time.clock
            if isinstance(clock, ProcessClock):
                clock.set(clock.aim())
            elif isinstance(clock, VirtualClock):
                clock.set(clock.start)
                await self._engine.time.keep_move(ClockMove("start", wall_us(), clock.start))
            self._engine.roll_back(clock.now())
            await self._engine.time.lower_mark()

    async def start_at(self, instant: Instant) -> None:
        """After a reset of the store: freeze a virtual clock at this instant. Later resets return to it."""
        self.check_allowed("moved")
        async with self.moving:
            self._check_own()
            clock = VirtualClock(instant)
            self._engine.time.follow(clock)
            self._clock_mover = ClockMover(self._engine, clock)
            self._engine.roll_back(instant)

    async def follow_process(self) -> None:
        """Follow the clock of this process, which tests move, from now on. It is looked at before each request.

        Forbidden for a store that outlives the process.
        """
        self.check_allowed("moved")
        if self._engine.durable:
            raise Forbidden("a store in a file or database does not follow a clock that tests move: serve memory")
        async with self.moving:
            self._check_own()
            clock = ProcessClock(self._engine.time.latest)
            self._engine.time.follow(clock, ClockFollower(self._engine, clock, self._list_nodes).look)
            self._clock_mover = None
            await self._engine.now()
        self._engine.reaper.wake()

    async def _list_nodes(self) -> list[Node]:
        return [container.node for container in await self._targets.list_containers()]

    async def settle(self, verdict: Verdict) -> dict[str, Any]:
        """Take the later ("accept") or the earlier ("reject") time of a jump as right, which ends the fence.

        Conflict if the host's clock has not jumped, or is not followed.
        """
        if self._engine.time.clock.mode != "real":
            raise Conflict("a virtual clock is never fenced: there is nothing to decide")
        async with self.moving:
            await self._engine.time.settle(verdict)
        self._engine.reaper.wake()
        await self._note("clock", verdict)
        return await self.show()

    # --- snapshots -------------------------------------------------------------------------------------------------------

    def state(self, now: Instant) -> ClockState:
        """Return what a snapshot keeps of the clock."""
        clock = self._engine.time.clock
        return ClockState(now, clock.mode, _is_frozen(clock))

    async def check_restore(self, state: ClockState) -> bool:
        """Return True if the clock goes on through a restore, as that of a host or process does. Conflict if the snapshot is
        from its future.
        """
        if self._engine.time.clock.mode == "virtual":
            return False
        if state.now > await self._engine.now() + SECOND:
            raise Conflict(
                f"the snapshot is of {formats.time(state.now)}, which is later than now",
                hint=Hint("snapshot-later"),
            )
        return True

    def return_to(self, state: ClockState) -> None:
        """Set a virtual clock back to the state that a snapshot has kept; one that was real becomes real again."""
        clock = self._engine.time.clock
        if not isinstance(clock, VirtualClock) or clock.mode == "system":
            return
        host = self._host_clock() if state.mode == "real" and self._began_real else None
        if host is not None and host.now() >= state.now:
            self._engine.roll_back(host.now())
            self._engine.time.follow(host)
            self._clock_mover = None
            return
        clock.set(state.now)
        if state.mode == "virtual":
            (clock.freeze if state.frozen else clock.resume)()
        self._engine.roll_back(state.now)

    def _summarize_walk(
        self, walk: AdvanceResult, span: Span, containers: list[ContainerTarget], saved: str | None
    ) -> dict[str, Any]:
        # `advanced_seconds` is the span that was asked for: a running clock also moves while the walk lasts.
        clock = self.state(walk.now)
        names: Mapping[int, str] = {container.node.id: container.target for container in containers}
        return {
            "now": formats.time(walk.now),
            "mode": clock.mode,
            "frozen": clock.frozen,
            "advanced_seconds": formats.seconds(span),
            "expired": sum(walk.expired.get(id, 0) for id in names),
            "purged": sum(walk.purged.get(id, 0) for id in names),
            "exact": walk.exact,
            "by_target": {
                target: {"expired": walk.expired.get(id, 0), "purged": walk.purged.get(id, 0)}
                for id, target in names.items()
                if walk.expired.get(id) or walk.purged.get(id)
            },
            **({} if saved is None else {"snapshot": saved}),
        }

    async def _prepare_move(self, kind: Kind, now: Instant, to: Instant) -> str | None:
        """Return the snapshot that was saved before a move, if one was. The store keeps the move from here on."""
        if to <= now:
            return None
        saved = await self.before_move(self._clock_mover is None)
        await self._engine.time.keep_move(ClockMove(kind, wall_us(), to))
        return saved

    def _newer_than_host(self) -> Hint:
        if not self._engine.durable:
            return Hint("clock-newer")
        return Hint("clock-newer-than-host", {"storage": quote(self._storage())})

    def check_allowed(self, what: str) -> None:
        """Forbidden unless the settings allow the clock to be moved. `what`: the participle for the message."""
        if not self._allowed:
            raise Forbidden(
                f"time may not be {what} on this server",
                hint=Hint("no-time-travel"),
            )

    def _check_movable(self, what: str) -> None:
        """Forbidden as in `check_allowed`. Conflict for a clock that follows the process's."""
        self.check_allowed(what)
        if self._engine.time.clock.mode == "system":
            raise Conflict(
                f"the clock follows that of the process, and is not {what} by itself", hint=Hint("process-clock")
            )

    def _check_own(self) -> None:
        """Forbidden if the clock is real and other nodes share its time."""
        if self._shared and self._clock_mover is None:
            raise Forbidden(
                "the real clock cannot be moved here: servers that share a PostgreSQL database share its time",
                hint=Hint("shared-clock"),
            )

    async def _get_clock_mover(self) -> ClockMover:
        """Return the mover of the virtual clock. A real clock becomes virtual here and runs on from now."""
        if self._clock_mover is None:
            self._check_own()
            if isinstance(self._engine.time.clock, ProcessClock):
                # It stops where requests have seen it, without another look.
                clock = VirtualClock(self._engine.time.latest)
            else:
                clock = VirtualClock(await self._engine.now())
                clock.resume()
            self._engine.time.follow(clock)
            self._clock_mover = ClockMover(self._engine, clock)
        return self._clock_mover

    async def _check_nothing_newer(
        self, instant: Instant, containers: list[ContainerTarget], hint: Hint = _NEWER
    ) -> None:
        newest = await newest_write(self._engine.reads, [container.node for container in containers])
        if newest is not None and newest > instant:
            raise Conflict(
                f"the store holds something written at {formats.time(newest)}, later than {formats.time(instant)}",
                hint=hint,
            )


def _is_frozen(clock: Clock) -> bool:
    # One that follows the process's stands still between two looks, and is not frozen.
    return clock.mode == "virtual" and isinstance(clock, VirtualClock) and clock.frozen


def _describe_jump(jump: Jump | None) -> dict[str, Any] | None:
    if jump is None:
        return None
    return {
        "host": formats.time(jump.host),
        "time": formats.time(jump.time),
        "seconds": round(jump.size / SECOND, 3),
        "reads_follow": jump.followed,
        "purging_waits_seconds": None if jump.wait is None else round(jump.wait / SECOND, 3),
    }
