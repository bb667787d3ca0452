"""The reasons for which an evaluation ends before its result, and the exception that ends it on its thread."""

from __future__ import annotations

from enum import Enum
from typing import Final


class StopReason(Enum):
    """The reason for which an evaluation was stopped."""

    DEADLINE = "deadline"
    MEMORY = "memory"
    ABANDONED = "abandoned"
    """No request waits for the result: the client has left."""
    KILLED = "killed"
    """A client asked for the end of the statement."""

    CLOSING = "closing"
    """The server stops."""


class Stopped(BaseException):
    """Raised in an evaluation by another thread. It is no Exception, so that no language takes it for an error of a query."""


class EvaluationStopped(Exception):
    """An evaluation ended without a result, for a StopReason. Front ends translate it into an error of their protocol."""

    def __init__(self, reason: StopReason) -> None:
        super().__init__(f"the evaluation was stopped: {reason.value}")
        self.reason: Final = reason


class TooManyEvaluations(Exception):
    """As many evaluations wait for a thread as may wait, and no further one is accepted."""
