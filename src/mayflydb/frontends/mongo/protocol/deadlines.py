"""The time a command may take, by the host's monotonic clock."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar, cast

from mayflydb.query.mongo.faults import MqlError
from mayflydb.sockets.work import resumed

T = TypeVar("T")


async def run_within(milliseconds: int, work: Coroutine[Any, Any, T]) -> T:
    """What a coroutine comes to. MqlError 50 when that takes longer; it is cancelled then.

    It begins at once, so that what waits for nothing costs no task.
    """
    try:
        awaited = work.send(None)
    except StopIteration as at_once:
        return cast("T", at_once.value)
    task: asyncio.Task[T] = asyncio.get_running_loop().create_task(_resume(work, awaited))
    try:
        done, _ = await asyncio.wait({task}, timeout=milliseconds / 1000)
        if not done:
            task.cancel()
            await asyncio.wait({task})
    except asyncio.CancelledError:
        task.cancel()
        raise
    if task.cancelled():
        raise MqlError(50, "operation exceeded time limit")
    # A command that was done before it could be stopped has been done.
    return task.result()


async def _resume(work: Coroutine[Any, Any, T], awaited: Any) -> T:
    return await resumed(work, awaited)
