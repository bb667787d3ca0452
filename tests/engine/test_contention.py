"""Turns at what transactions contend for: who has one, who waits, and what ends a wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from mayflydb.engine import contention as module
from mayflydb.engine.contention import Contention, Turns, order_targets

A, B = ("a",), ("b",)


def site(*contended: Any) -> tuple[Contention, Callable[[], Turns]]:
    """Contention for some targets, and a function that makes transactions."""
    found = Contention()
    for each in contended:
        Turns(found).note_conflict(each)
    return found, lambda: Turns(found)


def run(body: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(body(), 10))


async def begin(turns: Turns, target: Any, **how: Any) -> asyncio.Task[bool]:
    """A take that has come as far as it can."""
    task = asyncio.create_task(turns.take(target, **how))
    for _ in range(3):
        await asyncio.sleep(0)
    return task


def test_nothing_is_contended_before_a_conflict() -> None:
    async def body() -> None:
        _, transaction = site()
        first, second = transaction(), transaction()
        assert not first
        assert not await first.take(A)
        assert not await second.take(A)
        assert not Turns(None)

    run(body)


def test_turns_come_in_the_order_of_arrival() -> None:
    async def body() -> None:
        _, transaction = site(A)
        first, second, third = transaction(), transaction(), transaction()
        assert first
        assert not await first.take(A)
        waits = [await begin(second, A), await begin(third, A)]
        assert [each.done() for each in waits] == [False, False]
        assert not await transaction().take(B)
        first.end()
        assert await waits[0]
        assert not waits[1].done()
        second.end()
        assert await waits[1]

    run(body)


def test_a_turn_ends_and_so_does_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body(turn: float, wait: float) -> None:
        monkeypatch.setattr(module, "TURN_SECONDS", turn)
        monkeypatch.setattr(module, "WAIT_SECONDS", wait)
        contention, transaction = site(A)
        first, second = transaction(), transaction()
        await first.take(A)
        assert await second.take(A)
        # Neither is in the way of a third one.
        for each in (first, second):
            each.end()
        assert contention.lines[A].is_idle

    run(lambda: body(0, 10))
    run(lambda: body(10, 0))


def test_a_turn_is_prolonged_so_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a timer that is over at once, only what prolongs the turn in each step of the loop keeps it."""

    async def body() -> None:
        monkeypatch.setattr(module, "TURN_SECONDS", 0)
        monkeypatch.setattr(module, "MAX_RENEWALS", 3)
        _, transaction = site(A)
        first, second = transaction(), transaction()
        await first.take(A)
        wait = asyncio.create_task(second.take(A))
        steps = 0
        while not wait.done() and steps < 100:
            # By a write, and by another read.
            first.renew()
            assert not await first.take(A) or steps
            steps += 1
            await asyncio.sleep(0)
        assert wait.done()
        assert 2 <= steps < 100

    run(body)


def test_whoever_has_a_turn_waits_for_no_other() -> None:
    async def body() -> None:
        _, transaction = site(A, B)
        first, second = transaction(), transaction()
        await first.take(A)
        await second.take(B)
        assert not await second.take(A)
        # In the one order, all may wait.
        second.end()
        low, high = order_targets([A, B])
        assert order_targets([B, A]) == [low, high]
        third, fourth = transaction(), transaction()
        first.end()
        await third.take(low, in_order=True)
        await fourth.take(high)
        wait = await begin(third, high, in_order=True)
        assert not wait.done()
        fourth.end()
        assert await wait

    run(body)


def test_one_that_leaves_while_it_waits() -> None:
    async def body() -> None:
        contention, transaction = site(A)
        first, second, third = transaction(), transaction(), transaction()
        await first.take(A)
        leaves, stays = await begin(second, A), await begin(third, A)
        leaves.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaves
        # Cancelled in the very moment in which it gets its turn: the turn goes on.
        fourth = transaction()
        last = await begin(fourth, A)
        first.end()
        stays.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stays
        assert await last
        fourth.end()
        assert contention.lines[A].is_idle

    run(body)


def test_the_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    async def body() -> None:
        monkeypatch.setattr(module, "MAX_WAITING", 1)
        monkeypatch.setattr(module, "MAX_TARGETS", 2)
        monkeypatch.setattr(module, "CALM_TURNS", 2)
        contention, transaction = site(A, B)
        first, second = transaction(), transaction()
        await first.take(A)
        wait = await begin(second, A)
        assert not await transaction().take(A)
        # A third target takes the place of the one that nobody uses, and a fourth none.
        first.note_conflict("c")
        assert list(contention.lines) == [A, "c"]
        third = transaction()
        await third.take("c")
        first.note_conflict("d")
        assert list(contention.lines) == [A, "c"]
        first.end()
        await wait
        # Two turns in a row for which nobody waited, and the target is like any other.
        second.end()
        await third.take(A)
        assert A in contention.lines
        third.end()
        assert list(contention.lines) == ["c"]

    run(body)


def test_what_the_next_one_of_the_client_takes_its_turns_at() -> None:
    async def body() -> None:
        _, transaction = site(A)
        won, lost = transaction(), transaction()
        await won.take(A)
        assert won.lost == ()
        lost.note_conflict(B)
        assert lost.lost == (B,)
        for number in range(100):
            lost.note_conflict(number)
        assert len(lost.lost) == module.MAX_MET

    run(body)
