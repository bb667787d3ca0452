"""Functions of lists. An Optional list gives an Optional result.

Source: https://ydb.tech/docs/en/yql/reference/builtins/list
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mayflydb.query.sorting import sort_in_runs
from mayflydb.query.yql import comparison
from mayflydb.query.yql.expression import Builder, Expression, Invocation, Operand
from mayflydb.query.yql.functions.aggregates import build_average, build_sum, find_ordering
from mayflydb.query.yql.functions.support import (
    apply_with_nulls,
    argument_fault,
    common_type,
    convert_operand,
    count_operands,
    evaluate_constant,
    lambda_at,
    map_value,
    mismatch_fault,
    value_at,
    values_of,
    wrap_optional,
)
from mayflydb.query.yql.schemas import Row, Run
from mayflydb.query.yql.sizes import chain_lists, check_items, join_texts
from mayflydb.query.yql.types import (
    BOOL,
    EMPTY_LIST,
    NULL,
    STRING,
    UINT64,
    UTF8,
    EmptyListType,
    ListType,
    NullType,
    OptionalType,
    StructType,
    TupleType,
    Type,
    Value,
    bare,
    format_type,
    holds_null,
    is_optional,
    optional,
)


def list_at(call: Invocation, index: int) -> tuple[Expression, Type]:
    """The list operand and the type of its items (NULL for an empty list)."""
    given = value_at(call, index)
    kind = bare(given.type)
    if isinstance(kind, ListType):
        return given, kind.item
    if isinstance(kind, (EmptyListType, NullType)):
        return given, NULL
    raise argument_fault(call, f"Expected list type, but got: {format_type(given.type)}")


def _list_function(kind: Callable[[Type], Type], change: Callable[[list[Value]], Value]) -> Builder:
    """Build a function of a list alone; `kind` maps the type of the items to the type of the result."""

    def build(call: Invocation) -> Operand:
        count_operands(call, 1)
        given, item = list_at(call, 0)
        return map_value(given, kind(item), change)

    return build


def _same_list(change: Callable[[list[Value]], Value]) -> Builder:
    def build(call: Invocation) -> Operand:
        count_operands(call, 1)
        given, _ = list_at(call, 0)
        return map_value(given, bare(given.type), change)

    return build


def _end_item(index: int) -> Builder:
    """ListHead and ListLast."""

    def build(call: Invocation) -> Operand:
        count_operands(call, 1)
        given, item = list_at(call, 0)
        some = wrap_optional(item)
        return apply_with_nulls([given], OptionalType(item), lambda values: some(values[index]) if values else None)

    return build


def _take_or_skip(take: bool) -> Builder:
    """ListTake and ListSkip; NULL for the number gives the whole list."""

    def build(call: Invocation) -> Operand:
        count_operands(call, 2)
        given, _ = list_at(call, 0)
        number = convert_operand(call, 1, UINT64)

        def cut(values: Value, limit: Value) -> Value:
            if values is None or limit is None:
                return values
            return values[:limit] if take else values[limit:]

        return apply_with_nulls([given, number], given.type, cut)

    return build


# --- with lambdas ----------------------------------------------------------------------------------------------------

RunBody = Callable[[tuple[Value, ...], Row, Run], Value]


def _with_lambda(
    call: Invocation, kind: Callable[[Type], Type], run_over: Callable[[list[Value], RunBody, Row, Run], Value]
) -> Expression:
    """Build a function of a list and a lambda over its items; `kind` maps the type of the lambda's body to that of the
    result.
    """
    count_operands(call, 2)
    given, item = list_at(call, 0)
    body = lambda_at(call, 1, [item])
    evaluate, of_body = given.evaluate, body.call

    def over(row: Row, run: Run) -> Value:
        values = evaluate(row, run)
        return None if values is None else run_over(values, of_body, row, run)

    result = kind(body.type)
    return Expression(optional(result) if is_optional(given.type) else result, over)


def _map(call: Invocation) -> Operand:
    return _with_lambda(call, ListType, lambda values, body, row, run: [body((value,), row, run) for value in values])


def _flat_map(call: Invocation) -> Operand:
    def kind(body: Type) -> Type:
        inner = bare(body)
        if isinstance(inner, ListType):
            return inner
        if isinstance(inner, EmptyListType):
            return EMPTY_LIST
        if isinstance(body, OptionalType):
            return ListType(body.item)
        raise argument_fault(call, f"Expected list or optional type, but got: {format_type(body)}")

    def flat(values: list[Value], body: RunBody, row: Row, run: Run) -> Value:
        parts = (body((value,), row, run) for value in values)
        return chain_lists((part if isinstance(part, (list, type(None))) else [part] for part in parts), "ListFlatMap")

    return _with_lambda(call, kind, flat)


def _select_items(choose: Callable[[list[Value], Callable[[Value], bool]], list[Value]]) -> Builder:
    """Build a function that selects items by a lambda, which gives Bool or Bool?."""

    def build(call: Invocation) -> Operand:
        given = value_at(call, 0)

        def kind(body: Type) -> Type:
            if body != NULL and bare(body) != BOOL:
                raise argument_fault(call, f"Expected type: Bool, but got: {format_type(body)}")
            return bare(given.type)

        return _with_lambda(
            call, kind, lambda values, body, row, run: choose(values, lambda v: bool(body((v,), row, run)))
        )

    return build


def _filter(values: list[Value], test: Callable[[Value], bool]) -> list[Value]:
    return [value for value in values if test(value)]


def _first_failing(values: list[Value], test: Callable[[Value], bool]) -> int:
    return next((index for index, value in enumerate(values) if not test(value)), len(values))


def _sorting(descending: bool) -> Builder:
    def build(call: Invocation) -> Operand:
        if count_operands(call, 1, 2) == 1:
            given, item = list_at(call, 0)
            key = find_ordering(call, item)
            return map_value(given, bare(given.type), lambda values: sort_in_runs(values, key, descending))
        given = value_at(call, 0)
        # The order depends on the type of the lambda's body, which is known when `_with_lambda` has bound it.
        keys: list[Callable[[Value], Any]] = []

        def kind(body: Type) -> Type:
            keys.append(find_ordering(call, body))
            return bare(given.type)

        def by(values: list[Value], body: RunBody, row: Row, run: Run) -> Value:
            return sort_in_runs(values, lambda value: keys[0](body((value,), row, run)), descending)

        return _with_lambda(call, kind, by)

    return build


# --- search ----------------------------------------------------------------------------------------------------------


def _search_operands(call: Invocation) -> tuple[Expression, Expression, Callable[[Value], Any]]:
    """The operands of a search: the list, the item to find, and a key that is equal for equal items."""
    count_operands(call, 2)
    given, item = list_at(call, 0)
    needle = value_at(call, 1)
    if item != NULL and bare(needle.type) != bare(item):
        found = convert_operand(call, 1, item, needle) if needle.type != NULL else needle
        if bare(found.type) != bare(item) and found.type != NULL:
            raise mismatch_fault(call, 1, needle.type, item)
        needle = found
    return given, needle, comparison.group_key(bare(item))


def _has(call: Invocation) -> Operand:
    given, needle, key = _search_operands(call)

    def has(values: Value, wanted: Value) -> Value:
        if not values:
            return False
        if wanted is None:
            return None in values
        sought = key(wanted)
        return any(value is not None and key(value) == sought for value in values)

    return apply_with_nulls([given, needle], BOOL, has)


def _index_of(call: Invocation) -> Operand:
    given, needle, key = _search_operands(call)

    def index(values: Value, wanted: Value) -> Value:
        if not values or wanted is None:
            return None
        sought = key(wanted)
        return next((n for n, value in enumerate(values) if value is not None and key(value) == sought), None)

    return apply_with_nulls([given, needle], optional(UINT64), index)


def _unique(call: Invocation) -> Operand:
    count_operands(call, 1)
    given, item = list_at(call, 0)
    key = comparison.group_key(item)

    def unique(values: list[Value]) -> list[Value]:
        found: dict[Any, Value] = {}
        for value in values:
            found.setdefault(key(value), value)
        return list(found.values())

    return map_value(given, bare(given.type), unique)


def _all_or_any(answer: bool) -> Builder:
    def build(call: Invocation) -> Operand:
        count_operands(call, 1)
        given, item = list_at(call, 0)
        if item != NULL and bare(item) != BOOL:
            raise argument_fault(call, f"Expected list of Bool, but got: {format_type(given.type)}")
        return map_value(given, BOOL, any if answer else all)

    return build


# --- several lists ---------------------------------------------------------------------------------------------------


def _extend(call: Invocation) -> Operand:
    count_operands(call, 1, -1)
    given = values_of(call)
    if any(each.type == NULL for each in given):
        return Expression(NULL, lambda row, run: None, constant=True)
    for index in range(len(given)):
        list_at(call, index)
    _, given = common_type(call, given)
    kind = given[0].type

    def extend(*lists: Value) -> Value:
        return None if None in lists else chain_lists(lists, "ListExtend")

    return apply_with_nulls(given, kind, extend)


def _zip(longest: bool) -> Builder:
    def build(call: Invocation) -> Operand:
        count_operands(call, 1, -1)
        lists = [list_at(call, index) for index in range(len(call.operands))]
        items = [OptionalType(item) if longest else item for _, item in lists]
        some = [wrap_optional(item) for _, item in lists]
        null = any(is_optional(given.type) for given, _ in lists)

        def zip_lists(*given: Value) -> Value:
            if None in given:
                return None
            check_items(sum(map(len, given)), "ListZip")
            if not longest:
                return list(zip(*given, strict=False))
            size = max(map(len, given))
            return [
                tuple(wrap(values[n]) if n < len(values) else None for wrap, values in zip(some, given, strict=True))
                for n in range(size)
            ]

        kind = ListType(TupleType(tuple(items)))
        return apply_with_nulls([given for given, _ in lists], optional(kind) if null else kind, zip_lists)

    return build


def _enumerate(call: Invocation) -> Operand:
    """`ListEnumerate(list [, start [, step]])`"""
    given_count = count_operands(call, 1, 3)
    given, item = list_at(call, 0)
    start = evaluate_constant(convert_operand(call, 1, UINT64), call) if given_count > 1 else 0
    step = evaluate_constant(convert_operand(call, 2, UINT64), call) if given_count > 2 else 1
    return map_value(
        given,
        ListType(TupleType((UINT64, item))),
        lambda values: [(start + step * n, value) for n, value in enumerate(values)],
    )


# --- items -----------------------------------------------------------------------------------------------------------


def _not_null(call: Invocation) -> Operand:
    count_operands(call, 1)
    given, item = list_at(call, 0)
    if not isinstance(item, OptionalType):
        return given
    inner: Callable[[Value], Value] = (lambda v: v.value) if holds_null(item.item) else (lambda v: v)
    return map_value(given, ListType(item.item), lambda values: [inner(value) for value in values if value is not None])


def _flatten(call: Invocation) -> Operand:
    count_operands(call, 1)
    given, item = list_at(call, 0)
    inner = bare(item)
    if not isinstance(inner, (ListType, EmptyListType, NullType)):
        raise argument_fault(call, f"Expected list of lists, but got: {format_type(given.type)}")
    kind = inner if isinstance(inner, ListType) else EMPTY_LIST
    return map_value(given, kind, lambda values: chain_lists(values, "ListFlatten"))


def _extract(call: Invocation) -> Operand:
    """`ListExtract(list, "member")`"""
    count_operands(call, 2)
    given, item = list_at(call, 0)
    label = str(evaluate_constant(convert_operand(call, 1, STRING), call), "utf-8", "replace")
    inner = bare(item)
    if not isinstance(inner, StructType):
        raise argument_fault(call, f"Expected list of structs, but got: {format_type(given.type)}")
    names = [name for name, _ in inner.members]
    if label not in names:
        raise argument_fault(call, f"Member not found: {label}")
    at = names.index(label)
    kind = inner.members[at][1]
    if is_optional(item):
        kind = optional(kind)
    return map_value(given, ListType(kind), lambda values: [None if value is None else value[at] for value in values])


def _concat(call: Invocation) -> Operand:
    """`ListConcat(list [, separator])` without the NULL items."""
    several = count_operands(call, 1, 2) == 2
    given, item = list_at(call, 0)
    kind = bare(item)
    if kind not in (STRING, UTF8):
        raise argument_fault(call, f"Expected list of strings, but got: {format_type(given.type)}")
    empty: Value = b"" if kind == STRING else ""
    separator = evaluate_constant(convert_operand(call, 1, kind), call) if several else empty

    def concat(values: list[Value]) -> Value:
        return join_texts([value for value in values if value is not None], separator or empty)

    return apply_with_nulls([given], optional(kind), lambda values: concat(values) if values else None)


def _aggregate(build: Callable[[Invocation, Expression], Any]) -> Builder:
    """ListSum and others: the aggregate over the items; NULL for an empty list."""

    def of_list(call: Invocation) -> Operand:
        count_operands(call, 1)
        given, item = list_at(call, 0)
        aggregation = build(call, Expression(item, lambda row, run: None))

        def run_over(values: Value) -> Value:
            if values is None:
                return None
            state = aggregation.start()
            for value in values:
                state = aggregation.step(state, (value,))
            return aggregation.finish(state)

        return apply_with_nulls([given], optional(aggregation.type), run_over)

    return of_list


def _extreme(greatest: bool) -> Builder:
    def build(call: Invocation) -> Operand:
        count_operands(call, 1)
        given, item = list_at(call, 0)
        key = find_ordering(call, bare(item))

        def extreme(values: Value) -> Value:
            some = [value for value in values or () if value is not None]
            if not some:
                return None
            return max(some, key=key) if greatest else min(some, key=key)

        return apply_with_nulls([given], optional(item), extreme)

    return build


BUILDERS: Final[dict[str, Builder]] = {
    "ListLength": _list_function(lambda item: UINT64, len),
    "ListHasItems": _list_function(lambda item: BOOL, bool),
    "ListCollect": _same_list(lambda values: values),
    "ListReverse": _same_list(lambda values: values[::-1]),
    "ListUniq": _unique,
    "ListUniqStable": _unique,
    "ListHead": _end_item(0),
    "ListLast": _end_item(-1),
    "ListTake": _take_or_skip(take=True),
    "ListSkip": _take_or_skip(take=False),
    "ListMap": _map,
    "ListFilter": _select_items(_filter),
    "ListFlatMap": _flat_map,
    "ListTakeWhile": _select_items(lambda values, test: values[: _first_failing(values, test)]),
    "ListSkipWhile": _select_items(lambda values, test: values[_first_failing(values, test) :]),
    "ListTakeWhileInclusive": _select_items(lambda values, test: values[: _first_failing(values, test) + 1]),
    "ListSkipWhileInclusive": _select_items(lambda values, test: values[_first_failing(values, test) + 1 :]),
    "ListSort": _sorting(descending=False),
    "ListSortAsc": _sorting(descending=False),
    "ListSortDesc": _sorting(descending=True),
    "ListHas": _has,
    "ListIndexOf": _index_of,
    "ListAny": _all_or_any(True),
    "ListAll": _all_or_any(False),
    "ListExtend": _extend,
    "ListExtendStrict": _extend,
    "ListZip": _zip(longest=False),
    "ListZipAll": _zip(longest=True),
    "ListEnumerate": _enumerate,
    "ListNotNull": _not_null,
    "ListFlatten": _flatten,
    "ListExtract": _extract,
    "ListConcat": _concat,
    "ListSum": _aggregate(build_sum),
    "ListAvg": _aggregate(build_average),
    "ListMin": _extreme(greatest=False),
    "ListMax": _extreme(greatest=True),
}
