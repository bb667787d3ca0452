"""Calls of YQL's functions without a query around them: what a test writes in Python becomes operands."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from mayflydb.query.yql import arithmetic, comparison, texts
from mayflydb.query.yql.expression import BoundLambda, Expression, Invocation, Operand, TypeOperand
from mayflydb.query.yql.faults import Position
from mayflydb.query.yql.functions import find, find_aggregate
from mayflydb.query.yql.schemas import Run
from mayflydb.query.yql.types import (
    BOOL,
    DOUBLE,
    INT32,
    INT64,
    NULL,
    STRING,
    UINT64,
    UTF8,
    Type,
    Value,
    bare,
    holds_null,
    is_optional,
    optional,
)

HERE = Position(1, 1)
NOW = 1_700_000_000_123_456


class Fn:
    """A lambda, written as a function of expressions."""

    def __init__(self, function: Callable[..., Expression]) -> None:
        self._function = function
        self.arity = function.__code__.co_argcount

    def detach(self) -> Fn:
        return self

    def bind(self, types: Sequence[Type]) -> BoundLambda:
        parameters = [column(kind, number) for number, kind in enumerate(types)]
        body = self._function(*parameters)
        return BoundLambda(body.type, lambda arguments, row, run: body.evaluate(arguments, run))


def column(kind: Type, number: int) -> Expression:
    """The value at this place of the row."""
    return Expression(kind, lambda row, run: row[number])


def run(seed: int = 1) -> Run:
    return Run(now=NOW, parameters={}, chance=random.Random(seed))


def value(kind: Type, given: Value) -> Expression:
    """A value that is no literal."""
    return Expression(kind, lambda row, run: given, constant=True)


def text(kind: Type, given: str) -> Expression:
    """A value by its text."""
    found = texts.from_text(kind, given)
    assert found is not None, (kind, given)
    return value(kind, found)


def null(kind: Type) -> Expression:
    return value(optional(kind), None)


def operand(given: Any) -> Operand:
    """A literal of what Python gives: str is a String, int an Int32 (or wider), a list AsList."""
    match given:
        case Expression() | TypeOperand() | Fn():
            return given
        case Type():
            return TypeOperand(given)
        case list():
            return expression("AsList", *given)
        case tuple():
            return expression("AsTuple", *given)
        case None:
            kind: Type = NULL
        case bool():
            kind = BOOL
        case int():
            kind = INT32 if -(2**31) <= given < 2**31 else INT64 if given < 2**63 else UINT64
        case float():
            kind = DOUBLE
        case _:
            kind, given = STRING, given if isinstance(given, bytes) else given.encode()
    return Expression(kind, lambda row, run: given, constant=True, literal=True, value=given)


def utf8(given: str) -> Expression:
    return value(UTF8, given)


def invocation(name: str, *operands: Any, **named: Any) -> Invocation:
    return Invocation(
        name, tuple(map(operand, operands)), tuple((key, operand(each)) for key, each in named.items()), HERE
    )


def call(name: str, *operands: Any, **named: Any) -> Any:
    """The operand that this call makes."""
    builder = find(name)
    assert builder is not None, name
    return builder(invocation(name, *operands, **named))


def expression(name: str, *operands: Any) -> Expression:
    found = call(name, *operands)
    assert isinstance(found, Expression)
    return found


def op(operator: str, left: Any, right: Any) -> Expression:
    """`left operator right`, for bodies of lambdas."""
    one, two = operand(left), operand(right)
    assert isinstance(one, Expression) and isinstance(two, Expression)
    found = (
        (BOOL, comparison.find_relation(operator, bare(one.type), bare(two.type)))
        if operator in ("==", "!=", "<", "<=", ">", ">=")
        else arithmetic.find_binary(operator, bare(one.type), bare(two.type))
    )
    assert found is not None and found[1] is not None
    kind, apply = found[0], found[1]

    def evaluate(row: Any, run: Any) -> Value:
        a, b = one.evaluate(row, run), two.evaluate(row, run)
        return None if a is None or b is None else apply(a, b)

    return Expression(optional(kind) if is_optional(one.type) or is_optional(two.type) else kind, evaluate)


def item(of: Expression, index: int) -> Expression:
    """`of.index`"""
    return Expression(of.type.items[index], lambda row, run: of.evaluate(row, run)[index])  # type: ignore[attr-defined]


def result(name: str, *operands: Any, **named: Any) -> Value:
    """Return the value of a call."""
    return call(name, *operands, **named).evaluate((), run())


def typed(name: str, *operands: Any, **named: Any) -> tuple[str, Value]:
    """The type of a call, as text, and what it comes to; a value that does not belong to its type fails."""
    expression = call(name, *operands, **named)
    found = expression.evaluate((), run())
    assert holds_null(expression.type) or found is not None or str(expression.type) == "Void"
    return str(expression.type), found


def aggregated(
    name: str, kinds: Sequence[Type], rows: Sequence[tuple[Value, ...]], *constants: Any
) -> tuple[str, Value]:
    """The type of an aggregate over rows of these types, and its result; `constants` are further operands."""
    builder = find_aggregate(name)
    assert builder is not None, name
    columns = [column(kind, number) for number, kind in enumerate(kinds)]
    aggregation = builder(invocation(name, *columns, *constants))
    state = aggregation.start()
    for row in rows:
        state = aggregation.step(state, (*row, *constants))
    return str(aggregation.type), aggregation.finish(state)
