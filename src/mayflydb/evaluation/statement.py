"""One client's statement as it computes: with one deadline, and steps on a thread where they are not known to be cheap.

The coroutines of a statement stay on the event loop and hand functions to a thread (`call`). An asynchronous generator that
computes between its waits goes to a thread step by step (`iterate`); what it awaits there must be a LoopStep, which runs on the
event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Generator, Hashable
from functools import partial
from typing import Any, Final, Protocol, TypeVar

from mayflydb.evaluation.evaluators import Call, Evaluators
from mayflydb.evaluation.stops import EvaluationStopped, Stopped, StopReason

T = TypeVar("T")

CHEAP_BYTES: Final = 64 * 1024
"""The bytes over which a cheap function is run on the event loop: it takes about a millisecond."""

TURN_MICROSECONDS: Final = 1000
"""The time after which a statement that goes on with cheap steps lets others run."""

_END: Final = object()


class LoopStep:
    """Work for the event loop, asked for by a generator that runs on a thread. Awaiting it returns the work's result.

    `work` makes the coroutine, on the event loop: one that was made for a step that is then stopped would be missed.
    """

    __slots__ = ("work",)

    def __init__(self, work: Callable[..., Coroutine[Any, Any, Any]], *given: Any) -> None:
        self.work = partial(work, *given) if given else work

    def __await__(self) -> Generator[LoopStep, Any, Any]:
        return (yield self)


class LoopBatches(AsyncIterator[T]):
    """An asynchronous iterator of the event loop, as a generator on a thread reads it."""

    def __init__(self, source: AsyncIterator[T]) -> None:
        self._source = source

    def __aiter__(self) -> LoopBatches[T]:
        return self

    async def __anext__(self) -> T:
        # A coroutine that raises StopAsyncIteration would end with a RuntimeError.
        found = await LoopStep(_next_or_end, self._source)
        if found is _END:
            raise StopAsyncIteration
        batch: T = found
        return batch

    async def aclose(self) -> None:
        """Close the source."""
        close = getattr(self._source, "aclose", None)
        if close is not None:
            await LoopStep(close)


async def _next_or_end(source: AsyncIterator[Any]) -> Any:
    async for found in source:
        return found
    return _END


class Computing(Protocol):
    """Runs the functions of a statement. `deadline`: in monotonic microseconds, or None."""

    @property
    def deadline(self) -> int | None: ...

    async def call(self, size: int, function: Callable[..., T], *given: Any) -> T: ...


class ComputingHere:
    """Runs each function at once: for work that has a thread of its own, or is known to be small."""

    deadline: None = None

    async def call(self, size: int, function: Callable[..., T], *given: Any) -> T:
        """Return the result of a function."""
        return function(*given)


HERE: Final = ComputingHere()


class Statement:
    """The evaluation of one statement.

    `client`: in whose turn it computes. `deadline`: in monotonic microseconds, or None. `cheap`: each step is known to take time
    that is linear, with a small factor, in the bytes that it is given. `taken`: bytes that steps of `iterate` were given so far.
    `stopped`: why it was stopped, or None.
    """

    __slots__ = ("_calls", "_evaluators", "_left", "_turn", "cheap", "client", "deadline", "stopped", "taken")

    def __init__(self, evaluators: Evaluators, client: Hashable, deadline: int | None, cheap: bool = False) -> None:
        self._evaluators = evaluators
        self._calls: set[Call] = set()
        self.client = client
        self.deadline = deadline
        self.cheap = cheap
        self.taken = 0
        self._turn = 0
        self._left: Call | None = None
        self.stopped: StopReason | None = None

    def stop(self, reason: StopReason) -> None:
        """Stop the present step, and refuse further ones."""
        self.stopped = reason
        for call in [*self._calls]:
            self._evaluators.abandon(call, reason)

    def check(self) -> None:
        """Raise EvaluationStopped if the statement was stopped or its time is over: between steps on the event loop."""
        if self.stopped is not None:
            raise EvaluationStopped(self.stopped)
        if self.deadline is not None and self._evaluators.now() >= self.deadline:
            raise EvaluationStopped(StopReason.DEADLINE)

    async def take_turn(self) -> None:
        """Check as `check` does, and let others run if the statement has held the event loop for TURN_MICROSECONDS."""
        self.check()
        now = self._evaluators.now()
        # The first turn begins with the first step.
        self._turn = self._turn or now
        if now - self._turn >= TURN_MICROSECONDS:
            await asyncio.sleep(0)
            self._turn = self._evaluators.now()

    async def call(self, size: int, function: Callable[..., T], *given: Any) -> T:
        """Return the result of a function of `size` bytes: here if that is cheap, else on a thread.

        Raises what the function raises, EvaluationStopped and TooManyEvaluations.
        """
        if self.cheap and size <= CHEAP_BYTES and self.stopped is None:
            return function(*given)
        return await self._compute(function, *given)

    async def _compute(self, function: Callable[..., T], *given: Any) -> T:
        if self.stopped is not None:
            raise EvaluationStopped(self.stopped)
        call = self._evaluators.start(self.client, self.deadline, function, *given)
        self._calls.add(call)
        try:
            result: T = await self._evaluators.wait(call)
        except BaseException:
            self._left = call
            raise
        finally:
            self._calls.discard(call)
        return result

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine whose steps compute, each on a thread. It awaits LoopSteps alone."""
        return await self._drive(work.__await__())

    async def iterate(self, source: AsyncIterator[T], begins_here: bool = False) -> AsyncGenerator[T, None]:
        """Yield the items of a generator whose steps compute, each on a thread. It awaits LoopSteps alone.

        `begins_here`: steps run on the event loop as long as the statement is cheap, and has `taken` at most CHEAP_BYTES.
        """
        try:
            while True:
                try:
                    item: T = await self._drive(source.__anext__().__await__(), begins_here)
                except StopAsyncIteration:
                    return
                yield item
        finally:
            await self._close(source)

    async def _drive(self, steps: Generator[Any, Any, Any], begins_here: bool = False) -> T:
        answer: Any = None
        error: BaseException | None = None
        try:
            while True:
                if begins_here and self.cheap and self.taken <= CHEAP_BYTES:
                    await self.take_turn()
                    kind, value = _advance(steps, answer, error)
                else:
                    kind, value = await self._compute(_advance, steps, answer, error)
                if kind is _END:
                    result: T = value
                    return result
                if kind is StopAsyncIteration:
                    break
                answer, error = await _answer(value)
        except BaseException:
            self._evaluators.run_after(self._left, partial(self._unwind, lambda: steps, Stopped))
            raise
        raise StopAsyncIteration

    async def _close(self, source: AsyncIterator[Any]) -> None:
        close = getattr(source, "aclose", None)
        if close is None:
            return
        ending = partial(self._unwind, lambda: close().__await__(), None)
        if self._left is None:
            await ending()
        else:
            self._evaluators.run_after(self._left, ending)

    async def _unwind(self, begin: Callable[[], Generator[Any, Any, Any]], error: type[Stopped] | None) -> None:
        """Run what a generator that ends does in its `finally`. On a thread, which frees what the generator holds."""
        with contextlib.suppress(Exception, Stopped, GeneratorExit):
            steps, answer = begin(), None
            # A new one each time: its traceback would keep what the generator held.
            thrown: BaseException | None = None if error is None else error()
            while True:
                if (self.cheap and self.taken <= CHEAP_BYTES) or self._evaluators.closed:
                    kind, asked = _advance(steps, answer, thrown)
                else:
                    kind, asked = await self._evaluators.call(self.client, None, _advance, steps, answer, thrown)
                if kind is not None:
                    return
                answer, thrown = await _answer(asked)
        # As in `_advance`.
        thrown = None


def _advance(steps: Generator[Any, Any, Any], answer: Any, error: BaseException | None) -> tuple[object, Any]:
    """Run one step. Returns (None, what it awaits), (_END, result) or (StopAsyncIteration, None)."""
    try:
        return None, steps.send(answer) if error is None else steps.throw(error)
    except StopIteration as done:
        return _END, done.value
    except StopAsyncIteration:
        return StopAsyncIteration, None
    finally:
        # An exception that comes back refers to this frame, and with it to all frames of the generator.
        del error


async def _answer(asked: Any) -> tuple[Any, BaseException | None]:
    """Do what a step awaits. Returns (result, error)."""
    if asked is None:
        await asyncio.sleep(0)
        return None, None
    assert isinstance(asked, LoopStep), f"a step on a thread awaits {asked!r}"
    try:
        return await asked.work(), None
    except Exception as raised:  # noqa: BLE001 -- it belongs to the step, which may handle it
        return None, raised
