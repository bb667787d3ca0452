"""The evaluation of a command: on a thread unless it is known to be cheap, and up to its deadline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from mayflydb.evaluation.evaluators import Evaluators
from mayflydb.evaluation.statement import CHEAP_BYTES, Statement
from mayflydb.evaluation.stops import EvaluationStopped, StopReason, TooManyEvaluations
from mayflydb.model.errors import MayflyError, Overloaded, TimedOut, TooLarge, Unavailable
from mayflydb.sockets.in_flight import LARGE_READ, BytesInFlight

T = TypeVar("T")


class Interrupted(MayflyError):
    """The command was killed, or its client has left."""


_STOPS: Final[dict[StopReason, tuple[type[MayflyError], int, str]]] = {
    StopReason.DEADLINE: (TimedOut, 50, "operation exceeded time limit"),
    StopReason.MEMORY: (TooLarge, 292, "Exceeded memory limit of the server's evaluations. Aborting operation."),
    StopReason.ABANDONED: (Interrupted, 279, "operation was interrupted because a client disconnected"),
    StopReason.KILLED: (Interrupted, 11601, "operation was interrupted"),
    StopReason.CLOSING: (Unavailable, 11600, "interrupted at shutdown"),
}


def stop_error(reason: StopReason) -> MayflyError:
    """Return the error of a command that was stopped. It ends the whole command, not one of its statements."""
    kind, code, text = _STOPS[reason]
    return kind(text, code=code)


def _busy_error() -> MayflyError:
    # ExceededTimeLimit: drivers repeat the command, and do not treat the server as unreachable.
    return Unavailable("too many operations wait to be evaluated", code=262)


class Evaluation(Statement):
    """The evaluation of one command, or of all commands that read one cursor. A stop is raised as an error of MongoDB.

    `cheap`: the command itself is small, so that its query is cheap to analyze.
    """

    __slots__ = ("_has_turn", "_in_flight", "_read")

    def __init__(
        self,
        evaluators: Evaluators,
        client: int,
        deadline: int | None,
        cheap: bool = False,
        in_flight: BytesInFlight | None = None,
    ) -> None:
        """`in_flight`: the account of the process; None: what the command reads is not charged."""
        super().__init__(evaluators, client, deadline, cheap)
        self._in_flight = in_flight
        self._read = 0
        self._has_turn = False

    async def admit(self, size: int) -> None:
        """Wait for a turn from the read on that makes a command large. `size`: bytes that were read, charged until then.

        Overloaded if there is no room for them.
        """
        self._read += size
        account = self._in_flight
        if account is None or self._has_turn or self._read <= LARGE_READ:
            return
        if account.turns.locked():
            if not account.may_hold(size):
                raise Overloaded("The server holds as many bytes for its clients as it may. Please retry later.")
            account.charge(size)
            try:
                await account.turns.acquire()
            finally:
                account.charge(-size)
        else:
            await account.turns.acquire()
        self._has_turn = True

    def end_turn(self) -> None:
        """Let the next large command go on."""
        self._read = 0
        if self._has_turn and self._in_flight is not None:
            self._has_turn = False
            self._in_flight.turns.release()

    async def compute(self, cheap: bool, size: int, function: Callable[..., T], *given: Any) -> T:
        """Return the result of a function over documents of `size` bytes. It runs at once if it is cheap, else on a thread.

        Raise what the function raises, TimedOut (50), TooLarge (292), Interrupted (11601, 279) and Unavailable (11600, 262).
        """
        if cheap and self.cheap and size <= CHEAP_BYTES:
            await self.take_turn()
            return function(*given)
        return await self._compute(function, *given)

    def check(self) -> None:
        """Raise the errors of `compute` if the time is over or the command was stopped."""
        try:
            super().check()
        except EvaluationStopped as stop:
            raise stop_error(stop.reason) from None

    async def _compute(self, function: Callable[..., T], *given: Any) -> T:
        try:
            return await super()._compute(function, *given)
        except EvaluationStopped as stop:
            raise stop_error(stop.reason) from None
        except TooManyEvaluations:
            raise _busy_error() from None
