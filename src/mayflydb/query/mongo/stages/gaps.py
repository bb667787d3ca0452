"""`$densify` and `$fill`: documents and values for gaps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from bson import DatetimeMS

from mayflydb.query.mongo.dates import UTC_ZONE, add_units, check_unit
from mayflydb.query.mongo.faults import MqlError, failed_to_parse
from mayflydb.query.mongo.numbers import add, exact_integer
from mayflydb.query.mongo.paths import field_path
from mayflydb.query.mongo.stages.base import MemoryMeter, Stage, StageScope, check_fields, require_field, split_batches
from mayflydb.query.mongo.stages.chain import run_stages
from mayflydb.query.mongo.stages.fields import add_fields, plain_value_at, with_field
from mayflydb.query.mongo.stages.source import Batches
from mayflydb.query.mongo.stages.windows import compile_set_window_fields
from mayflydb.query.mongo.values import MISSING, Document, OrderKey, Value, is_number, order_key, type_name
from mayflydb.query.sorting import sort_in_runs

# --- $densify --------------------------------------------------------------------------------------------------------

MAX_GENERATED: Final = 500_000
"""The maximum number of documents that one `$densify` generates."""


class _Range(msgspec.Struct, frozen=True):
    """The range of `$densify`. `bounds`: `full`, `partition`, or (first value, value before which to stop)."""

    step: Value
    unit: str
    bounds: str | tuple[Value, Value]

    def next_value(self, value: Value) -> Value:
        if self.unit:
            return DatetimeMS(add_units(int(value), self.unit, int(self.step), UTC_ZONE))
        return add(value, self.step)


class Densify(msgspec.Struct):
    """`$densify`. Documents without the field come first, unchanged. `generated`: the number of documents added."""

    scope: StageScope
    path: tuple[str, ...]
    partition_by: Sequence[tuple[str, ...]]
    range: _Range
    generated: int = 0

    async def run(self, batches: Batches) -> Batches:
        meter = MemoryMeter("$densify", self.scope.memory_limit)
        without: list[Document] = []
        parts: dict[tuple[OrderKey, ...], list[tuple[OrderKey, Document]]] = {}
        async for batch in batches:
            for document in batch:
                meter.add(document)
                value = self._get_value(document)
                if value is None:
                    without.append(document)
                else:
                    parts.setdefault(self._partition_key(document), []).append((order_key(value), document))
        for batch in split_batches(without):
            yield batch
        for part in self._densify(parts):
            for batch in split_batches([document for _, document in part]):
                yield batch

    def _get_value(self, document: Document) -> Value:
        value = plain_value_at(document, self.path)
        if value is None or value is MISSING:
            return None
        if type(value) is DatetimeMS:
            if not self.range.unit:
                message = "Encountered date densify value in collection when step does not have a date unit."
                raise MqlError(6053601, message)
        elif not is_number(value):
            raise MqlError(5733201, f"Densify field type must be numeric or a date, but found {type_name(value)}")
        elif self.range.unit:
            raise MqlError(6053600, "Encountered numeric densify value in collection when step has a date unit.")
        return value

    def _partition_key(self, document: Document) -> tuple[OrderKey, ...]:
        values = (plain_value_at(document, path) for path in self.partition_by)
        return tuple(self.scope.env.collation.order_key(None if value is MISSING else value) for value in values)

    def _densify(
        self, parts: dict[tuple[OrderKey, ...], list[tuple[OrderKey, Document]]]
    ) -> Iterator[list[tuple[OrderKey, Document]]]:
        bounds = self.range.bounds
        parts = {key: sort_in_runs(rows, _row_key) for key, rows in parts.items()}
        if type(bounds) is tuple:
            if not parts and not self.partition_by:
                parts = {(): []}
            for _, rows in sort_in_runs([*parts.items()], lambda part: part[0]):
                yield self._fill_gaps(rows, bounds[0], order_key(bounds[1]), False)
        elif bounds == "partition":
            for _, rows in sort_in_runs([*parts.items()], lambda part: part[0]):
                yield self._fill_gaps(rows, plain_value_at(rows[0][1], self.path), rows[-1][0], True)
        # `full`: each partition is filled from the least to the greatest value of all partitions.
        elif parts:
            first = min((rows[0] for rows in parts.values()), key=lambda row: row[0])
            last = max(rows[-1][0] for rows in parts.values())
            start = plain_value_at(first[1], self.path)
            every = [row for rows in parts.values() for row in self._fill_gaps(rows, start, last, True)]
            yield sort_in_runs(every, _row_key)

    def _fill_gaps(
        self, rows: list[tuple[OrderKey, Document]], start: Value, end: OrderKey, inclusive: bool
    ) -> list[tuple[OrderKey, Document]]:
        # By comparison key: a generated 5 does not join a stored 5.0.
        there = {key for key, _ in rows}
        blank: Document = {}
        if rows:
            for path in self.partition_by:
                value = plain_value_at(rows[0][1], path)
                if value is not MISSING:
                    blank = with_field(blank, path, value)
        generated = []
        value = start
        while (key := order_key(value)) < end or (inclusive and key == end):
            if key not in there:
                generated.append((key, with_field(blank, self.path, value)))
                self.generated += 1
            value = self.range.next_value(value)
            # A step can be too small to change a large double.
            if self.generated > MAX_GENERATED or order_key(value) <= key:
                message = f"Generated more documents in $densify than the limit of {MAX_GENERATED}."
                raise MqlError(5897900, message)
        return sort_in_runs(rows + generated, _row_key)


def _row_key(row: tuple[OrderKey, Document]) -> OrderKey:
    return row[0]


def compile_densify(spec: Value, scope: StageScope) -> Stage:
    """Compile `$densify`."""
    if type(spec) is not dict:
        raise failed_to_parse(f"The $densify stage specification must be an object, found {type_name(spec)}")
    check_fields(spec, ("field", "partitionByFields", "range"), "$densify")
    path = field_path(_check_option_type(require_field(spec, "field", "$densify"), str, "field", "string"))
    paths = _check_option_type(spec.get("partitionByFields", []), list, "partitionByFields", "array")
    partition_by = [field_path(_check_option_type(each, str, "partitionByFields", "string")) for each in paths]
    if path in partition_by:
        raise MqlError(8993000, "BSON field '$densify.partitionByFields' contains the field that is being densified")
    given = _check_option_type(require_field(spec, "range", "$densify"), dict, "range", "object")
    check_fields(given, ("step", "bounds", "unit"), "$densify.range")
    step = require_field(given, "step", "$densify.range")
    if not is_number(step) or not order_key(step) > order_key(0):
        raise MqlError(5733401, "The step parameter in a range statement must be a strictly positive numeric value")
    unit = (
        check_unit("$densify", _check_option_type(given["unit"], str, "range.unit", "string"))
        if "unit" in given
        else ""
    )
    if unit and exact_integer(step) is None:
        message = "The step parameter in a range statement must be a whole number when densifying a date range"
        raise MqlError(6586400, message)
    bounds = _parse_bounds(require_field(given, "bounds", "$densify.range"), step, unit)
    if bounds == "partition" and not partition_by:
        raise MqlError(
            5733408,
            "One cannot specify the bounds as 'partition' without specifying a non-empty array of partitionByFields. "
            "You may have meant to specify 'full' bounds.",
        )
    return Densify(scope, path, partition_by, _Range(step, unit, bounds))


def _check_option_type(value: Value, kind: type, name: str, wanted: str) -> Value:
    if type(value) is not kind:
        found = type_name(value)
        raise MqlError(14, f"BSON field '$densify.{name}' is the wrong type '{found}', expected type '{wanted}'")
    return value


_MIXED_BOUNDS: Final = "A bounding array must contain either both dates or both numeric types"


def _parse_bounds(spec: Value, step: Value, unit: str) -> str | tuple[Value, Value]:
    if spec in ("full", "partition"):
        return "full" if spec == "full" else "partition"
    if type(spec) is str:
        raise MqlError(5946802, "Bounds string must either be 'full' or 'partition'")
    if type(spec) is not list:
        raise MqlError(
            5733404,
            "The bounds in a range statement must be the string 'full', 'partition', or an ascending array of two "
            "numbers or two dates",
        )
    if len(spec) != 2:
        raise MqlError(5733403, "A bounding array in a range statement must have exactly two elements")
    lower, upper = spec
    _check_ends(lower, upper, step, unit)
    return lower, upper


def _check_ends(lower: Value, upper: Value, step: Value, unit: str) -> None:
    if order_key(lower) > order_key(upper):
        raise MqlError(5733402, "A bounding array must be an ascending array of either two dates or two numbers")
    if is_number(lower):
        if unit:
            raise MqlError(5733409, "Numeric bounds may not have unit parameter")
        if not is_number(upper):
            raise MqlError(5733406, _MIXED_BOUNDS)
        if not type(lower) is type(upper) is type(step):
            raise MqlError(5876900, "Upper bound, lower bound, and step must all have the same type")
    elif type(lower) is DatetimeMS:
        if type(upper) is not DatetimeMS:
            raise MqlError(5733405, _MIXED_BOUNDS)
        if not unit:
            raise MqlError(5733410, "A bounding array of dates must specify a unit")
    else:
        raise MqlError(5946800, "Explicit bounds must be numeric or dates")


# --- $fill -----------------------------------------------------------------------------------------------------------

_METHODS: Final = {"linear": "$linearFill", "locf": "$locf"}


class _StageSequence:
    """Several stages that run as one."""

    __slots__ = ("_stages",)

    def __init__(self, stages: Sequence[Stage]) -> None:
        self._stages = stages

    def run(self, batches: Batches) -> Batches:
        return run_stages(self._stages, batches)


def compile_fill(spec: Value, scope: StageScope) -> Stage:
    """Compile `$fill`: a method becomes a window function, a value an `$ifNull`."""
    if type(spec) is not dict:
        raise failed_to_parse(f"The $fill stage specification must be an object, found {type_name(spec)}")
    check_fields(spec, ("partitionBy", "partitionByFields", "sortBy", "output"), "$fill")
    output = require_field(spec, "output", "$fill")
    if type(output) is not dict or not output:
        raise MqlError(6050203, "The output field in '$fill' must contain an object with at least one element")
    windows: Document = {}
    values: Document = {}
    for path, how in output.items():
        if type(how) is not dict or not how:
            raise MqlError(6050200, "Each fill output specification must be an object with exactly one field")
        check_fields(how, ("method", "value"), "$fill")
        if len(how) != 1:
            message = "Each fill output specification must have exactly one of 'method' or 'value' fields, not both"
            raise MqlError(6050201, message)
        if "value" in how:
            values[path] = {"$ifNull": ["$" + path, how["value"]]}
        elif type(how["method"]) is str and how["method"] in _METHODS:
            windows[path] = {_METHODS[how["method"]]: "$" + path}
        else:
            raise MqlError(6050202, "Method must be either locf or linear")
    stages: list[Stage] = []
    if windows:
        stages.append(compile_set_window_fields({**_partition_fields(spec), "output": windows}, scope))
    if values:
        stages.append(add_fields("$addFields")(values, scope))
    return _StageSequence(stages)


def _partition_fields(spec: Document) -> Document:
    given = {"sortBy": spec["sortBy"]} if "sortBy" in spec else {}
    if "partitionBy" in spec:
        if "partitionByFields" in spec:
            raise MqlError(6050204, "Maximum one of 'partitionBy' and 'partitionByFields can be specified in '$fill'")
        return {**given, "partitionBy": spec["partitionBy"]}
    if "partitionByFields" not in spec:
        return given
    paths = spec["partitionByFields"]
    if type(paths) is not list or not all(type(path) is str for path in paths):
        raise MqlError(14, "BSON field '$fill.partitionByFields' must be an array of strings")
    # The paths are values here: a dotted path cannot be a field name of a document.
    return {**given, "partitionBy": {"fields": ["$" + path for path in paths]}}
