"""Guesses of passwords: who waits, for how long, and what is remembered."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from mayflydb.model.instant import MINUTE, SECOND
from mayflydb.sockets import guesses
from mayflydb.sockets.guesses import Guesses, TooManyGuesses, wait_after


class Door:
    """One listener's guesses, and a clock that moves to the next timer when nothing else happens."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, runner: asyncio.Runner) -> None:
        self.now = 1000 * SECOND
        self.checked: list[str] = []
        self.guesses = Guesses(lambda: self.now)
        self._runner = runner
        self._timers: list[tuple[int, int, Callable[[], None]]] = []
        monkeypatch.setattr(guesses, "call_later", self.call_later)

    def call_later(self, seconds: float, function: Callable[[], None]) -> None:
        heapq.heappush(self._timers, (self.now + round(seconds * SECOND), len(self._timers), function))

    async def attempt(self, right: bool, address: str = "192.0.2.1", name: str = "admin", who: str = "") -> bool:
        async def check() -> bool:
            self.checked.append(who)
            return right

        return await self.guesses.attempt(address, name, check)

    def run(self, *attempts: Coroutine[Any, Any, bool]) -> list[bool | BaseException]:
        """Run attempts at once until all have ended."""

        async def all_of_them() -> list[bool | BaseException]:
            tasks = [asyncio.ensure_future(each) for each in attempts]
            while not all(each.done() for each in tasks):
                for _ in range(10):
                    await asyncio.sleep(0)
                if self._timers and not all(each.done() for each in tasks):
                    self.fire()
            return await asyncio.gather(*tasks, return_exceptions=True)

        return self._runner.run(all_of_them())

    def fire(self) -> None:
        """Move to the next timer."""
        due, _, function = heapq.heappop(self._timers)
        self.now = max(self.now, due)
        function()

    def rest(self, microseconds: int) -> None:
        """Let time pass."""
        until = self.now + microseconds
        while self._timers and self._timers[0][0] <= until:
            self.fire()
        self.now = until

    def fail(self, times: int, address: str = "192.0.2.1", name: str = "admin") -> None:
        for _ in range(times):
            assert self.run(self.attempt(False, address, name)) == [False]


@pytest.fixture
def door(monkeypatch: pytest.MonkeyPatch) -> Iterator[Door]:
    with asyncio.Runner() as runner:
        yield Door(monkeypatch, runner)


@pytest.mark.parametrize(
    ("failures", "seconds"), [(0, 0), (4, 0), (5, 0.5), (6, 1), (7, 2), (8, 4), (9, 4), (10_000, 4)]
)
def test_the_waits(failures: int, seconds: float) -> None:
    assert wait_after(failures) == seconds * SECOND


def test_a_guesser_gets_slower(door: Door) -> None:
    begun = door.now
    door.fail(20)
    # The first five are checked at once, those after them 0.5, 1 and 2 seconds later, then each 4 seconds later.
    assert (door.now - begun, len(door.checked)) == ((3.5 + 12 * 4) * SECOND, 20)


def test_a_right_password_comes_in_after_its_wait_and_ends_all_waits(door: Door) -> None:
    door.fail(9)
    begun = door.now
    assert door.run(door.attempt(True)) == [True]
    assert door.now - begun == 4 * SECOND
    assert door.run(door.attempt(True)) == [True] and door.now - begun == 4 * SECOND
    door.fail(5)
    assert door.now - begun == 4 * SECOND


@pytest.mark.parametrize(
    ("address", "name", "waits"),
    [
        ("192.0.2.1", "admin", True),
        ("::ffff:192.0.2.1", "admin", True),
        ("192.0.2.2", "admin", False),
        ("192.0.2.1", "other", False),
        ("", "admin", False),
        ("unix", "admin", False),
    ],
)
def test_who_waits(door: Door, address: str, name: str, waits: bool) -> None:
    door.fail(7)
    begun = door.now
    assert door.run(door.attempt(True, address, name)) == [True]
    assert (door.now > begun) is waits


@pytest.mark.parametrize(("other", "waits"), [("2001:db8::ffff:1", True), ("2001:db8:0:1::1", False)])
def test_a_network_of_ipv6_is_one_client(door: Door, other: str, waits: bool) -> None:
    door.fail(7, "2001:db8::1")
    begun = door.now
    assert door.run(door.attempt(True, other)) == [True]
    assert (door.now > begun) is waits


@pytest.mark.parametrize(("rest", "next_wait"), [(10 * MINUTE - 1, 4 * SECOND), (10 * MINUTE, 0)])
def test_wrong_passwords_are_forgotten(door: Door, rest: int, next_wait: int) -> None:
    door.fail(9)
    door.rest(rest)
    begun = door.now
    # The wait is over long since: this one is checked at once, and the next one waits unless all was forgotten.
    door.fail(1)
    assert door.now == begun
    door.fail(1)
    assert door.now - begun == next_wait


def test_attempts_at_once_take_turns_and_few_wait(door: Door) -> None:
    begun = door.now
    assert door.run(*(door.attempt(False) for _ in range(7))) == [False] * 7
    assert door.now - begun == 1.5 * SECOND
    said = door.run(*(door.attempt(False) for _ in range(50)))
    # One after 2 seconds, then every 4 seconds; those who wait are refused after ten seconds of the host.
    assert sum(isinstance(each, TooManyGuesses) for each in said) == 50 - guesses.MAX_WAITING == 34
    assert len(door.checked) == 7 + 16


def test_the_last_one_to_come_is_next(door: Door) -> None:
    door.fail(8)
    said = door.run(*(door.attempt(False, who=f"old {n}") for n in range(5)), door.attempt(True, who="new"))
    assert said == [False] * 5 + [True]
    assert door.checked[8:] == ["new", "old 4", "old 3", "old 2", "old 1", "old 0"]


def test_who_has_waited_too_long_is_refused(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    door.fail(6)
    monkeypatch.setattr(guesses, "PATIENCE_SECONDS", 0)
    [said] = door.run(door.attempt(True))
    assert isinstance(said, TooManyGuesses)
    # The turn is free again, and nothing waits for it.
    door.rest(MINUTE)
    assert door.run(door.attempt(True)) == [True] and not door.guesses._turns


@pytest.mark.parametrize("given", [False, True], ids=["waiting", "given the turn"])
def test_a_client_that_leaves_keeps_no_turn(door: Door, given: bool) -> None:
    door.fail(6)

    async def leave() -> bool:
        task = asyncio.ensure_future(door.attempt(True))
        await asyncio.sleep(0)
        if given:
            door.fire()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return True

    assert door.run(leave()) == [True]
    door.rest(MINUTE)
    begun = door.now
    assert door.run(door.attempt(True)) == [True] and door.now == begun


def test_many_right_passwords_at_once_come_in(door: Door) -> None:
    begun = door.now
    assert door.run(*(door.attempt(True) for _ in range(200))) == [True] * 200
    assert door.now == begun and not door.guesses._turns


def test_names_that_are_made_up_fill_no_memory(door: Door, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(guesses, "MAX_REMEMBERED", 10)
    door.fail(7)
    for number in range(9):
        door.fail(1, name=f"stranger {number}")
    begun = door.now
    door.fail(1)
    assert door.now > begun and len(door.guesses._turns) == 10
    for number in range(25):
        door.fail(1, name="x" * 10_000 + str(number))
    assert len(door.guesses._turns) == 10
    assert all(len(key) == 16 for key in door.guesses._turns)


def test_a_check_that_fails_leaves_nothing(door: Door) -> None:
    async def broken() -> bool:
        raise OSError("no store")

    [said] = door.run(door.guesses.attempt("192.0.2.1", "admin", broken))
    assert isinstance(said, OSError) and not door.guesses._turns


def test_the_timer_of_the_host() -> None:
    async def set_timer() -> bool:
        rung = asyncio.Event()
        guesses.call_later(0.001, rung.set)
        async with asyncio.timeout(10):
            return await rung.wait()

    assert asyncio.run(set_timer())
