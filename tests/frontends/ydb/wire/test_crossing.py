"""Batches on their way from the event loop to a query: together for a thread, one by one for a query that streams."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from functools import wraps
from itertools import repeat
from typing import Any

import pytest

from mayflydb.clock import monotonic_us
from mayflydb.evaluation.evaluators import Evaluators
from mayflydb.evaluation.statement import Statement
from mayflydb.evaluation.stops import EvaluationStopped, StopReason
from mayflydb.frontends.ydb.crossing import BYTES_OF_ROW, FIRST_BYTES, GATHERED_BYTES, STREAMED_BYTES, FromThread

Batches = AsyncIterator[list[int]]


def in_loop(test: Callable[[Evaluators], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """Run a test on an event loop of its own."""

    @wraps(test)
    def run() -> None:
        async def with_evaluators() -> None:
            evaluators = Evaluators()
            try:
                await test(evaluators)
            finally:
                evaluators.close()
                await evaluators.finish()

        asyncio.run(with_evaluators())

    run.__dict__.pop("__wrapped__", None)
    return run


async def source(sizes: Any) -> Batches:
    """Batches of rows, each of which counts its own number of bytes."""
    for size in sizes:
        yield [size]
        await asyncio.sleep(0)


def size_of(batch: list[int]) -> int:
    return sum(batch) + BYTES_OF_ROW * len(batch)


async def read(statement: Statement, streams: bool, sizes: Any) -> list[tuple[int, bool]]:
    """The numbers of rows that come together, and whether each is handled on the event loop."""
    home, crossing = threading.current_thread(), FromThread(statement, streams)

    async def plan() -> AsyncIterator[tuple[int, bool]]:
        async for batch in crossing.batches(source(sizes), size_of):
            yield len(batch), threading.current_thread() is home

    return [each async for each in statement.iterate(plan(), begins_here=True)]


@in_loop
async def test_small_batches_of_a_stream_stay_on_the_loop(evaluators: Evaluators) -> None:
    found = await read(Statement(evaluators, "a", None, True), True, [STREAMED_BYTES, STREAMED_BYTES + 1, 1, *[9] * 99])
    assert found == [(1, True), (1, False), (1, True), *[(1, True)] * 99]


@in_loop
async def test_a_statement_that_is_not_cheap_does_not_stream(evaluators: Evaluators) -> None:
    assert {here for _, here in await read(Statement(evaluators, "a", None), True, [1] * 9)} == {False}


@in_loop
async def test_batches_for_a_thread_come_together(evaluators: Evaluators) -> None:
    one = FIRST_BYTES // 2 - BYTES_OF_ROW
    found = await read(Statement(evaluators, "a", None, True), False, [one] * 200)
    assert sum(count for count, _ in found) == 200
    # The first ones at once, then as many as came before, up to a limit.
    assert [count for count, _ in found[:6]] == [1, 1, 2, 4, 8, 16]
    assert max(count for count, _ in found) <= GATHERED_BYTES * 2 // FIRST_BYTES
    assert [here for _, here in found[:4]] == [True, True, False, False]


@pytest.mark.parametrize("end", ["deadline", "killed", "left", "closing"])
def test_a_stream_on_the_loop_is_ended(end: str) -> None:
    @in_loop
    async def run(evaluators: Evaluators) -> None:
        deadline = monotonic_us() + 20_000 if end == "deadline" else None
        statement = Statement(evaluators, "a", deadline, cheap=True)
        reading = asyncio.create_task(read(statement, True, repeat(1)))
        for _ in range(50):
            await asyncio.sleep(0)
        assert not reading.done()
        if end == "killed":
            statement.stop(StopReason.KILLED)
        elif end == "closing":
            evaluators.close()
        elif end == "left":
            reading.cancel()
        with pytest.raises(asyncio.CancelledError if end == "left" else EvaluationStopped) as stopped:
            await reading
        assert end == "left" or stopped.value.reason.value == end  # type: ignore[attr-defined]

    run()
