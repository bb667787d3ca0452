"""Why an evaluation ends before its result, and the exception that ends it on its thread."""

from __future__ import annotations

from enum import Enum
from typing import Final


class StopReason(Enum):
    """Why an evaluation was stopped."""

    DEADLINE = "deadline"
    MEMORY = "memory"
    ABANDONED = "abandoned"
    """No request waits for the result any more: its client has gone."""
    KILLED = "killed"
    """A client asked for the end of the statement."""

    CLOSING = "closing"
    """The server stops."""


class Stopped(BaseException):
    """Raised inside of an evaluation from outside. Not an Exception, so that no language takes it for an error of a query."""


class EvaluationStopped(Exception):
    """An evaluation ended without a result, since its deadline passed or memory ran out. Front ends answer in their own words."""

    def __init__(self, reason: StopReason) -> None:
        super().__init__(f"the evaluation was stopped: {reason.value}")
        self.reason: Final = reason


class TooManyEvaluations(Exception):
    """More evaluations wait for a thread than may wait."""
