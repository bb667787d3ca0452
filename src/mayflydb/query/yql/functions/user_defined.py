"""UDAF: an aggregate of lambdas.

Source: `yql/essentials/sql/v1/aggregation.cpp` of https://github.com/ydb-platform/ydb.
"""

from __future__ import annotations

from collections.abc import Sequence

from mayflydb.query.yql.expression import BoundFactory, BoundLambda, Expression, Invocation, Lambda
from mayflydb.query.yql.functions.support import argument_fault, evaluate_constant, function_at, value_at
from mayflydb.query.yql.schemas import Row, Run
from mayflydb.query.yql.types import NULL, VOID, Type, Value, bare, format_type, is_optional, optional


def build_user_defined(call: Invocation, first: int, kind: Type) -> BoundFactory:
    """Build the aggregate of the lambdas from operand `first` on: create, add, merge [, finish [, save [, load [, default]]]].

    Merging, saving and loading join the states of several computers in YDB. They are checked here, and never called.
    """
    given = len(call.operands) - first
    if not 3 <= given <= 7:
        raise argument_fault(call, f"User defined aggregation function requires 3 to 7 arguments, given: {given}")
    item = bare(kind)
    create = _bind_with_parent(function_at(call, first), [item])
    state = create.type
    add = _bind_with_parent(function_at(call, first + 1), [state, item])
    _check_state(call, "add", add.type, state)
    _check_merging(call, first, state)
    end = function_at(call, first + 3).detach().bind([state]) if given > 3 else None
    default, default_type = _default(call, first + 6)
    result = state if end is None else end.type
    if default_type not in (NULL, result):
        raise argument_fault(
            call, f"Mismatch of types of default value: {format_type(default_type)} != {format_type(result)}"
        )

    skips_null = is_optional(kind)

    # A state is kept in a tuple, since it may be NULL.
    def step(kept: Value, value: Value, row: Row, run: Run) -> Value:
        if value is None and skips_null:
            return kept
        if kept is None:
            return (create.call((value,), (), run),)
        return (add.call((kept[0], value), (), run),)

    def finish(kept: Value, run: Run) -> Value:
        if kept is None:
            return default
        return kept[0] if end is None else end.call((kept[0],), (), run)

    # A group may have no value but NULL.
    kept_type = optional(result) if skips_null and default_type == NULL else result
    return BoundFactory(kept_type, lambda: None, step, finish, null_when_empty=default_type == NULL)


def _bind_with_parent(function: Lambda, types: Sequence[Type]) -> BoundLambda:
    """Bind a lambda that may have one more parameter, for the parent of the state, whose value is Void."""
    if function.arity == len(types):
        return function.detach().bind(types)
    body = function.detach().bind([*types, VOID])
    return BoundLambda(body.type, lambda arguments, row, run: body.call((*arguments, None), row, run))


def _check_state(call: Invocation, name: str, found: Type, state: Type) -> None:
    if found != state:
        raise argument_fault(call, f"Mismatch of types of {name} lambda: {format_type(found)} != {format_type(state)}")


def _check_merging(call: Invocation, first: int, state: Type) -> None:
    merge = call.operands[first + 2]
    # NULL says that states are never merged.
    if not isinstance(merge, Expression) or merge.type != NULL:
        _check_state(call, "merge", function_at(call, first + 2).detach().bind([state, state]).type, state)
    saved = state
    if len(call.operands) > first + 4:
        saved = function_at(call, first + 4).detach().bind([state]).type
    if len(call.operands) > first + 5:
        _check_state(call, "load", function_at(call, first + 5).detach().bind([saved]).type, state)


def _default(call: Invocation, index: int) -> tuple[Value, Type]:
    if index >= len(call.operands):
        return None, NULL
    given = value_at(call, index)
    value = evaluate_constant(given, call)
    return value, NULL if value is None and is_optional(given.type) else given.type
