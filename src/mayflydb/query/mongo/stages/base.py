"""What all stages are made of: where one is compiled, what it does to batches, and the words it is refused with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Protocol, TypeAlias

import msgspec
from msgspec.structs import replace

from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.stages.source import Batches, Namespace, Source
from mayflydb.query.mongo.text import TextIndex
from mayflydb.query.mongo.values import Document, Value, encode, type_name

BATCH_SIZE: Final = 1000
"""How many documents a stage that makes many of few hands on at once."""

MEMORY_LIMIT: Final = 100 * 1024 * 1024


class Stage(Protocol):
    """One step. `run` is called once."""

    def run(self, batches: Batches) -> Batches:
        """What becomes of the documents."""


class SubPipeline(Protocol):
    """A compiled sub-pipeline."""

    @property
    def starts_itself(self) -> bool:
        """Whether it makes its own documents."""

    def over(self, batches: Batches) -> Batches:
        """What it makes of documents."""

    def read(self, namespace: Namespace) -> Batches:
        """What it makes of a collection."""


class StageScope(msgspec.Struct, frozen=True):
    """Where a stage is compiled.

    `inside`: the stage whose sub-pipeline this is, "" at the top; `depth`: how many sub-pipelines are around it;
    `memory_limit` in bytes; `compile_inner`: for sub-pipelines;
    `text`: the collection's text index, while `$text` may be asked.
    """

    env: Env
    source: Source
    compile_inner: Callable[[Value, StageScope], SubPipeline]
    memory_limit: int = MEMORY_LIMIT
    inside: str = ""
    depth: int = 0
    text: TextIndex | None = None

    @property
    def score(self) -> Callable[[Document], float] | None:
        """A document's, while documents are as they were read."""
        return self.env.score

    def with_score(self, score: Callable[[Document], float] | None) -> StageScope:
        """The scope behind a stage that may have asked `$text`."""
        return replace(self, text=None, env=replace(self.env, score=score))

    def inner(self, pipeline: Value, stage: str) -> SubPipeline:
        """Compiles a sub-pipeline of `stage`."""
        return self.compile_inner(pipeline, replace(self.with_score(None), inside=stage, depth=self.depth + 1))

    def with_variables(self, variables: Mapping[str, Value]) -> StageScope:
        """The same with more variables."""
        env = self.env
        return replace(self, env=replace(env, variables={**env.variables, **variables}))


StageCompiler: TypeAlias = Callable[[Value, StageScope], Stage]
"""Makes a stage of what stands beside its name."""


class MapStage:
    """A stage that makes one document of one."""

    __slots__ = ("_change",)

    def __init__(self, change: Callable[[Document], Document]) -> None:
        self._change = change

    async def run(self, batches: Batches) -> Batches:
        change = self._change
        async for batch in batches:
            yield [change(document) for document in batch]


class FilterStage:
    """A stage that lets some documents through."""

    __slots__ = ("_holds",)

    def __init__(self, holds: Callable[[Document], bool]) -> None:
        self._holds = holds

    async def run(self, batches: Batches) -> Batches:
        holds = self._holds
        async for batch in batches:
            if kept := [document for document in batch if holds(document)]:
                yield kept


class FlatMapStage:
    """A stage that makes any number of documents of one."""

    __slots__ = ("_spread",)

    def __init__(self, spread: Callable[[Document], Iterable[Document]]) -> None:
        self._spread = spread

    async def run(self, batches: Batches) -> Batches:
        out: list[Document] = []
        async for batch in batches:
            for document in batch:
                out.extend(self._spread(document))
                if len(out) >= BATCH_SIZE:
                    for part in split_batches(out):
                        yield part
                    out = []
            if out:
                yield out
                out = []


def split_batches(documents: list[Document]) -> Iterator[list[Document]]:
    """A long list as several of at most BATCH."""
    if len(documents) <= BATCH_SIZE:
        if documents:
            yield documents
        return
    for start in range(0, len(documents), BATCH_SIZE):
        yield documents[start : start + BATCH_SIZE]


async def collect_documents(batches: Batches) -> list[Document]:
    """All documents."""
    return [document async for batch in batches for document in batch]


# --- refusals --------------------------------------------------------------------------------------------------------


def require_document(spec: Value, code: int, message: str) -> Document:
    """`spec`, which must be a document; otherwise the refusal, in which `{}` stands for the type found."""
    if type(spec) is not dict:
        raise MqlError(code, message.format(type_name(spec)))
    return spec


def check_fields(spec: Document, known: Iterable[str], stage: str) -> None:
    """40415 for a field that the stage has not."""
    for name in spec:
        if name not in known:
            raise MqlError(40415, f"BSON field '{stage}.{name}' is an unknown field.")


def require_field(spec: Document, name: str, stage: str) -> Value:
    """The value of a field that must be there; 40414 if it is not."""
    if name not in spec:
        raise MqlError(40414, f"BSON field '{stage}.{name}' is missing but a required field")
    return spec[name]


async def close_batches(batches: Batches) -> None:
    """Ends what nobody reads any further."""
    closing = getattr(batches, "aclose", None)
    if closing is not None:
        await closing()


async def no_documents() -> Batches:
    """No documents."""
    empty: list[list[Document]] = []
    for batch in empty:
        yield batch


async def one_batch(documents: list[Document]) -> Batches:
    """Documents that are there already."""
    if documents:
        yield documents


# --- memory ----------------------------------------------------------------------------------------------------------

_EXACT_COUNT = 16
_SAMPLE_EVERY = 16


class MemoryMeter:
    """Estimates the bytes of what is kept: the first documents are weighed, then every sixteenth stands for sixteen."""

    __slots__ = ("_limit", "_seen", "_stage", "bytes")

    def __init__(self, stage: str, limit: int) -> None:
        self._stage = stage
        self._limit = limit
        self._seen = 0
        self.bytes = 0

    def add(self, document: Document) -> None:
        """One more is kept. MqlError 292 above the limit."""
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
    """Bytes of a document as BSON."""
    return len(encode(document))


def memory_error(stage: str, limit: int) -> MqlError:
    """292."""
    if stage == "$sort":
        text = f"Sort exceeded memory limit of {limit} bytes, but did not opt in to external sorting."
    else:
        text = f"Exceeded memory limit for {stage}, but didn't allow external sort. Pass allowDiskUse:true to opt in."
    return MqlError(292, text)
