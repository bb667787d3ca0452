"""Comparisons over the one order of all types, and the logic that goes with them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from mayflydb.query.mongo.expressions.core import (
    CompileScope,
    Constant,
    Expression,
    Frame,
    Function,
    Parser,
    compile_operands,
    fixed_arity,
    fold_constants,
    with_scope,
)
from mayflydb.query.mongo.values import Value, is_truthy


def _key_comparison(holds: Callable[[Any, Any], Any]) -> Parser:
    def make(scope: CompileScope) -> Function:
        key = scope.comparison_key()
        return lambda one, other: holds(key(one), key(other))

    return with_scope(2, 2, make)


def _compile_and(name: str, spec: Value, scope: CompileScope) -> Expression:
    parts = compile_operands(name, spec, scope, 0, None)

    def both(frame: Frame) -> bool:
        return all(is_truthy(part(frame)) for part in parts)

    # One constant false operand decides; the others are never evaluated.
    if any(type(part) is Constant and not is_truthy(part.value) for part in parts):
        return Constant(False)
    return fold_constants(both, parts)


def _compile_or(name: str, spec: Value, scope: CompileScope) -> Expression:
    parts = compile_operands(name, spec, scope, 0, None)

    def either(frame: Frame) -> bool:
        return any(is_truthy(part(frame)) for part in parts)

    return fold_constants(either, parts)


OPERATORS: Final[Mapping[str, Parser]] = {
    "$eq": _key_comparison(lambda a, b: a == b),
    "$ne": _key_comparison(lambda a, b: a != b),
    "$gt": _key_comparison(lambda a, b: a > b),
    "$gte": _key_comparison(lambda a, b: a >= b),
    "$lt": _key_comparison(lambda a, b: a < b),
    "$lte": _key_comparison(lambda a, b: a <= b),
    "$cmp": _key_comparison(lambda a, b: (a > b) - (a < b)),
    "$and": _compile_and,
    "$or": _compile_or,
    "$not": fixed_arity(1, lambda value: not is_truthy(value)),
}
