"""Jumps of the host's clock, and what people decide about them: what `now` is, what is stored, and where a restart goes on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from mayflydb.clock import Belief
from mayflydb.engine.timekeeper import MARK, SHIFT, Timekeeper, Verdict
from mayflydb.model.errors import Conflict
from mayflydb.store.interface import NamedNumber
from reliability.clock.host import DAY, HOUR, MINUTE, START, YEAR, Disk, Host, S

Scene = Callable[[Host, Disk], Coroutine[Any, Any, None]]


def play(scene: Scene) -> None:
    asyncio.run(scene(Host(), Disk()))


async def mark(disk: Disk) -> int:
    return await disk.store.read(NamedNumber(MARK)) or 0


async def settled(time: Timekeeper) -> int:
    """What `now` is when no reservation is under way."""
    now = await time.now()
    if time._renewal is not None:
        await time._renewal
    return now


def test_ten_days_for_a_second_leave_no_trace() -> None:
    async def scene(host: Host, disk: Disk) -> None:
        time = await host.process(disk)
        assert await settled(time) == START
        for _ in range(20):
            host.step(10 * DAY)
            for _ in range(10):
                host.pass_(S // 10)
                assert await settled(time) == host.wall - 10 * DAY
                assert time.horizon() == host.wall - 10 * DAY
            host.step(-10 * DAY)
            assert await settled(time) == host.wall
            assert time.observe() is None
            assert await mark(disk) <= host.wall + S
        host.pass_(S)
        again = await host.process(disk)
        assert await settled(again) == host.wall
        assert again.horizon() == host.wall

    play(scene)


def test_a_step_back_stands_still_and_leaves_no_trace_when_it_is_taken_back() -> None:
    async def scene(host: Host, disk: Disk) -> None:
        time = await host.process(disk)
        assert await settled(time) == START
        host.step(-2 * HOUR)
        for _ in range(10):
            host.pass_(S)
            assert await settled(time) == START
            jump = time.observe()
            assert jump is not None
            assert (jump.host, jump.time, jump.size, jump.wait) == (host.wall, START, host.wall - START, None)
            assert time.horizon() == host.wall
        assert await mark(disk) <= START + S
        host.step(2 * HOUR)
        assert await settled(time) == host.wall == time.horizon()
        assert time.observe() is None

    play(scene)


@pytest.mark.parametrize("waited", [0, 2 * MINUTE, 2 * HOUR], ids=["at once", "reads follow", "believed"])
@pytest.mark.parametrize("step", [HOUR, 10 * DAY, 68 * YEAR], ids=["1 h", "10 d", "68 y"])
@pytest.mark.parametrize("verdict", ["accept", "reject"])
def test_a_jump_forward_is_decided(verdict: Verdict, step: int, waited: int) -> None:
    async def scene(host: Host, disk: Disk) -> None:
        time = await host.process(disk)
        await settled(time)
        host.step(step)
        time.observe()
        host.pass_(waited)
        time.observe()
        before = await settled(time)
        assert before == host.wall - (step if waited < MINUTE else 0)
        if waited > HOUR:
            with pytest.raises(Conflict):
                await time.settle(verdict)
            return
        jump, now = await time.settle(verdict)
        held = host.wall if verdict == "accept" else host.wall - step
        assert (jump.host, jump.time, now) == (host.wall, host.wall - step, held)
        assert time.observe() is None
        assert await settled(time) == held == time.horizon()
        assert held <= await mark(disk) <= held + 3 * S
        with pytest.raises(Conflict):
            await time.settle(verdict)
        for _ in range(5):
            host.pass_(S)
            held += S
            assert await settled(time) == held
        # A restart goes on from there, in the same boot and in the next.
        host.pass_(10 * S)
        assert await settled(await host.process(disk)) == held + 10 * S
        host.boot_again()
        host.pass_(S)
        assert await settled(await host.process(disk)) == held + 11 * S

    play(scene)


@pytest.mark.parametrize("verdict", ["accept", "reject"])
@pytest.mark.parametrize("waited", [0, 90 * S, 90 * MINUTE])
def test_a_step_back_is_decided(verdict: Verdict, waited: int) -> None:
    async def scene(host: Host, disk: Disk) -> None:
        time = await host.process(disk)
        await settled(time)
        host.step(-2 * HOUR)
        time.observe()
        host.pass_(waited)
        assert await settled(time) == START
        _, now = await time.settle(verdict)
        held = START if verdict == "accept" else host.wall
        assert now == await settled(time) == held
        host.pass_(S)
        assert await settled(time) == held + S
        assert time.observe() is None
        assert held <= await mark(disk) <= held + 3 * S
        host.pass_(S)
        assert await settled(await host.process(disk)) == held + 2 * S

    play(scene)


def test_after_a_rejection_the_host_is_followed_again_when_it_is_set_right() -> None:
    async def scene(host: Host, disk: Disk) -> None:
        time = await host.process(disk)
        await settled(time)
        host.step(10 * DAY)
        time.observe()
        await time.settle("reject")
        host.pass_(S)
        host.step(-10 * DAY)
        assert await settled(time) == START, "time fell"
        assert await settled(time) == host.wall
        host.pass_(S)
        assert await settled(time) == host.wall
        assert time.observe() is None
        assert await disk.store.read(NamedNumber(SHIFT)) == 0

    play(scene)


def test_one_verdict_follows_another() -> None:
    steps: tuple[tuple[int, Verdict | None, int, int], ...] = (
        # The host's step, what is decided, what is added to its time then, and how far Mayfly's time goes.
        (10 * DAY, "reject", -10 * DAY, 0),
        (-DAY, "accept", -9 * DAY, 0),
        (-9 * DAY, None, 0, 0),
        (-2 * HOUR, "reject", 0, -2 * HOUR),
        (DAY, "accept", 0, DAY),
        (DAY, "reject", -DAY, 0),
    )

    async def scene(host: Host, disk: Disk) -> None:
        time = await host.process(disk)
        true = await settled(time)
        for step, verdict, shift, moved in steps:
            host.step(step)
            time.observe()
            if verdict is not None:
                await time.settle(verdict)
            host.pass_(2 * S)
            true += moved + 2 * S
            assert await settled(time) == true
            assert await disk.store.read(NamedNumber(SHIFT)) == shift
            # A start goes on from the mark, a second ahead.
            time = await host.process(disk)
            host.pass_(2 * S)
            true += 2 * S
            assert await settled(time) == true

    play(scene)


def test_a_host_that_is_set_right_while_nothing_runs_is_followed() -> None:
    async def scene(host: Host, disk: Disk) -> None:
        time = await host.process(disk)
        await settled(time)
        host.step(10 * DAY)
        time.observe()
        await time.settle("reject")
        host.pass_(MINUTE)
        host.step(-10 * DAY)
        time = await host.process(disk)
        assert await settled(time) == host.wall
        assert time.observe() is None

    play(scene)


@pytest.mark.parametrize("stop", [S, HOUR, 30 * DAY])
@pytest.mark.parametrize("step", [0, 10 * HOUR, 30 * DAY])
def test_a_start_in_the_same_boot_knows_a_jump_from_a_stop(stop: int, step: int) -> None:
    async def scene(host: Host, disk: Disk) -> None:
        await settled(await host.process(disk))
        host.pass_(stop)
        host.step(step)
        time = await host.process(disk)
        assert await settled(time) == time.horizon() == START + stop
        jump = time.observe()
        assert ((jump and jump.size) or 0) == step
        assert await mark(disk) <= START + stop + S

    play(scene)


def test_a_restart_while_a_jump_is_undecided_believes_it_no_sooner() -> None:
    async def scene(host: Host, disk: Disk) -> None:
        await settled(await host.process(disk))
        host.step(10 * HOUR)
        for _ in range(10):
            time = await host.process(disk)
            host.pass_(50 * S)
            assert await settled(time) == host.wall - 10 * HOUR
        time = await host.process(disk)
        for _ in range(3):
            host.pass_(50 * S)
            await settled(time)
        assert await settled(time) == host.wall
        assert time.horizon() == host.wall - 10 * HOUR
        again = await host.process(disk)
        host.pass_(S)
        assert await settled(again) == host.wall
        assert again.horizon() == host.wall - 10 * HOUR

    play(scene)


def test_a_decision_on_one_node_holds_on_the_others() -> None:
    async def scene(host: Host, disk: Disk) -> None:
        one, two = await host.process(disk, shared=True), await host.process(disk, shared=True)
        went_back: list[int] = []
        two.on_roll_back = went_back.append
        assert await settled(one) == await settled(two) == START
        host.step(10 * DAY)
        one.observe(), two.observe()
        host.pass_(2 * MINUTE)
        one.observe(), two.observe()
        assert await settled(one) == await settled(two) == host.wall
        _, now = await one.settle("reject")
        assert now == host.wall - 10 * DAY
        host.pass_(S + 1)
        # What was reserved is used up: the next reservation finds the decision, and moves no mark to the rejected time.
        assert await settled(two) == host.wall - 10 * DAY
        assert went_back == [host.wall - 10 * DAY]
        assert await mark(disk) <= host.wall - 10 * DAY + 3 * S
        host.step(10 * DAY)
        one.observe(), two.observe()
        await two.settle("accept")
        host.pass_(4 * S)
        assert await settled(one) == await settled(two) == host.wall - 10 * DAY
        assert one.horizon() == two.horizon() == host.wall - 10 * DAY

    play(scene)


def test_a_node_that_was_idle_takes_nothing_back_that_another_has_answered() -> None:
    async def scene(host: Host, disk: Disk) -> None:
        busy, idle = await host.process(disk, shared=True), await host.process(disk, shared=True)
        await settled(busy), await settled(idle)
        host.step(10 * DAY)
        await settled(busy)
        host.pass_(MINUTE)
        await settled(busy)
        assert await settled(busy) == host.wall
        # It notices the jump now, a minute later than the other.
        await settled(idle)
        host.pass_(S)
        assert await settled(idle) == host.wall
        assert idle.horizon() == busy.horizon() == host.wall - 10 * DAY

    play(scene)


@pytest.mark.parametrize("step", [HOUR, 10 * DAY])
def test_a_node_that_starts_behind_the_fence_of_others_is_fenced(step: int) -> None:
    async def scene(host: Host, disk: Disk) -> None:
        await settled(await host.process(disk, shared=True))
        await settled(one := await host.process(disk, shared=True))
        host.step(step)
        await settled(one)
        host.boot_again()
        two = await host.process(disk, shared=True)
        assert two.observe() is not None
        host.pass_(S)
        assert await settled(two) == two.horizon() == host.wall - step
        host.pass_(2 * MINUTE)
        await settled(two)
        host.pass_(S)
        assert await settled(two) == host.wall
        host.boot_again()
        three = await host.process(disk, shared=True)
        host.pass_(S)
        assert await settled(three) == host.wall
        assert three.horizon() == host.wall - step
        # The database's clock is set right: what was stored about it holds no more.
        await three.settle("reject")
        host.pass_(2 * S)
        host.step(-step)
        assert await settled(four := await host.process(disk, shared=True)) == host.wall
        assert four.observe() is None

    play(scene)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("verdict", ["accept", "reject"])
@pytest.mark.parametrize("is_right", [False, True])
def test_a_verdict_against_the_host_over_another_boot(verdict: Verdict, shared: bool, is_right: bool) -> None:
    """Forward and rejected, or back and accepted: until the host is right Mayfly's time differs from it, and no longer."""
    step = -2 * HOUR if verdict == "accept" else 10 * DAY

    async def scene(host: Host, disk: Disk) -> None:
        time = await host.process(disk, shared)
        await settled(time)
        host.step(step)
        time.observe()
        await time.settle(verdict)
        host.pass_(2 * S)
        true = await settled(time)
        assert true == host.wall - step
        host.boot_again()
        host.pass_(2 * S)
        if is_right:
            host.step(-step)
        again = await host.process(disk, shared)
        if verdict == "accept" and shared == is_right:
            # Nothing proves which is right. The host's time counts, and is behind the mark if the host is wrong. Where nodes
            # share the time, the verdict counts until a running node sees the clock being set right.
            assert again.clock.now() == host.wall + (-step if shared else 0)
        else:
            assert await settled(again) == true + 2 * S
            assert again.observe() is None

    play(scene)


@pytest.mark.parametrize(
    ("belief", "step", "waited", "reads", "purges"),
    [
        (Belief(2 * S, 3 * S, 4 * S), 2 * S, 0, True, True),
        (Belief(2 * S, 3 * S, 4 * S), 2 * S + 1, 0, False, False),
        (Belief(2 * S, 3 * S, 4 * S), DAY, 3 * S - 1, False, False),
        (Belief(2 * S, 3 * S, 4 * S), DAY, 3 * S, True, False),
        (Belief(2 * S, 3 * S, 4 * S), DAY, 4 * S - 1, True, False),
        (Belief(2 * S, 3 * S, 4 * S), DAY, 4 * S, True, True),
        (Belief(DAY), DAY, 0, True, True),
        (Belief(DAY), DAY + 1, 0, False, False),
    ],
)
def test_settings_say_what_is_believed_when(belief: Belief, step: int, waited: int, reads: bool, purges: bool) -> None:
    host = Host()
    clock = host.clock(belief=belief)
    host.step(step)
    clock.observe()
    host.pass_(waited)
    clock.observe()
    assert (clock.now() == host.wall, clock.horizon() == host.wall) == (reads, purges)


def test_the_alarm_names_both_times_and_both_ways_out_and_is_raised_once(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(host: Host, disk: Disk) -> None:
        time = await host.process(disk)
        await settled(time)
        host.step(10 * DAY)
        for _ in range(3):
            host.pass_(S // 10)
            await settled(time)
            time.observe()
        assert [record.levelno for record in caplog.records] == [logging.ERROR]
        host.pass_(MINUTE)
        await settled(time)
        await time.settle("reject")

    with caplog.at_level(logging.WARNING):
        play(scene)
    forward, followed, decided = [record.getMessage() for record in caplog.records]
    for said in ("2030-01-11T00:00:00", "2030-01-01T00:00:00", "mayfly clock accept", "mayfly clock reject", "1m"):
        assert said in forward
    assert "reads follow it," in followed
    assert decided.startswith("clock reject: a person decided that 2030-01-01T00:01:00")


def test_a_step_back_is_said_while_requests_are_answered(caplog: pytest.LogCaptureFixture) -> None:
    async def scene(host: Host, disk: Disk) -> None:
        time = await host.process(disk)
        await settled(time)
        writes = await mark(disk)
        host.step(-2 * HOUR)
        for _ in range(5):
            await settled(time)
        assert await mark(disk) == writes
        host.step(2 * HOUR)
        host.pass_(S)
        await settled(time)

    with caplog.at_level(logging.WARNING):
        play(scene)
    back, again = [record.getMessage() for record in caplog.records]
    assert "went back 2h" in back and "stands still at 2030-01-01T00:00:00Z" in back
    assert "agree again" in again


def test_a_request_reads_one_clock_once() -> None:
    """The fence costs a request nothing: only a reservation compares the clocks, which is once in half a second."""

    async def scene(host: Host, disk: Disk) -> None:
        time = await host.process(disk)
        await settled(time)
        for step in (0, 10 * DAY):
            host.step(step)
            time.observe()
            await settled(time)
            host.reads = 0
            for _ in range(100):
                await time.now()
            assert host.reads == 100

    play(scene)
