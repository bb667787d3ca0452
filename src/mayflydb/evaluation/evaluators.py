"""The threads of a server's evaluations: a bounded number at once, in turns between clients, with limits of time and memory.

Only the evaluated functions run on the threads; all other code here runs on the event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Hashable, Iterator
from functools import partial
from typing import Any, Final, TypeVar

import msgspec

from mayflydb.clock import Stopwatch, monotonic_us
from mayflydb.evaluation.collector import count_collections, full_collections
from mayflydb.evaluation.memory import give_back, resident_bytes
from mayflydb.evaluation.stops import EvaluationStopped, StopReason, TooManyEvaluations
from mayflydb.evaluation.threads import EvaluationThread, ThreadCall, switch_interval
from mayflydb.evaluation.turns import Turns
from mayflydb.model.releasing import release_unused

T = TypeVar("T")

FINISH_SECONDS: Final = 0.5
"""The time that `finish` gives to calls that do not end."""

HANDING_TURNS: Final = 5
"""The turns of the event loop in which a coroutine passes the end of its call on."""

TICK_SECONDS: Final = 0.01
"""The interval at which the deadlines of running calls and the memory of the process are checked."""

SPARED_SECONDS: Final = 0.1
"""The time after a stop for memory in which no other call is stopped for memory: the first one's memory is freed meanwhile."""

QUIET_SECONDS: Final = 1.0
"""The time without a new call after which full garbage collections are resumed."""

LONGEST_PAUSE_SECONDS: Final = 60.0
"""The longest pause of full collections: only they free old circles of objects. The next pause begins after a collection."""

GIVE_BACK_BYTES: Final = 32 * 1024 * 1024
"""The growth of the process after which free memory is returned to the system."""


class EvaluationLimits(msgspec.Struct, frozen=True):
    """`threads`: evaluations that run at once; `per_client`: those of one client; `waiting`: those that may wait for a thread.

    `memory`: bytes by which all evaluations together may make the process grow. `seconds`: the longest time of one statement.
    """

    threads: int = 2
    per_client: int = 1
    waiting: int = 1000
    memory: int = 192 * 1024 * 1024
    seconds: float = 60.0


class Call:
    """A function that runs or waits for a thread.

    `deadline`: in monotonic microseconds. `grown`: its share of the growth in memory since its start, in bytes.
    """

    __slots__ = ("call", "client", "deadline", "done", "endings", "grown", "reason", "started", "thread")

    def __init__(self, client: Hashable, deadline: int | None, done: asyncio.Future[Any]) -> None:
        self.client = client
        self.deadline = deadline
        self.done: asyncio.Future[Any] | None = done
        self.call: ThreadCall | None = None
        self.thread: EvaluationThread | None = None
        self.reason: StopReason | None = None
        self.started = 0
        self.grown = 0.0
        self.endings: list[Callable[[], Coroutine[Any, Any, None]]] = []

    def forget_function(self) -> None:
        """Drop the function, which has ended. It refers to this call, and such a circle is freed by a collection alone."""
        self.call = None

    def answer(self, result: Any, error: BaseException | None) -> None:
        """Give the result or the error of the function to the coroutine that awaits it."""
        if self.done is not None and not self.done.done():
            if error is None:
                self.done.set_result(result)
            else:
                self.done.set_exception(error)

    def stop(self, reason: StopReason) -> None:
        """Stop the function; the call ends with EvaluationStopped."""
        if self.reason is None:
            self.reason = reason
        if self.call is not None:
            self.call.stop()


class EvaluationCounts(msgspec.Struct):
    """Counts since the start, for measurements: calls, seconds that they computed, and stops by reason."""

    calls: int = 0
    seconds: float = 0.0
    refused: int = 0
    stopped: dict[str, int] = msgspec.field(default_factory=lambda: {reason.value: 0 for reason in StopReason})


class Evaluators:
    """Runs functions on threads for the requests of one server."""

    def __init__(
        self,
        limits: EvaluationLimits | None = None,
        stopwatch: Stopwatch = monotonic_us,
        resident: Callable[[], int | None] = resident_bytes,
    ) -> None:
        self.limits = limits or EvaluationLimits()
        self.counts = EvaluationCounts()
        self._stopwatch = stopwatch
        self._resident = resident
        self._turns: Turns[Call] = Turns(self.limits.threads, self.limits.per_client, self.limits.waiting)
        self._idle: list[EvaluationThread] = []
        self._running: set[Call] = set()
        self._endings: set[asyncio.Task[None]] = set()
        self._ticking = False
        self._baseline = 0
        self._last_seen = 0
        self._spared_until = 0
        self._collector_pause: asyncio.TimerHandle | None = None
        self._paused_since = 0
        # Collections at the end of the longest pause; no pause begins at this number.
        self._collected = -1
        self._busy_at = 0
        self._gathering = 0
        self._longest = int(self.limits.seconds * 1_000_000)
        self.closed = False
        self._settled = asyncio.Event()
        self._grown = False

    def deadline(self, seconds: float | None = None) -> int:
        """Return the deadline of a statement that begins now, in monotonic microseconds. `seconds`: its time, or the longest."""
        if seconds is None or seconds >= self.limits.seconds:
            return self._stopwatch() + self._longest
        return self._stopwatch() + int(seconds * 1_000_000)

    def now(self) -> int:
        """Return the present time in monotonic microseconds."""
        return self._stopwatch()

    @property
    def running(self) -> int:
        """The number of calls that run."""
        return self._turns.running

    @property
    def waiting(self) -> int:
        """The number of calls that wait for a thread."""
        return self._turns.waiting

    async def call(self, client: Hashable, deadline: int | None, function: Callable[..., T], *given: Any) -> T:
        """Run a function on a thread and return its result. Errors: those of `start` and `wait`."""
        result: T = await self.wait(self.start(client, deadline, function, *given))
        return result

    def start(self, client: Hashable, deadline: int | None, function: Callable[..., Any], *given: Any) -> Call:
        """Queue a function for a thread. The caller awaits the call by `wait`.

        `client`: the client whose turn it takes. `deadline`: in monotonic microseconds, or None. TooManyEvaluations if too many
        calls wait.
        """
        if self.closed:
            # The statement was between two of its steps when the server began to stop.
            raise EvaluationStopped(StopReason.CLOSING)
        if self._turns.is_full:
            self.counts.refused += 1
            raise TooManyEvaluations
        loop = asyncio.get_running_loop()
        running = Call(client, deadline, loop.create_future())
        running.call = ThreadCall(function, given, partial(_report, loop, partial(self._settle, running)))
        self._turns.add(client, running)
        self._start_next(loop)
        return running

    async def wait(self, running: Call) -> Any:
        """Return the result of a call, or raise the error of its function.

        EvaluationStopped if the call was stopped: at its deadline, for its memory, or by `abandon`. If the waiting task is
        cancelled, the call is stopped.
        """
        try:
            assert running.done is not None, "a call is awaited once"
            return await running.done
        except asyncio.CancelledError:
            self.abandon(running)
            raise
        finally:
            # The exception refers to this frame, and by the call to itself: such a circle would keep all rows of the statement.
            running.done = None

    def run_after(self, call: Call | None, ending: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Run `ending` in the background: at once, or after the end of a call that was stopped and still runs on its thread."""
        if call is not None and call in self._running:
            call.endings.append(ending)
        else:
            self._run_endings([ending])

    def _run_endings(self, endings: list[Callable[[], Coroutine[Any, Any, None]]]) -> None:
        task = asyncio.get_running_loop().create_task(_run_all(endings))
        self._endings.add(task)
        task.add_done_callback(self._endings.discard)

    def _start_next(self, loop: asyncio.AbstractEventLoop) -> None:
        while (running := self._turns.take()) is not None:
            running.thread = self._idle.pop() if self._idle else EvaluationThread("evaluation")
            running.started = self._stopwatch()
            self._pause_collector(running.started)
            if not self._running:
                switch_interval.shorten()
            self._running.add(running)
            self._watch(loop)
            assert running.call is not None
            running.thread.call(running.call)

    def _settle(self, running: Call, result: Any, error: BaseException | None) -> None:
        """Finish a call whose function has ended. Runs on the event loop."""
        if running.endings:
            self._run_endings(running.endings)
        if self.closed:
            self._running.discard(running)
            if not self._running:
                self._settled.set()
            return
        assert running.thread is not None
        self._idle.append(running.thread)
        self._running.discard(running)
        running.forget_function()
        if not self._running:
            switch_interval.restore()
        self._turns.end(running.client)
        self.counts.calls += 1
        self.counts.seconds += (self._stopwatch() - running.started) / 1_000_000
        if running.reason is not None:
            # Even with a result: the function may have taken the stop for an error of the query.
            self.counts.stopped[running.reason.value] += 1
            error = EvaluationStopped(running.reason)
        running.answer(result, error)
        self._start_next(asyncio.get_running_loop())

    def abandon(self, running: Call, reason: StopReason = StopReason.ABANDONED) -> None:
        """Stop a call that runs or waits; it ends with EvaluationStopped."""
        self._turns.discard(running.client, running)
        running.stop(reason)
        if running.thread is None:
            running.forget_function()
        running.answer(None, EvaluationStopped(reason))

    # --- the watch -----------------------------------------------------------------------------------------------------

    def _watch(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._ticking:
            self._ticking = True
            self._baseline = self._last_seen = self._resident() or 0
            loop.call_later(TICK_SECONDS, self._tick, loop)

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        now = self._stopwatch()
        self._watch_memory(now)
        for running in self._running:
            if running.reason is not None:
                # Stopped once more: the function may have caught the first stop.
                running.stop(running.reason)
            elif running.deadline is not None and now >= running.deadline:
                running.stop(StopReason.DEADLINE)
        self._end_overdue(now)
        self._ticking = bool(self._running or self._turns.waiting)
        if self._ticking:
            loop.call_later(TICK_SECONDS, self._tick, loop)
        elif self._last_seen - self._baseline > GIVE_BACK_BYTES:
            self._grown = True

    def _end_overdue(self, now: int) -> None:
        """End calls whose deadline has passed while they waited for a thread."""
        for running in self._turns.waiting_calls():
            if running.deadline is not None and now >= running.deadline:
                self._turns.discard(running.client, running)
                self.counts.stopped[StopReason.DEADLINE.value] += 1
                running.forget_function()
                running.answer(None, EvaluationStopped(StopReason.DEADLINE))

    def _watch_memory(self, now: int) -> None:
        """Stop the call with the largest share of the growth, if the process has grown beyond the limit."""
        seen = self._resident()
        if seen is None or not self._running:
            return
        grown, self._last_seen = seen - self._last_seen, seen
        for running in self._running:
            running.grown += grown / len(self._running)
        if seen - self._baseline > self.limits.memory and now >= self._spared_until:
            max(self._running, key=lambda each: each.grown).stop(StopReason.MEMORY)
            self._spared_until = now + int(SPARED_SECONDS * 1_000_000)

    # --- the collector ----------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def keep_collector_away(self) -> Iterator[None]:
        """Pause full garbage collections for a block that collects many objects on the event loop."""
        self._gathering += 1
        self._pause_collector(self._stopwatch())
        try:
            yield
        finally:
            self._gathering -= 1
            self._busy_at = self._stopwatch()

    def _pause_collector(self, now: int) -> None:
        self._busy_at = now
        # Whether a full collection is due is found out at a collection, and the next call may follow long before one.
        if self._collector_pause is None and self._collected != count_collections():
            full_collections.pause()
            self._paused_since = now
            self._look_again(QUIET_SECONDS)

    def _look_again(self, seconds: float) -> None:
        self._collector_pause = asyncio.get_running_loop().call_later(seconds, self._resume_collector)

    def _resume_collector(self) -> None:
        now = self._stopwatch()
        quiet = 0.0 if self._gathering or self._running else (now - self._busy_at) / 1_000_000
        if quiet < QUIET_SECONDS and now - self._paused_since < LONGEST_PAUSE_SECONDS * 1_000_000:
            self._look_again(QUIET_SECONDS - quiet)
        else:
            self._collector_pause = None
            full_collections.resume()
            self._collected = -1 if quiet >= QUIET_SECONDS else count_collections()
            # Only after a quiet second: the allocator is locked while memory is given back.
            asyncio.get_running_loop().run_in_executor(None, _release_memory, self._grown)
            self._grown = False

    # --- the end -------------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop all calls: they, and later ones, end with EvaluationStopped. Threads end with their calls."""
        for running in [*self._turns.waiting_calls(), *self._running]:
            self.abandon(running, StopReason.CLOSING)
            if running.thread is not None and not self.closed:
                running.thread.close()
        if self._running and not self.closed:
            switch_interval.restore()
        self.closed = True
        if self._collector_pause is not None:
            self._collector_pause.cancel()
            self._collector_pause = None
            full_collections.resume()
        for thread in self._idle:
            thread.close()
        self._idle.clear()

    async def finish(self) -> None:
        """Wait, after `close`, until stopped calls have ended and generators are closed: FINISH_SECONDS at most."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(FINISH_SECONDS):
                if self._running:
                    await self._settled.wait()
                # The coroutines that awaited the calls hand in the generators first.
                for _ in range(HANDING_TURNS):
                    await asyncio.sleep(0)
                while self._endings:
                    await asyncio.wait([*self._endings])


def _release_memory(is_much: bool) -> None:
    """Free what the last statements have left behind; if it is much, give it back to the system. Runs on a thread."""
    switch_interval.shorten()
    try:
        release_unused()
    finally:
        switch_interval.restore()
    if is_much:
        give_back()


async def _run_all(endings: list[Callable[[], Coroutine[Any, Any, None]]]) -> None:
    for ending in endings:
        await ending()


def _report(
    loop: asyncio.AbstractEventLoop,
    settle: Callable[[Any, BaseException | None], None],
    result: Any,
    error: BaseException | None,
) -> None:
    """Send the result or the error of a call to the event loop. Runs on the thread."""
    with contextlib.suppress(RuntimeError):  # The loop is closed: no request waits any more.
        loop.call_soon_threadsafe(settle, result, error)
