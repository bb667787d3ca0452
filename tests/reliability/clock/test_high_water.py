"""`now` never falls: not when the host's clock is set back, and not over a power cut between the reading of time and a commit."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import TypeVar

from mayflydb.clock import HighWater, SystemClock, VirtualClock
from mayflydb.engine.timekeeper import MARK, Timekeeper
from mayflydb.model.errors import Unavailable
from mayflydb.store.interface import Committed, Decision, NamedNumber, Outcome, SetNumber, Urgency
from reliability.clock.host import HOUR, START, Disk, S

T = TypeVar("T")


def test_a_step_back_of_an_hour_makes_time_stand_still() -> None:
    wall = START
    high = HighWater(SystemClock(None, lambda: wall, lambda: 0), 0)
    high.mark_reserved(high.next_reservation())
    assert high.now() == START
    wall = START - HOUR
    assert high.now() == START
    wall = START + 1
    assert high.now() == START + 1


def test_nothing_beyond_the_reservation_is_answered() -> None:
    wall = START
    high = HighWater(SystemClock(None, lambda: wall, lambda: 0), START)
    assert high.now() == START
    wall += 1
    assert high.now() is None
    assert high.next_reservation() == wall + S
    high.mark_reserved(high.next_reservation())
    assert high.now() == wall
    wall += S
    assert high.now() == wall
    wall += 1
    assert high.now() is None


def test_the_present_is_steady_only_within_the_bounds_of_the_reservation() -> None:
    wall = START
    high = HighWater(SystemClock(None, lambda: wall, lambda: 0), START)
    high.mark_reserved(START + S)
    for moved, steady in (
        (0, START),
        (S // 2, START + S // 2),
        (S // 2 + 1, None),
        (S + 1, None),
        (-1, START + S // 2),
    ):
        wall = START + moved
        assert high.steady_now(S // 2, 2 * S) == steady
    wall = START - 2 * S
    assert high.steady_now(S // 2, 2 * S) is None
    wall = START + S
    assert high.now() == START + S


def test_a_frozen_clock_reserves_no_more_than_it_shows() -> None:
    clock = VirtualClock(START)
    high = HighWater(clock, 0)
    assert high.next_reservation() == START
    clock.resume()
    assert high.next_reservation() >= START + S


def test_a_reservation_is_never_lowered(seed: int) -> None:
    """However the wall clock jumps between two looks at it, the mark that is saved covers every answer."""
    draw = random.Random(seed)
    for _ in range(300):
        wall = START

        def look() -> int:
            nonlocal wall
            wall = max(0, wall + draw.choice((0, 0, 1, S // 2, S, 2 * S, HOUR, -1, -S, -HOUR)))
            return wall

        high, saved, highest = HighWater(SystemClock(None, look, lambda: 0), 0), 0, 0
        for _ in range(50):
            now = high.now()
            if now is None:
                saved = high.next_reservation()
                high.mark_reserved(saved)
                continue
            assert now >= highest, "time fell"
            highest = now
            assert saved >= highest, f"{highest} was answered, and a start would go on from {saved}"


def test_power_cuts_between_reading_time_and_committing(seed: int) -> None:
    """The power fails at any moment and the wall clock comes back anywhere: no later answer is earlier than one before."""

    async def life(disk: Disk, draw: random.Random, wall: list[int], highest: int) -> int:
        mark = await disk.store.read(NamedNumber(MARK))
        clock = SystemClock(mark, lambda: wall[0], lambda: wall[0])
        time = await Timekeeper.start(clock, disk)  # type: ignore[arg-type]
        readers: list[asyncio.Task[int]] = []
        for _ in range(draw.randint(1, 30)):
            wall[0] += draw.choice((1, 1000, S // 3, S, 5 * S, -S, -HOUR))
            disk.delay = draw.randrange(4)
            readers.append(asyncio.create_task(time.now()))
            for _ in range(draw.randrange(4)):
                await asyncio.sleep(0)
            for reader in readers:
                if reader.done():
                    highest = _answered(reader.result(), highest, await disk.store.read(NamedNumber(MARK)))
            readers = [reader for reader in readers if not reader.done()]
        # The power is cut here: whoever waits gets no answer, and what was not committed is gone.
        pending = [*readers, *([time._renewal] if time._renewal else [])]
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        return highest

    draw = random.Random(seed)
    for _ in range(60):
        disk, wall, highest = Disk(), [START], 0
        for _ in range(10):
            highest = asyncio.run(life(disk, draw, wall, highest))
            wall[0] += draw.choice((0, -S, -HOUR, S, HOUR))


def _answered(now: int, highest: int, mark: int | None) -> int:
    assert now >= highest, f"{now} was answered after {highest}"
    assert mark is not None and mark >= now, f"{now} was answered before it was reserved: {mark}"
    return now


def test_a_saved_mark_is_what_time_goes_on_from() -> None:
    async def check() -> None:
        disk = Disk()

        def save() -> Decision[None]:
            return Outcome((SetNumber(MARK, START),), None)
            yield

        await disk.write(save)
        wall = START - HOUR
        time = await Timekeeper.start(SystemClock(START, lambda: wall, lambda: 0), disk)  # type: ignore[arg-type]
        assert await time.now() == START

    asyncio.run(check())


def test_quick_restarts_do_not_drive_time_into_the_future() -> None:
    """A hundred starts in ten seconds: time is never more than one lease ahead of the host."""

    async def check() -> None:
        disk = Disk()
        wall = START

        def look() -> int:
            return wall

        for _ in range(100):
            time = await Timekeeper.start(SystemClock(None, look, look), disk)  # type: ignore[arg-type]
            assert await time.now() <= wall + S
            wall += S // 10
            assert await time.now() <= wall + S
            if time._renewal is not None:
                await time._renewal
            mark = await disk.store.read(NamedNumber(MARK))
            assert mark is not None and mark <= wall + S

    asyncio.run(check())


def test_a_disk_that_takes_no_mark_stops_time_and_not_reads() -> None:
    """Reads go on at the last reserved instant; once the disk takes marks again, time does too."""

    class Full(Disk):
        full = False

        async def write(self, decide: Callable[[], Decision[T]], urgency: Urgency = "user") -> Committed[T]:
            if self.full:
                raise Unavailable("the disk is full")
            return await super().write(decide, urgency)

    async def work() -> None:
        wall = START
        disk = Full()
        time = await Timekeeper.start(SystemClock(None, lambda: wall, lambda: wall), disk)  # type: ignore[arg-type]
        assert await time.now() == START
        disk.full = True
        wall = START + 10 * S
        assert [await time.now(), await time.now()] == [START + S, START + S]
        disk.full = False
        assert await time.now() == START + 10 * S

    asyncio.run(work())
