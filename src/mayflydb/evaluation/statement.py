"""The evaluation of one client's statement: one deadline, and steps on a thread unless they are known to be cheap.

The coroutines of a statement run on the event loop and hand functions to a thread (`call`). An asynchronous generator that
computes between its waits runs on a thread step by step (`iterate`). There it awaits only LoopSteps, which the event loop runs.
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
"""The most bytes for which a cheap function runs on the event loop: it takes about a millisecond."""

TURN_MICROSECONDS: Final = 1000
"""The time after which a statement lets other tasks run between its cheap steps."""

_END: Final = object()


class LoopStep:
    """Work for the event loop that a generator on a thread awaits. Its value is the work's result.

    `work` creates the coroutine on the event loop. Created on the thread, it would never be awaited if the step is stopped.
    """

    __slots__ = ("work",)

    def __init__(self, work: Callable[..., Coroutine[Any, Any, Any]], *given: Any) -> None:
        self.work = partial(work, *given) if given else work

    def __await__(self) -> Generator[LoopStep, Any, Any]:
        return (yield self)


class LoopBatches(AsyncIterator[T]):
    """The items of an asynchronous iterator of the event loop, for a generator that runs on a thread."""

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

    async def take_turn(self) -> None: ...


class ComputingHere:
    """Runs each function at once: for work that has a thread of its own, or is known to be small."""

    deadline: None = None

    async def call(self, size: int, function: Callable[..., T], *given: Any) -> T:
        """Return the result of a function."""
        return function(*given)

    async def take_turn(self) -> None:
        """Do nothing: no other task waits for this thread."""


HERE: Final = ComputingHere()


class Statement:
    """The evaluation of one statement.

    `client`: the client whose turns it takes. `deadline`: in monotonic microseconds, or None. `cheap`: each step is known to take
    time that is linear in the bytes of its input, with a small factor. `taken`: the bytes of input of `iterate` so far.
    `stopped`: the reason of its stop, or None.
    """

    __slots__ = (
        "_calls", "_evaluators", "_is_counted", "_left", "_turn", "cheap", "client", "deadline", "stopped", "taken"
    )  # fmt: skip

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
        self._is_counted = False

    def stop(self, reason: StopReason) -> None:
        """Stop the present step, and refuse further ones."""
        self.stopped = reason
        self._is_counted = self._is_counted or bool(self._calls)
        for call in [*self._calls]:
            self._evaluators.abandon(call, reason)

    def check(self) -> None:
        """Raise EvaluationStopped if the statement was stopped or its time is over. For use between steps on the event loop."""
        if self.stopped is not None:
            raise self._stop_between_steps(self.stopped)
        if self._evaluators.closed:
            raise EvaluationStopped(StopReason.CLOSING)
        if self.deadline is not None and self._evaluators.now() >= self.deadline:
            raise EvaluationStopped(StopReason.DEADLINE)

    def _stop_between_steps(self, reason: StopReason) -> EvaluationStopped:
        # A step that is stopped is counted at its end. Between two steps there is none.
        if not self._is_counted:
            self._is_counted = True
            self._evaluators.counts.stopped[reason.value] += 1
        return EvaluationStopped(reason)

    async def take_turn(self) -> None:
        """Check as `check` does, and let other tasks run if the statement has held the event loop for TURN_MICROSECONDS."""
        now = self._evaluators.now()
        over = self.stopped is not None or self._evaluators.closed
        if over or (self.deadline is not None and now >= self.deadline):
            self.check()
        # The first turn begins with the first step.
        self._turn = self._turn or now
        if now - self._turn >= TURN_MICROSECONDS:
            await asyncio.sleep(0)
            self._turn = self._evaluators.now()

    async def call(self, size: int, function: Callable[..., T], *given: Any) -> T:
        """Return the result of a function over `size` bytes. It runs at once if it is cheap, else on a thread.

        Errors: those of the function, EvaluationStopped and TooManyEvaluations.
        """
        if self.cheap and size <= CHEAP_BYTES and self.stopped is None:
            return function(*given)
        return await self._compute(function, *given)

    async def _compute(self, function: Callable[..., T], *given: Any) -> T:
        if self.stopped is not None:
            raise self._stop_between_steps(self.stopped)
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
        """Run a coroutine whose steps compute, each step on a thread. The coroutine awaits only LoopSteps."""
        steps = work.__await__()
        try:
            return await self._drive(steps)
        except BaseException:
            self._evaluators.run_after(self._left, partial(self._unwind, lambda: steps, Stopped))
            raise

    async def iterate(self, source: AsyncIterator[T], begins_here: bool = False) -> AsyncGenerator[T, None]:
        """Yield the items of a generator whose steps compute, each step on a thread. The generator awaits only LoopSteps.

        `begins_here`: steps run on the event loop as long as the statement is cheap, and has `taken` at most CHEAP_BYTES.
        """
        unfinished: Generator[Any, Any, Any] | None = None
        try:
            while True:
                unfinished = source.__anext__().__await__()
                try:
                    item: T = await self._drive(unfinished, begins_here)
                except StopAsyncIteration:
                    unfinished = None
                    return
                unfinished = None
                yield item
        finally:
            await self._close(source, unfinished)

    async def _drive(self, steps: Generator[Any, Any, Any], begins_here: bool = False) -> T:
        answer: Any = None
        error: BaseException | None = None
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
                raise StopAsyncIteration
            answer, error = await _answer(value)

    async def _close(self, source: AsyncIterator[Any], unfinished: Generator[Any, Any, Any] | None) -> None:
        """Close a generator; `unfinished`: its step that was given up."""
        if unfinished is None and self._left is None:
            await self._unwind_source(source)
        else:
            self._evaluators.run_after(self._left, partial(self._unwind_all, source, unfinished))

    async def _unwind_all(self, source: AsyncIterator[Any], unfinished: Generator[Any, Any, Any] | None) -> None:
        # One after the other: a generator cannot be closed while one of its steps is open.
        if unfinished is not None:
            await self._unwind(lambda: unfinished, Stopped)
        await self._unwind_source(source)

    async def _unwind_source(self, source: AsyncIterator[Any]) -> None:
        close = getattr(source, "aclose", None)
        if close is not None:
            await self._unwind(lambda: close().__await__(), None)

    async def _unwind(self, begin: Callable[[], Generator[Any, Any, Any]], error: type[Stopped] | None) -> None:
        """Close a generator: run its `finally`. A thread does this, and frees the objects of the generator."""
        with contextlib.suppress(Exception, Stopped, GeneratorExit):
            steps, answer = begin(), None
            # A new exception each time: the traceback of a shared one would keep the objects of the generator.
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
    """Run one step. Returns (None, its awaited LoopStep), (_END, result) or (StopAsyncIteration, None)."""
    try:
        return None, steps.send(answer) if error is None else steps.throw(error)
    except StopIteration as done:
        return _END, done.value
    except StopAsyncIteration:
        return StopAsyncIteration, None
    finally:
        # The exception refers to this frame, and with it to all frames of the generator.
        del error


async def _answer(asked: Any) -> tuple[Any, BaseException | None]:
    """Run the work that a step awaits. Returns (result, error)."""
    if asked is None:
        await asyncio.sleep(0)
        return None, None
    assert isinstance(asked, LoopStep), f"a step on a thread awaits {asked!r}"
    try:
        return await asked.work(), None
    except Exception as raised:  # noqa: BLE001 -- it belongs to the step, which may handle it
        return None, raised
