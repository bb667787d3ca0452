"""The parts that all stages share: the scope of compilation, functions over batches, and errors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final, Protocol, TypeAlias

import msgspec
from msgspec.structs import replace

from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.stages.source import Batches, Namespace, PipelineSource
from mayflydb.query.mongo.text import TextIndex
from mayflydb.query.mongo.values import Document, Value, encode, type_name

BATCH_SIZE: Final = 1000
"""The number of documents that a stage passes on at once if it produces more documents than it reads."""

MEMORY_LIMIT: Final = 100 * 1024 * 1024
"""The bytes that one stage may keep: the server's limit without `allowDiskUse`."""


class Stage(Protocol):
    """One stage of a pipeline. `run` is called once."""

    def run(self, batches: Batches) -> Batches:
        """Return the output of the stage for its input."""


class SubPipeline(Protocol):
    """A compiled sub-pipeline."""

    @property
    def has_own_source(self) -> bool:
        """True if the first stage produces documents itself and reads no collection."""

    def run_over(self, batches: Batches) -> Batches:
        """Return the output of all stages for some documents."""

    def read(self, namespace: Namespace) -> Batches:
        """Return the output of all stages for a collection."""


class StageScope(msgspec.Struct, frozen=True):
    """The scope in which a stage is compiled.

    `enclosing`: the stage that contains the sub-pipeline, "" at the top level. `depth`: the number of enclosing sub-pipelines.
    `memory_limit`: in bytes, for each stage. `compile_inner`: compiles sub-pipelines.
    `text`: the collection's text index, as long as a `$text` is allowed.
    """

    env: Env
    source: PipelineSource
    compile_inner: Callable[[Value, StageScope], SubPipeline]
    memory_limit: int = MEMORY_LIMIT
    enclosing: str = ""
    depth: int = 0
    text: TextIndex | None = None

    @property
    def score(self) -> Callable[[Document], float] | None:
        """The text score of a document; None once a stage has changed the documents."""
        return self.env.score

    def with_score(self, score: Callable[[Document], float] | None) -> StageScope:
        """Return the scope of the stages behind a possible `$text`."""
        # Behind the first stage no `$text` is allowed.
        return replace(self, text=None, env=replace(self.env, score=score))

    def sub_pipeline(self, pipeline: Value, stage: str) -> SubPipeline:
        """Compile a sub-pipeline of `stage`."""
        return self.compile_inner(pipeline, replace(self.with_score(None), enclosing=stage, depth=self.depth + 1))

    def with_variables(self, variables: Mapping[str, Value]) -> StageScope:
        """Return this scope with more variables."""
        env = self.env
        return replace(self, env=replace(env, variables={**env.variables, **variables}))


StageCompiler: TypeAlias = Callable[[Value, StageScope], Stage]
"""Compiles a stage from its operand."""


class MapStage:
    """A stage that turns each document into one document."""

    __slots__ = ("_change",)

    def __init__(self, change: Callable[[Document], Document]) -> None:
        self._change = change

    async def run(self, batches: Batches) -> Batches:
        change = self._change
        async for batch in batches:
            yield [change(document) for document in batch]


class FilterStage:
    """A stage that passes on the documents that satisfy a condition."""

    __slots__ = ("_holds",)

    def __init__(self, holds: Callable[[Document], bool]) -> None:
        self._holds = holds

    async def run(self, batches: Batches) -> Batches:
        holds = self._holds
        async for batch in batches:
            if kept := [document for document in batch if holds(document)]:
                yield kept


class FlatMapStage:
    """A stage that turns each document into any number of documents."""

    __slots__ = ("_spread",)

    def __init__(self, spread: Callable[[Document], Iterable[Document]]) -> None:
        self._spread = spread

    async def run(self, batches: Batches) -> Batches:
        out: list[Document] = []
        async for batch in batches:
            for document in batch:
                spread = iter(self._spread(document))
                # `$unwind` may make millions of documents out of one: they go on before it is done.
                while True:
                    out.extend(islice(spread, BATCH_SIZE - len(out)))
                    if len(out) < BATCH_SIZE:
                        break
                    yield out
                    out = []
            if out:
                yield out
                out = []


def split_batches(documents: list[Document]) -> Iterator[list[Document]]:
    """Split a list into batches of at most BATCH_SIZE."""
    if len(documents) <= BATCH_SIZE:
        if documents:
            yield documents
        return
    for start in range(0, len(documents), BATCH_SIZE):
        yield documents[start : start + BATCH_SIZE]


async def collect_documents(batches: Batches) -> list[Document]:
    """Return all documents of all batches."""
    return [document async for batch in batches for document in batch]


# --- refusals --------------------------------------------------------------------------------------------------------


def require_document(spec: Value, code: int, message: str) -> Document:
    """Return `spec` if it is a document. Otherwise MqlError `code`, with `message` formatted with the type found."""
    if type(spec) is not dict:
        raise MqlError(code, message.format(type_name(spec)))
    return spec


def check_fields(spec: Document, known: Iterable[str], stage: str) -> None:
    """Raise MqlError 40415 for a field that the stage does not have."""
    for name in spec:
        if name not in known:
            raise MqlError(40415, f"BSON field '{stage}.{name}' is an unknown field.")


def require_field(spec: Document, name: str, stage: str) -> Value:
    """Return the value of a required field. MqlError 40414 if it is missing."""
    if name not in spec:
        raise MqlError(40414, f"BSON field '{stage}.{name}' is missing but a required field")
    return spec[name]


async def close_batches(batches: AsyncIterator[Any]) -> None:
    """Close a generator of batches that is not read to its end."""
    # A generator keeps what it reads from open until it is closed.
    closing = getattr(batches, "aclose", None)
    if closing is not None:
        await closing()


async def no_documents() -> Batches:
    """Yield no documents."""
    empty: list[list[Document]] = []
    for batch in empty:
        yield batch


async def one_batch(documents: list[Document]) -> Batches:
    """Yield documents as one batch."""
    if documents:
        yield documents


# --- memory ----------------------------------------------------------------------------------------------------------

# Measuring a document means encoding it, so only some documents are measured.
_EXACT_COUNT = 16
_SAMPLE_EVERY = 16


class MemoryMeter:
    """Estimates the memory of the documents that a stage keeps: the first 16 are measured, then every sixteenth
    counts for sixteen.
    """

    __slots__ = ("_limit", "_seen", "_stage", "bytes")

    def __init__(self, stage: str, limit: int) -> None:
        self._stage = stage
        self._limit = limit
        self._seen = 0
        self.bytes = 0

    def add(self, document: Document) -> None:
        """Count one more document. MqlError 292 above the limit."""
        seen = self._seen
        self._seen = seen + 1
        if seen < _EXACT_COUNT:
            self.bytes += bson_size(document)
        elif not seen % _SAMPLE_EVERY:
            self.bytes += bson_size(document) * _SAMPLE_EVERY
        else:
            return
        if self.bytes > self._limit:
            raise memory_error(self._stage, self._limit)


def bson_size(document: Document) -> int:
    """Return the size of a document as BSON, in bytes."""
    return len(encode(document))


def memory_error(stage: str, limit: int) -> MqlError:
    """Return an error of code 292."""
    if stage == "$sort":
        text = f"Sort exceeded memory limit of {limit} bytes, but did not opt in to external sorting."
    else:
        text = f"Exceeded memory limit for {stage}, but didn't allow external sort. Pass allowDiskUse:true to opt in."
    return MqlError(292, text)
