"""The access of a query's evaluation to the event loop: directly if it runs there, by LoopSteps if it runs on a thread."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any, Final, Protocol, TypeVar

from mayflydb.evaluation.statement import LoopBatches, LoopStep, Statement

T = TypeVar("T")

STREAMED_BYTES: Final = 64 << 10
"""Bytes of rows that a query which streams handles on the event loop at a time. That takes about a millisecond."""

FIRST_BYTES: Final = 16 << 10
"""Bytes of rows up to which a query stays on the event loop, if its time is in proportion to its rows."""

GATHERED_BYTES: Final = 256 << 10
"""Bytes of rows that come to a thread at once, in a long read."""

BYTES_OF_ROW: Final = 256
"""The constant cost of a row, in bytes, for the steps that do not depend on its length."""


class Crossing(Protocol):
    """The access of an evaluation to the event loop."""

    def wait(self, work: Callable[..., Coroutine[Any, Any, T]], *given: Any) -> Awaitable[T]:
        """Return an awaitable of the result of a coroutine function, which runs on the event loop."""

    def batches(self, source: AsyncIterator[list[T]], size: Callable[[list[T]], int]) -> AsyncIterator[list[T]]:
        """Return the batches of an iterator of the event loop, several together. `size`: the bytes of a batch."""

    async def take_turn(self) -> None:
        """Let other tasks run between two steps of long work on the event loop. EvaluationStopped if the query's time is over."""


class OnLoop:
    """The access of an evaluation that runs on the event loop."""

    def wait(self, work: Callable[..., Coroutine[Any, Any, T]], *given: Any) -> Awaitable[T]:
        """See `Crossing.wait`."""
        return work(*given)

    def batches(self, source: AsyncIterator[list[T]], size: Callable[[list[T]], int]) -> AsyncIterator[list[T]]:
        """See `Crossing.batches`."""
        return source

    async def take_turn(self) -> None:
        """See `Crossing.take_turn`."""
        await asyncio.sleep(0)


class FromThread:
    """The access of the steps of a statement. A cheap statement counts as cheap up to FIRST_BYTES of rows.

    `streams`: it handles each row by itself, and counts as cheap for each batch that is small. Such a batch costs less than
    two changes of threads, and a long scan would have hundreds of them.
    """

    def __init__(self, statement: Statement, streams: bool = False) -> None:
        self._statement = statement
        self._left = FIRST_BYTES
        self._streams = streams and statement.cheap

    def wait(self, work: Callable[..., Coroutine[Any, Any, T]], *given: Any) -> Awaitable[T]:
        """See `Crossing.wait`."""
        return LoopStep(work, *given)

    def batches(self, source: AsyncIterator[list[T]], size: Callable[[list[T]], int]) -> AsyncIterator[list[T]]:
        """See `Crossing.batches`."""
        return LoopBatches(self._gather(source, size))

    async def take_turn(self) -> None:
        """See `Crossing.take_turn`."""
        await self._statement.take_turn()

    async def _gather(self, source: AsyncIterator[list[T]], size: Callable[[list[T]], int]) -> AsyncIterator[list[T]]:
        """Yield the batches of a source; behind the first one, as many together as have come before, up to a limit."""
        gathered: list[T] = []
        have = given = 0
        async for batch in source:
            found = size(batch)
            if self._streams:
                # Set before the statement gets the batch, so that it handles this batch here, or on a thread.
                self._statement.cheap = found - BYTES_OF_ROW * len(batch) <= STREAMED_BYTES
                yield batch
                continue
            if self._statement.cheap:
                self._left -= found
                self._statement.cheap = self._left >= 0
            gathered = gathered + batch if gathered else batch
            have += found
            # A step from the thread to here and back costs as much as the read of some 20 rows.
            if have >= given or have >= GATHERED_BYTES:
                yield gathered
                given += have
                gathered, have = [], 0
        if gathered:
            yield gathered


ON_LOOP: Final = OnLoop()
