"""The access of a query's evaluation to the event loop: directly if it runs there, by LoopSteps if it runs on a thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, Final, Protocol, TypeVar

from mayflydb.evaluation.statement import LoopBatches, LoopStep, Statement

T = TypeVar("T")

FIRST_BYTES: Final = 16 << 10
"""Bytes of rows up to which a query stays on the event loop, if its time is in proportion to its rows."""

BYTES_OF_ROW: Final = 256
"""The constant cost of a row, in bytes, for the steps that do not depend on its length."""


class Crossing(Protocol):
    """The access of an evaluation to the event loop."""

    def wait(self, work: Callable[..., Coroutine[Any, Any, T]], *given: Any) -> Awaitable[T]:
        """Return an awaitable of the result of a coroutine function, which runs on the event loop."""

    def batches(self, source: AsyncIterator[T], size: Callable[[T], int]) -> AsyncIterator[T]:
        """Return the batches of an iterator of the event loop. `size`: the bytes of a batch."""

    async def take_turn(self) -> None:
        """Let other tasks run between two steps of long work on the event loop. EvaluationStopped if the query's time is over."""


class OnLoop:
    """The access of an evaluation that runs on the event loop."""

    def wait(self, work: Callable[..., Coroutine[Any, Any, T]], *given: Any) -> Awaitable[T]:
        """See `Crossing.wait`."""
        return work(*given)

    def batches(self, source: AsyncIterator[T], size: Callable[[T], int]) -> AsyncIterator[T]:
        """See `Crossing.batches`."""
        return source

    async def take_turn(self) -> None:
        """See `Crossing.take_turn`."""
        await asyncio.sleep(0)


class FromThread:
    """The access of the steps of a statement. A cheap statement counts as cheap up to FIRST_BYTES of rows."""

    def __init__(self, statement: Statement) -> None:
        self._statement = statement
        self._left = FIRST_BYTES

    def wait(self, work: Callable[..., Coroutine[Any, Any, T]], *given: Any) -> Awaitable[T]:
        """See `Crossing.wait`."""
        return LoopStep(work, *given)

    def batches(self, source: AsyncIterator[T], size: Callable[[T], int]) -> AsyncIterator[T]:
        """See `Crossing.batches`."""
        return LoopBatches(self._count(source, size))

    async def take_turn(self) -> None:
        """See `Crossing.take_turn`."""
        await self._statement.take_turn()

    async def _count(self, source: AsyncIterator[T], size: Callable[[T], int]) -> AsyncIterator[T]:
        async for batch in source:
            if self._statement.cheap:
                self._left -= size(batch)
                # Set before the statement gets the batch, so that it handles this batch on a thread.
                self._statement.cheap = self._left >= 0
            yield batch


ON_LOOP: Final = OnLoop()
