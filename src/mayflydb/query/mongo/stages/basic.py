"""The stages that filter, count, sort and sample documents."""

from __future__ import annotations

import heapq
import math
from typing import Final

from bson import Int64

from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.filter import compile_filter
from mayflydb.query.mongo.numbers import exact_integer
from mayflydb.query.mongo.sort import compile_sort
from mayflydb.query.mongo.stages.base import (
    FilterStage,
    MemoryMeter,
    Stage,
    StageScope,
    bson_size,
    memory_error,
    require_document,
    split_batches,
)
from mayflydb.query.mongo.stages.source import Batches
from mayflydb.query.mongo.values import INT64_MAX, MISSING, Document, Value, format_value, is_number, type_name
from mayflydb.query.sorting import sort_in_runs

# --- $match, $skip, $limit -------------------------------------------------------------------------------------------


class MatchStage(FilterStage):
    """`$match`."""

    __slots__ = ("query",)

    def __init__(self, query: Document, scope: StageScope) -> None:
        super().__init__(compile_filter(query, scope.env, scope.text).matches)
        self.query = query


def compile_match(spec: Value, scope: StageScope) -> Stage:
    """Compile `$match`."""
    return MatchStage(require_document(spec, 15959, "the match filter must be an expression in an object"), scope)


class SkipStage:
    """`$skip`."""

    __slots__ = ("count",)

    def __init__(self, count: int) -> None:
        self.count = count

    async def run(self, batches: Batches) -> Batches:
        left = self.count
        async for batch in batches:
            if left >= len(batch):
                left -= len(batch)
            else:
                # A batch that is passed on whole is not copied.
                yield batch[left:] if left else batch
                left = 0


class LimitStage:
    """`$limit`; reads no batch beyond the one that reaches the limit."""

    __slots__ = ("count",)

    def __init__(self, count: int) -> None:
        self.count = count

    async def run(self, batches: Batches) -> Batches:
        left = self.count
        if not left:
            return
        async for batch in batches:
            if len(batch) >= left:
                yield batch[:left]
                return
            left -= len(batch)
            yield batch


def compile_skip(spec: Value, scope: StageScope) -> Stage:
    """Compile `$skip`."""
    return SkipStage(_parse_count(spec, 5107200, "$skip"))


def compile_limit(spec: Value, scope: StageScope) -> Stage:
    """Compile `$limit`."""
    count = _parse_count(spec, 5107201, "$limit")
    if not count:
        raise MqlError(15958, "the limit must be positive")
    return LimitStage(count)


def _parse_count(spec: Value, code: int, stage: str) -> int:
    count = exact_integer(spec)
    if not is_number(spec):
        reason = f"Expected a number in: {stage}: {format_value(spec)}"
    elif count is None:
        reason = f"Expected an integer: {stage}: {format_value(spec)}"
    elif abs(count) > INT64_MAX:
        reason = f"Cannot represent as a 64-bit integer: {stage}: {format_value(spec)}"
    elif count < 0:
        reason = f"Expected a non-negative number in: {stage}: {format_value(spec)}"
    else:
        return count
    raise MqlError(code, f"invalid argument to {stage} stage: {reason}")


# --- $sort -----------------------------------------------------------------------------------------------------------


class SortStage:
    """`$sort`. `max_count`: the maximum number of documents that later stages read; the sort keeps no more. None: no limit."""

    __slots__ = ("_limit", "_sort", "max_count", "spec")

    def __init__(self, spec: Document, scope: StageScope) -> None:
        self.spec = spec
        self.max_count: int | None = None
        self._sort = compile_sort(spec, scope.env, scope.score)
        self._limit = scope.memory_limit

    async def run(self, batches: Batches) -> Batches:
        kept: list[Document] = []
        if self.max_count is None:
            meter = MemoryMeter("$sort", self._limit)
            async for batch in batches:
                for document in batch:
                    meter.add(document)
                kept += batch
            kept = self._sort.order(kept)
        else:
            async for batch in batches:
                kept += batch
                # Cutting at twice the wanted number keeps the cost of sorting linear in the number of documents.
                if len(kept) > 2 * self.max_count + 1000:
                    kept = self._select_first(kept)
            kept = self._select_first(kept)
        for batch in split_batches(kept):
            yield batch

    def _select_first(self, documents: list[Document]) -> list[Document]:
        assert self.max_count is not None
        kept = self._sort.first(documents, self.max_count)
        if len(kept) > 1000 and sum(map(bson_size, kept)) > self._limit:
            raise memory_error("$sort", self._limit)
        return kept


def compile_sort_stage(spec: Value, scope: StageScope) -> Stage:
    """Compile `$sort`."""
    return SortStage(check_sort_spec(spec), scope)


def check_sort_spec(spec: Value) -> Document:
    """Return a sort specification, checked. MqlError 15973, 15976."""
    require_document(spec, 15973, "the $sort key specification must be an object")
    if not spec:
        raise MqlError(15976, "$sort stage must have at least one sort key")
    checked: Document = spec
    return checked


# --- $count ----------------------------------------------------------------------------------------------------------


class CountStage:
    """`$count`: one document with the number of documents, or none for 0."""

    __slots__ = ("_name",)

    def __init__(self, name: str) -> None:
        self._name = name

    async def run(self, batches: Batches) -> Batches:
        count = 0
        async for batch in batches:
            count += len(batch)
        if count:
            yield [{self._name: count if count < 1 << 31 else Int64(count)}]


def compile_count(spec: Value, scope: StageScope) -> Stage:
    """Compile `$count`."""
    if type(spec) is not str:
        raise MqlError(40156, "the count field must be a non-empty string")
    if not spec:
        raise MqlError(40157, "the count field must be a non-empty string")
    if spec.startswith("$"):
        raise MqlError(40158, "the count field cannot be a $-prefixed path")
    if "\0" in spec:
        raise MqlError(40159, "the count field cannot contain a null byte")
    if "." in spec:
        raise MqlError(40160, "the count field cannot contain '.'")
    return CountStage(spec)


# --- $sample ---------------------------------------------------------------------------------------------------------

_SAMPLE: Final = "the $sample stage specification must be an object"


class SampleStage:
    """`$sample`: a uniform random sample without replacement, in random order."""

    __slots__ = ("_scope", "_size")

    def __init__(self, size: int, scope: StageScope) -> None:
        self._size = size
        self._scope = scope

    async def run(self, batches: Batches) -> Batches:
        # The sample is the set of documents with the greatest random numbers; the heap holds the least of them on top.
        random, size = self._scope.env.random, self._size
        heap: list[tuple[float, int, Document]] = []
        number = 0
        meter = MemoryMeter("$sample", self._scope.memory_limit)
        async for batch in batches:
            for document in batch:
                number += 1
                # The running number decides between equal random numbers; documents cannot be compared.
                entry = (random(), number, document)
                if len(heap) < size:
                    meter.add(document)
                    heapq.heappush(heap, entry)
                elif heap and entry > heap[0]:
                    heapq.heapreplace(heap, entry)
        for part in split_batches([document for _, _, document in sort_in_runs(heap, lambda entry: entry[:2])]):
            yield part


def compile_sample(spec: Value, scope: StageScope) -> Stage:
    """Compile `$sample`."""
    require_document(spec, 28745, _SAMPLE)
    size = MISSING
    for name, value in spec.items():
        if name != "size":
            raise MqlError(28748, f"unrecognized option to $sample: {name}")
        if not is_number(value):
            raise MqlError(28746, f"size argument to $sample must be a number, but found {type_name(value)}")
        size = value
    if size is MISSING:
        raise MqlError(28749, "$sample stage must specify a size")
    count = exact_integer(size)
    if count is None:
        # A fraction is cut off.
        number = float(str(size))
        count = int(number) if math.isfinite(number) else (INT64_MAX if number == math.inf else -1)
    if count < 1:
        raise MqlError(28747, "size argument to $sample must be a positive integer")
    return SampleStage(count, scope)
