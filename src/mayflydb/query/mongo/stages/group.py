"""`$group`, and `$sortByCount`, which uses it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

import msgspec
from bson import ObjectId

from mayflydb.model.releasing import keep, release
from mayflydb.query.mongo.accumulators import Accumulator, AccumulatorFactory, compile_accumulator
from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.expressions import Frame, compile_expression, frame_of
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.sort import compile_sort
from mayflydb.query.mongo.stages.base import Stage, StageScope, bson_size, memory_error, require_document, split_batches
from mayflydb.query.mongo.stages.source import Batches
from mayflydb.query.mongo.values import (
    MISSING,
    Document,
    OrderKey,
    Value,
)

AccumulatorFactories: TypeAlias = dict[str, AccumulatorFactory]
"""An accumulator factory for each field of the output."""


_RAW_KEY: Final = -1
"""The class number in keys of values that are their own keys; no class of types has this number."""


class GroupState(msgspec.Struct):
    """The `_id` and the accumulators of one group."""

    id: Value
    accumulators: list[Accumulator]

    def document(self, names: Iterable[str]) -> Document:
        out = {"_id": self.id}
        for name, accumulator in zip(names, self.accumulators, strict=True):
            value = accumulator.result()
            if value is not MISSING:
                out[name] = value
        return out


class Groups:
    """Groups documents by a key and accumulates each group. Groups come in the order of their first documents."""

    __slots__ = ("_by_key", "_key_of", "_limit", "_makers", "_plain", "_read", "_stage", "_threshold")

    def __init__(self, makers: AccumulatorFactories, scope: StageScope, stage: str) -> None:
        self._makers = makers
        self._by_key: dict[OrderKey, GroupState] = {}
        self._key_of = scope.env.collation.order_key
        self._limit = scope.memory_limit
        self._stage = stage
        self._read = 0
        self._threshold = scope.memory_limit
        self._plain = {str, ObjectId} if scope.env.collation.is_simple else set()

    def add(self, id: Value, frame: Frame) -> None:
        """Add a document, given as its frame, to the group of `id`."""
        if id is MISSING:
            id = None
        # Strings and ObjectIds equal themselves only, so their comparison keys need not be computed.
        key = (_RAW_KEY, id) if type(id) in self._plain else self._key_of(id)
        group = self._by_key.get(key)
        if group is None:
            group = self._by_key[key] = GroupState(id, [make(id) for make in self._makers.values()])
        for accumulator in group.accumulators:
            accumulator.add(frame)

    def documents(self) -> list[Document]:
        """Return the output document of each group."""
        names = list(self._makers)
        return keep([group.document(names) for group in self._by_key.values()])

    def release(self) -> None:
        """Forget all groups, in slices."""
        release(self._by_key)

    def check_memory(self, size: int) -> None:
        """Count the bytes read, and measure the groups when they could exceed the limit. MqlError 292."""
        # Measuring the groups means building their documents, so it waits until they could be too large.
        self._read += size
        if self._read < self._threshold:
            return
        kept = sum(map(bson_size, self.documents()))
        if kept > self._limit:
            raise memory_error(self._stage, self._limit)
        # Groups grow by no more than the bytes read, so the next measurement can wait for the bytes that are left. The minimum
        # of an eighth of the limit keeps measurements rare near the limit.
        self._threshold = self._read + max(self._limit - kept, self._limit // 8)


class Group:
    """`$group`."""

    __slots__ = ("_groups", "_id", "constant", "env", "fields")

    def __init__(self, spec: Document, scope: StageScope, stage: str = "$group") -> None:
        self.env = scope.env
        self.fields = {name: each for name, each in spec.items() if name != "_id"}
        self.constant = spec["_id"] if type(spec["_id"]) in (int, float, type(None), bool) else MISSING
        self._id = compile_expression(spec["_id"], scope.env)
        self._groups = Groups(compile_accumulators(self.fields, scope.env), scope, stage)

    async def run(self, batches: Batches) -> Batches:
        groups, id_of, env = self._groups, self._id, self.env
        try:
            async for batch in batches:
                try:
                    for document in batch:
                        frame = frame_of(document, env)
                        groups.add(id_of(frame), frame)
                except MqlError as error:
                    raise _error_in_group(error) from None
                groups.check_memory(estimate_size(batch))
            for part in split_batches(groups.documents()):
                yield part
        finally:
            groups.release()


_CODES_IN_GROUP: Final = {
    ("can't $divide by zero", 2): 4848401,
    ("can't $mod by zero", 16610): 4848403,
}
_CODES_OF_ACCUMULATORS: Final = {5787902: 7548606, 5787908: 7548606, 40400: 5911200}


def _error_in_group(error: MqlError) -> MqlError:
    """The server runs `$group` in another engine than other stages, which has codes of its own."""
    code = _CODES_IN_GROUP.get((error.message, error.code)) or _CODES_OF_ACCUMULATORS.get(error.code)
    return error if code is None else MqlError(code, error.message)


def estimate_size(batch: list[Document]) -> int:
    """Return the estimated size of a batch in bytes, from eight of its documents."""
    if len(batch) <= 8:
        return sum(map(bson_size, batch))
    # Evenly spread, because neighbours are often alike.
    step = len(batch) // 8
    sample = batch[::step]
    return sum(map(bson_size, sample)) * len(batch) // len(sample)


def compile_accumulators(fields: Document, env: Env) -> AccumulatorFactories:
    """Compile the output fields of a stage to accumulator factories. MqlError 40234 to 40238 for an invalid field."""
    makers: AccumulatorFactories = {}
    for name, spec in fields.items():
        if "." in name:
            raise MqlError(40235, f"The field name '{name}' cannot contain '.'")
        if name.startswith("$"):
            raise MqlError(40236, f"The field name '{name}' cannot be an operator name")
        if type(spec) is not dict or not spec or not next(iter(spec)).startswith("$"):
            raise MqlError(40234, f"The field '{name}' must be an accumulator object")
        if len(spec) != 1:
            raise MqlError(40238, f"The field '{name}' must specify one accumulator")
        ((operator, operand),) = spec.items()
        makers[name] = compile_accumulator(operator, operand, env)
    return makers


def compile_group(spec: Value, scope: StageScope) -> Stage:
    """Compile `$group`."""
    require_document(spec, 15947, "a group's fields must be specified in an object")
    if "_id" not in spec:
        raise MqlError(15955, "a group specification must include an _id")
    return Group(spec, scope)


# --- $sortByCount ----------------------------------------------------------------------------------------------------


class _SortByCount:
    __slots__ = ("_group", "_order")

    def __init__(self, spec: Value, scope: StageScope) -> None:
        self._group = Group({"_id": spec, "count": {"$sum": 1}}, scope, "$sortByCount")
        self._order = compile_sort({"count": -1}, scope.env)

    async def run(self, batches: Batches) -> Batches:
        groups = [group async for batch in self._group.run(batches) for group in batch]
        for part in split_batches(self._order.order(groups)):
            yield part


def compile_sort_by_count(spec: Value, scope: StageScope) -> Stage:
    """Compile `$sortByCount`."""
    if type(spec) is dict:
        if not next(iter(spec), "").startswith("$"):
            message = "the sortByCount field must be defined as a $-prefixed path or an expression inside an object"
            raise MqlError(40147, message)
    elif type(spec) is str:
        if not spec.startswith("$"):
            raise MqlError(40148, "the sortByCount field must be defined as a $-prefixed path or an expression")
    else:
        raise MqlError(40149, "the sortByCount field must be specified as a string or as an object")
    return _SortByCount(spec, scope)
