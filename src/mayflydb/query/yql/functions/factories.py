"""Aggregation factories: aggregates that are named apart from the values that they are applied to.

A factory over an aggregate of two values, such as MAX_BY, takes a Tuple of both.
Source: https://ydb.tech/docs/en/yql/reference/builtins/basic#aggregationfactory, `builtins/aggregation#aggregate-by` and
`yql/essentials/sql/v1/aggregation.cpp` of https://github.com/ydb-platform/ydb.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mayflydb.query.yql import functions
from mayflydb.query.yql.expression import (
    AggregateBuilder,
    Aggregation,
    BoundFactory,
    Builder,
    Expression,
    Factory,
    Invocation,
    Operand,
)
from mayflydb.query.yql.functions.dicts import dict_at
from mayflydb.query.yql.functions.lists import list_at
from mayflydb.query.yql.functions.support import (
    argument_fault,
    count_operands,
    evaluate_constant,
    factory_at,
    function_at,
    lambda_at,
    value_at,
)
from mayflydb.query.yql.functions.user_defined import build_user_defined
from mayflydb.query.yql.schemas import Row, Run
from mayflydb.query.yql.types import (
    NULL,
    DictType,
    EmptyListType,
    ListType,
    StructType,
    TupleType,
    Type,
    Value,
    bare,
    format_type,
    is_optional,
    optional,
)

_PAIRS: Final = frozenset(
    (
        *("minby", "maxby", "topby", "bottomby", "sumif", "avgif", "correlation", "corr", "covariance", "covar"),
        *("covariancesample", "covarsamp", "covarsample", "covariancepopulation", "covarpop", "covarpopulation"),
    )
)
"""The aggregates of two values."""

_MAYBE_PAIRS: Final = frozenset(
    ("hist", "histogram", "adaptivedistancehistogram", "adaptiveweighthistogram", "adaptivewardhistogram")
)
"""The aggregates of a value and perhaps its weight."""


def _factory(call: Invocation) -> Operand:
    """`AggregationFactory("name", ...)`; the further operands do not depend on rows."""
    count_operands(call, 1, -1)
    name = evaluate_constant(value_at(call, 0), call)
    text = name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
    plain = text.lower().replace("_", "")
    if plain == "udaf":
        return _user_defined_factory(call)
    builder = functions.find_aggregate(text)
    if builder is None or plain in ("aggregateby", "multiaggregateby"):
        raise argument_fault(call, f"Unknown aggregation function: {text}")
    return Factory(lambda apply, kind: _bind_by_name(apply, kind, plain, builder, call))


def _user_defined_factory(call: Invocation) -> Operand:
    made = Invocation("UDAF", call.operands[1:], (), call.position)
    return Factory(lambda apply, kind: build_user_defined(made, 0, kind))


def _bind_by_name(
    apply: Invocation, kind: Type, plain: str, builder: AggregateBuilder, factory: Invocation
) -> BoundFactory:
    """Bind an aggregate for values of a type; `factory` has its further operands."""
    over = bare(kind)
    given: tuple[Expression, ...] = (_item(kind, 0),)
    paired = plain in _PAIRS or (plain in _MAYBE_PAIRS and isinstance(over, TupleType))
    if paired:
        if not isinstance(over, TupleType) or len(over.items) != 2:
            raise argument_fault(apply, f"Expected a tuple of two values, but got: {format_type(kind)}")
        given = tuple(_item(item, place) for place, item in enumerate(over.items))
    made = builder(Invocation(plain.upper(), (*given, *factory.operands[1:]), (), factory.position))
    rest = tuple(evaluate_constant(each, factory) for each in factory.operands[1:] if isinstance(each, Expression))
    step, finish = made.step, made.finish

    def step_once(state: Value, value: Value, row: Row, run: Run) -> Value:
        return step(state, (value, *rest))

    def step_pair(state: Value, value: Value, row: Row, run: Run) -> Value:
        return state if value is None else step(state, (*value, *rest))

    return BoundFactory(
        made.type,
        made.start,
        step_pair if paired else step_once,
        lambda state, run: finish(state),
        made.is_null_without_rows,
    )


def _item(kind: Type, place: int) -> Expression:
    return Expression(kind, lambda row, run: row[place])


# --- factories of factories ------------------------------------------------------------------------------------------


def _transform_input(call: Invocation) -> Operand:
    """`AggregateTransformInput(factory, (value) -> value)`"""
    count_operands(call, 2)
    inner = factory_at(call, 0)

    def bind(apply: Invocation, kind: Type) -> BoundFactory:
        body = lambda_at(call, 1, [kind])
        made = inner.bind(apply, body.type)
        step, change = made.step, body.call
        return BoundFactory(
            made.type,
            made.start,
            lambda state, value, row, run: step(state, change((value,), row, run), row, run),
            made.finish,
            made.null_when_empty,
        )

    return Factory(bind)


def _transform_output(call: Invocation) -> Operand:
    """`AggregateTransformOutput(factory, (result) -> result)`; NULL instead of a result is not transformed."""
    count_operands(call, 2)
    inner, change = factory_at(call, 0), function_at(call, 1).detach()

    def bind(apply: Invocation, kind: Type) -> BoundFactory:
        made = inner.bind(apply, kind)
        body = change.bind([made.type])

        def finish(state: Value, run: Run) -> Value:
            found = made.finish(state, run)
            # A result that its type does not allow is that of no values.
            return None if found is None and not is_optional(made.type) else body.call((found,), (), run)

        return BoundFactory(body.type, made.start, made.step, finish, made.null_when_empty)

    return Factory(bind)


def _flatten(call: Invocation) -> Operand:
    """`AggregateFlatten(factory)`: aggregates the items of lists."""
    count_operands(call, 1)
    inner = factory_at(call, 0)

    def bind(apply: Invocation, kind: Type) -> BoundFactory:
        made = inner.bind(apply, _items_of(apply, kind))

        def step(state: Value, values: Value, row: Row, run: Run) -> Value:
            for value in values or ():
                state = made.step(state, value, row, run)
            return state

        return BoundFactory(made.type, made.start, step, made.finish, made.null_when_empty)

    return Factory(bind)


def _items_of(call: Invocation, kind: Type) -> Type:
    """The type of the items of a list."""
    over = bare(kind)
    if isinstance(over, ListType):
        return over.item
    if isinstance(over, EmptyListType):
        return NULL
    raise argument_fault(call, f"Expected list type, but got: {format_type(kind)}")


# --- applied to rows -------------------------------------------------------------------------------------------------


def _as_aggregation(made: BoundFactory) -> Aggregation:
    """The factory as an aggregate over rows: its step gets the value, and the pair of row and run."""
    return Aggregation(
        made.type,
        made.start,
        lambda state, values: made.step(state, values[0], *values[-1]),
        # Asked only whether there is a result without rows.
        lambda state: None if made.null_when_empty else 0,
        contextual=True,
        finish_in_run=made.finish,
    )


def _aggregate_by(call: Invocation) -> Aggregation:
    """`AGGREGATE_BY(value, factory)`"""
    count_operands(call, 2)
    return _as_aggregation(factory_at(call, 1).bind(call, value_at(call, 0).type))


def _multi_aggregate_by(call: Invocation) -> Aggregation:
    """`MULTI_AGGREGATE_BY(values, factory)`: aggregates each part of a struct, tuple or list by itself."""
    count_operands(call, 2)
    factory, kind = factory_at(call, 1), value_at(call, 0).type
    over = bare(kind)
    if isinstance(over, ListType):
        return _as_aggregation(_bind_items(factory.bind(call, over.item)))
    if isinstance(over, StructType):
        made = [factory.bind(call, part) for _, part in over.members]
        names = [name for name, _ in over.members]
        return _as_aggregation(
            _bind_parts(made, StructType(tuple(zip(names, [each.type for each in made], strict=True))))
        )
    if isinstance(over, TupleType):
        made = [factory.bind(call, part) for part in over.items]
        return _as_aggregation(_bind_parts(made, TupleType(tuple(each.type for each in made))))
    raise argument_fault(call, f"Expected struct, tuple or list type, but got: {format_type(kind)}")


def _bind_parts(parts: list[BoundFactory], kind: Type) -> BoundFactory:
    def step(states: Value, values: Value, row: Row, run: Run) -> Value:
        if values is None:
            return states
        if states is None:
            states = [each.start() for each in parts]
        return [part.step(state, value, row, run) for part, state, value in zip(parts, states, values, strict=True)]

    def finish(states: Value, run: Run) -> Value:
        if states is None:
            return None
        return tuple([part.finish(state, run) for part, state in zip(parts, states, strict=True)])

    return BoundFactory(kind, lambda: None, step, finish, null_when_empty=True)


def _bind_items(part: BoundFactory) -> BoundFactory:
    """Aggregate items by their place; the result is as long as the shortest list."""

    def step(states: Value, values: Value, row: Row, run: Run) -> Value:
        if values is None:
            return states
        if states is None:
            states = [part.start() for _ in values]
        return [part.step(state, value, row, run) for state, value in zip(states, values, strict=False)]

    def finish(states: Value, run: Run) -> Value:
        return None if states is None else [part.finish(state, run) for state in states]

    return BoundFactory(ListType(part.type), lambda: None, step, finish, null_when_empty=True)


def _udaf(call: Invocation) -> Aggregation:
    """`UDAF(value, create, add, merge [, finish [, save [, load [, default]]]])`"""
    count_operands(call, 4, 8)
    return _as_aggregation(build_user_defined(call, 1, value_at(call, 0).type))


# --- applied to lists ------------------------------------------------------------------------------------------------


def _fold(made: BoundFactory) -> Callable[[Any, Row, Run], Value]:
    def fold(values: Any, row: Row, run: Run) -> Value:
        state = made.start()
        for value in values:
            state = made.step(state, value, row, run)
        return made.finish(state, run)

    return fold


def _list_aggregate(call: Invocation) -> Operand:
    """`ListAggregate(list, factory)`"""
    count_operands(call, 2)
    given, item = list_at(call, 0)
    made = factory_at(call, 1).bind(call, item)
    fold, evaluate = _fold(made), given.evaluate

    def aggregate(row: Row, run: Run) -> Value:
        values = evaluate(row, run)
        return None if values is None else fold(values, row, run)

    null = is_optional(given.type) or made.null_when_empty
    return Expression(optional(made.type) if null else made.type, aggregate)


def _dict_aggregate(call: Invocation) -> Operand:
    """`DictAggregate(dict of lists, factory)`: a dictionary of the aggregates, without the keys whose lists are empty."""
    count_operands(call, 2)
    given, key, payload = dict_at(call, 0)
    factory = factory_at(call, 1)
    if key == NULL:
        return given
    made = factory.bind(call, _items_of(call, payload))
    fold, evaluate = _fold(made), given.evaluate

    def aggregate(row: Row, run: Run) -> Value:
        found = evaluate(row, run)
        return None if found is None else {key: fold(values, row, run) for key, values in found.items() if values}

    kind = DictType(key, made.type)
    return Expression(optional(kind) if is_optional(given.type) else kind, aggregate)


BUILDERS: Final[dict[str, Builder]] = {
    "AggregationFactory": _factory,
    "AggregateTransformInput": _transform_input,
    "AggregateTransformOutput": _transform_output,
    "AggregateFlatten": _flatten,
    "ListAggregate": _list_aggregate,
    "DictAggregate": _dict_aggregate,
}
AGGREGATES: Final[dict[str, AggregateBuilder]] = {
    "aggregateby": _aggregate_by,
    "multiaggregateby": _multi_aggregate_by,
    "udaf": _udaf,
}
