"""Pickle, StablePickle and Unpickle: any value as bytes and back.

The bytes are those of MessagePack; primitive values are written as their texts, so that reading checks them. YDB's bytes differ,
and belong to one query there.
Source: https://ydb.tech/docs/en/yql/reference/builtins/basic#pickle
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from mayflydb.query.yql import texts
from mayflydb.query.yql.expression import Builder, Invocation, Operand
from mayflydb.query.yql.faults import fault
from mayflydb.query.yql.functions.support import (
    apply_with_nulls,
    argument_fault,
    convert_operand,
    count_operands,
    map_value,
    type_at,
    value_at,
)
from mayflydb.query.yql.types import (
    NULL,
    STRING,
    YSON,
    DecimalType,
    DictType,
    EmptyDictType,
    EmptyListType,
    Just,
    ListType,
    NullType,
    OptionalType,
    Primitive,
    StructType,
    TaggedType,
    TupleType,
    Type,
    Value,
    VariantType,
    VoidType,
    bare,
    format_type,
    holds_null,
)


def _can_pickle(kind: Type) -> bool:
    match kind:
        case Primitive():
            return texts.has_text(kind)
        case OptionalType(item) | ListType(item) | TaggedType(_, item) | VariantType(item):
            return _can_pickle(item)
        case TupleType(items):
            return all(map(_can_pickle, items))
        case StructType(members):
            return all(_can_pickle(part) for _, part in members)
        case DictType(key, payload):
            return _can_pickle(key) and _can_pickle(payload)
    return isinstance(kind, (DecimalType, VoidType, NullType, EmptyListType, EmptyDictType))


def _write(kind: Type, value: Value) -> Any:
    match kind:
        case OptionalType(item):
            if value is None:
                return None
            return [_write(item, value.value if holds_null(item) else value)]
        case ListType(item):
            return [_write(item, each) for each in value]
        case TaggedType(_, item):
            return _write(item, value)
        case TupleType(items):
            return [_write(item, each) for item, each in zip(items, value, strict=True)]
        case StructType(members):
            return [_write(part, each) for (_, part), each in zip(members, value, strict=True)]
        case VariantType(over):
            place, inner = value
            return [place, _write(_parts(over)[place], inner)]
        case DictType(key, payload):
            pairs = [[_write(key, k), _write(payload, v)] for k, v in value.items()]
            return sorted(pairs, key=lambda pair: msgspec.msgpack.encode(pair[0]))
        case Primitive("String" | "Yson"):
            return value
        case Primitive() | DecimalType():
            return texts.to_text(kind, value)
    return None


def _parts(over: Type) -> tuple[Type, ...]:
    if isinstance(over, StructType):
        return tuple(part for _, part in over.members)
    assert isinstance(over, TupleType)
    return over.items


class _Mismatch(Exception):
    """The bytes are not those of a value of the type."""


def _read(kind: Type, found: Any) -> Value:
    """Faults: _Mismatch."""
    match kind:
        case OptionalType(item):
            if found is None:
                return None
            (inner,) = _list(found, 1)
            value = _read(item, inner)
            return Just(value) if holds_null(item) else value
        case ListType(item):
            return [_read(item, each) for each in _list(found)]
        case TaggedType(_, item):
            return _read(item, found)
        case TupleType() | StructType():
            parts = _parts(kind)
            return tuple([_read(part, each) for part, each in zip(parts, _list(found, len(parts)), strict=True)])
        case VariantType(over):
            place, inner = _list(found, 2)
            parts = _parts(over)
            if type(place) is not int or not 0 <= place < len(parts):
                raise _Mismatch
            return place, _read(parts[place], inner)
        case DictType(key, payload):
            pairs = [_list(each, 2) for each in _list(found)]
            return {_read(key, k): _read(payload, v) for k, v in pairs}
        case _:
            return _read_single(kind, found)


def _list(found: Any, size: int | None = None) -> list[Any]:
    if not isinstance(found, list) or (size is not None and len(found) != size):
        raise _Mismatch
    return found


def _read_single(kind: Type, found: Any) -> Value:
    if isinstance(kind, EmptyListType):
        return []
    if isinstance(kind, EmptyDictType):
        return {}
    if isinstance(kind, (VoidType, NullType)):
        return None
    if isinstance(found, bytes):
        if kind == STRING:
            return found
        found = found.decode("utf-8", "surrogateescape") if kind == YSON else None
    value = texts.from_text(kind, found) if isinstance(found, str) else None
    if value is None:
        raise _Mismatch
    return value


def _pickle(call: Invocation) -> Operand:
    count_operands(call, 1)
    given = value_at(call, 0)
    kind = given.type
    if not _can_pickle(kind):
        raise argument_fault(call, f"Expected persistable data, but got: {format_type(kind)}")
    return apply_with_nulls([given], STRING, lambda value: msgspec.msgpack.encode(_write(kind, value)))


def _unpickle(call: Invocation) -> Operand:
    """`Unpickle(type, bytes)`"""
    count_operands(call, 2)
    kind = type_at(call, 0)
    if not _can_pickle(kind):
        raise argument_fault(call, f"Expected persistable data, but got: {format_type(kind)}")
    given = convert_operand(call, 1, STRING)
    if bare(given.type) != STRING and given.type != NULL:
        raise argument_fault(call, f"Expected String, but got: {format_type(given.type)}")

    def read(data: bytes) -> Value:
        try:
            return _read(kind, msgspec.msgpack.decode(data))
        except (_Mismatch, msgspec.DecodeError, RecursionError, TypeError):
            raise fault(f"Failed to unpickle a value of type {format_type(kind)}", call.position) from None

    return map_value(given, kind, read)


BUILDERS: Final[dict[str, Builder]] = {"Pickle": _pickle, "StablePickle": _pickle, "Unpickle": _unpickle}
