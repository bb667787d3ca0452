"""Threads on which scripts run. Their reads of the store run on the event loop.

A thread belongs to one request. The JavaScript engine checks its time between its steps only, so a long step may exceed it. The
request is answered in time all the same, and the thread ends after the step.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import types
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from threading import Thread, get_ident
from typing import Any, Final, TypeAlias, TypeVar

from mayflydb.engine.reads import ReadRequest, Reads
from mayflydb.evaluation.stops import Stopped
from mayflydb.evaluation.threads import ThreadCall
from mayflydb.frontends.cosmos.scripting.sandbox import TIMED_OUT, TimeBudget
from mayflydb.model.errors import TimedOut, Unavailable

T = TypeVar("T")

MAX_THREADS: Final = 16
"""Scripts that run at the same time; further ones wait."""

GRACE_SECONDS: Final = 0.5
"""Seconds that a request waits for its script to stop after the end of its time."""


LoopRequest: TypeAlias = ReadRequest[Any] | Callable[[], Coroutine[Any, Any, Any]]


class LoopProxy:
    """The store for work on a thread: each request is yielded to `ScriptThreads`, which runs it on the event loop."""

    async def read(self, request: ReadRequest[T]) -> T:
        """Return the answer to a read of committed state."""
        answer: T = await _yield_request(request)
        return answer

    async def call(self, function: Callable[..., Coroutine[Any, Any, T]], *given: Any) -> T:
        """Run a coroutine function on the event loop and return its result."""
        result: T = await _yield_request(partial(function, *given))
        return result


@types.coroutine
def _yield_request(request: LoopRequest) -> Generator[LoopRequest, Any, Any]:
    return (yield request)


class ScriptThreads:
    """Runs work on threads. The work may await the methods of a LoopProxy alone."""

    def __init__(self, reads: Reads, free: asyncio.Semaphore | None = None) -> None:
        """`free`: counts the threads that are free, where others share them."""
        self._reads = reads
        self._free = asyncio.Semaphore(MAX_THREADS) if free is None else free

    def over(self, reads: Reads) -> ScriptThreads:
        """Return the same threads for work that reads elsewhere."""
        return ScriptThreads(reads, self._free)

    async def run(self, work: Callable[[LoopProxy], Coroutine[Any, Any, T]], time_budget: TimeBudget) -> T:
        """Run work on its own thread and return its result. TimedOut; Unavailable if no thread becomes free in time."""
        try:
            await asyncio.wait_for(self._free.acquire(), time_budget.seconds_left)
        except TimeoutError:
            raise Unavailable(f"{MAX_THREADS} scripts are running, and none has ended in time") from None
        done, script = self._start(work, time_budget)
        try:
            return await asyncio.wait_for(done, time_budget.seconds_left + GRACE_SECONDS)
        except TimeoutError:
            script.stop()
            raise TimedOut(TIMED_OUT) from None
        except asyncio.CancelledError:
            script.stop()
            raise

    def _start(
        self, work: Callable[[LoopProxy], Coroutine[Any, Any, T]], time_budget: TimeBudget
    ) -> tuple[asyncio.Future[T], _ScriptThread]:
        """Start a thread; return a future of its result, and the thread.

        The end of the thread, and not that of the request, makes room for another script.
        """
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()

        # Runs on the event loop, to which the semaphore and the future belong.
        def settle(result: T, error: BaseException | None) -> None:
            self._free.release()
            if not done.done():
                # A stop that comes from the time budget is a time-out like that of the JavaScript engine.
                _set(done, result, TimedOut(TIMED_OUT) if isinstance(error, Stopped) else error)

        def report(result: T, error: BaseException | None) -> None:
            with contextlib.suppress(RuntimeError):  # The loop is closed: no request waits any more.
                loop.call_soon_threadsafe(settle, result, error)

        def drive() -> T:
            return self._drive(work(LoopProxy()), loop, time_budget)

        script = _ScriptThread(ThreadCall(drive, (), report))
        try:
            script.start()
        except RuntimeError as error:
            self._free.release()
            raise Unavailable(f"no thread for a script: {error}") from None
        return done, script

    def _drive(self, work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop, time_budget: TimeBudget) -> T:
        answer: Any = None
        try:
            while True:
                request = work.send(answer)
                # A bare yield gives way to other tasks, of which a thread has none.
                answer = None if request is None else self._run_on_loop(request, loop, time_budget)
        except StopIteration as end:
            result: T = end.value
            return result

    def _run_on_loop(self, request: LoopRequest, loop: asyncio.AbstractEventLoop, time_budget: TimeBudget) -> Any:
        reading = request() if callable(request) else self._reads.read(request)
        try:
            future = asyncio.run_coroutine_threadsafe(reading, loop)
        except RuntimeError:
            reading.close()
            raise Unavailable("the server is stopping") from None
        try:
            return future.result(time_budget.seconds_left)
        except TimeoutError:
            future.cancel()
            raise TimedOut(TIMED_OUT) from None


def _set(done: asyncio.Future[T], result: T, error: BaseException | None) -> None:
    if error is None:
        done.set_result(result)
    else:
        done.set_exception(error)


class _ScriptThread(Thread):
    """The thread of one script."""

    def __init__(self, call: ThreadCall) -> None:
        # A daemon: a script that exceeds its time does not keep the process alive.
        super().__init__(name="script", daemon=True)
        self._call = call

    def run(self) -> None:
        self._call.run(get_ident())

    def stop(self) -> None:
        """Stop the evaluation of a query between two calls of its functions. A function ends by the sandbox's limit."""
        self._call.stop()
        # At the lowest priority a function that takes long disturbs other requests least until it ends.
        if sys.platform == "linux" and self.is_alive() and self.native_id is not None:
            with contextlib.suppress(OSError):  # The thread has just ended.
                os.setpriority(os.PRIO_PROCESS, self.native_id, 19)
