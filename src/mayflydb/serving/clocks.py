"""Builds the clock that the settings ask for, from the latest instant that the store has seen."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from shlex import quote
from typing import Final

from mayflydb.admin.snapshots import BEFORE_ADVANCE
from mayflydb.announcement import StartFailed
from mayflydb.clock import Belief, Clock, Jump, Pace, SystemClock, VirtualClock, wall_us
from mayflydb.config.settings import Settings
from mayflydb.engine.clock_moves import ClockMove, Kind, read_move, save_move
from mayflydb.engine.timekeeper import MARK, SHIFT, Timekeeper, Verdict, read_pace
from mayflydb.model.durations import format_span
from mayflydb.model.instant import SECOND, Instant, Span, floor_to_second, to_rfc3339
from mayflydb.serving.stores import OpenedStore, open_store_alone
from mayflydb.store.interface import NamedNumber

log = logging.getLogger(__name__)

MAX_MARK_LEAD = 5 * SECOND
"""The most that the high-water mark may lie ahead of the host's clock. A little is usual: time is reserved a second ahead."""


async def build_clock(settings: Settings, opened: OpenedStore) -> Clock:
    """Build the clock. It continues from the high-water mark, the latest instant that the store has seen.

    StartFailed if that lies ahead of a real clock, or ahead of the start that was asked for.
    """
    mark = await opened.store.read(NamedNumber(MARK))
    if settings.clock.mode == "virtual":
        start = _virtual_start(settings, mark)
        if start > (wall := opened.wall()) + MAX_MARK_LEAD and (mark is None or start > mark + SECOND):
            await save_move(opened.store, ClockMove("start", wall, start))
        return VirtualClock(start)
    clock = await build_host_clock(settings, opened)
    if mark is not None and mark - clock.now() > MAX_MARK_LEAD:
        move = await read_move(opened.store)
        if move is not None and move.to > clock.now() + MAX_MARK_LEAD:
            raise _was_moved(settings, mark, clock.now(), move, await _saved_before(opened))
        raise _mark_is_ahead(settings, mark, clock.now())
    if opened.lease is not None and mark is not None:
        # Other nodes reserve time ahead. A node that began at their mark would run ahead of them, so it waits until its own
        # clock has got there.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout((clock.until(mark) or 0) / SECOND):
                await asyncio.get_running_loop().create_future()
    return clock


def _mark_is_ahead(settings: Settings, mark: Instant, now: Instant) -> StartFailed:
    shown, place = settings.storage.shown, quote(settings.storage.shown)
    host = "the database's clock" if settings.storage.shared else "this host's clock"
    ahead = mark - now
    return StartFailed(
        f"{shown} has been at {to_rfc3339(mark)}, {format_span(ahead - ahead % SECOND)} ahead of {host}, which says"
        f" {to_rfc3339(now)}",
        setting="clock.mode",
        hint=f"set {host} right if it is wrong. If it is right: mayfly clock reject --storage {place} goes back to it. To go on"
        f" from the later time: mayfly clock accept --storage {place}, or --clock virtual; or serve another {_place(settings)}",
        exit_code=4,
    )


_MOVES: Final[Mapping[Kind, str]] = {
    "start": "its virtual clock was started at {to}",
    "advance": "its clock was moved by `mayfly clock advance` to {to}",
    "set": "its clock was moved by `mayfly clock set` to {to}",
}


def _was_moved(settings: Settings, mark: Instant, now: Instant, move: ClockMove, saved: bool) -> StartFailed:
    place = quote(settings.storage.shown)
    moved = _MOVES[move.kind].format(to=to_rfc3339(move.to))
    serve = f"mayfly serve --storage {place} --clock virtual"
    snapshot = (
        f"while that runs, mayfly snapshot restore {BEFORE_ADVANCE} goes back to the state before the move;"
        " then stop it, and start as now\n"
    )
    return StartFailed(
        f"{settings.storage.shown} has been at {to_rfc3339(mark)}, and the host's clock says {to_rfc3339(now)}: {moved},"
        f" when the host's clock said {to_rfc3339(move.at)}",
        setting="clock.mode",
        hint=f"{serve} goes on from there\n{snapshot if saved else ''}"
        f"mayfly clock reject --storage {place} keeps everything, and goes back to the host's time\n"
        f"mayfly clock accept --storage {place} stays ahead of the host's clock, which is followed from there\n"
        f"another {_place(settings)} has a time of its own",
        exit_code=4,
    )


async def _saved_before(opened: OpenedStore) -> bool:
    """Return whether the state before the first move was saved."""
    if opened.snapshots is None:
        return False
    return any(each.name == BEFORE_ADVANCE for each in await opened.snapshots.list_all())


async def build_host_clock(settings: Settings, opened: OpenedStore) -> SystemClock:
    """Build a real clock from what earlier processes on the store have known of the host's clock."""
    store, shared = opened.store, settings.storage.shared
    boot_id = 0 if shared else opened.boot_id()
    mark, shift = await store.read(NamedNumber(MARK)) or 0, await store.read(NamedNumber(SHIFT)) or 0
    pace = _valid_pace(await read_pace(store), boot_id, mark - opened.wall() - shift)
    if pace is None and shift:
        shift = _shift_after_boot(shift, mark, opened.wall(), shared=shared)
    if shift:
        log.warning("the host's clock is not right by a person's verdict: %s is added to it", format_span(shift))
    return SystemClock(mark or None, opened.wall, opened.boot, _belief(settings), shift, pace, boot_id)


def _valid_pace(pace: Pace | None, boot_id: int, ahead: Span) -> Pace | None:
    """Return a stored pace if its clock still goes on. `ahead`: by how much the mark is ahead of the wall clock."""
    if pace is None or pace.boot_id != boot_id:
        return None
    if pace.boot_id:
        return pace
    # Less than the wall clock by nothing, or by a jump that was set right: the time of a stop is not known.
    return pace if min(pace.reads, pace.proven) < -MAX_MARK_LEAD and pace.reads >= ahead - MAX_MARK_LEAD else None


def trusted_host_clock(settings: Settings, opened: OpenedStore) -> SystemClock:
    """Build a real clock that believes the host's clock as it is now: a person asked for it."""
    boot_id = 0 if settings.storage.shared else opened.boot_id()
    return SystemClock(None, opened.wall, opened.boot, _belief(settings), boot_id=boot_id)


def _belief(settings: Settings) -> Belief:
    return Belief(settings.clock.jump, settings.clock.hold, settings.clock.steady)


def _shift_after_boot(shift: Span, mark: Instant, wall: Instant, *, shared: bool) -> Span:
    """Return what a decision of a person still adds to the host's clock, where no pace tells whether that was set right."""
    if wall + shift < mark - MAX_MARK_LEAD:
        return 0
    # A clock that went back may be right by now; if not, the mark is ahead of it, and people are asked again. Where nodes share
    # the time, those that run notice it.
    return shift if shift < 0 or shared else 0


async def settle_store(settings: Settings, verdict: Verdict) -> tuple[Jump, Instant]:
    """Take the later or the earlier of two times as right, for a store that is not being served: its own, or the host's.

    Return the jump, and the time from which the next server goes on. Errors: those of `open_store_alone`; Conflict if both agree.
    """
    opened = await open_store_alone(settings.storage, create=False)
    try:
        clock = await build_host_clock(settings, opened)
        return await (await Timekeeper.start(clock, opened.store, shared=settings.storage.shared)).settle(verdict)
    finally:
        await opened.store.close()


def _virtual_start(settings: Settings, mark: Instant | None) -> Instant:
    start = settings.clock.start
    if mark is None:
        return floor_to_second(wall_us()) if start is None else start
    # Rounded up: rounded down, the clock would start behind an instant that was already used.
    whole = -(-mark // SECOND) * SECOND
    if start is None:
        return max(floor_to_second(wall_us()), whole)
    if start < mark:
        raise StartFailed(
            f"the store has been at {to_rfc3339(mark)}, and time does not go back",
            setting="clock.start",
            hint=f"leave out --clock-start to go on from there, or start with another {_place(settings)}",
            exit_code=4,
        )
    return start


def _place(settings: Settings) -> str:
    return "database" if settings.storage.shared else "file"
