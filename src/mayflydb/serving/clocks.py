"""Builds the clock that the settings ask for, from the latest instant that the store has seen."""

from __future__ import annotations

import asyncio
import contextlib

from mayflydb.announcement import StartFailed
from mayflydb.clock import Clock, SystemClock, VirtualClock, wall_us
from mayflydb.config.settings import Settings
from mayflydb.engine.timekeeper import MARK
from mayflydb.model.instant import SECOND, Instant, floor_to_second, to_rfc3339
from mayflydb.serving.stores import OpenedStore
from mayflydb.store.interface import NamedNumber

MAX_MARK_LEAD = 5 * SECOND
"""The most that the high-water mark may lie ahead of the host's clock. A little is usual: time is reserved a second ahead."""


async def build_clock(settings: Settings, opened: OpenedStore) -> Clock:
    """Build the clock. It continues from the high-water mark, the latest instant that the store has seen.

    StartFailed if that lies ahead of a real clock, or ahead of the start that was asked for.
    """
    mark = await opened.store.read(NamedNumber(MARK))
    if settings.clock.mode == "virtual":
        return VirtualClock(_virtual_start(settings, mark))
    wall = opened.wall()
    if mark is not None and mark - wall > MAX_MARK_LEAD:
        raise StartFailed(
            f"{settings.storage.shown} has been at {to_rfc3339(mark)}, which lies in the future",
            setting="clock.mode",
            hint=f"--clock virtual goes on from there; or serve another {_place(settings)} on the real clock",
            exit_code=4,
        )
    clock = SystemClock(mark, opened.wall)
    if opened.lease is not None and mark is not None:
        # Other nodes reserve time ahead. A node that began at their mark would run ahead of them, so it waits until its own
        # clock has got there.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout((clock.until(mark) or 0) / SECOND):
                await asyncio.get_running_loop().create_future()
    return clock


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
