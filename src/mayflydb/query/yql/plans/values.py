"""Helpers of binding for values of all kinds: NULL, constant folding, common types."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mayflydb.query.yql import comparison, conversions
from mayflydb.query.yql.expression import Expression
from mayflydb.query.yql.faults import Fault, Position, type_fault
from mayflydb.query.yql.plans.scopes import Slot, slot
from mayflydb.query.yql.schemas import Row, Run
from mayflydb.query.yql.types import BOOL, INTEGERS, NULL, Type, Value, bare, format_long, is_optional, optional


class _NoChance:
    """The random source of constants: drawing a number is an error."""

    def random(self) -> float:
        raise AssertionError("a constant took a random number")

    def getrandbits(self, k: int, /) -> int:
        raise AssertionError("a constant took a random number")


NO_RUN = Run(0, {}, _NoChance())
"""The run for constant expressions, which do not read it."""


def constant(type: Type, value: Value) -> Expression:
    return Expression(type, lambda row, run: value, constant=True, value=value)


def fold(expression: Expression) -> Expression:
    """Evaluate a constant expression now. If that fails, the expression stays, and fails when a row evaluates it."""
    if not expression.constant:
        return expression
    try:
        value = expression.evaluate((), NO_RUN)
    except Fault:
        return expression
    return constant(expression.type, value)


def derive(type: Type, evaluate: Callable[[Row, Run], Value], *operands: Expression) -> Expression:
    """Return an expression over operands; it is constant if they all are."""
    return fold(Expression(type, evaluate, constant=all(each.constant for each in operands)))


def strict_unary(type: Type, function: Callable[[Value], Value], operand: Expression) -> Expression:
    """Apply a function to an operand; NULL gives NULL."""
    inner = operand.evaluate
    if not is_optional(operand.type):
        return derive(type, lambda row, run: function(inner(row, run)), operand)

    def evaluate(row: Row, run: Run) -> Value:
        value = inner(row, run)
        return None if value is None else function(value)

    return derive(optional(type), evaluate, operand)


def strict_binary(
    type: Type, function: Callable[[Value, Value], Value], left: Expression, right: Expression
) -> Expression:
    """Apply a function to two operands; NULL gives NULL."""
    first, second = left.evaluate, right.evaluate
    if not is_optional(left.type) and not is_optional(right.type):
        return derive(type, lambda row, run: function(first(row, run), second(row, run)), left, right)

    def evaluate(row: Row, run: Run) -> Value:
        a = first(row, run)
        if a is None:
            return None
        b = second(row, run)
        return None if b is None else function(a, b)

    return derive(optional(type), evaluate, left, right)


def find_converter(source: Type, to: Type) -> Callable[[Value], Value] | None:
    """Return the conversion from every value of one type to another; None if there is none."""
    if source == to or (bare(to) == source):
        return _identity
    made = conversions.convert_implicitly(slot(source, 0), to)
    if made is None:
        return None
    if isinstance(made, Slot):
        return _identity
    evaluate = made.evaluate
    return lambda value: evaluate((value,), NO_RUN)


def _identity(value: Any) -> Any:
    return value


def convert(expression: Expression, to: Type) -> Expression | None:
    """Convert an expression: a literal to any type that can hold it, any other value to a wider type. None if
    impossible."""
    if expression.type == to:
        return expression
    made = conversions.fit_expression(expression, to)
    return None if made is None else fold(made)


def require_common_type(
    expressions: Sequence[Expression], function: str, at: Position
) -> tuple[Type, list[Expression]]:
    """Convert expressions to their common type. Faults: there is none."""
    found = conversions.unify(expressions)
    if found is None:
        kinds = " and ".join(dict.fromkeys(format_long(each.type) for each in expressions))
        raise type_fault(function, f"Cannot infer common type for {kinds}", at)
    return found[0], [fold(each) for each in found[1]]


def bind_condition(expression: Expression, function: str, at: Position) -> Callable[[Row, Run], Value]:
    """Return the function that evaluates a condition; a row stays only if it is true. Faults: the type is no Bool."""
    if bare(expression.type) != BOOL and str(expression.type) != "Null":
        raise type_fault(function, f"Expected Bool or Optional<Bool>, but got: {format_long(expression.type)}", at)
    return expression.evaluate


def sort_key(type: Type, at: Position) -> Callable[[Value], Any]:
    """Return the sort key of a type. Faults: the type has no order."""
    if type != NULL and not comparison.is_sortable(type):
        raise type_fault("Sort", f"Expected comparable type, but got: {format_long(type)}", at)
    return comparison.sort_key(type)


def are_integers(left: Type, right: Type) -> bool:
    return left in INTEGERS and right in INTEGERS
