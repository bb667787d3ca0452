"""`$group`, and `$sortByCount`, which is made of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

import msgspec
from bson import ObjectId

from mayflydb.query.mongo.accumulators import Accumulator, MakeAccumulator, compile_accumulator
from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.expressions import Frame, compile_expression, frame_of
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.sort import compile_sort
from mayflydb.query.mongo.stages.base import Scope, Stage, in_batches, object_of, too_much, weight
from mayflydb.query.mongo.stages.source import Batches
from mayflydb.query.mongo.values import (
    MISSING,
    Document,
    OrderKey,
    Value,
)

Makers: TypeAlias = dict[str, MakeAccumulator]
"""For each field of the output: makes an accumulator."""


_PLAIN: Final = -1
"""Stands before values that are their own keys; no class of types has this number."""


class OneGroup(msgspec.Struct):
    """What is known of one group."""

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
    """Documents put together by a key, and what accumulators make of each group. Groups come in the order they were met."""

    __slots__ = ("_by_key", "_key_of", "_limit", "_makers", "_plain", "_read", "_stage", "_threshold")

    def __init__(self, makers: Makers, scope: Scope, stage: str) -> None:
        self._makers = makers
        self._by_key: dict[OrderKey, OneGroup] = {}
        self._key_of = scope.env.collation.order_key
        self._limit = scope.memory_limit
        self._stage = stage
        self._read = 0
        self._threshold = scope.memory_limit
        self._plain = {str, ObjectId} if scope.env.collation.is_simple else set()

    def add(self, id: Value, frame: Frame) -> None:
        """Adds a document to the group of `id`."""
        if id is MISSING:
            id = None
        key = (_PLAIN, id) if type(id) in self._plain else self._key_of(id)
        group = self._by_key.get(key)
        if group is None:
            group = self._by_key[key] = OneGroup(id, [make(id) for make in self._makers.values()])
        for accumulator in group.accumulators:
            accumulator.add(frame)

    def documents(self) -> list[Document]:
        """What came out."""
        names = list(self._makers)
        return [group.document(names) for group in self._by_key.values()]

    def has_read(self, size: int) -> None:
        """So many bytes have gone in. What is kept is weighed only when it could be more than the limit. MqlError 292."""
        self._read += size
        if self._read < self._threshold:
            return
        kept = sum(map(weight, self.documents()))
        if kept > self._limit:
            raise too_much(self._stage, self._limit)
        self._threshold = self._read + max(self._limit - kept, self._limit // 8)


class Group:
    """`$group`."""

    __slots__ = ("_groups", "_id", "constant", "env", "fields")

    def __init__(self, spec: Document, scope: Scope, stage: str = "$group") -> None:
        self.env = scope.env
        self.fields = {name: each for name, each in spec.items() if name != "_id"}
        self.constant = spec["_id"] if type(spec["_id"]) in (int, float, type(None), bool) else MISSING
        self._id = compile_expression(spec["_id"], scope.env)
        self._groups = Groups(accumulators(self.fields, scope.env), scope, stage)

    async def run(self, batches: Batches) -> Batches:
        groups, id_of, env = self._groups, self._id, self.env
        async for batch in batches:
            for document in batch:
                frame = frame_of(document, env)
                groups.add(id_of(frame), frame)
            groups.has_read(size_of(batch))
        for part in in_batches(groups.documents()):
            yield part


def size_of(batch: list[Document]) -> int:
    """Bytes of a batch, estimated by eight of its documents."""
    if len(batch) <= 8:
        return sum(map(weight, batch))
    step = len(batch) // 8
    sample = batch[::step]
    return sum(map(weight, sample)) * len(batch) // len(sample)


def accumulators(fields: Document, env: Env) -> Makers:
    """Compiles the fields of an output. MqlError 40234 to 40238 for what is none."""
    makers: Makers = {}
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


def compile_group(spec: Value, scope: Scope) -> Stage:
    """Compiles `$group`."""
    object_of(spec, 15947, "a group's fields must be specified in an object")
    if "_id" not in spec:
        raise MqlError(15955, "a group specification must include an _id")
    return Group(spec, scope)


# --- $sortByCount ----------------------------------------------------------------------------------------------------


class _SortByCount:
    __slots__ = ("_group", "_order")

    def __init__(self, spec: Value, scope: Scope) -> None:
        self._group = Group({"_id": spec, "count": {"$sum": 1}}, scope, "$sortByCount")
        self._order = compile_sort({"count": -1}, scope.env)

    async def run(self, batches: Batches) -> Batches:
        groups = [group async for batch in self._group.run(batches) for group in batch]
        for part in in_batches(self._order.order(groups)):
            yield part


def compile_sort_by_count(spec: Value, scope: Scope) -> Stage:
    """Compiles `$sortByCount`."""
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
