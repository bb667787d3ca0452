"""Operators over arrays as sets: order and duplicates do not count. Unions and intersections are sorted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from mayflydb.query.mongo.expressions.core import (
    CompileScope,
    Constant,
    Expression,
    Function,
    Parser,
    apply_function,
    compile_operands,
    fixed_arity,
    is_nullish,
    with_scope,
)
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.values import OrderKey, Value, is_truthy, type_name
from mayflydb.query.sorting import sort_in_runs


def _require_array(value: Value, code: int, message: str) -> list[Value]:
    if type(value) is not list:
        raise MqlError(code, f"{message}{type_name(value)}")
    array: list[Value] = value
    return array


def _union(scope: CompileScope) -> Function:
    key = scope.comparison_key()

    def union(*values: Value) -> Value:
        found: dict[OrderKey, Value] = {}
        for value in values:
            if is_nullish(value):
                return None
            for each in _require_array(
                value, 17043, "All operands of $setUnion must be arrays. One argument is of type: "
            ):
                # Of equal values, such as 1 and 1.0, the first one stays.
                found.setdefault(key(each), each)
        return _in_order(found)

    return union


def _in_order(found: dict[OrderKey, Value]) -> list[Value]:
    return [value for _, value in sort_in_runs([*found.items()], lambda item: item[0])]


def _intersection(scope: CompileScope) -> Function:
    key = scope.comparison_key()

    def intersection(*values: Value) -> Value:
        found: dict[OrderKey, Value] | None = None
        for value in values:
            if is_nullish(value):
                return None
            array = _require_array(
                value, 17047, "All operands of $setIntersection must be arrays. One argument is of type: "
            )
            if found is None:
                found = {}
                for each in array:
                    found.setdefault(key(each), each)
            else:
                keys = {key(each) for each in array}
                found = {name: each for name, each in found.items() if name in keys}
        return _in_order(found) if found else []

    return intersection


def _difference(scope: CompileScope) -> Function:
    key = scope.comparison_key()

    def difference(one: Value, other: Value) -> Value:
        if is_nullish(one) or is_nullish(other):
            return None
        first = _require_array(
            one, 17048, "both operands of $setDifference must be arrays. First argument is of type: "
        )
        second = _require_array(
            other, 17049, "both operands of $setDifference must be arrays. Second argument is of type: "
        )
        without = {key(each) for each in second}
        found: dict[OrderKey, Value] = {}
        for each in first:
            name = key(each)
            if name not in without:
                found.setdefault(name, each)
        return list(found.values())

    return difference


def _compile_equals(name: str, spec: Value, scope: CompileScope) -> Expression:
    parts = compile_operands(name, spec, scope, 0, None)
    if len(parts) < 2:
        raise MqlError(17045, f"$setEquals needs at least two arguments had: {len(parts)}")
    key = scope.comparison_key()
    codes = [5887502 if isinstance(part, Constant) else 17044 for part in parts]

    def equals(*values: Value) -> bool:
        message = "All operands of $setEquals must be arrays. {}-th argument is of type: "
        arrays = [
            _require_array(value, code, message.format(index + 1))
            for index, (code, value) in enumerate(zip(codes, values, strict=True))
        ]
        first, *rest = [{key(each) for each in array} for array in arrays]
        return all(first == each for each in rest)

    return apply_function(equals, parts)


def _subset(scope: CompileScope) -> Function:
    key = scope.comparison_key()

    def subset(one: Value, other: Value) -> bool:
        first = _require_array(one, 17046, "both operands of $setIsSubset must be arrays. First argument is of type: ")
        second = _require_array(
            other, 17042, "both operands of $setIsSubset must be arrays. Second argument is of type: "
        )
        return {key(each) for each in first} <= {key(each) for each in second}

    return subset


def _all_true(value: Value) -> bool:
    return all(
        is_truthy(each)
        for each in _require_array(value, 17040, "$allElementsTrue's argument must be an array, but is ")
    )


def _any_true(value: Value) -> bool:
    return any(
        is_truthy(each) for each in _require_array(value, 17041, "$anyElementTrue's argument must be an array, but is ")
    )


OPERATORS: Final[Mapping[str, Parser]] = {
    "$setUnion": with_scope(0, None, _union),
    "$setIntersection": with_scope(0, None, _intersection),
    "$setDifference": with_scope(2, 2, _difference),
    "$setEquals": _compile_equals,
    "$setIsSubset": with_scope(2, 2, _subset),
    "$allElementsTrue": fixed_arity(1, _all_true),
    "$anyElementTrue": fixed_arity(1, _any_true),
}
