"""A JavaScript context with host.js as its only interface, and with limits of time and memory.

A context belongs to the thread that creates it. A script cannot catch the end of its time; it can catch the end of its memory.
"""

from __future__ import annotations

import contextlib
from functools import cache
from typing import Any, Final, TypeVar

import msgspec

from mayflydb.clock import monotonic_us
from mayflydb.model.errors import BadRequest, MayflyError, TimedOut, Unsupported
from mayflydb.model.instant import SECOND

T = TypeVar("T")

# Spelled as in the service.
TIMED_OUT: Final = "The requested operation exceeded maximum alloted time."
_EXECUTING: Final = "Encountered exception while executing function. Exception = "
_COMPILING: Final = "Encountered exception while compiling Javascript. Exception = "
MISSING: Final = (
    "This server runs no JavaScript: the package quickjs-ng is not installed (pip install 'mayflydb[scripts]')."
)
_STACK_BYTES: Final = 256 * 1024


class ScriptLimits(msgspec.Struct, frozen=True):
    """The limits of scripts.

    `seconds`: the time of one request, as in the service. `accepting`: the share of that time in which operations are accepted.
    `memory`: bytes. `body`, `log`, `text`: characters of a response, of a log (encoded for its header) and of a script's text.
    """

    seconds: float = 5.0
    accepting: float = 0.8
    memory: int = 64 * 1024 * 1024
    body: int = 2 * 1024 * 1024
    log: int = 6_000
    text: int = 256 * 1024


class TimeBudget:
    """The time of one request, shared by all of its scripts."""

    def __init__(self, limits: ScriptLimits) -> None:
        self.limits = limits
        self._ends = monotonic_us() + int(limits.seconds * SECOND)

    @property
    def seconds_left(self) -> float:
        """The remaining seconds; TimedOut if there are none."""
        left = (self._ends - monotonic_us()) / SECOND
        if left <= 0:
            raise TimedOut(TIMED_OUT)
        return left


class _ScriptError(msgspec.Struct):
    """An exception of a script: its text, its stack, and the number that it carries."""

    text: str
    stack: str
    number: float


@cache
def _host() -> str:
    from importlib import resources

    return resources.files(__package__).joinpath("host.js").read_text(encoding="utf-8")


class Sandbox:
    """A new context. Each method raises TimedOut, and BadRequest for an exception of the script, its number as substatus.

    Unsupported if there is no engine.
    """

    def __init__(self, time_budget: TimeBudget) -> None:
        try:
            import quickjs
        except ImportError as error:
            raise Unsupported(MISSING) from error

        self._time_budget = time_budget
        self._stopped = quickjs.JSException
        self._context = context = quickjs.Context()
        context.set_memory_limit(time_budget.limits.memory)
        context.set_max_stack_size(_STACK_BYTES)
        self._host: Any = self._run_with_limits(context.eval, _host())

    def __call__(self, verb: str, argument: object = None) -> str:
        """Call a verb of host.js, then run the pending jobs of promises."""
        text = msgspec.json.encode(argument).decode()
        answer = self._run_with_limits(self._host, verb, text)
        while self._run_with_limits(self._context.execute_pending_job):
            pass
        return _check_answer(answer, _COMPILING if verb == "define" else _EXECUTING)

    def call(self, function: str, arguments: list[Any]) -> str:
        """Call a user-defined function; return its result as JSON, or an empty text for undefined."""
        asked = msgspec.json.encode((function, arguments)).decode()
        return _check_answer(self._run_with_limits(self._host, "call", asked), _EXECUTING)

    @property
    def log(self) -> str:
        """The log of the script; empty if no time is left to read it."""
        with contextlib.suppress(MayflyError):
            return str(self._run_with_limits(self._host, "log", "null"))
        return ""

    def _run_with_limits(self, work: Any, *arguments: str) -> Any:
        # The engine counts from the beginning of each call, so each call gets what is left.
        self._context.set_time_limit(self._time_budget.seconds_left)
        try:
            return work(*arguments)
        except self._stopped as error:
            # host.js catches the exceptions of scripts; this one comes from the engine (time, memory).
            text = str(error)
            if "interrupted" in text:
                raise TimedOut(TIMED_OUT) from None
            raise BadRequest(_EXECUTING + text) from None
        except UnicodeDecodeError:
            raise BadRequest("A text that a script has made is no Unicode.") from None


def decode_answer(text: str, type: type[T]) -> T:
    """Decode an answer of host.js. BadRequest if the script has changed the serialization, or nests values too deeply."""
    try:
        return msgspec.json.decode(text, type=type)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadRequest(f"What a script has left cannot be read: {error}") from None


def _check_answer(answer: object, what: str) -> str:
    if not isinstance(answer, str):
        raise BadRequest("What a script has left cannot be read: it is no text.")
    if not answer.startswith("!"):
        return answer
    fault = decode_answer(answer[1:], _ScriptError)
    message = f"{what}{fault.text}\r\nStack trace: {fault.text}\n{fault.stack}"
    number = int(fault.number) if 0 < fault.number < 65_536 else 0
    raise BadRequest(message, substatus=number) if number else BadRequest(message)
