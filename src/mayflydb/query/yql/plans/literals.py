"""Literals of all types, lists, tuples, structs and dicts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from mayflydb.query.yql import texts
from mayflydb.query.yql.expression import Expression
from mayflydb.query.yql.faults import fault, type_fault
from mayflydb.query.yql.plans.binder import HANDLERS, Binder
from mayflydb.query.yql.plans.values import NO_RUN, constant, derive, require_common_type
from mayflydb.query.yql.schemas import Row, Run
from mayflydb.query.yql.syntax import DictLiteral, ListLiteral, Literal_, StructLiteral, TupleLiteral
from mayflydb.query.yql.syntax import Expression as Tree
from mayflydb.query.yql.types import (
    BOOL,
    DOUBLE,
    EMPTY_DICT,
    EMPTY_LIST,
    FLOAT,
    INT8,
    INT16,
    INT32,
    INT64,
    JSON,
    NULL,
    STRING,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    UTF8,
    VOID,
    YSON,
    DecimalType,
    DictType,
    ListType,
    OptionalType,
    Primitive,
    StructType,
    TaggedType,
    TupleType,
    Type,
    Value,
    VariantType,
    format_long,
)

_INTEGERS: dict[str, tuple[Type, int, int]] = {
    "": (INT32, 0, 2**31),
    "l": (INT64, 0, 2**63),
    "u": (UINT32, 0, 2**32),
    "ul": (UINT64, 0, 2**64),
    "s": (INT16, 0, 2**15),
    "us": (UINT16, 0, 2**16),
    "t": (INT8, 0, 2**7),
    "ut": (UINT8, 0, 2**8),
}
_TEXTS = {"": STRING, "s": STRING, "u": UTF8, "t": UTF8, "y": YSON, "j": JSON}


def bind_literal(binder: Binder, tree: Literal_) -> Expression:
    kind, value = tree.kind, tree.value
    if kind == "null":
        type: Type = NULL
    elif kind == "bool":
        type = BOOL
    elif kind == "integer":
        type = _integer(tree)
    elif kind in ("float", "double"):
        type = FLOAT if kind == "float" else DOUBLE
        value = float(value or 0)
        value = texts.to_single(value) if kind == "float" else value
    else:
        type, value = _text(tree, UTF8 if binder.context.unicode_literals else STRING)
    return Expression(type, lambda row, run: value, constant=True, literal=True, value=value)


def _integer(tree: Literal_) -> Type:
    """The type of an integer literal; without a suffix the first of Int32, Int64 and Uint64 that holds the value."""
    assert isinstance(tree.value, int)
    type, _, limit = _INTEGERS[tree.suffix]
    if tree.value < limit:
        return type
    if tree.suffix == "" and tree.value < 2**64:
        return INT64 if tree.value < 2**63 else UINT64
    raise fault(f"Failed to parse number from string: {tree.value}, number limit overflow", tree.at)


def _text(tree: Literal_, plain: Type) -> tuple[Type, Value]:
    """The type and the value of a text literal. `plain`: the type of a text without a suffix."""
    type = _TEXTS.get(tree.suffix, STRING) if tree.suffix else plain
    value = tree.value
    if type in (STRING, YSON):
        return type, value.encode() if isinstance(value, str) else value
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            raise fault("Invalid UTF-8 sequence", tree.at) from None
    if type == JSON and texts.from_text(JSON, str(value)) is None:
        raise fault(f'Invalid value "{value}" for type Json', tree.at)
    return type, value


def bind_list(binder: Binder, tree: ListLiteral) -> Expression:
    if not tree.items:
        return constant(EMPTY_LIST, [])
    type, items = require_common_type([binder.expression(each) for each in tree.items], "AsList", tree.at)
    values = tuple(each.evaluate for each in items)
    return derive(ListType(type), lambda row, run: [each(row, run) for each in values], *items)


def bind_tuple(binder: Binder, tree: TupleLiteral) -> Expression:
    items = [binder.expression(each) for each in tree.items]
    return tuple_expression(items)


def tuple_expression(items: Sequence[Expression]) -> Expression:
    values = tuple(each.evaluate for each in items)
    type = TupleType(tuple(each.type for each in items))
    return derive(type, lambda row, run: tuple([each(row, run) for each in values]), *items)


def constant_name(binder: Binder, tree: Tree) -> str:
    """The name of a member, which is a constant expression."""
    given = binder.expression(tree)
    if not given.constant or given.type not in (STRING, UTF8):
        raise fault("Expected a constant String as the name of a member", tree.at)
    value = given.evaluate((), NO_RUN)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def bind_struct(binder: Binder, tree: StructLiteral) -> Expression:
    """Bind a struct; its members are in the order of their names, as everywhere in YQL."""
    members = sorted(
        (
            (name if isinstance(name, str) else constant_name(binder, name), binder.expression(value))
            for name, value in tree.members
        ),
        key=lambda each: each[0],
    )
    for (first, _), (second, _) in pairwise(members):
        if first == second:
            raise fault(f"Duplicated member: {first}", tree.at)
    values = tuple(each.evaluate for _, each in members)
    type = StructType(tuple((name, each.type) for name, each in members))
    return derive(type, lambda row, run: tuple([each(row, run) for each in values]), *[each for _, each in members])


def is_dict_key(type: Type) -> bool:
    """True if the Python values of this type may be keys of a dict: equal values are equal in Python, too."""
    match type:
        case OptionalType(item) | TaggedType(_, item):
            return is_dict_key(item)
        case TupleType(items):
            return all(map(is_dict_key, items))
        case StructType(members):
            return all(is_dict_key(part) for _, part in members)
        case VariantType(over):
            return is_dict_key(over)
    # Of the other types, Python cannot hash the values of Lists and Dicts.
    return isinstance(type, (Primitive, DecimalType)) or type == NULL


def bind_dict(binder: Binder, tree: DictLiteral) -> Expression:
    if not tree.items:
        return constant(EMPTY_DICT, {})
    key_type, keys = require_common_type([binder.expression(key) for key, _ in tree.items], "AsDict", tree.at)
    if not is_dict_key(key_type):
        raise type_fault(
            "AsDict", f"Expected hashable and equatable type for key, but got: {format_long(key_type)}", tree.at
        )
    payloads = [binder.expression(payload) for _, payload in tree.items if payload is not None]
    if not payloads:
        names = tuple(each.evaluate for each in keys)
        return derive(DictType(key_type, VOID), lambda row, run: {each(row, run): None for each in names}, *keys)
    if len(payloads) != len(keys):
        raise fault("A dict has a payload for each key, a set for none", tree.at)
    payload_type, payloads = require_common_type(payloads, "AsDict", tree.at)
    pairs = tuple((key.evaluate, payload.evaluate) for key, payload in zip(keys, payloads, strict=True))

    def evaluate(row: Row, run: Run) -> Value:
        return {key(row, run): payload(row, run) for key, payload in pairs}

    return derive(DictType(key_type, payload_type), evaluate, *keys, *payloads)


HANDLERS.update(
    {
        Literal_: bind_literal,
        ListLiteral: bind_list,
        TupleLiteral: bind_tuple,
        StructLiteral: bind_struct,
        DictLiteral: bind_dict,
    }
)
