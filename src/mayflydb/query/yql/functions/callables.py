"""Callable, and functions of lambdas over the parts of a variant, struct or tuple: Visit, StaticMap, StaticZip, StaticFold.

Source: https://ydb.tech/docs/en/yql/reference/builtins/basic
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from mayflydb.query.yql.expression import BoundLambda, Builder, Expression, Invocation, Lambda, Operand
from mayflydb.query.yql.functions.constructors import alternatives
from mayflydb.query.yql.functions.support import (
    apply_with_nulls,
    argument_fault,
    coerce,
    common_type,
    constant,
    count_operands,
    function_at,
    lambda_at,
    type_at,
    value_at,
)
from mayflydb.query.yql.schemas import Row, Run
from mayflydb.query.yql.types import (
    NULL,
    CallableType,
    NullType,
    StructType,
    TupleType,
    Type,
    Value,
    VariantType,
    bare,
    format_long,
    format_type,
    is_optional,
    optional,
)


def _callable(call: Invocation) -> Operand:
    """`Callable(type, lambda)`: a lambda as a value, whose types are those of the Callable."""
    count_operands(call, 2)
    kind = type_at(call, 0)
    if not isinstance(kind, CallableType):
        raise argument_fault(call, f"Expected callable type, but got: {format_type(kind)}")
    body = function_at(call, 1).bind([each.type for each in kind.arguments])
    result = coerce(Expression(body.type, lambda row, run: row[0]), kind.result)
    if result is None:
        raise argument_fault(
            call, f"Mismatch of types of result: {format_long(body.type)} != {format_long(kind.result)}"
        )
    convert, run_body = result.evaluate, body.call

    def make(row: Row, run: Run) -> Value:
        return lambda arguments, current: convert((run_body(arguments, row, current),), current)

    return Expression(kind, make)


# --- variants --------------------------------------------------------------------------------------------------------


def _visit(default: bool) -> Builder:
    """`Visit(variant, lambda AS name, ...)`, or with lambdas by position over a Tuple; VisitOrDefault has a default behind
    the variant."""

    def build(call: Invocation) -> Operand:
        given = value_at(call, 0)
        if isinstance(given.type, NullType):
            return constant(NULL, None)
        kind = bare(given.type)
        if not isinstance(kind, VariantType):
            raise argument_fault(call, f"Expected variant type, but got: {format_type(given.type)}")
        otherwise = value_at(call, 1) if default else None
        handlers = _handlers(call, kind, 2 if default else 1, complete=not default)
        bound = [
            None if handler is None else handler.bind([item])
            for handler, (_, item) in zip(handlers, alternatives(kind), strict=True)
        ]
        return _dispatch(call, given, bound, otherwise)

    return build


def _handlers(call: Invocation, kind: VariantType, first: int, complete: bool) -> list[Lambda | None]:
    """The lambda for each alternative. Faults: one is missing, or too many."""
    names = [name for name, _ in alternatives(kind)]
    if isinstance(kind.over, StructType):
        count_positional = len(call.operands) - first
        given: dict[str, Operand] = dict(call.named)
        if count_positional > 0:
            raise argument_fault(call, "Handlers of a variant over a struct must be named")
    else:
        given = {str(place): each for place, each in enumerate(call.operands[first:])}
        if call.named:
            raise argument_fault(call, "Handlers of a variant over a tuple must not be named")
    for name in given:
        if name not in names:
            raise argument_fault(call, f"Unknown alternative: {name}")
    for name in names:
        if complete and name not in given:
            raise argument_fault(call, f"Missing handler of alternative: {name}")
    inner = Invocation(call.name, tuple(given.values()), (), call.position)
    places = {name: place for place, name in enumerate(given)}
    return [function_at(inner, places[name]) if name in places else None for name in names]


def _dispatch(
    call: Invocation, given: Expression, bound: Sequence[BoundLambda | None], otherwise: Expression | None
) -> Expression:
    """Call the lambda of a variant's alternative; all results are converted to one type."""
    results = [Expression(each.type, lambda row, run: row[0]) for each in bound if each is not None]
    kind, converted = common_type(call, [*results, *((otherwise,) if otherwise is not None else ())])
    steps = iter(converted)
    handlers = [None if each is None else (each.call, next(steps).evaluate) for each in bound]
    fallback = None if otherwise is None else next(steps).evaluate
    evaluate = given.evaluate

    def visit(row: Row, run: Run) -> Value:
        value = evaluate(row, run)
        if value is None:
            return None
        handler = handlers[value[0]]
        if handler is None:
            return None if fallback is None else fallback(row, run)
        return handler[1]((handler[0]((value[1],), row, run),), run)

    return Expression(optional(kind) if is_optional(given.type) else kind, visit)


# --- structs and tuples ----------------------------------------------------------------------------------------------


def _parts_at(call: Invocation, index: int) -> tuple[Expression, list[tuple[str, Type]], bool]:
    """The operand, the names and types of its parts, and True for a struct."""
    given = value_at(call, index)
    if isinstance(given.type, StructType):
        return given, list(given.type.members), True
    if isinstance(given.type, TupleType):
        return given, [(str(place), item) for place, item in enumerate(given.type.items)], False
    raise argument_fault(call, f"Expected struct or tuple type, but got: {format_type(given.type)}")


def _assemble(names: Sequence[str], types: Sequence[Type], struct: bool) -> Type:
    return StructType(tuple(zip(names, types, strict=True))) if struct else TupleType(tuple(types))


def _static_map(call: Invocation) -> Operand:
    """`StaticMap(struct or tuple, (item) -> value)`"""
    count_operands(call, 2)
    given, parts, struct = _parts_at(call, 0)
    bodies = [lambda_at(call, 1, [kind]) for _, kind in parts]
    evaluate = given.evaluate

    def map_parts(row: Row, run: Run) -> Value:
        values = evaluate(row, run)
        return tuple([body.call((value,), row, run) for body, value in zip(bodies, values, strict=True)])

    return Expression(_assemble([name for name, _ in parts], [each.type for each in bodies], struct), map_parts)


def _static_zip(call: Invocation) -> Operand:
    """`StaticZip(one, two, ...)`: structs of the same members, or tuples of one length."""
    count_operands(call, 1, -1)
    found = [_parts_at(call, index) for index in range(len(call.operands))]
    _, first, struct = found[0]
    names = [name for name, _ in first]
    for index, (given, parts, is_struct) in enumerate(found):
        if is_struct != struct or [name for name, _ in parts] != names:
            raise argument_fault(call, f"Mismatch of parts of argument #{index + 1}: {format_type(given.type)}")
    types = [TupleType(tuple(parts[place][1] for _, parts, _ in found)) for place in range(len(names))]
    return apply_with_nulls(
        [given for given, _, _ in found],
        _assemble(names, types, struct),
        lambda *values: tuple(zip(*values, strict=True)),
    )


def _static_fold(call: Invocation) -> Operand:
    """`StaticFold(struct or tuple, state, (item, state) -> state)`; the type of the state may change."""
    count_operands(call, 3)
    given, parts, _ = _parts_at(call, 0)
    initial = value_at(call, 1)
    return _fold_parts(call, given, parts, 0, initial.type, initial.evaluate)


def _static_fold1(call: Invocation) -> Operand:
    """`StaticFold1(struct or tuple, (item) -> state, (item, state) -> state)`"""
    count_operands(call, 3)
    given, parts, _ = _parts_at(call, 0)
    if not parts:
        return constant(NULL, None)
    first, evaluate = lambda_at(call, 1, [parts[0][1]]), given.evaluate
    return _fold_parts(
        call, given, parts, 1, first.type, lambda row, run: first.call((evaluate(row, run)[0],), row, run)
    )


def _fold_parts(
    call: Invocation,
    given: Expression,
    parts: Sequence[tuple[str, Type]],
    start: int,
    kind: Type,
    initial: Callable[[Row, Run], Value],
) -> Expression:
    bodies: list[BoundLambda] = []
    for _, item in parts[start:]:
        bodies.append(lambda_at(call, 2, [item, kind]))
        kind = bodies[-1].type
    evaluate = given.evaluate

    def fold(row: Row, run: Run) -> Value:
        state = initial(row, run)
        for body, value in zip(bodies, evaluate(row, run)[start:], strict=True):
            state = body.call((value, state), row, run)
        return state

    return Expression(kind, fold)


BUILDERS: Final[dict[str, Builder]] = {
    "Callable": _callable,
    "Visit": _visit(default=False),
    "VisitOrDefault": _visit(default=True),
    "StaticMap": _static_map,
    "StaticZip": _static_zip,
    "StaticFold": _static_fold,
    "StaticFold1": _static_fold1,
}
