"""Common parts of function builders: operands and their types, NULL that passes through, refusals in YQL's words."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mayflydb.query.yql import conversions
from mayflydb.query.yql.expression import (
    BoundLambda,
    Evaluate,
    Expression,
    Factory,
    Invocation,
    Lambda,
    Operand,
    TypeOperand,
)
from mayflydb.query.yql.faults import Fault, fault, type_fault
from mayflydb.query.yql.schemas import Row, Run
from mayflydb.query.yql.types import (
    FLOATS,
    JSON,
    NUMBERS,
    STRING,
    UTF8,
    YSON,
    CallableType,
    Just,
    OptionalType,
    Type,
    Value,
    bare,
    format_long,
    holds_null,
    is_optional,
    optional,
)


def argument_fault(call: Invocation, message: str) -> Fault:
    """Return the refusal of a call's arguments."""
    return type_fault(call.name, message, call.position)


def count_operands(call: Invocation, low: int, high: int | None = None) -> int:
    """Check and return the number of operands, none of them named. `high` None: exactly `low`; -1: no upper bound."""
    given = len(call.operands) + len(call.named)
    high = low if high is None else high
    if given < low or (given > high >= 0) or call.named:
        if call.named and low <= given and (given <= high or high < 0):
            raise argument_fault(call, "Named arguments are not expected")
        wanted = str(low) if low == high else f"at least {low}" if high < 0 else f"from {low} to {high}"
        raise argument_fault(call, f"Expected {wanted} argument(s), but got {given}")
    return given


def operand_at(call: Invocation, index: int) -> Operand:
    """The operand at this position. Fault: the call has too few operands."""
    if index >= len(call.operands):
        raise argument_fault(call, f"Expected at least {index + 1} argument(s), but got {len(call.operands)}")
    return call.operands[index]


def value_at(call: Invocation, index: int) -> Expression:
    """The operand at this position, which must be a value."""
    operand = operand_at(call, index)
    if not isinstance(operand, Expression):
        raise argument_fault(call, f"Expected a value as argument #{index + 1}, but got a {_kind(operand)}")
    return operand


def values_of(call: Invocation) -> list[Expression]:
    return [value_at(call, index) for index in range(len(call.operands))]


def type_at(call: Invocation, index: int) -> Type:
    """The operand at this position, which must be a type."""
    operand = operand_at(call, index)
    if not isinstance(operand, TypeOperand):
        raise argument_fault(call, f"Expected a type as argument #{index + 1}, but got a {_kind(operand)}")
    return operand.type


def lambda_at(call: Invocation, index: int, types: Sequence[Type]) -> BoundLambda:
    """The operand at this position, which must be a lambda, bound for arguments of these types."""
    found = function_at(call, index)
    if found.arity != len(types):
        raise argument_fault(call, f"Expected a lambda with {len(types)} argument(s), but got {found.arity}")
    return found.bind(types)


def function_at(call: Invocation, index: int) -> Lambda:
    """The operand at this position, which must be a lambda."""
    operand = operand_at(call, index)
    if isinstance(operand, Expression) and isinstance(operand.type, CallableType):
        return CallableValue(operand, operand.type)
    if isinstance(operand, (Expression, TypeOperand, Factory)):
        raise argument_fault(call, f"Expected a lambda as argument #{index + 1}, but got a {_kind(operand)}")
    return operand


class CallableValue:
    """A value of a Callable type as a lambda: its arguments are converted to those of the type."""

    def __init__(self, given: Expression, kind: CallableType) -> None:
        self._given, self._kind = given, kind
        self.arity = len(kind.arguments)

    def detach(self) -> CallableValue:
        return self

    def bind(self, types: Sequence[Type]) -> BoundLambda:
        kind, evaluate = self._kind, self._given.evaluate
        missing = self.arity - len(types)
        if not 0 <= missing <= kind.optional:
            raise fault(f"Expected {self.arity - kind.optional} to {self.arity} arguments, but got: {len(types)}")
        passed = [self._convert(place, type) for place, type in enumerate(types)]
        rest = (None,) * missing
        automapped = [place for place, each in enumerate(types) if is_optional(each) and kind.arguments[place].automap]

        def run_value(arguments: tuple[Value, ...], row: Row, run: Run) -> Value:
            if any(arguments[place] is None for place in automapped):
                return None
            given = tuple([convert(arguments, run) for convert in passed])
            return evaluate(row, run)(given + rest, run)

        return BoundLambda(optional(kind.result) if automapped else kind.result, run_value)

    def _convert(self, place: int, type: Type) -> Evaluate:
        argument = self._kind.arguments[place]
        wanted = optional(argument.type) if argument.automap and is_optional(type) else argument.type
        found = coerce(Expression(type, lambda row, run: row[place]), wanted)
        if found is None:
            raise fault(
                f"Mismatch type argument #{place + 1}, type diff: {format_long(type)} != {format_long(argument.type)}"
            )
        return found.evaluate


def factory_at(call: Invocation, index: int) -> Factory:
    """The operand at this position, which must be an aggregation factory."""
    operand = operand_at(call, index)
    if not isinstance(operand, Factory):
        raise argument_fault(
            call, f"Expected an aggregation factory as argument #{index + 1}, but got a {_kind(operand)}"
        )
    return operand


def _kind(operand: Operand) -> str:
    if isinstance(operand, Expression):
        return "value"
    if isinstance(operand, Factory):
        return "factory"
    return "type" if isinstance(operand, TypeOperand) else "lambda"


def as_lambda(operand: Operand) -> Lambda:
    assert not isinstance(operand, (Expression, TypeOperand, Factory))
    return operand


# --- types -----------------------------------------------------------------------------------------------------------


def coerce(given: Expression, to: Type) -> Expression | None:
    """Convert a value to a type as a call does: implicit conversions, texts to String, numbers to floating point. None:
    impossible.
    """
    found = conversions.convert_implicitly(given, to)
    if found is not None:
        return found
    if is_optional(given.type) and not is_optional(to):
        return None
    source, target = bare(given.type), bare(to)
    change: Callable[[Value], Value] | None = None
    if target == STRING and source in (UTF8, JSON):
        change = str.encode
    elif target == STRING and source == YSON:
        change = bytes
    elif target in FLOATS and source in NUMBERS:
        change = float
    return None if change is None else map_value(given, to, change)


def convert_operand(call: Invocation, index: int, to: Type, given: Expression | None = None) -> Expression:
    """The operand at this position as a value of `to`, or of `to?` if the operand is Optional."""
    given = value_at(call, index) if given is None else given
    if given.type == to:
        return given
    found = coerce(given, optional(to) if is_optional(given.type) else to)
    if found is None:
        raise mismatch_fault(call, index, given.type, to)
    return found


def mismatch_fault(call: Invocation, index: int, given: Type, wanted: Type) -> Fault:
    return argument_fault(
        call,
        f"Mismatch type argument #{index + 1}, type diff: {format_long(given)} != {format_long(wanted)}",
    )


def common_type(call: Invocation, given: Sequence[Expression]) -> tuple[Type, list[Expression]]:
    """The common type of these values, and each value converted to it."""
    found = conversions.unify(given)
    if found is not None:
        return found
    raise argument_fault(
        call, "Cannot infer common type for " + " and ".join(format_long(each.type) for each in given[:2])
    )


def wrap_optional(kind: Type) -> Callable[[Value], Value]:
    """Return the function that puts a value of this type into an Optional."""
    return Just if holds_null(kind) else _identity


def unwrap_optional(kind: OptionalType) -> Callable[[Value], Value]:
    """Return the function that takes the value out of an Optional that has one."""
    return _inside if holds_null(kind.item) else _identity


def _identity(value: Value) -> Value:
    return value


def _inside(value: Value) -> Value:
    return value.value


# --- closures --------------------------------------------------------------------------------------------------------


def constant(kind: Type, value: Value) -> Expression:
    return Expression(kind, lambda row, run: value, constant=True)


def evaluate_constant(expression: Expression, call: Invocation) -> Value:
    """The value of an operand that must be a constant."""
    if expression.literal:
        return expression.value
    if not expression.constant:
        raise argument_fault(call, "Expected a constant")
    return expression.evaluate((), _NO_RUN)


_NO_RUN: Any = None
"""Constants read neither a row nor the run."""


def map_value(given: Expression, kind: Type, change: Callable[[Value], Value]) -> Expression:
    """Apply a function to one value; NULL gives NULL. `kind` becomes Optional if the operand is Optional."""
    evaluate = given.evaluate
    if not is_optional(given.type):
        return Expression(kind, lambda row, run: change(evaluate(row, run)), constant=given.constant)

    def call(row: Row, run: Run) -> Value:
        value = evaluate(row, run)
        return None if value is None else change(value)

    return Expression(optional(kind), call, constant=given.constant)


def apply_function(given: Sequence[Expression], kind: Type, change: Callable[..., Value]) -> Expression:
    """Apply a function to several values; any NULL gives NULL. `kind` becomes Optional if an operand is Optional."""
    if len(given) == 1:
        return map_value(given[0], kind, change)
    is_constant = all(each.constant for each in given)
    evaluates = [each.evaluate for each in given]
    if not any(is_optional(each.type) for each in given):
        return Expression(kind, _plain(evaluates, change), constant=is_constant)

    def call(row: Row, run: Run) -> Value:
        values = []
        for evaluate in evaluates:
            value = evaluate(row, run)
            if value is None:
                return None
            values.append(value)
        return change(*values)

    return Expression(optional(kind), call, constant=is_constant)


def apply_with_nulls(given: Sequence[Expression], kind: Type, change: Callable[..., Value]) -> Expression:
    """Apply a function that handles NULL itself."""
    is_constant = all(each.constant for each in given)
    return Expression(kind, _plain([each.evaluate for each in given], change), constant=is_constant)


def _plain(evaluates: list[Evaluate], change: Callable[..., Value]) -> Evaluate:
    if len(evaluates) == 2:
        first, second = evaluates
        return lambda row, run: change(first(row, run), second(row, run))
    return lambda row, run: change(*[evaluate(row, run) for evaluate in evaluates])


def text_of(value: Value) -> str:
    """A String or Utf8 as text; bytes that are not UTF-8 are replaced."""
    return value if isinstance(value, str) else str(value, "utf-8", "replace")
