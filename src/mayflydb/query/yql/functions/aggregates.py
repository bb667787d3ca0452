"""Aggregates: COUNT, SUM, MIN and others. NULL is ignored, except by BOOL_AND, BOOL_OR and BOOL_XOR; the aggregate of no
value but NULL is NULL (COUNT: 0).

Types are those of a group that has rows. Where a group may be empty, as without GROUP BY, the caller makes them Optional.
Source: https://ydb.tech/docs/en/yql/reference/builtins/aggregation
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Final

from mayflydb.query.sorting import sort_in_runs
from mayflydb.query.yql import comparison
from mayflydb.query.yql.expression import AggregateBuilder, Aggregation, Expression, Invocation
from mayflydb.query.yql.functions.support import argument_fault, count_operands, evaluate_constant, value_at
from mayflydb.query.yql.types import (
    BOOL,
    DECIMAL_INF,
    DECIMAL_NAN,
    DOUBLE,
    FLOATS,
    INT64,
    INTEGERS,
    INTERVAL,
    INTERVAL64,
    NULL,
    SIGNED,
    UINT64,
    UNSIGNED,
    DecimalType,
    ListType,
    OptionalType,
    Type,
    Value,
    bare,
    format_type,
    is_optional,
    optional,
)

Values = tuple[Value, ...]


def _count(call: Invocation) -> Aggregation:
    if not call.operands:
        count_operands(call, 0)
        return Aggregation(
            UINT64, lambda: 0, lambda state, values: state + 1, _identity, lambda state, rows: state + len(rows)
        )
    count_operands(call, 1)
    value_at(call, 0)
    return Aggregation(
        UINT64,
        lambda: 0,
        lambda state, values: state if values[0] is None else state + 1,
        _identity,
        lambda state, values: state + len(values) - values.count(None),
    )


def _identity(value: Value) -> Value:
    return value


def _nothing() -> Value:
    return None


def nullable_like(given: Expression, kind: Type) -> Type:
    """Return `kind`, Optional if the operand is Optional."""
    return optional(kind) if is_optional(given.type) else kind


def without_nulls(values: Sequence[Value]) -> Sequence[Value]:
    """Return the values that are not NULL."""
    return [value for value in values if value is not None] if None in values else values


def fold_values(
    kind: Type,
    combine: Callable[[Value, Value], Value],
    first: Callable[[Value], Value] = _identity,
    join: Callable[[Sequence[Value]], Value] | None = None,
) -> Aggregation:
    """Build an aggregation that combines all values that are not NULL into one.

    `join`: combines several values into one, which may then be combined with others; None: the order of all steps counts.
    """

    def step(state: Value, values: Values) -> Value:
        value = values[0]
        if value is None:
            return state
        return first(value) if state is None else combine(state, value)

    def fold(state: Value, values: Sequence[Value]) -> Value:
        found = without_nulls(values)
        if not found:
            return state
        if join is not None:
            joined = join(found)
            return first(joined) if state is None else combine(state, joined)
        if state is None:
            return reduce(combine, found[1:], first(found[0]))
        return reduce(combine, found, state)

    return Aggregation(kind, _nothing, step, _identity, fold)


# --- sums ------------------------------------------------------------------------------------------------------------


def wrap_integer(kind: Type) -> Callable[[int], int]:
    """Return a function that wraps an integer around at 64 bits."""
    if kind in UNSIGNED:
        return lambda value: value & 0xFFFFFFFFFFFFFFFF
    return lambda value: (value + 2**63) % 2**64 - 2**63


def sum_type(call: Invocation, kind: Type) -> Type:
    """The type of a sum of such values."""
    if isinstance(kind, DecimalType):
        return DecimalType(35, kind.scale)
    if kind in SIGNED:
        return INT64
    if kind in UNSIGNED or kind == BOOL:
        return UINT64
    if kind in FLOATS:
        return DOUBLE
    if kind in (INTERVAL, INTERVAL64):
        return kind
    raise argument_fault(call, f"Expected numeric, decimal or interval type, but got: {format_type(kind)}")


def find_addition(kind: Type) -> Callable[[Value, Value], Value]:
    """Return the addition in the type of a sum."""
    if isinstance(kind, DecimalType):
        return add_decimals
    if kind in INTEGERS:
        # SUM wraps around at 64 bits, as YQL's `+` does. AVG of integers adds exact ints instead.
        fold = wrap_integer(kind)
        return lambda left, right: fold(left + right)
    return operator.add


def add_decimals(left: int, right: int) -> int:
    """The sum of two Decimals of one scale; infinity and nan follow the rules of floating point."""
    infinite = [each for each in (left, right) if abs(each) >= DECIMAL_INF]
    if infinite:
        if DECIMAL_NAN in infinite or (len(infinite) == 2 and infinite[0] != infinite[1]):
            return DECIMAL_NAN
        return infinite[0]
    total = left + right
    return max(-DECIMAL_INF, min(DECIMAL_INF, total))


def _sum(call: Invocation) -> Aggregation:
    count_operands(call, 1)
    return build_sum(call, value_at(call, 0))


def build_sum(call: Invocation, given: Expression) -> Aggregation:
    if given.type == NULL:
        return fold_values(NULL, _first_of_two)
    kind = sum_type(call, bare(given.type))
    # The first value starts the sum, so it must have the sum's type: a Bool counts as 0 or 1.
    first = float if kind == DOUBLE else int if kind == UINT64 else _identity
    # Sums of integers wrap around, in whatever order they are added.
    join = None if isinstance(kind, DecimalType) or kind not in INTEGERS else _join_sum(wrap_integer(kind))
    return fold_values(nullable_like(given, kind), find_addition(kind), first, join)


def _join_sum(fold: Callable[[int], int]) -> Callable[[Sequence[Value]], int]:
    return lambda values: fold(sum(values))


def _first_of_two(left: Value, right: Value) -> Value:
    return left


def _average(call: Invocation) -> Aggregation:
    count_operands(call, 1)
    return build_average(call, value_at(call, 0))


def build_average(call: Invocation, given: Expression) -> Aggregation:
    """AVG: a Double for numbers, else the operand's type."""
    source = bare(given.type)
    if given.type == NULL:
        return fold_values(NULL, _first_of_two)
    total = sum_type(call, source)
    add = find_addition(total) if isinstance(total, DecimalType) else _add_exactly
    divide: Callable[[Value, int], Value] = _quotient
    kind: Type = DOUBLE
    if isinstance(source, DecimalType):
        kind, divide = source, _mean_decimal
    elif total in (INTERVAL, INTERVAL64):
        kind, divide = total, _toward_zero

    def step(state: Value, values: Values) -> Value:
        value = values[0]
        if value is None:
            return state
        return (value, 1) if state is None else (add(state[0], value), state[1] + 1)

    def fold(state: Value, values: Sequence[Value]) -> Value:
        found = without_nulls(values)
        if not found:
            return state
        if state is None:
            return reduce(add, found), len(found)
        return reduce(add, found, state[0]), state[1] + len(found)

    return Aggregation(
        nullable_like(given, kind), _nothing, step, lambda state: None if state is None else divide(*state), fold
    )


_add_exactly = operator.add


def _quotient(total: float, number: int) -> float:
    return float(total / number)


def _toward_zero(value: int, divisor: int) -> int:
    quotient = abs(value) // divisor
    return quotient if value >= 0 else -quotient


def _mean_decimal(total: int, number: int) -> int:
    """Divide and round half to even, as the division of Decimals does."""
    if abs(total) >= DECIMAL_INF:
        return total
    # `divmod` rounds down, so the rest of a negative total is not negative either.
    quotient, rest = divmod(total, number)
    if 2 * rest > number or (2 * rest == number and quotient % 2):
        quotient += 1
    return quotient


# --- the least and the greatest --------------------------------------------------------------------------------------


def find_ordering(call: Invocation, kind: Type) -> Callable[[Value], Any]:
    """Return a key that orders values of this type."""
    if not comparison.is_sortable(kind):
        raise argument_fault(call, f"Expected comparable type, but got: {format_type(kind)}")
    return comparison.sort_key(kind)


def _extreme(greatest: bool) -> AggregateBuilder:
    def build(call: Invocation) -> Aggregation:
        count_operands(call, 1)
        given = value_at(call, 0)
        key = find_ordering(call, bare(given.type))
        # Of equal values the first one stays, as `max` and `min` have it.
        if greatest:
            return fold_values(
                given.type,
                lambda state, value: value if key(value) > key(state) else state,
                join=lambda values: max(values, key=key),
            )
        return fold_values(
            given.type,
            lambda state, value: value if key(value) < key(state) else state,
            join=lambda values: min(values, key=key),
        )

    return build


def _extreme_by(greatest: bool) -> AggregateBuilder:
    """MIN_BY(value, by [, limit]): the value of a row with the least key; with `limit` a list of the values of such rows.

    Source: https://ydb.tech/docs/en/yql/reference/builtins/aggregation#minby
    """

    def build(call: Invocation) -> Aggregation:
        given = count_operands(call, 2, 3)
        value, by = value_at(call, 0), value_at(call, 1)
        key = find_ordering(call, bare(by.type))
        if given == 3:
            return _collect_tied(bare(value.type), key, _limit(call, 2), greatest)

        def step(state: Value, values: Values) -> Value:
            found = values[1]
            if found is None or values[0] is None:
                return state
            state.append((key(found), values[0]))
            return state if len(state) < _SORT_BATCH else _best_pairs(state, 1, greatest)

        kind = optional(bare(value.type)) if is_optional(value.type) or is_optional(by.type) else value.type
        return Aggregation(kind, list, step, lambda state: _best_pairs(state, 1, greatest)[0][1] if state else None)

    return build


_SORT_BATCH: Final = 66
"""The number of pairs that are collected before all but the best are discarded."""


def _collect_tied(item: Type, key: Callable[[Value], Any], limit: int, greatest: bool) -> Aggregation:
    """Collect the values of the rows whose key is the greatest (or least) of all, at most `limit` values."""

    def step(state: Value, values: Values) -> Value:
        if values[0] is None or values[1] is None:
            return state
        by = key(values[1])
        if not state or (by > state[0] if greatest else by < state[0]):
            return [by, [values[0]][:limit]]
        if by == state[0] and len(state[1]) < limit:
            state[1].append(values[0])
        return state

    return Aggregation(ListType(item), list, step, lambda state: state[1] if state else [])


def _best_by(greatest: bool) -> AggregateBuilder:
    """TOP_BY(value, by, n), BOTTOM_BY: the values of the n rows that come first by their keys."""

    def build(call: Invocation) -> Aggregation:
        count_operands(call, 3)
        value, by = value_at(call, 0), value_at(call, 1)
        key, limit = find_ordering(call, bare(by.type)), _limit(call, 2)

        def step(state: Value, values: Values) -> Value:
            if values[0] is None or values[1] is None:
                return state
            state.append((key(values[1]), values[0]))
            # Up to twice as many values are held before the worst are dropped, so that a sort is shared by many rows.
            return state if len(state) < 2 * limit + 64 else _best_pairs(state, limit, greatest)

        return Aggregation(
            ListType(bare(value.type)), list, step, lambda state: [v for _, v in _best_pairs(state, limit, greatest)]
        )

    return build


def _best_pairs(pairs: list[tuple[Any, Value]], limit: int, greatest: bool) -> list[tuple[Any, Value]]:
    """Return the first `limit` pairs by their keys; pairs with equal keys stay in the order of their rows."""
    return sort_in_runs(pairs, _key_of, greatest)[:limit]


def _key_of(pair: tuple[Any, Value]) -> Any:
    return pair[0]


def _limit(call: Invocation, index: int) -> int:
    value = evaluate_constant(value_at(call, index), call)
    if type(value) is not int or value < 0:
        raise argument_fault(call, f"Expected a number that is not negative as argument #{index + 1}")
    return value


def _top(greatest: bool) -> AggregateBuilder:
    """TOP(value, n), BOTTOM: the first n values, best first."""

    def build(call: Invocation) -> Aggregation:
        count_operands(call, 2)
        value = value_at(call, 0)
        key, limit = find_ordering(call, bare(value.type)), _limit(call, 1)

        def step(state: Value, values: Values) -> Value:
            if values[0] is None:
                return state
            state.append((key(values[0]), values[0]))
            return state if len(state) < 2 * limit + 64 else _best_pairs(state, limit, greatest)

        return Aggregation(
            ListType(bare(value.type)), list, step, lambda state: [v for _, v in _best_pairs(state, limit, greatest)]
        )

    return build


# --- some, and lists -------------------------------------------------------------------------------------------------


def _some(call: Invocation) -> Aggregation:
    count_operands(call, 1)
    return fold_values(value_at(call, 0).type, _first_of_two)


def _list(call: Invocation) -> Aggregation:
    """AGGREGATE_LIST(value [, limit])"""
    limit = _limit(call, 1) if count_operands(call, 1, 2) == 2 else 0

    def step(state: Value, values: Values) -> Value:
        if values[0] is not None and not (limit and len(state) >= limit):
            state.append(values[0])
        return state

    return Aggregation(ListType(_item_type(value_at(call, 0).type)), list, step, _identity)


def _item_type(kind: Type) -> Type:
    return kind.item if isinstance(kind, OptionalType) else kind


def _distinct_list(call: Invocation) -> Aggregation:
    limit = _limit(call, 1) if count_operands(call, 1, 2) == 2 else 0
    kind = value_at(call, 0).type
    key = comparison.group_key(_item_type(kind))

    def step(state: Value, values: Values) -> Value:
        if values[0] is not None and not (limit and len(state) >= limit):
            state.setdefault(key(values[0]), values[0])
        return state

    return Aggregation(ListType(_item_type(kind)), dict, step, lambda state: list(state.values()))


# --- with conditions -------------------------------------------------------------------------------------------------


def _count_if(call: Invocation) -> Aggregation:
    count_operands(call, 1)
    boolean_at(call, 0)
    return Aggregation(UINT64, lambda: 0, lambda state, values: state + 1 if values[0] else state, _identity)


def boolean_at(call: Invocation, index: int) -> Expression:
    """The operand, a Bool or Bool?."""
    given = value_at(call, index)
    if given.type != NULL and bare(given.type) != BOOL:
        raise argument_fault(call, f"Expected type: Bool, but got: {format_type(given.type)}")
    return given


def _conditional(build: Callable[[Invocation, Expression], Aggregation]) -> AggregateBuilder:
    """SUM_IF(value, condition) and others. A group may have no row that meets the condition, so the result is Optional."""

    def conditional(call: Invocation) -> Aggregation:
        count_operands(call, 2)
        boolean_at(call, 1)
        inner = build(call, value_at(call, 0))
        step = inner.step

        def add_if_true(state: Value, values: Values) -> Value:
            return step(state, values) if values[1] else state

        return Aggregation(optional(inner.type), inner.start, add_if_true, inner.finish)

    return conditional


def _logical(combine: Callable[[Value, Value], Value]) -> AggregateBuilder:
    """BOOL_AND and others. NULL is a third truth value here, and not ignored."""

    # A state is kept in a tuple, since it may be NULL.
    def step(state: Value, values: Values) -> Value:
        return (values[0],) if state is None else (combine(state[0], values[0]),)

    def fold(state: Value, values: Sequence[Value]) -> Value:
        if not values:
            return state
        return (reduce(combine, values),) if state is None else (reduce(combine, values, state[0]),)

    def build(call: Invocation) -> Aggregation:
        count_operands(call, 1)
        kind = boolean_at(call, 0).type
        return Aggregation(kind, _nothing, step, lambda state: None if state is None else state[0], fold)

    return build


def _and(left: Value, right: Value) -> Value:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def _or(left: Value, right: Value) -> Value:
    if left is True or right is True:
        return True
    return None if left is None or right is None else False


def _xor(left: Value, right: Value) -> Value:
    return None if left is None or right is None else left != right


def _bits(combine: Callable[[Value, Value], Value]) -> AggregateBuilder:
    def build(call: Invocation) -> Aggregation:
        count_operands(call, 1)
        given = value_at(call, 0)
        if given.type != NULL and bare(given.type) not in UNSIGNED and bare(given.type) not in INTEGERS:
            raise argument_fault(call, f"Expected integral type, but got: {format_type(given.type)}")
        return fold_values(given.type, combine)

    return build


AGGREGATES: Final[dict[str, AggregateBuilder]] = {
    "count": _count,
    "sum": _sum,
    "avg": _average,
    "min": _extreme(greatest=False),
    "max": _extreme(greatest=True),
    "minby": _extreme_by(greatest=False),
    "maxby": _extreme_by(greatest=True),
    "top": _top(greatest=True),
    "bottom": _top(greatest=False),
    "topby": _best_by(greatest=True),
    "bottomby": _best_by(greatest=False),
    "some": _some,
    "aggregatelist": _list,
    "agglist": _list,
    "aggregatelistdistinct": _distinct_list,
    "agglistdistinct": _distinct_list,
    "countif": _count_if,
    "sumif": _conditional(build_sum),
    "avgif": _conditional(build_average),
    "booland": _logical(_and),
    "boolor": _logical(_or),
    "boolxor": _logical(_xor),
    "bitand": _bits(lambda left, right: left & right),
    "bitor": _bits(lambda left, right: left | right),
    "bitxor": _bits(lambda left, right: left ^ right),
}
