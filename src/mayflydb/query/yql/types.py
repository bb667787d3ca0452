"""The types of YQL, and the Python values of each.

| type | value |
|---|---|
| Bool; integers; Date, Datetime, Timestamp, Interval and their 64-bit forms | bool; int; int of days, seconds, microseconds |
| Float, Double | float (of a Float only those that 32 bits hold) |
| String, Yson; Utf8, Json, JsonDocument | bytes; str |
| Decimal(p,s) | int, the value times 10^s; `DECIMAL_INF`, its negative and `DECIMAL_NAN` for infinities and NaN |
| DyNumber | decimal.Decimal, finite, of 38 digits at most |
| Uuid | 16 bytes, as on the wire: a GUID in little-endian order |
| TzDate, TzDatetime, TzTimestamp and their wide forms | (int as without a zone, UTC; zone name) |
| Optional | None for NULL; a value that is not NULL stands for itself |
| Optional of Optional, with or without tags between | None, or a `Just` around the inner value at each level but the innermost |
| List, Tuple, Struct | list, tuple, tuple in the order of the type's members |
| Dict, Set | dict; dict with None for each payload |
| Variant | (index of the alternative, value) |
| Void, EmptyList, EmptyDict | None, [], {} |
| Callable | a function of the tuple of all arguments and the run; never stored or sent |

Source: https://ydb.tech/docs/en/yql/reference/types/ and `ydb_value.proto`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec

Value: TypeAlias = Any
"""A value, in the form that the table above gives for its type."""

# YDB's own numbers: 10^35 is the first with more digits than any precision, and stands for infinity.
DECIMAL_INF: Final = 10**35
DECIMAL_NAN: Final = 10**35 + 1


class Just(msgspec.Struct, frozen=True):
    """A value of an Optional of Optional that is not NULL at the outer level, and may be NULL inside."""

    value: Value


class Type(msgspec.Struct, frozen=True):
    """Base of all types; equal types compare equal and hash alike."""

    def __str__(self) -> str:
        return format_type(self)


class Primitive(Type, frozen=True):
    """A primitive type by its canonical name: `Uint64`, `Utf8`, `Timestamp`."""

    name: str


class DecimalType(Type, frozen=True):
    """Decimal(precision, scale): 1 to 35 digits, `scale` of them behind the point."""

    precision: int
    scale: int


class OptionalType(Type, frozen=True):
    item: Type


class ListType(Type, frozen=True):
    item: Type


class TupleType(Type, frozen=True):
    items: tuple[Type, ...]


class StructType(Type, frozen=True):
    """A Struct. `members`: (name, type), in the order of the parts of its values."""

    members: tuple[tuple[str, Type], ...]


class DictType(Type, frozen=True):
    """A Set is a Dict whose payload is Void."""

    key: Type
    payload: Type


class VariantType(Type, frozen=True):
    """A Variant. `over`: a TupleType or a StructType, whose parts are the alternatives."""

    over: Type


class TaggedType(Type, frozen=True):
    tag: str
    item: Type


class CallableArgument(msgspec.Struct, frozen=True):
    """An argument of a Callable. `automap`: the function does not get NULL; its result is NULL then."""

    type: Type
    name: str = ""
    automap: bool = False


class CallableType(Type, frozen=True):
    """A function as a value. `optional`: the number of the last arguments that a call may omit."""

    arguments: tuple[CallableArgument, ...]
    result: Type
    optional: int = 0


class VoidType(Type, frozen=True):
    pass


class NullType(Type, frozen=True):
    """The type of a bare NULL."""


class EmptyListType(Type, frozen=True):
    pass


class EmptyDictType(Type, frozen=True):
    pass


BOOL: Final = Primitive("Bool")
INT8, INT16, INT32, INT64 = (Primitive(f"Int{bits}") for bits in (8, 16, 32, 64))
UINT8, UINT16, UINT32, UINT64 = (Primitive(f"Uint{bits}") for bits in (8, 16, 32, 64))
FLOAT, DOUBLE = Primitive("Float"), Primitive("Double")
STRING, UTF8, YSON, JSON, JSON_DOCUMENT = (Primitive(n) for n in ("String", "Utf8", "Yson", "Json", "JsonDocument"))
UUID, DYNUMBER = Primitive("Uuid"), Primitive("DyNumber")
DATE, DATETIME, TIMESTAMP, INTERVAL = (Primitive(n) for n in ("Date", "Datetime", "Timestamp", "Interval"))
DATE32, DATETIME64, TIMESTAMP64, INTERVAL64 = (
    Primitive(n) for n in ("Date32", "Datetime64", "Timestamp64", "Interval64")
)
TZ_DATE, TZ_DATETIME, TZ_TIMESTAMP = (Primitive(n) for n in ("TzDate", "TzDatetime", "TzTimestamp"))
TZ_DATE32, TZ_DATETIME64, TZ_TIMESTAMP64 = (Primitive(n) for n in ("TzDate32", "TzDatetime64", "TzTimestamp64"))
VOID, NULL, EMPTY_LIST, EMPTY_DICT = VoidType(), NullType(), EmptyListType(), EmptyDictType()

SIGNED: Final = (INT8, INT16, INT32, INT64)
UNSIGNED: Final = (UINT8, UINT16, UINT32, UINT64)
INTEGERS: Final = (*SIGNED, *UNSIGNED)
FLOATS: Final = (FLOAT, DOUBLE)
NUMBERS: Final = (*INTEGERS, *FLOATS)

PRIMITIVES: Final = {
    each.name: each
    for each in (
        *(BOOL, *NUMBERS, STRING, UTF8, YSON, JSON, JSON_DOCUMENT, UUID, DYNUMBER),
        *(DATE, DATETIME, TIMESTAMP, INTERVAL, DATE32, DATETIME64, TIMESTAMP64, INTERVAL64),
        *(TZ_DATE, TZ_DATETIME, TZ_TIMESTAMP, TZ_DATE32, TZ_DATETIME64, TZ_TIMESTAMP64),
    )
}
"""Primitive types by canonical name."""


def is_optional(type: Type) -> bool:
    """True if the type has the value NULL."""
    return isinstance(type, (OptionalType, NullType))


def holds_null(type: Type) -> bool:
    """True if None is a value of the type: that of an Optional, or of a tag on one."""
    return holds_null(type.item) if isinstance(type, TaggedType) else is_optional(type)


def optional(type: Type) -> Type:
    """The Optional of a type; one that holds NULL stays as it is."""
    return type if holds_null(type) else OptionalType(type)


def bare(type: Type) -> Type:
    """The type without its outermost level of Optional."""
    return type.item if isinstance(type, OptionalType) else type


def format_type(type: Type) -> str:
    """Format as in query plans and descriptions: `Uint64?`, `List<Struct<'a':Int32>>`, `Decimal(22,9)`."""
    return _format(type, short=True)


def format_long(type: Type) -> str:
    """Format as in messages: `Optional<Uint64>`."""
    return _format(type, short=False)


def _format(type: Type, short: bool) -> str:
    def inner(part: Type) -> str:
        return _format(part, short)

    match type:
        case Primitive(name):
            return name
        case DecimalType(precision, scale):
            return f"Decimal({precision},{scale})"
        case OptionalType(item):
            return f"{inner(item)}?" if short else f"Optional<{inner(item)}>"
        case ListType(item):
            return f"List<{inner(item)}>"
        case TupleType(items):
            return f"Tuple<{','.join(map(inner, items))}>"
        case StructType(members):
            return "Struct<" + ",".join(f"'{name}':{inner(part)}" for name, part in members) + ">"
        case DictType(key, payload):
            return f"Set<{inner(key)}>" if payload == VOID else f"Dict<{inner(key)},{inner(payload)}>"
        case VariantType(over):
            return f"Variant{inner(over).removeprefix('Tuple').removeprefix('Struct')}"
        case TaggedType(tag, item):
            return f"Tagged<{inner(item)},'{tag}'>"
        case CallableType():
            return _format_callable(type, inner)
        case _:
            return type.__class__.__name__.removesuffix("Type")


def _format_callable(type: CallableType, inner: Callable[[Type], str]) -> str:
    """`Callable<(Int32,[b:String?])->Bool>`: the optional arguments are in brackets, all in one pair."""
    required = len(type.arguments) - type.optional
    texts = []
    for place, each in enumerate(type.arguments):
        label = f"'{each.name}':" if each.name else ""
        text = f"{label}{inner(each.type)}{'{Flags:AutoMap}' * each.automap}"
        texts.append("[" * (place == required) + text)
    return f"Callable<({','.join(texts)}{']' * (type.optional > 0)})->{inner(type.result)}>"
