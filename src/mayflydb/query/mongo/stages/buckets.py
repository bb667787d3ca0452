"""`$bucket` and `$bucketAuto`: groups of adjacent values."""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise

from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.expressions import Constant, Expression, Frame, compile_expression, frame_of
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.numbers import double_of, exact_integer
from mayflydb.query.mongo.sort import compile_sort
from mayflydb.query.mongo.stages.base import MemoryMeter, Stage, StageScope, require_document
from mayflydb.query.mongo.stages.granularity import Granularity, check_number, find_granularity
from mayflydb.query.mongo.stages.group import (
    AccumulatorFactories,
    Groups,
    GroupState,
    compile_accumulators,
    estimate_size,
)
from mayflydb.query.mongo.stages.source import Batches
from mayflydb.query.mongo.values import (
    INT32_MAX,
    MISSING,
    Document,
    OrderKey,
    Value,
    format_value,
    is_number,
    order_key,
    type_class,
    type_name,
)
from mayflydb.query.sorting import sort_in_runs

# --- $bucket ---------------------------------------------------------------------------------------------------------

_COUNT = {"count": {"$sum": 1}}


class _Bucket:
    __slots__ = ("_boundaries", "_default", "_env", "_group_by", "_groups", "_order")

    def __init__(
        self,
        group_by: Expression,
        boundaries: list[Value],
        default: Value,
        makers: AccumulatorFactories,
        scope: StageScope,
    ) -> None:
        self._env = scope.env
        self._group_by = group_by
        self._boundaries = boundaries
        self._default = default
        self._groups = Groups(makers, scope, "$bucket")
        self._order = compile_sort({"_id": 1}, scope.env)

    async def run(self, batches: Batches) -> Batches:
        key_of = self._env.collation.order_key
        keys = [key_of(boundary) for boundary in self._boundaries]
        async for batch in batches:
            for document in batch:
                frame = frame_of(document, self._env)
                value = self._group_by(frame)
                # A value equal to a boundary belongs to the bucket that begins there. 0 and len(keys) are outside of
                # all buckets.
                place = bisect_right(keys, key_of(value))
                if 0 < place < len(keys):
                    self._groups.add(self._boundaries[place - 1], frame)
                elif self._default is MISSING:
                    message = "$switch could not find a matching branch for an input, and no default was specified."
                    raise MqlError(40066, message)
                else:
                    self._groups.add(self._default, frame)
            self._groups.check_memory(estimate_size(batch))
        yield self._order.order(self._groups.documents())


def compile_bucket(spec: Value, scope: StageScope) -> Stage:
    """Compile `$bucket`."""
    require_document(spec, 40201, "Argument to $bucket stage must be an object, but found type: {}.")
    for name in spec:
        if name not in ("groupBy", "boundaries", "default", "output"):
            raise MqlError(40197, f"Unrecognized option to $bucket: {name}.")
    if type(spec.get("boundaries", [])) is not list:
        _boundaries(spec["boundaries"], scope.env)
    if "groupBy" not in spec or "boundaries" not in spec:
        raise MqlError(40198, "$bucket requires 'groupBy' and 'boundaries' to be specified.")
    group_by = _compile_group_by(spec["groupBy"], 40202, "$bucket", scope.env)
    boundaries = _boundaries(spec["boundaries"], scope.env)
    output = require_document(
        spec.get("output", _COUNT), 40196, "The $bucket 'output' field must be an object, but found type: {}."
    )
    default = MISSING
    if "default" in spec:
        default = _constant_value(spec["default"], scope.env)
        if default is MISSING:
            found = format_value(spec["default"])
            raise MqlError(40195, f"The $bucket 'default' field must be a constant expression, but found: {found}.")
        key_of = scope.env.collation.order_key
        if key_of(boundaries[0]) <= key_of(default) < key_of(boundaries[-1]):
            raise MqlError(
                40199,
                "The $bucket 'default' field must be less than the lowest boundary or greater than or equal to the "
                "highest boundary.",
            )
    return _Bucket(group_by, boundaries, default, compile_accumulators(output, scope.env), scope)


def _boundaries(spec: Value, env: Env) -> list[Value]:
    if type(spec) is not list:
        message = f"The $bucket 'boundaries' field must be an array, but found type: {type_name(spec)}."
        raise MqlError(40200, message)
    values = []
    for each in spec:
        value = _constant_value(each, env)
        if value is MISSING:
            message = "The $bucket 'boundaries' field must be an array of constant values, but found value: "
            raise MqlError(40191, f"{message}{format_value(each)}.")
        values.append(value)
    if len(values) < 2:
        message = f"The $bucket 'boundaries' field must have at least 2 values, but found {len(values)} value(s)."
        raise MqlError(40192, message)
    for number, (lower, upper) in enumerate(pairwise(values)):
        if type_class(lower) != type_class(upper):
            message = (
                "All values in the the 'boundaries' option to $bucket must have the same type. Found conflicting types "
            )
            raise MqlError(40193, f"{message}{type_name(lower)} and {type_name(upper)}.")
        if not env.collation.order_key(lower) < env.collation.order_key(upper):
            raise MqlError(
                40194,
                f"The 'boundaries' option to $bucket must be sorted, but elements {number} and {number + 1} are not in "
                f"ascending order ({format_value(lower)} is not less than {format_value(upper)}).",
            )
    return values


def _compile_group_by(spec: Value, code: int, stage: str, env: Env) -> Expression:
    if not (type(spec) is str and spec.startswith("$")) and not (
        type(spec) is dict and next(iter(spec), "").startswith("$")
    ):
        message = "field must be defined as a $-prefixed path or an expression object, but found: "
        raise MqlError(code, f"The {stage} 'groupBy' {message}{format_value(spec)}.")
    return compile_expression(spec, env)


def _constant_value(spec: Value, env: Env) -> Value:
    """Return the value of an expression that reads no document; MISSING for one that does."""
    compiled = compile_expression(spec, env)
    return compiled.value if isinstance(compiled, Constant) else MISSING


# --- $bucketAuto -----------------------------------------------------------------------------------------------------


class _BucketAuto:
    """Sorts all documents by the key and divides them into buckets of about equal size. Equal keys share a bucket."""

    __slots__ = ("_count", "_granularity", "_key_expression", "_makers", "_scope")

    def __init__(
        self,
        key_expression: Expression,
        count: int,
        makers: AccumulatorFactories,
        scope: StageScope,
        granularity: Granularity | None,
    ) -> None:
        self._granularity = granularity
        self._key_expression = key_expression
        self._count = count
        self._makers = makers
        self._scope = scope

    async def run(self, batches: Batches) -> Batches:
        env = self._scope.env
        key_of = env.collation.order_key
        # Order key, key, frame.
        keyed: list[tuple[OrderKey, Value, Frame]] = []
        meter = MemoryMeter("$bucketAuto", self._scope.memory_limit)
        async for batch in batches:
            for document in batch:
                meter.add(document)
                frame = frame_of(document, env)
                value = self._key_expression(frame)
                value = None if value is MISSING else value
                if self._granularity is not None:
                    check_number(value)
                keyed.append((key_of(value), value, frame))
        keyed = sort_in_runs(keyed, lambda each: each[0])
        if keyed:
            yield [self._build_bucket(*bucket, keyed) for bucket in self._cut_into_buckets(keyed)]

    def _cut_into_buckets(self, keyed: list[tuple[OrderKey, Value, Frame]]) -> list[tuple[range, Value, Value]]:
        """Return the places of each bucket, and its bounds."""
        # Rounded to nearest; the last bucket takes what is left.
        size = max(1, int(len(keyed) / self._count + 0.5))
        buckets: list[tuple[range, Value, Value]] = []
        start = 0
        low = keyed[0][1] if self._granularity is None else self._granularity.down(keyed[0][1])
        while start < len(keyed):
            stop = len(keyed) if len(buckets) == self._count - 1 else min(start + size, len(keyed))
            # Equal keys may not be divided, so a bucket may grow and fewer buckets result.
            while stop < len(keyed) and keyed[stop][0] == keyed[stop - 1][0]:
                stop += 1
            if self._granularity is None:
                # A bucket ends where the next begins; the last one at its own greatest key.
                high = keyed[stop][1] if stop < len(keyed) else keyed[-1][1]
            else:
                stop, high = self._round_up(stop, keyed, self._granularity)
            buckets.append((range(start, stop), low, high))
            start, low = stop, high
        return buckets

    def _round_up(
        self, stop: int, keyed: list[tuple[OrderKey, Value, Frame]], granularity: Granularity
    ) -> tuple[int, Value]:
        """Return where a bucket ends that would end at a place, and its rounded bound, below which no later key may lie."""
        greatest = keyed[stop - 1][1]
        if not double_of(greatest) and stop < len(keyed):
            return stop, granularity.down(keyed[stop][1])
        high = granularity.up(greatest)
        limit = order_key(high)
        while stop < len(keyed) and keyed[stop][0] < limit:
            stop += 1
        return stop, high

    def _build_bucket(
        self, places: range, low: Value, high: Value, keyed: list[tuple[OrderKey, Value, Frame]]
    ) -> Document:
        group = GroupState(None, [make() for make in self._makers.values()])
        for place in places:
            for accumulator in group.accumulators:
                accumulator.add(keyed[place][2])
        return {**group.document(self._makers), "_id": {"min": low, "max": high}}


def compile_bucket_auto(spec: Value, scope: StageScope) -> Stage:
    """Compile `$bucketAuto`."""
    require_document(spec, 40240, "The argument to $bucketAuto must be an object, but found type: {}.")
    for name in spec:
        if name not in ("groupBy", "buckets", "output", "granularity"):
            raise MqlError(40245, f"Unrecognized option to $bucketAuto: {name}.")
    if "groupBy" not in spec or "buckets" not in spec:
        raise MqlError(40246, "$bucketAuto requires 'groupBy' and 'buckets' to be specified.")
    group_by = _compile_group_by(spec["groupBy"], 40239, "$bucketAuto", scope.env)
    output = require_document(
        _COUNT if spec.get("output", {}) == {} else spec["output"],
        40244,
        "The $bucketAuto 'output' field must be an object, but found type: {}.",
    )
    granularity = None
    if "granularity" in spec:
        if type(spec["granularity"]) is not str:
            found = type_name(spec["granularity"])
            raise MqlError(40261, f"The $bucketAuto 'granularity' field must be a string, but found type: {found}.")
        granularity = find_granularity(spec["granularity"])
    count, makers = _parse_bucket_count(spec["buckets"]), compile_accumulators(output, scope.env)
    return _BucketAuto(group_by, count, makers, scope, granularity)


def _parse_bucket_count(spec: Value) -> int:
    if not is_number(spec):
        message = f"The $bucketAuto 'buckets' field must be a numeric value, but found type: {type_name(spec)}."
        raise MqlError(40241, message)
    count = exact_integer(spec)
    if count is None or abs(count) > INT32_MAX:
        message = f"The $bucketAuto 'buckets' field must be representable as a 32-bit integer, but found {format_value(spec)}."
        raise MqlError(40242, message)
    if count < 1:
        raise MqlError(40243, f"The $bucketAuto 'buckets' field must be greater than 0, but found: {count}.")
    return count
