"""Folds of lists: ListFold, ListFold1, ListFoldMap, ListFold1Map. An Optional list gives an Optional result.

An empty list without a type of items never calls its lambda, so that the lambda is not bound.
Source: https://ydb.tech/docs/en/yql/reference/builtins/list#listfold
"""

from __future__ import annotations

from typing import Final

from mayflydb.query.yql.expression import BoundLambda, Builder, Expression, Invocation, Operand
from mayflydb.query.yql.functions.lists import list_at
from mayflydb.query.yql.functions.support import (
    argument_fault,
    constant,
    count_operands,
    function_at,
    lambda_at,
    value_at,
    wrap_optional,
)
from mayflydb.query.yql.schemas import Row, Run
from mayflydb.query.yql.types import (
    EMPTY_LIST,
    NULL,
    EmptyListType,
    ListType,
    OptionalType,
    TupleType,
    Type,
    Value,
    format_type,
    is_optional,
    optional,
)


def _is_empty(call: Invocation) -> bool:
    """True if the list is empty by its type. Faults: the lambda is none."""
    function_at(call, 2)
    return isinstance(value_at(call, 0).type, EmptyListType)


def _fold(call: Invocation) -> Operand:
    """`ListFold(list, state, (item, state) -> state)`"""
    count_operands(call, 3)
    given, item = list_at(call, 0)
    initial = value_at(call, 1)
    if _is_empty(call):
        return initial
    body = lambda_at(call, 2, [item, initial.type])
    if body.type != initial.type:
        raise argument_fault(
            call, f"Mismatch of types of state: {format_type(initial.type)} != {format_type(body.type)}"
        )
    evaluate, start, step = given.evaluate, initial.evaluate, body.call

    def fold(row: Row, run: Run) -> Value:
        values = evaluate(row, run)
        if values is None:
            return None
        state = start(row, run)
        for value in values:
            state = step((value, state), row, run)
        return state

    return Expression(optional(initial.type) if is_optional(given.type) else initial.type, fold)


def _fold1(call: Invocation) -> Operand:
    """`ListFold1(list, (item) -> state, (item, state) -> state)`"""
    count_operands(call, 3)
    given, item = list_at(call, 0)
    if _is_empty(call):
        return constant(NULL, None)
    first = lambda_at(call, 1, [item])
    body = lambda_at(call, 2, [item, first.type])
    evaluate, some = given.evaluate, wrap_optional(first.type)

    def fold(row: Row, run: Run) -> Value:
        values = evaluate(row, run)
        if not values:
            return None
        state = first.call((values[0],), row, run)
        for value in values[1:]:
            state = body.call((value, state), row, run)
        return some(state)

    return Expression(OptionalType(first.type), fold)


def _fold_map(call: Invocation) -> Operand:
    """`ListFoldMap(list, state, (item, state) -> (result, state))`"""
    count_operands(call, 3)
    given, item = list_at(call, 0)
    initial = value_at(call, 1)
    if _is_empty(call):
        return Expression(EMPTY_LIST, lambda row, run: [], constant=True)
    body = lambda_at(call, 2, [item, initial.type])
    result, _ = _result_and_state(call, body, initial.type)
    evaluate, start, step = given.evaluate, initial.evaluate, body.call

    def fold(row: Row, run: Run) -> Value:
        values = evaluate(row, run)
        if values is None:
            return None
        state, results = start(row, run), []
        for value in values:
            found, state = step((value, state), row, run)
            results.append(found)
        return results

    kind = ListType(result)
    return Expression(optional(kind) if is_optional(given.type) else kind, fold)


def _fold1_map(call: Invocation) -> Operand:
    """`ListFold1Map(list, (item) -> (result, state), (item, state) -> (result, state))`"""
    count_operands(call, 3)
    given, item = list_at(call, 0)
    if _is_empty(call):
        return Expression(EMPTY_LIST, lambda row, run: [], constant=True)
    first = lambda_at(call, 1, [item])
    result, state_type = _result_and_state(call, first, None)
    body = lambda_at(call, 2, [item, state_type])
    if _result_and_state(call, body, state_type)[0] != result:
        raise argument_fault(
            call, f"Mismatch of types of result: {format_type(first.type)} != {format_type(body.type)}"
        )
    evaluate = given.evaluate

    def fold(row: Row, run: Run) -> Value:
        values = evaluate(row, run)
        if not values:
            return values
        found, state = first.call((values[0],), row, run)
        results = [found]
        for value in values[1:]:
            found, state = body.call((value, state), row, run)
            results.append(found)
        return results

    kind = ListType(result)
    return Expression(optional(kind) if is_optional(given.type) else kind, fold)


def _result_and_state(call: Invocation, body: BoundLambda, state: Type | None) -> tuple[Type, Type]:
    """The types of the pair that a lambda gives. `state`: the type that the state must have."""
    pair = body.type
    if not isinstance(pair, TupleType) or len(pair.items) != 2 or state not in (None, pair.items[1]):
        raise argument_fault(call, f"Expected a tuple of a result and a state, but got: {format_type(pair)}")
    return pair.items[0], pair.items[1]


BUILDERS: Final[dict[str, Builder]] = {
    "ListFold": _fold,
    "ListFold1": _fold1,
    "ListFoldMap": _fold_map,
    "ListFold1Map": _fold1_map,
}
