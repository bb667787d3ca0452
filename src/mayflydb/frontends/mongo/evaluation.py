"""The evaluation of a command: on a thread unless it is known to be cheap, and up to its deadline."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

from mayflydb.evaluation.statement import CHEAP_BYTES, Statement
from mayflydb.evaluation.stops import EvaluationStopped, StopReason, TooManyEvaluations
from mayflydb.model.errors import MayflyError, TimedOut, TooLarge, Unavailable

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

    __slots__ = ()

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
