"""Slows down clients that guess passwords, and no others.

Wrong passwords are counted for an address and a name together, so that guesses from one address keep no user of another out.
After several wrong passwords each further attempt waits longer, and attempts take turns. A right password is accepted after its
wait.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from hashlib import blake2b
from ipaddress import IPv6Address, ip_address, ip_network
from typing import Final

from mayflydb.clock import Stopwatch, monotonic_us
from mayflydb.model.instant import MINUTE, SECOND

FREE_GUESSES: Final = 5
"""Wrong passwords after which each further attempt waits."""

FIRST_WAIT: Final = SECOND // 2
LONGEST_WAIT: Final = 4 * SECOND
"""The wait after `FREE_GUESSES` wrong passwords, in microseconds; it doubles with each further one up to the longest."""

PATIENCE_SECONDS: Final = 10.0
"""Seconds after which an attempt that has not had its turn is refused; less than clients wait."""

FORGET_AFTER: Final = 10 * MINUTE
"""The time after which wrong passwords are forgotten, counted from the last one."""

MAX_WAITING: Final = 16
"""Attempts that wait for their turn; further ones are refused unchecked."""

MAX_REMEMBERED: Final = 10_000
"""Pairs of address and name whose wrong passwords are counted. Clients choose the names, so the number has a limit."""

IPV6_NETWORK: Final = 64
"""The bits of an IPv6 address that count: a client usually has all addresses that share them."""


class TooManyGuesses(Exception):
    """An attempt was refused without looking at its password."""


class _Turns:
    """The wrong passwords of one address for one name.

    `taken`: an attempt is checked, or the wait after one goes on. `waiting`: a future for each attempt that waits: True
    when its turn comes, False when it has waited too long. `attempts`: those that are under way.
    """

    __slots__ = ("attempts", "failures", "last", "taken", "waiting")

    def __init__(self) -> None:
        self.failures = 0
        self.last = 0
        self.taken = False
        self.attempts = 0
        self.waiting: list[asyncio.Future[bool]] = []


class Guesses:
    """The attempts to log in at one listener."""

    def __init__(self, stopwatch: Stopwatch = monotonic_us) -> None:
        self._stopwatch = stopwatch
        self._turns: dict[bytes, _Turns] = {}

    async def attempt(self, address: str, name: str, check: Callable[[], Awaitable[bool]]) -> bool:
        """Return the result of `check`, after the wait that earlier wrong passwords cause.

        `address`: of the client, without a port. TooManyGuesses if too many attempts wait already, or this one waits too long.
        """
        key = _digest(address, name)
        turns = self._turns.get(key) or self._turns.setdefault(key, _Turns())
        turns.attempts += 1
        try:
            # One after the other: concurrent attempts would all see the count of before the first.
            await self._take_turn(turns)
            try:
                right = await check()
                self._note(key, turns, right)
                return right
            finally:
                self._pass_on(turns)
        finally:
            turns.attempts -= 1
            if not (turns.attempts or turns.failures):
                self._turns.pop(key, None)

    async def _take_turn(self, turns: _Turns) -> None:
        if self._stopwatch() - turns.last >= FORGET_AFTER:
            turns.failures = 0
        if not turns.taken:
            turns.taken = True
            return
        guessed = turns.failures >= FREE_GUESSES
        if guessed and len(turns.waiting) >= MAX_WAITING:
            raise TooManyGuesses
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[bool] = loop.create_future()
        turns.waiting.append(turn)
        # A timer, and no `asyncio.timeout`: a command of MongoDB begins outside of any task.
        patience = loop.call_later(PATIENCE_SECONDS, _refuse, turn) if guessed else None
        try:
            came = await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.result():
                self._give_turn(turns)
            raise
        finally:
            if patience is not None:
                patience.cancel()
            if turn in turns.waiting:
                turns.waiting.remove(turn)
        if not came:
            raise TooManyGuesses

    def _pass_on(self, turns: _Turns) -> None:
        """Give the turn to another attempt, after the wait."""
        wait = wait_after(turns.failures)
        if wait:
            call_later(wait / SECOND, lambda: self._give_turn(turns))
        else:
            self._give_turn(turns)

    def _give_turn(self, turns: _Turns) -> None:
        # The latest attempt is next: clients that repeat an old password wait already when a person with the right one arrives.
        while turns.waiting:
            turn = turns.waiting.pop()
            if not turn.done():
                turn.set_result(True)
                return
        turns.taken = False

    def _note(self, key: bytes, turns: _Turns, right: bool) -> None:
        if right:
            turns.failures = 0
            return
        turns.failures += 1
        turns.last = self._stopwatch()
        # The pair that failed least recently is forgotten first.
        self._turns.pop(key, None)
        self._turns[key] = turns
        while len(self._turns) > MAX_REMEMBERED:
            del self._turns[next(iter(self._turns))]


def wait_after(failures: int) -> int:
    """Return the microseconds that the next attempt waits."""
    if failures < FREE_GUESSES:
        return 0
    return min(LONGEST_WAIT, FIRST_WAIT << min(failures - FREE_GUESSES, 10))


def _refuse(turn: asyncio.Future[bool]) -> None:
    if not turn.done():
        turn.set_result(False)


def call_later(seconds: float, function: Callable[[], None]) -> None:
    """Call a function after some seconds of the host's time."""
    asyncio.get_running_loop().call_later(seconds, function)


def _digest(address: str, name: str) -> bytes:
    # Digests have one length, for long names too.
    return blake2b(f"{_network(address)}\0{name}".encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _network(address: str) -> str:
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv6Address):
        if parsed.ipv4_mapped is not None:
            return str(parsed.ipv4_mapped)
        return str(ip_network((int(parsed), IPV6_NETWORK), strict=False))
    return str(parsed)
