"""More functions of lists and dictionaries: ListTop and its family, ListUnionAll, lists of tuples, changed dictionaries.

Source: https://ydb.tech/docs/en/yql/reference/builtins/list and `builtins/dict`, and `yql/essentials/docs` of
https://github.com/ydb-platform/ydb.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mayflydb.query.sorting import sort_in_runs
from mayflydb.query.yql.expression import Builder, Expression, Invocation, Operand
from mayflydb.query.yql.functions.aggregates import find_ordering
from mayflydb.query.yql.functions.dicts import dict_at
from mayflydb.query.yql.functions.lists import list_at
from mayflydb.query.yql.functions.support import (
    apply_with_nulls,
    argument_fault,
    common_type,
    constant,
    convert_operand,
    count_operands,
    evaluate_constant,
    lambda_at,
    map_value,
    mismatch_fault,
    value_at,
)
from mayflydb.query.yql.schemas import Row, Run
from mayflydb.query.yql.sizes import chain_lists
from mayflydb.query.yql.types import (
    NULL,
    UINT64,
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


def _top(descending: bool) -> Builder:
    """`ListTop(list, number [, (item) -> key])`. The items are in order, which ListTop leaves open."""

    def build(call: Invocation) -> Operand:
        keyed = count_operands(call, 2, 3) == 3
        given, item = list_at(call, 0)
        number = convert_operand(call, 1, UINT64)
        body = lambda_at(call, 2, [item]) if keyed else None
        key = find_ordering(call, bare(item) if body is None else body.type)
        evaluate, count = given.evaluate, number.evaluate

        def top(row: Row, run: Run) -> Value:
            values, limit = evaluate(row, run), count(row, run)
            if values is None or limit is None:
                return None

            def order(value: Value) -> Any:
                return key(value if body is None else body.call((value,), row, run))

            return sort_in_runs(values, order, descending)[:limit]

        null = is_optional(given.type) or is_optional(number.type)
        kind = bare(given.type)
        return Expression(optional(kind) if null else kind, top)

    return build


def _union_all(call: Invocation) -> Operand:
    """`ListUnionAll(list, ...)` of structs: all members, NULL where a struct does not have one."""
    count_operands(call, 1, -1)
    lists = [_structs_at(call, index) for index in range(len(call.operands))]
    names = sorted({name for _, members in lists for name in members})
    types: list[Type] = []
    converts: list[list[Callable[[Value], Value]]] = [[] for _ in lists]
    for name in names:
        given = [
            Expression(members[name][1], _pick(members[name][0])) if name in members else constant(NULL, None)
            for _, members in lists
        ]
        kind, found = common_type(call, given)
        types.append(kind)
        for convert, each in zip(converts, found, strict=True):
            convert.append(_of_struct(each))

    def union(*values: Value) -> Value:
        parts = (
            [tuple([change(value) for change in convert]) for value in items or ()]
            for items, convert in zip(values, converts, strict=True)
        )
        return chain_lists(parts, "ListUnionAll")

    item = StructType(tuple(zip(names, types, strict=True)))
    return apply_with_nulls([given for given, _ in lists], ListType(item), union)


def _pick(at: int) -> Callable[[Row, Run], Value]:
    return lambda row, run: row[at]


def _of_struct(member: Expression) -> Callable[[Value], Value]:
    """The member of a struct, converted; the struct's value is the row of the expression."""
    evaluate = member.evaluate
    return lambda value: evaluate(value, _NO_RUN)


_NO_RUN: Any = None
"""Conversions do not read the run."""


def _structs_at(call: Invocation, index: int) -> tuple[Expression, dict[str, tuple[int, Type]]]:
    """The list, and the place and type of each member of its items."""
    given, item = list_at(call, index)
    if not isinstance(item, StructType):
        raise argument_fault(call, f"Expected list of structs, but got: {format_type(given.type)}")
    return given, {name: (place, kind) for place, (name, kind) in enumerate(item.members)}


def _from_tuple(call: Invocation) -> Operand:
    """`ListFromTuple(tuple)`"""
    count_operands(call, 1)
    given = value_at(call, 0)
    kind = given.type
    if not isinstance(kind, TupleType):
        raise argument_fault(call, f"Expected tuple type, but got: {format_type(given.type)}")
    if any(each != kind.items[0] for each in kind.items) or not kind.items:
        raise argument_fault(call, f"Expected a tuple of one type, but got: {format_type(given.type)}")
    return map_value(given, ListType(kind.items[0]), list)


def _to_tuple(call: Invocation) -> Operand:
    """`ListToTuple(list, size)`; a list of another size is an error."""
    count_operands(call, 2)
    given, item = list_at(call, 0)
    size = evaluate_constant(convert_operand(call, 1, UINT64), call)
    if size > _MOST_PARTS:
        raise argument_fault(call, f"Expected a size of at most {_MOST_PARTS}")

    def to_tuple(values: list[Value]) -> Value:
        if len(values) != size:
            raise argument_fault(call, f"Expected a list of {size} items, but got {len(values)}")
        return tuple(values)

    return map_value(given, TupleType((item,) * size), to_tuple)


_MOST_PARTS: Final = 1000


# --- dictionaries ----------------------------------------------------------------------------------------------------


def _change_dict(change: Callable[[dict[Value, Value], Value, Value], dict[Value, Value]], payload: bool) -> Builder:
    """Build a function of a dictionary, a key and perhaps a payload, which returns another dictionary."""

    def build(call: Invocation) -> Operand:
        count_operands(call, 3 if payload else 2)
        given, key, of = dict_at(call, 0)
        if key == NULL:
            raise argument_fault(call, f"Expected dict type, but got: {format_type(given.type)}")
        operands = [given, _exactly(call, 1, key)]
        if payload:
            operands.append(_exactly(call, 2, of))
        return apply_with_nulls(
            operands,
            given.type,
            lambda found, *rest: None if found is None else change(found, rest[0], rest[-1]),
        )

    return build


def _exactly(call: Invocation, index: int, kind: Type) -> Expression:
    found = convert_operand(call, index, kind)
    if found.type != kind:
        raise mismatch_fault(call, index, found.type, kind)
    return found


def _concat(call: Invocation) -> Operand:
    """`Concat(text, ...)` of Strings or of Utf8."""
    from mayflydb.query.yql.sizes import join_texts
    from mayflydb.query.yql.types import STRING, UTF8

    count_operands(call, 1, -1)
    kind = UTF8 if all(bare(value_at(call, index).type) == UTF8 for index in range(len(call.operands))) else STRING
    given = [convert_operand(call, index, kind) for index in range(len(call.operands))]
    null = any(is_optional(each.type) for each in given)
    empty: Value = "" if kind == UTF8 else b""
    return apply_with_nulls(
        given,
        optional(kind) if null else kind,
        lambda *values: None if None in values else join_texts(list(values), empty),
    )


BUILDERS: Final[dict[str, Builder]] = {
    **dict.fromkeys(("ListTop", "ListTopAsc", "ListTopSort", "ListTopSortAsc"), _top(descending=False)),
    **dict.fromkeys(("ListTopDesc", "ListTopSortDesc"), _top(descending=True)),
    "ListUnionAll": _union_all,
    "ListFromTuple": _from_tuple,
    "ListToTuple": _to_tuple,
    "DictInsert": _change_dict(lambda found, key, value: found if key in found else {**found, key: value}, True),
    "DictUpsert": _change_dict(lambda found, key, value: {**found, key: value}, True),
    "DictUpdate": _change_dict(lambda found, key, value: {**found, key: value} if key in found else found, True),
    "DictRemove": _change_dict(lambda found, key, _: {k: v for k, v in found.items() if k != key}, False),
    "Concat": _concat,
}
