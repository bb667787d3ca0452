"""The account of bytes in flight: who may read on, who waits, who is refused, and whose turn comes next."""

from __future__ import annotations

import asyncio

import pytest

from mayflydb.model.quota import Quota
from mayflydb.sockets import in_flight
from mayflydb.sockets.in_flight import SMALL_ANSWER, SMALL_MESSAGE, BytesInFlight

LIMIT = 4_000_000
SHORT = LIMIT * 3 // 4
LARGE = SMALL_MESSAGE + 1


class Connection:
    """A connection that notes that it may read on."""

    def __init__(self) -> None:
        self.turns = 0

    def read_on(self) -> None:
        self.turns += 1


def account(used: int = 0) -> BytesInFlight:
    found = BytesInFlight(Quota("bytes_in_flight", LIMIT))
    found.charge(used)
    return found


@pytest.mark.parametrize(
    ("used", "size", "allowed"),
    [
        (SHORT, LARGE, True),
        (SHORT + 1, LARGE, False),
        (SHORT + 1, SMALL_MESSAGE, True),
        (LIMIT, LARGE, False),
        (LIMIT, SMALL_MESSAGE, True),
        (LIMIT + 1, LARGE, None),
        (LIMIT + 1, SMALL_MESSAGE, None),
    ],
)
def test_a_message_is_read_waits_or_is_refused(used: int, size: int, allowed: bool | None) -> None:
    found = account(used)
    # The first large message is always read on.
    assert found.may_read(Connection(), LARGE) is True
    assert found.may_read(Connection(), size) is allowed
    assert found.quota.refused == (allowed is None)


@pytest.mark.parametrize(
    ("used", "size", "allowed"),
    [
        (LIMIT - SMALL_ANSWER - 1, SMALL_ANSWER + 1, True),
        (LIMIT - SMALL_ANSWER, SMALL_ANSWER + 1, False),
        (LIMIT * 2, SMALL_ANSWER, True),
    ],
)
def test_a_large_answer_needs_room(used: int, size: int, allowed: bool) -> None:
    found = account(used)
    assert found.may_hold(size) is allowed
    assert found.quota.refused == (not allowed)


def test_messages_that_wait_have_their_turns_in_the_order_in_which_they_came() -> None:
    found = account(SHORT + 1)
    first, second, third = Connection(), Connection(), Connection()
    assert [found.may_read(each, LARGE) for each in (first, second, third)] == [True, False, False]
    found.leave(first)
    assert (second.turns, third.turns) == (1, 0)
    assert found.may_read(second, LARGE) and found.may_read(third, LARGE) is False
    # With room for all readers, none waits.
    found.charge(-2)
    assert third.turns == 1 and found.may_read(third, LARGE)


def test_a_connection_that_is_gone_gets_no_turn() -> None:
    found = account(SHORT + 1)
    first, second = Connection(), Connection()
    found.may_read(first, LARGE)
    found.may_read(second, LARGE)
    found.leave(second)
    found.leave(first)
    found.charge(-SHORT)
    assert second.turns == 0


def test_memory_is_given_back_once_most_of_much_is_gone() -> None:
    released: list[int] = []
    found = BytesInFlight(Quota("bytes_in_flight", LIMIT), lambda: released.append(found.quota.used))
    found.charge(LIMIT // 8)
    found.charge(-LIMIT // 8)
    assert released == []
    found.charge(LIMIT)
    found.charge(-LIMIT // 2)
    assert released == []
    found.charge(-LIMIT // 2)
    assert released == [0]


def test_a_refused_answer_gives_its_memory_back() -> None:
    released: list[bool] = []
    in_flight = BytesInFlight(Quota("bytes", 2 * SMALL_ANSWER), lambda: released.append(True))
    in_flight.charge(SMALL_ANSWER)
    assert in_flight.may_hold(SMALL_ANSWER) and not released
    assert not in_flight.may_hold(SMALL_ANSWER + 1)
    assert released == [True]


def test_heavy_messages_are_worked_on_in_turn() -> None:
    order: list[str] = []

    async def work(name: str, gate: asyncio.Event) -> None:
        order.append(f"{name} begins")
        await gate.wait()
        order.append(f"{name} ends")

    async def play() -> None:
        found, gate = account(), asyncio.Event()
        tasks = [asyncio.create_task(found.work_in_turn(work(name, gate))) for name in "abc"]
        await asyncio.sleep(0)
        tasks[1].cancel()
        gate.set()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(play())
    assert order == ["a begins", "a ends", "c begins", "c ends"]


def test_a_heavy_message_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(in_flight, "HEAVY_SECONDS", 0.0)

    async def play() -> int:
        found = account()

        async def nothing() -> int:
            return 1

        async def inner() -> int:
            # Begins while the outer one has the turn, as a message does for whose transaction the outer one waits.
            return await found.work_in_turn(nothing())

        return await found.work_in_turn(inner())

    assert asyncio.run(play()) == 1
