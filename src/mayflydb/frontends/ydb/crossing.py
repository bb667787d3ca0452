"""Crossings from the place where a query computes to the event loop: none from the loop itself, steps from a thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, Final, Protocol, TypeVar

from mayflydb.evaluation.statement import LoopBatches, LoopStep, Statement

T = TypeVar("T")

FIRST_BYTES: Final = 16 << 10
"""A query that takes time in proportion to its rows stays on the event loop until it has been given so many bytes."""

BYTES_OF_ROW: Final = 256
"""Added to the bytes of each row, for the steps that do not depend on its length."""


class Crossing(Protocol):
    """The way from the place of the computation to the event loop and back."""

    def wait(self, work: Callable[..., Coroutine[Any, Any, T]], *given: Any) -> Awaitable[T]:
        """Return an awaitable of the result of a coroutine function, which runs on the event loop."""

    def batches(self, source: AsyncIterator[T], size: Callable[[T], int]) -> AsyncIterator[T]:
        """Return the batches of an iterator of the event loop. `size`: the bytes of a batch."""

    async def take_turn(self) -> None:
        """Let others run, in the midst of long work on the event loop. EvaluationStopped if the query has no more time."""


class OnLoop:
    """For what runs on the event loop itself."""

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
    """For the steps of a statement. A cheap statement stops to be cheap with FIRST_BYTES."""

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
                # Before the statement sees the batch: it handles this one on a thread already.
                self._statement.cheap = self._left >= 0
            yield batch


ON_LOOP: Final = OnLoop()
