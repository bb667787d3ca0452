"""Runs pipelines over collections in memory, without an event loop."""

from __future__ import annotations

from collections.abc import Coroutine, Mapping, Sequence
from typing import Any, TypeVar

from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.filter import compile_filter
from mayflydb.query.mongo.stages import (
    MEMORY_LIMIT,
    Batches,
    Namespace,
    Pipeline,
    compile_pipeline,
)
from mayflydb.query.mongo.values import Document, Value, encode

T = TypeVar("T")

NOW = 1_700_000_000_000


def repeatable_random() -> Any:
    """Return a source of numbers in [0, 1) that are the same in each run."""
    state = 7

    def draw() -> float:
        nonlocal state
        state = state * 1103515245 + 12345 & 0x7FFFFFFF
        return state / 0x80000000

    return draw


def run_coroutine(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        result: T = stop.value
        return result
    raise AssertionError("the coroutine waited")


async def iterate_batches(documents: Sequence[Document], size: int) -> Batches:
    for start in range(0, len(documents), size):
        yield list(documents[start : start + size])


class Memory:
    """A `PipelineSource` over lists. `found`: the queries of its reads."""

    def __init__(self, collections: Mapping[str, list[Document]], size: int = 3) -> None:
        self.database = "db"
        self.collections = dict(collections)
        self.size = size
        self.found: list[tuple[str, Document]] = []

    def find(self, namespace: Namespace, query: Document) -> Batches:
        assert namespace[0] == "db"
        self.found.append((namespace[1], query))
        matches = compile_filter(query, Env(NOW)).matches
        return iterate_batches([each for each in self.collections.get(namespace[1], []) if matches(each)], self.size)

    def stage_documents(self, name: str, spec: Value) -> Batches:
        return iterate_batches([{"stage": name, "spec": spec}], self.size)


def compile_in_memory(source: Memory, pipeline: Value, limit: int = MEMORY_LIMIT, **variables: Value) -> Pipeline:
    return compile_pipeline(pipeline, Env(NOW, variables, random=repeatable_random()), source, limit)


def run(collections: Mapping[str, list[Document]], pipeline: Value, **variables: Value) -> list[Document]:
    """Return the result of a pipeline over the collection `c`. The documents of the collections must be unchanged."""
    before = {name: [encode(each) for each in documents] for name, documents in collections.items()}
    source = Memory(collections)
    result = run_coroutine(
        collect(
            compile_in_memory(source, pipeline, **variables).run_over(
                iterate_batches(source.collections.get("c", []), 3)
            )
        )
    )
    assert {name: [encode(each) for each in documents] for name, documents in collections.items()} == before
    return result


async def collect(batches: Batches) -> list[Document]:
    out = []
    async for batch in batches:
        assert batch, "no stage hands on an empty batch"
        out += batch
    return out


def run_or_code(collections: Mapping[str, list[Document]], pipeline: Value) -> list[Document] | int:
    """Return the documents, or the code of the refusal."""
    try:
        return run(collections, pipeline)
    except MqlError as error:
        return error.code
