"""Runs an event loop in a thread, for callers that block."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import Any, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Home:
    """The event loop of a server or database, from other threads."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for its result; its exceptions are raised here.

        RuntimeError if the loop has ended.
        """
        if self.loop.is_closed():
            work.close()
            raise RuntimeError("the server has ended")
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    def call_soon(self, function: Callable[[], object]) -> None:
        """Call a function on the loop soon, from any thread."""
        self.loop.call_soon_threadsafe(function)


class LoopThread(Generic[R]):
    """An event loop in a thread. `opens`: the asynchronous context that is open on it, from `start` to `stop`."""

    def __init__(self, opens: Callable[[Home], AbstractAsyncContextManager[R]], name: str) -> None:
        self._opens = opens
        self._home: Home | None = None
        self._stopping = asyncio.Event()
        self._answer: list[R] = []
        self._error: BaseException | None = None
        self._answered = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> R:
        """Start the thread and return what the context gives; raise the error that prevented it."""
        self._thread.start()
        # Set in every case: after the start, and when the thread ends.
        self._answered.wait()
        if self._answer:
            return self._answer[0]
        self._thread.join()
        raise self._error or RuntimeError("the thread ended without a word")

    def stop(self) -> None:
        """Close the context, and end the thread. A second call does nothing."""
        if self._home is not None and self._thread.is_alive():
            # Not `set` itself: an asyncio.Event belongs to the thread of its loop.
            self._home.call_soon(self._stopping.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            from mayflydb.serving.process import loop_factory

            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                runner.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - `start` raises it in the caller's thread
            self._error = error
        finally:
            self._answered.set()

    async def _serve(self) -> None:
        self._home = Home(asyncio.get_running_loop())
        async with self._opens(self._home) as opened:
            self._answer.append(opened)
            self._answered.set()
            await self._stopping.wait()


@contextmanager
def run_in_thread(opens: Callable[[Home], AbstractAsyncContextManager[R]], name: str) -> Iterator[R]:
    """Keep a context open in a thread until the block ends."""
    thread = LoopThread(opens, name)
    opened = thread.start()
    try:
        yield opened
    finally:
        thread.stop()
