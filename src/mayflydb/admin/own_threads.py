"""Work on threads of its own.

A thread of the event loop's pool would keep others from it for as long as the work waits, and the process from its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


async def run_apart(work: Callable[[], T], name: str) -> T:
    """Do blocking work on a thread that is made for it. Errors: those of the work.

    A task that is cancelled does not stop the work.
    """
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def end(result: T | None, error: Exception | None) -> None:
        if done.done():
            return
        if error is None:
            done.set_result(result)  # type: ignore[arg-type]
        else:
            done.set_exception(error)

    def run() -> None:
        result, failure = None, None
        try:
            result = work()
        except Exception as error:  # noqa: BLE001 - raised where the work is awaited
            failure = error
        # The loop may have been closed meanwhile.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(end, result, failure)

    threading.Thread(target=run, daemon=True, name=name).start()
    return await done
