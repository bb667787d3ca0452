"""Calls on threads: results, errors, deadlines, memory, cancellation, turns."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import random
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from itertools import count
from typing import Any
from unittest.mock import patch

import pytest

from mayflydb.clock import monotonic_us
from mayflydb.evaluation import evaluators as evaluators_module
from mayflydb.evaluation.collector import SECOND, YOUNG, FullCollections
from mayflydb.evaluation.evaluators import EvaluationLimits, Evaluators
from mayflydb.evaluation.statement import CHEAP_BYTES, LoopBatches, LoopStep, Statement
from mayflydb.evaluation.stops import EvaluationStopped, Stopped, StopReason, TooManyEvaluations
from mayflydb.evaluation.threads import ThreadCall


def in_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run a test in an event loop of its own."""

    @functools.wraps(test)
    def run(**given: Any) -> None:
        asyncio.run(test(**given))

    return run


@pytest.fixture
def evaluators(monkeypatch: pytest.MonkeyPatch) -> Iterator[Evaluators]:
    # A server that other tests of this process have left open may pause full collections.
    monkeypatch.setattr(evaluators_module, "full_collections", FullCollections())
    found = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    made = Evaluators()
    yield made
    made.close()
    gc.set_threshold(*found)


def spin() -> None:
    for _ in count():
        pass


def swallow_and_spin() -> None:
    """A function that takes a stop for an error of its own."""
    for _ in range(3):
        with contextlib.suppress(BaseException):
            spin()


async def wait_for(condition: Callable[[], bool]) -> None:
    while not condition():  # noqa: ASYNC110 -- what is awaited happens on another thread
        await asyncio.sleep(0)


def fail() -> None:
    raise LookupError("missing")


@in_loop
async def test_a_call_returns_the_result_from_another_thread(evaluators: Evaluators) -> None:
    assert await evaluators.call("a", None, threading.get_ident) != threading.get_ident()
    with pytest.raises(LookupError, match="missing"):
        await evaluators.call("a", None, fail)
    assert evaluators.counts.calls == 2
    assert evaluators.running == evaluators.waiting == 0


@pytest.mark.parametrize("function", [spin, swallow_and_spin])
@in_loop
async def test_a_deadline_ends_a_call(evaluators: Evaluators, function: object) -> None:
    began = monotonic_us()
    with pytest.raises(EvaluationStopped) as stopped:
        await evaluators.call("a", began + 50_000, function)  # type: ignore[arg-type]
    assert stopped.value.reason is StopReason.DEADLINE
    assert evaluators.counts.stopped["deadline"] == 1
    assert await evaluators.call("a", None, int, "7") == 7


@in_loop
async def test_a_call_that_waits_too_long_for_a_thread_never_runs() -> None:
    evaluators = Evaluators(EvaluationLimits(threads=1))
    hog = asyncio.create_task(evaluators.call("a", None, spin))
    await asyncio.sleep(0)
    ran: list[int] = []
    with pytest.raises(EvaluationStopped):
        await evaluators.call("b", monotonic_us() + 1000, ran.append, 1)
    hog.cancel()
    await asyncio.wait([hog])
    assert await evaluators.call("c", None, int) == 0
    assert not ran
    evaluators.close()


@in_loop
async def test_a_cancelled_call_is_stopped_and_its_thread_serves_the_next(evaluators: Evaluators) -> None:
    for number in range(5):
        task = asyncio.create_task(evaluators.call("a", None, spin))
        await wait_for(lambda: evaluators.running == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await evaluators.call("a", None, int, "7") == 7
        await wait_for(lambda number=number: evaluators.counts.stopped["abandoned"] == number + 1)  # type: ignore[misc]


@in_loop
async def test_a_stop_never_hits_another_call(seed: int) -> None:
    """Calls end and are cancelled at random times; a call that is not cancelled always gives its result."""
    chance = random.Random(seed)
    evaluators = Evaluators(EvaluationLimits(threads=2, per_client=2))

    def compute(steps: int) -> int:
        return sum(1 for _ in range(steps))

    for _ in range(300):
        steps = chance.randrange(3000)
        tasks = [asyncio.create_task(evaluators.call("a", None, compute, steps)) for _ in range(3)]
        for _ in range(chance.randrange(4)):
            await asyncio.sleep(0)
        tasks[0].cancel()
        await asyncio.wait(tasks)
        assert [task.result() for task in tasks[1:]] == [steps, steps]
    evaluators.close()


@in_loop
async def test_a_call_that_takes_too_much_memory_is_stopped() -> None:
    resident = [100]
    evaluators = Evaluators(EvaluationLimits(memory=1000), resident=lambda: resident[0])
    hungry = asyncio.create_task(evaluators.call("a", None, spin))
    await wait_for(lambda: evaluators.running == 1)
    resident[0] += 1001
    with pytest.raises(EvaluationStopped) as stopped:
        await hungry
    assert stopped.value.reason is StopReason.MEMORY
    evaluators.close()


@in_loop
async def test_no_more_calls_wait_than_may() -> None:
    evaluators = Evaluators(EvaluationLimits(threads=1, waiting=2))
    tasks = [asyncio.create_task(evaluators.call("a", None, spin)) for _ in range(3)]
    await wait_for(lambda: evaluators.waiting == 2)
    with pytest.raises(TooManyEvaluations):
        await evaluators.call("b", None, int)
    assert evaluators.counts.refused == 1
    evaluators.close()
    await asyncio.wait(tasks)


@in_loop
async def test_the_switch_interval_is_short_only_while_a_call_runs(evaluators: Evaluators) -> None:
    usual = sys.getswitchinterval()
    assert await evaluators.call("a", None, sys.getswitchinterval) < usual
    assert sys.getswitchinterval() == usual


# --- statements ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cheap", "size", "here"),
    [(True, 0, True), (True, CHEAP_BYTES, True), (True, CHEAP_BYTES + 1, False), (False, 0, False)],
)
@in_loop
async def test_cheap_and_small_functions_run_on_the_loop(
    evaluators: Evaluators, cheap: bool, size: int, here: bool
) -> None:
    statement = Statement(evaluators, "a", None, cheap)
    assert (await statement.call(size, threading.get_ident) == threading.get_ident()) is here


@in_loop
async def test_a_generator_computes_on_threads_and_reads_on_the_loop(evaluators: Evaluators) -> None:
    home, closed = threading.get_ident(), []

    async def read() -> AsyncIterator[int]:
        try:
            for number in range(3):
                await asyncio.sleep(0)
                assert threading.get_ident() == home
                yield number
        finally:
            closed.append(threading.get_ident() == home)

    async def double(source: LoopBatches[int]) -> AsyncIterator[int]:
        try:
            async for number in source:
                assert threading.get_ident() != home
                yield number * 2
        finally:
            await source.aclose()

    statement = Statement(evaluators, "a", None)
    assert [number async for number in statement.iterate(double(LoopBatches(read())))] == [0, 2, 4]
    assert closed == [True]

    results = statement.iterate(double(LoopBatches(read())))
    assert await anext(results) == 0
    await results.aclose()
    assert closed == [True, True]


@in_loop
async def test_errors_of_the_loop_reach_the_generator(evaluators: Evaluators) -> None:
    async def failing() -> None:
        raise LookupError("missing")

    async def work() -> str:
        try:
            await LoopStep(failing)
        except LookupError as error:
            return str(error)
        return ""

    assert await Statement(evaluators, "a", None).run(work()) == "missing"


@in_loop
async def test_a_deadline_ends_a_generator(evaluators: Evaluators) -> None:
    ended = []

    async def endless() -> AsyncIterator[int]:
        try:
            yield 1
            spin()
        except Stopped:
            ended.append(True)
            raise

    results = Statement(evaluators, "a", monotonic_us() + 50_000).iterate(endless())
    assert await anext(results) == 1
    with pytest.raises(EvaluationStopped):
        await anext(results)
    assert ended


@in_loop
async def test_a_cheap_generator_leaves_the_loop_when_it_has_taken_much(evaluators: Evaluators) -> None:
    statement = Statement(evaluators, "a", None, cheap=True)
    here = threading.current_thread()

    async def take(size: int) -> None:
        statement.taken += size

    async def where() -> AsyncIterator[bool]:
        for size in (CHEAP_BYTES, 1, 0):
            await LoopStep(take, size)
            yield threading.current_thread() is here

    assert [each async for each in statement.iterate(where(), begins_here=True)] == [True, False, False]
    assert [each async for each in statement.iterate(where())] == [False, False, False]


@in_loop
async def test_steps_on_the_loop_end_at_the_deadline_too(evaluators: Evaluators) -> None:
    async def endless() -> AsyncIterator[int]:
        while True:
            yield 1

    statement = Statement(evaluators, "a", monotonic_us() + 20_000, cheap=True)
    steps = statement.iterate(endless(), begins_here=True)

    async def read_on() -> None:
        async for _ in steps:
            await asyncio.sleep(0)

    with pytest.raises(EvaluationStopped) as stopped:
        await read_on()
    assert stopped.value.reason is StopReason.DEADLINE
    statement.deadline = None
    statement.check()
    statement.stop(StopReason.KILLED)
    with pytest.raises(EvaluationStopped):
        statement.check()


@in_loop
async def test_steps_on_the_loop_end_when_the_server_stops() -> None:
    evaluators = Evaluators()
    statement = Statement(evaluators, "a", None, cheap=True)
    statement.check()
    await statement.take_turn()
    evaluators.close()
    for ask in (statement.take_turn, lambda: asyncio.to_thread(statement.check)):
        with pytest.raises(EvaluationStopped) as stopped:
            await ask()
        assert stopped.value.reason is StopReason.CLOSING


@in_loop
async def test_closing_ends_what_runs_and_what_waits() -> None:
    evaluators = Evaluators(EvaluationLimits(threads=1))
    tasks = [asyncio.create_task(evaluators.call("a", None, spin)) for _ in range(2)]
    await wait_for(lambda: evaluators.running == evaluators.waiting == 1)
    evaluators.close()
    for task in tasks:
        with pytest.raises(EvaluationStopped) as stopped:
            await task
        assert stopped.value.reason is StopReason.CLOSING


@in_loop
async def test_a_stopped_statement_ends_its_step_and_takes_no_other(evaluators: Evaluators) -> None:
    statement = Statement(evaluators, "a", None, cheap=True)
    computing = asyncio.create_task(statement.call(CHEAP_BYTES + 1, spin))
    await wait_for(lambda: evaluators.running == 1)
    statement.stop(StopReason.KILLED)
    for work in (computing, statement.call(0, int)):
        with pytest.raises(EvaluationStopped) as stopped:
            await work
        assert stopped.value.reason is StopReason.KILLED
    await wait_for(lambda: evaluators.counts.stopped["killed"] == 1)


@in_loop
async def test_a_stop_between_two_steps_is_counted_once(evaluators: Evaluators) -> None:
    statement = Statement(evaluators, "a", None)
    await statement.call(0, int)
    statement.stop(StopReason.ABANDONED)
    for _ in range(2):
        with pytest.raises(EvaluationStopped):
            await statement.call(0, int)
    assert evaluators.counts.stopped["abandoned"] == 1


@in_loop
async def test_full_collections_are_kept_away_while_calls_run_and_a_little_longer(evaluators: Evaluators) -> None:
    usual = gc.get_threshold()
    calling = asyncio.create_task(evaluators.call("a", None, gc.get_threshold))
    young, second, full = await calling
    assert full > 1_000_000
    # Those of young objects take few at a time.
    assert young <= YOUNG
    assert second <= SECOND
    assert gc.get_threshold() != usual
    evaluators.close()
    assert gc.get_threshold() == usual


@in_loop
async def test_full_collections_come_back_after_a_quiet_time(evaluators: Evaluators) -> None:
    usual = gc.get_threshold()
    with patch.object(evaluators_module, "QUIET_SECONDS", 0.001):
        with evaluators.keep_collector_away():
            assert gc.get_threshold() != usual
        await wait_for(lambda: gc.get_threshold() == usual)


@in_loop
async def test_full_collections_stay_away_during_a_long_call(evaluators: Evaluators) -> None:
    usual = gc.get_threshold()
    with patch.object(evaluators_module, "QUIET_SECONDS", 0.001):
        calling = asyncio.create_task(evaluators.call("a", evaluators.deadline(0.05), spin))
        await wait_for(lambda: evaluators.running == 1)
        seen = set()
        while evaluators.running:
            seen.add(gc.get_threshold() == usual)
            await asyncio.sleep(0)
        with pytest.raises(EvaluationStopped):
            await calling
    assert seen == {False}


@in_loop
async def test_a_collection_takes_place_between_the_longest_pause_and_the_next(evaluators: Evaluators) -> None:
    """Otherwise a server whose statements follow each other frees no old circle of objects."""
    usual = gc.get_threshold()
    gc.disable()
    try:
        with (
            patch.object(evaluators_module, "QUIET_SECONDS", 0.001),
            patch.object(evaluators_module, "LONGEST_PAUSE_SECONDS", 0.0),
            evaluators.keep_collector_away(),
        ):
            await wait_for(lambda: gc.get_threshold() == usual)
            with evaluators.keep_collector_away():
                assert gc.get_threshold() == usual
            gc.collect(0)
            with evaluators.keep_collector_away():
                assert gc.get_threshold() != usual
            await wait_for(lambda: gc.get_threshold() == usual)
    finally:
        gc.enable()


@in_loop
async def test_the_rows_of_a_stopped_statement_are_freed_at_once(evaluators: Evaluators) -> None:
    class Row:
        pass

    kept: list[weakref.ref[Row]] = []

    def gather() -> None:
        row = Row()
        kept.append(weakref.ref(row))
        while True:
            len(kept)

    statement = Statement(evaluators, "a", evaluators.deadline(0.02))
    with full_collections_off(), pytest.raises(EvaluationStopped):
        await statement.call(CHEAP_BYTES + 1, gather)
    with full_collections_off():
        await wait_for(lambda: kept[0]() is None)


@contextlib.contextmanager
def full_collections_off() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@in_loop
async def test_a_statement_that_is_between_two_steps_ends_when_the_server_stops(evaluators: Evaluators) -> None:
    ended = []

    async def steps() -> AsyncIterator[int]:
        try:
            for number in count():
                yield number
        finally:
            ended.append(True)

    found = Statement(evaluators, "a", None).iterate(steps())
    assert await anext(found) == 0
    evaluators.close()
    with pytest.raises(EvaluationStopped) as stopped:
        await anext(found)
    assert stopped.value.reason is StopReason.CLOSING
    await wait_for(lambda: bool(ended))


class Gathered:
    """What a generator holds."""


@in_loop
async def test_what_a_stopped_generator_held_is_free_without_a_collection(evaluators: Evaluators) -> None:
    held: list[weakref.ref[Gathered]] = []

    async def gather() -> AsyncIterator[int]:
        mine = Gathered()
        held.append(weakref.ref(mine))
        yield 1
        spin()
        yield 2

    gc.disable()
    try:
        for _ in range(2):
            results = Statement(evaluators, "a", evaluators.now() + 30_000).iterate(gather())
            assert await anext(results) == 1
            with pytest.raises(EvaluationStopped):
                await anext(results)
            await results.aclose()
        await wait_for(lambda: not any(ref() for ref in held))
    finally:
        gc.enable()


@in_loop
async def test_what_a_call_was_given_is_free_without_a_collection(evaluators: Evaluators) -> None:
    """Also where the call never ran, or its function failed."""
    held: list[weakref.ref[Gathered]] = []

    def use(mine: Gathered, work: Callable[[], Any]) -> None:
        work()

    def call(work: Callable[[], Any], deadline: int | None = None) -> Coroutine[Any, Any, None]:
        mine = Gathered()
        held.append(weakref.ref(mine))
        return evaluators.call("a", deadline, functools.partial(use, mine, work))

    gc.disable()
    try:
        await call(int)
        with pytest.raises(LookupError):
            await call(fail)
        with pytest.raises(EvaluationStopped):
            await call(spin, evaluators.now() + 30_000)
        hog = asyncio.create_task(call(spin))
        await wait_for(lambda: evaluators.running == 1)
        # The client has its one thread: this call waits, and never runs.
        with pytest.raises(EvaluationStopped):
            await call(int, evaluators.now() + 30_000)
        hog.cancel()
        await asyncio.wait([hog])
        del hog
        await wait_for(lambda: not any(ref() for ref in held))
    finally:
        gc.enable()


def test_a_second_stop_does_not_end_the_thread() -> None:
    """It arrives while the first one is handled, outside of what handles stops."""

    class StoppedTwice(ThreadCall):
        def _call_function(self, thread: int) -> tuple[Any, BaseException | None]:
            super()._call_function(thread)
            raise Stopped

    ends: list[tuple[Any, BaseException | None]] = []
    StoppedTwice(int, (), lambda result, error: ends.append((result, error))).run(threading.get_ident())
    ((result, error),) = ends
    assert result is None
    assert isinstance(error, Stopped)


@in_loop
async def test_a_step_that_waits_as_the_server_stops_is_closed_before_its_generator(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The interpreter reports generators that it frees while one of their steps is open."""
    reported: list[Any] = []
    monkeypatch.setattr(sys, "unraisablehook", reported.append)
    closed: list[str] = []
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def read_more() -> None:
        reached.set()
        await go_on.wait()

    async def inner() -> AsyncIterator[int]:
        try:
            await LoopStep(read_more)
            yield 1
        finally:
            await LoopStep(asyncio.sleep, 0)
            closed.append("inner")

    async def outer() -> AsyncIterator[int]:
        batches = inner()
        try:
            async for batch in batches:
                yield batch
        finally:
            await batches.aclose()  # type: ignore[attr-defined]
            closed.append("outer")

    evaluators = Evaluators(EvaluationLimits(threads=1))
    statement = Statement(evaluators, "a", None)
    waiting = asyncio.ensure_future(anext(statement.iterate(outer())))
    await reached.wait()
    other = asyncio.ensure_future(evaluators.call("b", None, spin))
    await wait_for(lambda: evaluators.running == 1)
    go_on.set()
    await wait_for(lambda: evaluators.waiting == 1)
    evaluators.close()
    await evaluators.finish()
    for each in (waiting, other):
        with pytest.raises(EvaluationStopped):
            await each
    del statement, waiting
    gc.collect()
    assert closed == ["inner", "outer"]
    assert reported == []
