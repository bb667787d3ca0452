"""Columns, `$names`, and access to members and items."""

from __future__ import annotations

from typing import Final

from mayflydb.query.yql import comparison, functions
from mayflydb.query.yql.expression import Expression, Invocation, Operand, TypeOperand
from mayflydb.query.yql.faults import Position, fault, type_fault
from mayflydb.query.yql.functions.signatures import NODE
from mayflydb.query.yql.names import SIMPLE
from mayflydb.query.yql.plans.binder import HANDLERS, Binder, LambdaArgument, NamedExpression
from mayflydb.query.yql.plans.literals import constant_name, is_dict_key
from mayflydb.query.yql.plans.scopes import EMPTY, no_member, slot
from mayflydb.query.yql.plans.subqueries import bind_scalar, is_query
from mayflydb.query.yql.plans.values import constant, derive, strict_binary, strict_unary
from mayflydb.query.yql.schemas import Row, Run
from mayflydb.query.yql.syntax import Member, Name, NamedMember, Parameter, Query, Subscript
from mayflydb.query.yql.types import (
    INTEGERS,
    JSON,
    STRING,
    YSON,
    DictType,
    ListType,
    StructType,
    TupleType,
    Type,
    Value,
    bare,
    format_long,
    is_optional,
    optional,
)

ANONYMOUS: Final = "_"
"""The name `$_`, which discards a value and cannot be read."""


class ParameterValue(Expression, frozen=True):
    """The value of a parameter."""

    parameter: str = ""


def bind_name(binder: Binder, tree: Name) -> Operand:
    # Where there are no columns, `$item = Int32` names a type.
    if binder.scope is EMPTY and not tree.quoted and (kind := SIMPLE.get(tree.name.lower())) is not None:
        return TypeOperand(kind)
    binder.context.row_uses += 1
    if binder.scope is EMPTY:
        raise fault(f"Column references are not allowed without FROM: {tree.name}", tree.at)
    if binder.grouped:
        _check_grouping(binder, tree.name, None, tree)
    return binder.scope.slot(tree.name, None, tree.at)


def _check_grouping(binder: Binder, column: str, source: str | None, tree: Name | Member) -> None:
    """Refuse a column that is no key of GROUP BY."""
    if binder.scope.find(column, source) is None:
        named = column if source is None else f"{source}.{column}"
        raise fault(
            f"Column `{named}` must either be a key column in GROUP BY or it should be used in aggregation function",
            tree.at,
        )


def bind_parameter(binder: Binder, tree: Parameter) -> Operand:
    if tree.name == ANONYMOUS:
        raise fault("Unable to reference anonymous name $_", tree.at)
    entry = binder.names.get(tree.name)
    if isinstance(entry, LambdaArgument):
        binder.context.row_uses += 1
        return slot(entry.type, entry.index)
    if entry is not None:
        return resolve_binding(binder, entry)
    type, key = binder.context.parameter(tree.name, tree.at), tree.name
    return ParameterValue(type, lambda row, run: run.parameters[key], parameter=key)


def resolve_binding(binder: Binder, entry: NamedExpression) -> Operand:
    """Bind `$x`; a value that is the same for all rows is evaluated once in a statement."""
    context = binder.context
    kept = context.memo.get(entry)
    if kept is None:
        # Bound once in a statement; whether the value depends on the row is kept beside it, for each later use.
        before = context.row_uses
        kept = _bind_value(entry), context.row_uses != before
        context.memo[entry] = kept
    found, dependent = kept
    context.row_uses += dependent
    return found


def _bind_value(entry: NamedExpression) -> Operand:
    binder = entry.binder
    if is_query(entry.value):
        return bind_scalar(binder, entry.value)  # type: ignore[arg-type]  # `is_query` is true.
    before = binder.context.row_uses
    found: Operand = binder.operand(entry.value)  # type: ignore[arg-type]  # Queries have returned.
    if entry.pick is not None and isinstance(found, Expression):
        found = bind_part(found, entry.pick, entry.value)
    plain = not isinstance(found, Expression) or found.constant or isinstance(found, ParameterValue)
    if plain or binder.context.row_uses != before:
        return found
    assert isinstance(found, Expression)
    return evaluate_once(binder, found)


def evaluate_once(binder: Binder, expression: Expression) -> Expression:
    """Return the expression, evaluated at its first use in an execution and then kept."""
    number, inner = binder.context.next_number(), expression.evaluate

    def evaluate(row: Row, run: Run) -> Value:
        named = run.computed
        if number not in named:
            # The expression reads no row, so an empty one is enough.
            named[number] = inner((), run)
        return named[number]

    return Expression(expression.type, evaluate, literal=expression.literal, value=expression.value)


def bind_member(binder: Binder, tree: Member) -> Expression:
    of = tree.of
    if isinstance(of, Name) and isinstance(tree.name, str) and of.name in binder.scope.sources:
        binder.context.row_uses += 1
        if binder.grouped:
            _check_grouping(binder, tree.name, of.name, tree)
        return binder.scope.slot(tree.name, of.name, tree.at)
    if binder.grouped and isinstance(of, Name) and binder.scope.find(of.name) is None:
        _check_grouping(binder, str(tree.name), of.name, tree)
    if (
        isinstance(of, Name)
        and binder.scope is not EMPTY
        and not binder.bound_trees
        and binder.scope.find(of.name) is None
    ):
        raise fault(f"Unknown correlation name: {of.name}", of.at)
    found = binder.expression(of)
    if bare(found.type) in _DOCUMENTS:
        return bind_lookup(found, constant(STRING, str(tree.name).encode()), tree.at)
    return bind_part(found, tree.name, tree)


def bind_named_member(binder: Binder, tree: NamedMember) -> Expression:
    return bind_member(binder, Member(tree.at, tree.of, constant_name(binder, tree.name)))


_DOCUMENTS = (JSON, YSON, NODE)


def bind_lookup(of: Expression, key: Expression, at: Position) -> Expression:
    """Bind a member or an item of a document, as a node; NULL if there is none."""
    if bare(key.type) in INTEGERS:
        key = strict_unary(STRING, lambda number: str(number).encode(), key)
    build = functions.find("Yson::Lookup")
    assert build is not None
    found = build(Invocation("Yson::Lookup", (of, key), (), at))
    assert isinstance(found, Expression)
    return found


def bind_part(of: Expression, name: str | int, tree: Member | Query | Expression | object) -> Expression:
    """Bind a member of a struct by name, or of a tuple by number; a part of NULL is NULL."""
    at = getattr(tree, "at", None)
    type = bare(of.type)
    index, result = _place(type, name)
    if result is None:
        if isinstance(type, StructType):
            raise no_member(str(name), at)  # type: ignore[arg-type]  # Every tree has a position.
        raise type_fault("Member", f"Expected struct or tuple type, but got: {format_long(of.type)}", at)
    inner = of.evaluate
    if not is_optional(of.type):
        return derive(result, lambda row, run: inner(row, run)[index], of)

    def evaluate(row: Row, run: Run) -> Value:
        value = inner(row, run)
        return None if value is None else value[index]

    return derive(optional(result), evaluate, of)


def _place(type: Type, name: str | int) -> tuple[int, Type | None]:
    if isinstance(type, StructType):
        for index, (each, part) in enumerate(type.members):
            if each == str(name):
                return index, part
    elif isinstance(type, TupleType) and isinstance(name, int) and name < len(type.items):
        return name, type.items[name]
    return 0, None


def bind_subscript(binder: Binder, tree: Subscript) -> Expression:
    """Bind `list[i]`, `dict[key]` or `document[key]`: NULL if there is no such item."""
    of, index = binder.expression(tree.of), binder.expression(tree.index)
    type = bare(of.type)
    if type in _DOCUMENTS:
        return bind_lookup(of, index, tree.at)
    if isinstance(type, ListType) and bare(index.type) in INTEGERS:
        return strict_binary(optional(type.item), _at, of, index)
    if isinstance(type, DictType):
        if comparison.find_order(bare(type.key), bare(index.type)) is None or not is_dict_key(index.type):
            raise type_fault("Lookup", f"Failed to convert type: {index.type} to {type.key}", tree.at)
        return strict_binary(optional(type.payload), lambda items, key: items.get(key), of, index)
    raise type_fault("SqlAccess", f"Expected list or dict type, but got: {format_long(of.type)}", tree.at)


def _at(items: list[Value], index: int) -> Value:
    return items[index] if 0 <= index < len(items) else None


HANDLERS.update(
    {
        NamedMember: bind_named_member,
        Name: bind_name,
        Parameter: bind_parameter,
        Member: bind_member,
        Subscript: bind_subscript,
    }
)
