"""Types and values on the wire, in both directions. Values are encoded directly as bytes, without a protobuf object.

Encoders and decoders are built once for each type and cached.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from functools import cache, lru_cache
from typing import Any, Final, TypeAlias

from mayflydb.frontends.ydb import wire
from mayflydb.frontends.ydb.descriptors import message
from mayflydb.query.yql import texts
from mayflydb.query.yql.faults import Fault, fault
from mayflydb.query.yql.types import (
    EMPTY_DICT,
    EMPTY_LIST,
    NULL,
    PRIMITIVES,
    VOID,
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
    format_long,
    holds_null,
)

ValueEncoder: TypeAlias = Callable[[Value], bytes]
"""Encodes a value as the inside of a Value message."""

ValueDecoder: TypeAlias = Callable[[Any], Value]
"""Decodes a Value message."""

PRIMITIVE_TYPE_IDS: Final = {
    "Bool": 0x06,
    "Int8": 0x07,
    "Uint8": 0x05,
    "Int16": 0x08,
    "Uint16": 0x09,
    "Int32": 0x01,
    "Uint32": 0x02,
    "Int64": 0x03,
    "Uint64": 0x04,
    "Float": 0x21,
    "Double": 0x20,
    "Date": 0x30,
    "Datetime": 0x31,
    "Timestamp": 0x32,
    "Interval": 0x33,
    "TzDate": 0x34,
    "TzDatetime": 0x35,
    "TzTimestamp": 0x36,
    "Date32": 0x40,
    "Datetime64": 0x41,
    "Timestamp64": 0x42,
    "Interval64": 0x43,
    # YDB's messages have no names for these three; its clients for Go know them by number.
    "TzDate32": 0x44,
    "TzDatetime64": 0x45,
    "TzTimestamp64": 0x46,
    "String": 0x1001,
    "Utf8": 0x1200,
    "Yson": 0x1201,
    "Json": 0x1202,
    "Uuid": 0x1203,
    "JsonDocument": 0x1204,
    "DyNumber": 0x1302,
}
"""PrimitiveTypeId by canonical name."""

_PRIMITIVES_BY_ID: Final = {number: PRIMITIVES[name] for name, number in PRIMITIVE_TYPE_IDS.items()}
_NULL_FLAG: Final = b"\x50\x00"
_MASK_128: Final = (1 << 128) - 1
_ZERO_HALF: Final = bytes(8)
_MAX_DEPTH: Final = 100

# --- types ---------------------------------------------------------------------------------------------------------------


@cache
def encode_type(type: Type) -> bytes:
    """Return the inside of a Type message."""
    match type:
        case Primitive(name):
            return b"\x08" + wire.varint(PRIMITIVE_TYPE_IDS[name])
        case DecimalType(precision, scale):
            return wire.bytes_field(2, wire.int_field(1, precision) + wire.int_field(2, scale))
        case OptionalType(item):
            return wire.bytes_field(101, wire.bytes_field(1, encode_type(item)))
        case ListType(item):
            return wire.bytes_field(102, wire.bytes_field(1, encode_type(item)))
        case TupleType() | StructType():
            return wire.bytes_field(103 if isinstance(type, TupleType) else 104, _encode_member_types(type))
        case DictType(key, payload):
            return wire.bytes_field(
                105, wire.bytes_field(1, encode_type(key)) + wire.bytes_field(2, encode_type(payload))
            )
        case VariantType(over):
            return wire.bytes_field(
                106, wire.bytes_field(1 if isinstance(over, TupleType) else 2, _encode_member_types(over))
            )
        case TaggedType(tag, item):
            return wire.bytes_field(107, wire.text_field(1, tag) + wire.bytes_field(2, encode_type(item)))
    # The empty types hold no message but a NullValue, an enumeration whose only value is 0.
    special = {VoidType: 201, NullType: 202, EmptyListType: 203, EmptyDictType: 204}[type.__class__]
    return wire.varint(special << 3) + b"\x00"


def _encode_member_types(type: Type) -> bytes:
    if isinstance(type, TupleType):
        return b"".join(wire.bytes_field(1, encode_type(item)) for item in type.items)
    assert isinstance(type, StructType)
    return b"".join(
        wire.bytes_field(1, wire.text_field(1, name) + wire.bytes_field(2, encode_type(item)))
        for name, item in type.members
    )


def decode_type(given: Any) -> Type:
    """Return the type in a Type message. Faults: BAD_REQUEST for an unknown or missing type."""
    return _decode_type_bytes(given.SerializeToString(deterministic=True))


# Messages cannot be the key of a cache, and their bytes can.
@lru_cache(4096)
def _decode_type_bytes(data: bytes) -> Type:
    return _decode_type(message("Ydb.Type").FromString(data), 0)


def _decode_type(given: Any, depth: int) -> Type:
    kind = given.WhichOneof("type")
    # Clients send types: without a limit, a deep one would exhaust the stack.
    if depth > _MAX_DEPTH:
        raise _bad_request("a type is nested too deep")
    if kind == "type_id":
        found = _PRIMITIVES_BY_ID.get(given.type_id)
        if found is None:
            raise _bad_request(f"Unknown type id: {given.type_id}")
        return found
    if kind == "decimal_type":
        precision, scale = given.decimal_type.precision, given.decimal_type.scale
        if not (1 <= precision <= 35 and scale <= precision):
            raise _bad_request(f"Invalid decimal type: Decimal({precision},{scale})")
        return DecimalType(precision, scale)
    reader = _TYPE_DECODERS.get(kind)
    if reader is None:
        if kind == "pg_type":
            raise fault("Types of PostgreSQL are not supported", status="UNSUPPORTED")
        raise _bad_request("a type is missing")
    return reader(getattr(given, kind), depth + 1)


def _decode_tuple_type(given: Any, depth: int) -> TupleType:
    return TupleType(tuple(_decode_type(each, depth) for each in given.elements))


def _decode_struct_type(given: Any, depth: int) -> StructType:
    return StructType(tuple((each.name, _decode_type(each.type, depth)) for each in given.members))


def _decode_variant_type(given: Any, depth: int) -> VariantType:
    if given.WhichOneof("type") == "tuple_items":
        return VariantType(_decode_tuple_type(given.tuple_items, depth))
    return VariantType(_decode_struct_type(given.struct_items, depth))


_TYPE_DECODERS: Final[dict[str | None, Callable[[Any, int], Type]]] = {
    "optional_type": lambda given, depth: OptionalType(_decode_type(given.item, depth)),
    "list_type": lambda given, depth: ListType(_decode_type(given.item, depth)),
    "tuple_type": _decode_tuple_type,
    "struct_type": _decode_struct_type,
    "dict_type": lambda given, depth: DictType(_decode_type(given.key, depth), _decode_type(given.payload, depth)),
    "variant_type": _decode_variant_type,
    "tagged_type": lambda given, depth: TaggedType(given.tag, _decode_type(given.type, depth)),
    "void_type": lambda given, depth: VOID,
    "null_type": lambda given, depth: NULL,
    "empty_list_type": lambda given, depth: EMPTY_LIST,
    "empty_dict_type": lambda given, depth: EMPTY_DICT,
}


def columns_field(columns: Iterable[tuple[str, Type]]) -> bytes:
    """Return the `columns` field of a ResultSet."""
    return b"".join(
        wire.bytes_field(1, wire.text_field(1, name) + wire.bytes_field(2, encode_type(type))) for name, type in columns
    )


# --- values to bytes -----------------------------------------------------------------------------------------------------


# The fields of Value by their tags (number << 3 | wire type):
#
#     08 bool   15 int32   1D uint32   21 int64   29 uint64   35 float   39 double   followed by the number
#     79 low_128   81 01 high_128                                                    followed by 8 bytes
#     42 bytes   4A text   5A nested_value   62 items   6A pairs                     followed by length and content
#     50 00 NULL   70 variant_index
#
# Numbers are little-endian. Fields 1 to 11 and low_128 are one oneof, whose member is written even if it is 0 or empty:
# a Value without a member is not 0 but invalid.
def _fixed_size_encoder(tag: bytes, form: str) -> ValueEncoder:
    pack = struct.Struct(f"<{len(tag)}s{form}").pack
    return lambda value: pack(tag, value)


def _add_length(tag: bytes, content: bytes) -> bytes:
    size = len(content)
    return tag + (bytes((size,)) if size < 128 else wire.varint(size)) + content


def _encode_bytes(value: Value) -> bytes:
    return _add_length(b"\x42", value)


def _encode_text(value: Value) -> bytes:
    return _add_length(b"\x4a", value.encode())


def _encode_bool(value: Value) -> bytes:
    return b"\x08\x01" if value else b"\x08\x00"


def _encode_int128(value: Value) -> bytes:
    return _encode_halves((value & _MASK_128).to_bytes(16, "little"))


def _encode_halves(value: bytes) -> bytes:
    """Encode 16 bytes as two halves.

    The lower half is a member of the oneof and always present; the upper half is a field of its own, left out when 0.
    """
    low, high = value[:8], value[8:]
    # 79 | bytes 0 to 7 | 81 01 | bytes 8 to 15
    return b"\x79" + low if high == _ZERO_HALF else b"\x79" + low + b"\x81\x01" + high


_encode_int32, _encode_uint32, _encode_int64, _encode_uint64 = (
    _fixed_size_encoder(tag, form) for tag, form in ((b"\x15", "i"), (b"\x1d", "I"), (b"\x21", "q"), (b"\x29", "Q"))
)

_PRIMITIVE_ENCODERS: Final[dict[str, ValueEncoder]] = {
    "Bool": _encode_bool,
    **dict.fromkeys(("Int8", "Int16", "Int32", "Date32"), _encode_int32),
    **dict.fromkeys(("Uint8", "Uint16", "Uint32", "Date", "Datetime"), _encode_uint32),
    **dict.fromkeys(("Int64", "Interval", "Datetime64", "Timestamp64", "Interval64"), _encode_int64),
    **dict.fromkeys(("Uint64", "Timestamp"), _encode_uint64),
    "Float": _fixed_size_encoder(b"\x35", "f"),
    "Double": _fixed_size_encoder(b"\x39", "d"),
    **dict.fromkeys(("String", "Yson"), _encode_bytes),
    **dict.fromkeys(("Utf8", "Json", "JsonDocument"), _encode_text),
    "Uuid": _encode_halves,
}


@cache
def encoder(type: Type) -> ValueEncoder:
    """Return the encoder of values of this type as the inside of a Value message."""
    match type:
        case Primitive(name):
            found = _PRIMITIVE_ENCODERS.get(name)
            return found or _text_encoder(type)
        case DecimalType():
            return _encode_int128
        case OptionalType(item):
            return _optional_encoder(item)
        case ListType(item):
            return _items_encoder(item)
        case TupleType(items):
            return _row_encoder(items)
        case StructType(members):
            return _row_encoder(tuple(item for _, item in members))
        case DictType(key, payload):
            return _pairs_encoder(encoder(key), encoder(payload))
        case VariantType(over):
            return _variant_encoder(over)
        case TaggedType(_, item):
            return encoder(item)
        case EmptyListType() | EmptyDictType():
            return lambda value: b""
    return lambda value: _NULL_FLAG


def _text_encoder(type: Type) -> ValueEncoder:
    return lambda value: _encode_text(texts.to_text(type, value))


def _optional_encoder(item: Type) -> ValueEncoder:
    inner = encoder(item)
    # A present value is written bare. Only where the inner type has a NULL of its own, the levels are nested, so that
    # "present and NULL" differs from "NULL".
    if holds_null(item):

        def encode_level(value: Value) -> bytes:
            return _NULL_FLAG if value is None else _add_length(b"\x5a", inner(value.value))

        return encode_level
    return lambda value: _NULL_FLAG if value is None else inner(value)


def _items_encoder(item: Type) -> ValueEncoder:
    inner = encoder(item)
    return lambda value: b"".join([_add_length(b"\x62", inner(each)) for each in value])


def _row_encoder(types: Sequence[Type]) -> ValueEncoder:
    inners = tuple(encoder(each) for each in types)
    return lambda value: b"".join(
        [_add_length(b"\x62", inner(each)) for inner, each in zip(inners, value, strict=True)]
    )


def _pairs_encoder(key: ValueEncoder, payload: ValueEncoder) -> ValueEncoder:
    def encode(value: Value) -> bytes:
        return b"".join(
            [
                _add_length(b"\x6a", _add_length(b"\x0a", key(k)) + _add_length(b"\x12", payload(v)))
                for k, v in value.items()
            ]
        )

    return encode


def _variant_encoder(over: Type) -> ValueEncoder:
    inners = [encoder(each) for each in member_types(over)]

    def encode(value: Value) -> bytes:
        index, content = value
        return _add_length(b"\x5a", inners[index](content)) + wire.int_field(14, index)

    return encode


def member_types(over: Type) -> tuple[Type, ...]:
    """Return the alternatives of a Variant over this tuple or struct."""
    if isinstance(over, TupleType):
        return over.items
    assert isinstance(over, StructType)
    return tuple(item for _, item in over.members)


def encode_typed_value(type: Type, value: Value) -> bytes:
    """Return the inside of a TypedValue message."""
    return wire.bytes_field(1, encode_type(type)) + wire.bytes_field(2, encoder(type)(value))


# --- messages to values --------------------------------------------------------------------------------------------------


def _bad_request(text: str) -> Fault:
    return fault(text, status="BAD_REQUEST")


def _field_decoder(type: Type, field: str, low: int | None = None, high: int | None = None) -> ValueDecoder:
    """Return the decoder of a value in this field.

    `low`, `high`: limits of the type, inclusive, if the field could hold more.
    """

    def decode(given: Any) -> Value:
        if given.WhichOneof("value") != field:
            raise _mismatch(type, given)
        value = getattr(given, field)
        if low is not None and high is not None and not low <= value <= high:
            raise _bad_request(f"Value {value} is out of range for type {format_long(type)}")
        return value

    return decode


def _mismatch(type: Type, given: Any) -> Fault:
    found = given.WhichOneof("value") or ("items" if given.items else "pairs" if given.pairs else "nothing")
    return _bad_request(f"Invalid value representation for type: {format_long(type)}, found {found}")


# Date, Datetime and Timestamp end before 2106-01-01, exclusive. An Interval is shorter than the whole span, in either
# direction. The 64-bit types have inclusive limits.
_END_DAY: Final = 49_673
_END_SECOND: Final = _END_DAY * 86_400
_END_MICROSECOND: Final = _END_SECOND * 1_000_000

_VALUE_FIELDS: Final[dict[str, tuple[str, int | None, int | None]]] = {
    "Bool": ("bool_value", None, None),
    "Int8": ("int32_value", -(1 << 7), (1 << 7) - 1),
    "Int16": ("int32_value", -(1 << 15), (1 << 15) - 1),
    "Int32": ("int32_value", None, None),
    "Int64": ("int64_value", None, None),
    "Uint8": ("uint32_value", 0, (1 << 8) - 1),
    "Uint16": ("uint32_value", 0, (1 << 16) - 1),
    "Uint32": ("uint32_value", None, None),
    "Uint64": ("uint64_value", None, None),
    "Float": ("float_value", None, None),
    "Double": ("double_value", None, None),
    "String": ("bytes_value", None, None),
    "Yson": ("bytes_value", None, None),
    "Utf8": ("text_value", None, None),
    "Date": ("uint32_value", 0, _END_DAY - 1),
    "Datetime": ("uint32_value", 0, _END_SECOND - 1),
    "Timestamp": ("uint64_value", 0, _END_MICROSECOND - 1),
    "Interval": ("int64_value", 1 - _END_MICROSECOND, _END_MICROSECOND - 1),
    "Date32": ("int32_value", -53_375_809, 53_375_807),
    "Datetime64": ("int64_value", -4_611_669_897_600, 4_611_669_811_199),
    "Timestamp64": ("int64_value", -4_611_669_897_600_000_000, 4_611_669_811_199_999_999),
    "Interval64": ("int64_value", -9_223_339_708_799_999_999, 9_223_339_708_799_999_999),
}
"""The field of each type's values, and the limits of the type where the field could hold more."""


@cache
def decoder(type: Type) -> ValueDecoder:
    """Return the decoder of Value messages of this type. Faults: BAD_REQUEST for an invalid value."""
    match type:
        case Primitive(name) if name in _VALUE_FIELDS:
            return _field_decoder(type, *_VALUE_FIELDS[name])
        case Primitive("Uuid"):
            return _uuid_decoder(type)
        case Primitive():
            return _text_decoder(type)
        case DecimalType():
            return _decimal_decoder(type)
        case OptionalType(item):
            return _optional_decoder(item)
        case ListType(item):
            inner = decoder(item)
            return lambda given: [inner(each) for each in given.items]
        case TupleType() | StructType():
            return _row_decoder(type)
        case DictType(key, payload):
            return _pairs_decoder(decoder(key), decoder(payload))
        case VariantType(over):
            return _variant_decoder(type, over)
        case TaggedType(_, item):
            return decoder(item)
    return _constant_decoder(type)


def _constant_decoder(type: Type) -> ValueDecoder:
    if isinstance(type, EmptyListType):
        return lambda given: []
    return lambda given: {} if isinstance(type, EmptyDictType) else None


def _text_decoder(type: Type) -> ValueDecoder:
    decode_text = _field_decoder(type, "text_value")

    def decode(given: Any) -> Value:
        text = decode_text(given)
        value = texts.from_text(type, text)
        if value is None:
            raise _bad_request(f"Invalid {format_long(type)} value")
        return value

    return decode


def _read_halves(type: Type, given: Any) -> tuple[int, int]:
    if given.WhichOneof("value") != "low_128":
        raise _mismatch(type, given)
    return given.low_128, given.high_128


def _uuid_decoder(type: Type) -> ValueDecoder:
    def decode(given: Any) -> Value:
        low, high = _read_halves(type, given)
        return low.to_bytes(8, "little") + high.to_bytes(8, "little")

    return decode


def _decimal_decoder(type: DecimalType) -> ValueDecoder:
    # YDB encodes inf, -inf and NaN as 10^35, -10^35 and 10^35 + 1, beyond every number of 35 digits.
    largest, infinite = 10**type.precision, 10**35

    def decode(given: Any) -> Value:
        low, high = _read_halves(type, given)
        # Both halves arrive without a sign. Bit 127 stands for -2^127, as in all two's complements.
        value = (high << 64 | low) - ((high >> 63) << 128)
        if abs(value) >= largest and value not in (infinite, -infinite, infinite + 1):
            raise _bad_request(f"Value is out of range for type {format_long(type)}")
        return value

    return decode


def _optional_decoder(item: Type) -> ValueDecoder:
    inner = decoder(item)
    if holds_null(item):

        def decode_level(given: Any) -> Value:
            kind = given.WhichOneof("value")
            if kind == "nested_value":
                return Just(inner(given.nested_value))
            # Some clients send a present value without the nested level.
            return None if kind == "null_flag_value" else Just(inner(given))

        return decode_level
    return lambda given: None if given.WhichOneof("value") == "null_flag_value" else inner(given)


def _row_decoder(type: TupleType | StructType) -> ValueDecoder:
    inners = tuple(decoder(each) for each in member_types(type))

    def decode(given: Any) -> Value:
        items = given.items
        if len(items) != len(inners):
            raise _bad_request(f"Invalid number of items for type: {format_long(type)}, found {len(items)}")
        return tuple([inner(each) for inner, each in zip(inners, items, strict=True)])

    return decode


def _pairs_decoder(key: ValueDecoder, payload: ValueDecoder) -> ValueDecoder:
    return lambda given: {to_hashable(key(pair.key)): payload(pair.payload) for pair in given.pairs}


def to_hashable(value: Value) -> Value:
    """Return a value that can be a key of a dict."""
    return tuple(map(to_hashable, value)) if isinstance(value, list) else value


def _variant_decoder(type: Type, over: Type) -> ValueDecoder:
    inners = [decoder(each) for each in member_types(over)]

    def decode(given: Any) -> Value:
        if given.variant_index >= len(inners) or given.WhichOneof("value") != "nested_value":
            raise _bad_request(f"Invalid value representation for type: {format_long(type)}")
        return given.variant_index, inners[given.variant_index](given.nested_value)

    return decode


def decode_typed_value(given: Any) -> tuple[Type, Value]:
    """Return type and value of a TypedValue message. Faults: BAD_REQUEST."""
    type = decode_type(given.type)
    return type, decoder(type)(given.value)
