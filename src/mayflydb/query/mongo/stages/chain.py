"""The execution of stages one behind the other. The depth of the call stack does not grow with the number of stages."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Sequence
from types import coroutine
from typing import Any, Final

from mayflydb.query.mongo.stages.base import Stage, close_batches
from mayflydb.query.mongo.stages.source import Batches
from mayflydb.query.mongo.values import Document

_END: Final = None


class _StageInput:
    """The input of a stage. It yields itself to the runner of the chain, which advances `step` and sends back the batch."""

    __slots__ = ("chain", "step")

    def __init__(self, step: Batches, chain: object) -> None:
        self.step = step
        self.chain = chain

    def __aiter__(self) -> AsyncIterator[list[Document]]:
        return self

    async def __anext__(self) -> list[Document]:
        batch = await _request_batch(self)
        if batch is _END:
            raise StopAsyncIteration
        return batch


@coroutine
def _request_batch(feed: _StageInput) -> Generator[Any, Any, list[Document] | None]:
    # The runner receives the feed itself and sends the batch as the result of `yield`.
    batch: list[Document] | None = yield feed
    return batch


@coroutine
def _next_batch(last: Batches, chain: object) -> Generator[Any, Any, list[Document] | None]:
    """Return the next batch of a step; _END behind the last one.

    A stage that needs input is suspended, and its input is advanced in this loop instead of in a nested call. Anything else
    that a stage awaits (another collection, say) is passed on to the event loop.
    """
    # The stack of suspended steps: each waits for a batch of the one above it.
    running: list[Any] = [last.__anext__().__await__()]
    answer: Any = None
    error: BaseException | None = None
    while running:
        try:
            asked = running[-1].send(answer) if error is None else running[-1].throw(error)
        except StopIteration as done:
            running.pop()
            # The step has its batch: it goes to the step that waits for it.
            answer, error = done.value, None
        except StopAsyncIteration:
            running.pop()
            answer, error = _END, None
        except BaseException as raised:  # noqa: BLE001 - it goes on to the step that waits, and out in the end
            running.pop()
            error = raised
        else:
            answer, error = None, None
            # An input of another chain goes out to its own runner: the inner stages of `$fill` read the outer input.
            if type(asked) is _StageInput and asked.chain is chain:
                running.append(asked.step.__anext__().__await__())
                continue
            try:
                answer = yield asked
            except BaseException as thrown:  # noqa: BLE001 - it goes on to the step that waits
                error = thrown
    if error is not None:
        try:
            raise error
        finally:
            # The exception refers to this frame, and so to all documents of the chain, until the next full collection.
            error = None
    batch: list[Document] | None = answer
    return batch


async def run_stages(stages: Sequence[Stage], batches: Batches) -> Batches:
    """Run stages one behind the other. When the reader stops, all generators are closed, the last one first."""
    chain = object()
    steps = [batches]
    for stage in stages:
        steps.append(stage.run(_StageInput(steps[-1], chain)))
    try:
        while (batch := await _next_batch(steps[-1], chain)) is not _END:
            yield batch
    finally:
        for step in reversed(steps):
            await close_batches(step)
