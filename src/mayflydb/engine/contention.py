"""Turns at what optimistic transactions contend for, so that each of them ends.

Of the transactions that have read one version, the first that commits wins, and the others run again. Among many clients that
run again at once, one may lose any number of times. So what a transaction has lost a conflict about, a record or a range of an
index, becomes contended: the next transactions that read it do so one after the other, in the order of their arrival. A
transaction that has read nothing yet begins its view after the wait, so it finds the commit of its predecessor. One that has
read something else, and loses, takes its turns before its next view begins (`Turns.lost`). A turn is an order among
transactions and no lock: nothing is refused for the lack of one, and every commit is checked as before.

No transaction waits for ever: a turn ends TURN_SECONDS after the last read or write in it, a wait after WAIT_SECONDS. A
transaction that holds a turn waits for no other one, unless it takes all its turns in one order before it begins.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable, Iterable
from typing import Final, TypeAlias

TURN_SECONDS: Final = 0.1
"""Seconds that a turn lasts after the last read or write in it; then the next one begins, and the commits decide."""

MAX_RENEWALS: Final = 10
"""Reads and writes that prolong a turn, so that it lasts TURN_SECONDS * (MAX_RENEWALS + 1) at most."""

WAIT_SECONDS: Final = 1.0
"""Seconds that a transaction waits for a turn at most; then it goes on without one."""

MAX_WAITING: Final = 64
"""Transactions that wait for one target; a further one goes on without a turn."""

MAX_TARGETS: Final = 1024
"""Contended targets."""

CALM_TURNS: Final = 16
"""Turns in a row without a waiting transaction, after which a target is contended no longer."""

MAX_MET: Final = 16
"""Targets that a transaction remembers for the next one of its client."""

Target: TypeAlias = Hashable
"""(container, partition, key), or (container, number of an index, range)"""


class Turns:
    """The turns of one transaction, held and met."""

    __slots__ = ("_contention", "_held", "_lost", "_met")

    def __init__(self, contention: Contention | None) -> None:
        """None: the transaction takes no turns, and its conflicts make nothing contended."""
        self._contention = contention
        self._held: dict[Target, None] = {}
        self._met: dict[Target, None] = {}
        self._lost = False

    def __bool__(self) -> bool:
        """Return whether a turn may have to be taken."""
        return self._contention is not None and bool(self._contention.lines)

    @property
    def lost(self) -> tuple[Target, ...]:
        """The targets at which the next transaction of the client takes its turns; empty for a transaction without a conflict."""
        return tuple(self._met) if self._lost else ()

    async def take(self, target: Target, in_order: bool = False) -> bool:
        """Wait for the turn at a target, if it is contended. Return True after a wait.

        `in_order`: the transaction takes several turns, in the order of `order_targets`.
        """
        line = None if self._contention is None else self._contention.lines.get(target)
        if line is None:
            return False
        if target in self._held:
            line.renew(self)
            return False
        self._remember(target)
        return await line.take(self, waits=in_order or not self._held)

    def renew(self) -> None:
        """Prolong all turns: the transaction goes on."""
        if self._contention is not None:
            for target in self._held:
                self._contention.lines[target].renew(self)

    def note_conflict(self, target: Target) -> None:
        """Make a target contended: the transaction has lost a conflict about it."""
        if self._contention is not None:
            self._lost = True
            self._remember(target)
            self._contention.add(target)

    def end(self) -> None:
        """Give all turns on: the transaction has ended."""
        if self._contention is not None:
            for target in list(self._held):
                self._contention.lines[target].give(self)

    def hold(self, target: Target) -> None:
        """Note a turn that was taken."""
        self._held[target] = None

    def drop(self, target: Target) -> None:
        """Note that a turn is over."""
        self._held.pop(target, None)

    def _remember(self, target: Target) -> None:
        if len(self._met) < MAX_MET:
            self._met[target] = None


class Contention:
    """The contended targets of an engine, on its event loop."""

    def __init__(self) -> None:
        self.lines: dict[Target, TurnLine] = {}

    def add(self, target: Target) -> None:
        """Make a target contended. The oldest unused one makes room for it."""
        if target in self.lines:
            self.lines[target].calm = 0
            return
        if len(self.lines) >= MAX_TARGETS:
            idle = next((each for each in self.lines.values() if each.is_idle), None)
            if idle is None:
                return
            del self.lines[idle.target]
        self.lines[target] = TurnLine(self, target)


class TurnLine:
    """The line at one target: the transaction that has its turn, and those that wait."""

    __slots__ = ("_contention", "_holder", "_renewals", "_timer", "_waiting", "calm", "target")

    def __init__(self, contention: Contention, target: Target) -> None:
        self.target = target
        self.calm = 0
        self._contention = contention
        self._holder: Turns | None = None
        self._waiting: deque[tuple[Turns, asyncio.Future[None]]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._renewals = 0

    @property
    def is_idle(self) -> bool:
        """Return whether no transaction has a turn or waits."""
        return self._holder is None and not self._waiting

    async def take(self, turns: Turns, waits: bool) -> bool:
        """Take the turn: at once, after a wait if `waits`, or not at all. True: it has waited."""
        if self._holder is None:
            self._begin(turns)
            return False
        if not waits or len(self._waiting) >= MAX_WAITING:
            return False
        self.calm = 0
        loop = asyncio.get_running_loop()
        waiter = turns, loop.create_future()
        self._waiting.append(waiter)
        limit = loop.call_later(WAIT_SECONDS, _wake, waiter[1])
        try:
            await waiter[1]
        # The client has left, perhaps when the turn had come already.
        except BaseException:
            self.give(turns)
            raise
        finally:
            limit.cancel()
            if waiter in self._waiting:
                self._waiting.remove(waiter)
        return True

    def give(self, turns: Turns) -> None:
        """End the turn of a transaction, if it has it, and begin the next one."""
        if self._holder is not turns:
            return
        turns.drop(self.target)
        self._holder = None
        if self._timer is not None:
            self._timer.cancel()
        while self._waiting:
            following, future = self._waiting.popleft()
            if not future.done():
                self._begin(following)
                future.set_result(None)
                return
        self.calm += 1
        if self.calm >= CALM_TURNS:
            del self._contention.lines[self.target]

    def _begin(self, turns: Turns) -> None:
        self._holder = turns
        turns.hold(self.target)
        self._renewals = MAX_RENEWALS
        self._start_timer(turns)

    def renew(self, turns: Turns) -> None:
        """Prolong the turn of a transaction, if it has it, MAX_RENEWALS times at most."""
        if self._holder is turns and self._renewals and self._timer is not None:
            self._renewals -= 1
            self._timer.cancel()
            self._start_timer(turns)

    def _start_timer(self, turns: Turns) -> None:
        self._timer = asyncio.get_running_loop().call_later(TURN_SECONDS, self.give, turns)


def order_targets(targets: Iterable[Target]) -> list[Target]:
    """Return targets in the one order in which a transaction may wait for several."""
    return sorted(targets, key=hash)


def _wake(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
