"""Time limits of commands, by the host's monotonic clock."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar, cast

from mayflydb.query.mongo.faults import MqlError
from mayflydb.sockets.work import resume

T = TypeVar("T")


async def run_within(milliseconds: int, work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine, and return its result. Cancel it and raise MqlError 50 when the time is over.

    The coroutine starts at once, and only gets a task when it waits for something.
    """
    try:
        # Most commands wait for nothing: they run here to their end, without the price of a task.
        awaited = work.send(None)
    except StopIteration as at_once:
        return cast("T", at_once.value)
    task: asyncio.Task[T] = asyncio.get_running_loop().create_task(_resume(work, awaited))
    try:
        done, _ = await asyncio.wait({task}, timeout=milliseconds / 1000)
        # The cancelled task is awaited: a commit that is under way completes, and then the answer must say so.
        if not done:
            task.cancel()
            await asyncio.wait({task})
    # `asyncio.wait` leaves its tasks running when it is cancelled itself.
    except asyncio.CancelledError:
        task.cancel()
        raise
    if task.cancelled():
        raise MqlError(50, "operation exceeded time limit")
    # A command that completed before the cancellation has taken effect, so it is answered.
    return task.result()


async def _resume(work: Coroutine[Any, Any, T], awaited: Any) -> T:
    return await resume(work, awaited)
