"""IN and NOT IN."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable

from mayflydb.query.yql import comparison, conversions
from mayflydb.query.yql.expression import Expression
from mayflydb.query.yql.faults import fault, type_fault
from mayflydb.query.yql.plans.binder import HANDLERS, Binder, NamedExpression
from mayflydb.query.yql.plans.subqueries import bind_column, is_query
from mayflydb.query.yql.plans.values import are_integers, constant, convert, derive, find_converter, strict_unary
from mayflydb.query.yql.schemas import Row, Run
from mayflydb.query.yql.syntax import Expression as Tree
from mayflydb.query.yql.syntax import In, ListLiteral, Parameter, Subquery, TupleLiteral
from mayflydb.query.yql.types import (
    BOOL,
    EMPTY_LIST,
    STRING,
    UTF8,
    DictType,
    EmptyDictType,
    ListType,
    OptionalType,
    TupleType,
    Type,
    Value,
    bare,
    format_long,
    is_optional,
)

Key = Callable[[Value], Hashable]


def bind_in(binder: Binder, tree: In) -> Expression:
    """Bind IN: true if the value is in the collection, false in an empty one.

    NULL if the value is NULL, or if it is not found and the collection has a NULL.
    """
    operand = binder.expression(tree.operand)
    found = _bind_membership(binder, tree, operand)
    return strict_unary(BOOL, operator.not_, found) if tree.negated else found


def _bind_membership(binder: Binder, tree: In, operand: Expression) -> Expression:
    if isinstance(tree.collection, (ListLiteral, TupleLiteral)):
        return _in_list(binder, tree, operand, tree.collection.items)
    values, invariant = bind_collection(binder, tree.collection)
    container = bare(values.type)
    match container:
        case ListType(item):
            pass
        case DictType(item, _):
            pass
        case TupleType(items) if items and (common := conversions.common_type(items)) is not None:
            item = common
        case _ if container == EMPTY_LIST or isinstance(container, EmptyDictType) or container == TupleType(()):
            return constant(BOOL, False)
        case _ if values.literal and container in (STRING, UTF8):
            raise fault(
                "Unable to use IN predicate with string argument, it won't search substring - "
                "expecting tuple, list, dict or single column table source",
                tree.collection.at,
            )
        case _:
            raise type_fault("SqlIn", f"IN expects a list, dict or tuple, but got: {format_long(values.type)}", tree.at)
    return _in_collection(tree, operand, values, item, invariant)


def bind_collection(binder: Binder, tree: Tree) -> tuple[Expression, bool]:
    """Bind the collection behind IN; True if it is the same for all rows."""
    if isinstance(tree, Subquery) and not tree.exists:
        return bind_column(binder, tree.query), True
    if isinstance(tree, Parameter):
        entry = binder.names.get(tree.name)
        if isinstance(entry, NamedExpression) and is_query(entry.value):
            return bind_column(entry.binder, entry.value), True  # type: ignore[arg-type]  # `is_query` is true.
    return binder.bind_invariant(tree)


def _in_list(binder: Binder, tree: In, operand: Expression, trees: tuple[Tree, ...]) -> Expression:
    items = []
    invariant = True
    for each in trees:
        item, same = binder.bind_invariant(each)
        items.append(item)
        invariant = invariant and same
    if not items:
        return constant(BOOL, False)
    # A literal takes the operand's type: in `id IN (1, 2)` the numbers are of the type of `id`.
    kinds = [convert(item, operand.type) if item.literal else None for item in items]
    items = [new or old for new, old in zip(kinds, items, strict=True)]
    types = list(dict.fromkeys(each.type for each in items))
    item_type = types[0] if len(types) == 1 else conversions.common_type(types)
    if item_type is None:
        raise type_fault("SqlIn", f"Can't compare {' and '.join(map(format_long, types))}", tree.at)
    ways = [find_converter(each.type, item_type) for each in items]
    if any(way is None for way in ways):
        raise type_fault("SqlIn", f"Can't compare {' and '.join(map(format_long, types))}", tree.at)
    pairs = tuple((each.evaluate, way) for each, way in zip(items, ways, strict=True))

    def evaluate(row: Row, run: Run) -> Value:
        return [way(value(row, run)) for value, way in pairs if way is not None]

    return _in_collection(tree, operand, derive(ListType(item_type), evaluate, *items), item_type, invariant)


def find_common_keys(left: Type, right: Type) -> tuple[Key, Key] | None:
    """The functions from values of two types to a common key, the same for equal values; None if the types do not
    compare."""
    if left == right:
        key = comparison.group_key(left)
        return key, key
    if are_integers(left, right):
        return _identity, _identity
    common = conversions.common_type([left, right])
    first, second = (None, None) if common is None else (find_converter(left, common), find_converter(right, common))
    if common is None or first is None or second is None:
        return None
    key = comparison.group_key(common)
    return (lambda value: key(first(value))), (lambda value: key(second(value)))


def _identity(value: Value) -> Value:
    return value


def _in_collection(tree: In, operand: Expression, values: Expression, item: Type, invariant: bool) -> Expression:
    found = find_common_keys(bare(operand.type), bare(item))
    if found is None:
        raise type_fault("SqlIn", f"Can't compare {format_long(operand.type)} and {format_long(item)}", tree.at)
    of_operand, of_item = found
    # The token names this IN in the cache of an execution; no other expression has it.
    inner, listed, token = operand.evaluate, values.evaluate, object()

    def gather(row: Row, run: Run) -> tuple[frozenset[Hashable], bool]:
        items = listed(row, run)
        if items is None:
            return frozenset(), True
        return frozenset([of_item(each) for each in items if each is not None]), None in items

    def evaluate(row: Row, run: Run) -> Value:
        # A collection that is the same for all rows is hashed once in an execution.
        if invariant:
            kept = run.cache.get(token)
            if kept is None:
                kept = run.cache[token] = gather(row, run)
        else:
            kept = gather(row, run)
        among, unknown = kept
        # Nothing is in an empty collection, not even NULL.
        if not among and not unknown:
            return False
        value = inner(row, run)
        if value is None:
            return None
        if of_operand(value) in among:
            return True
        return None if unknown else False

    nullable = is_optional(operand.type) or is_optional(item) or is_optional(values.type)
    return derive(OptionalType(BOOL) if nullable else BOOL, evaluate, operand, values)


HANDLERS[In] = bind_in
