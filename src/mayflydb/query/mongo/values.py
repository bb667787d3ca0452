"""BSON values as Python objects: their types, their order, and the codec.

int32 is `int`, int64 `Int64`, double `float`, decimal `Decimal128`, date `DatetimeMS`, binary `Binary` or `bytes` (subtype 0),
a document `dict`, an array `list`; other types are the classes of `bson`. MISSING stands for the absence of a value and is
never stored. Arithmetic that yields an int64 must wrap it in `Int64`; a small `int` is encoded as an int32.

Order of types: https://www.mongodb.com/docs/manual/reference/bson-type-comparison-order/
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import Enum
from typing import Any, Final, TypeAlias

from bson import (
    BSON,
    Binary,
    Code,
    DatetimeMS,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
)
from bson import (
    decode as _decode,
)
from bson import (
    encode as _encode,
)
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.errors import BSONError
from bson.raw_bson import RawBSONDocument

from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.raw import ARRAY, CODE_WITH_SCOPE, EMBEDDED, elements, remove_elements, scope_of


class Missing(Enum):
    """The type of `MISSING`."""

    MISSING = "missing"

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing.MISSING

Value: TypeAlias = Any
"""A value of one of the types above, or MISSING where a docstring says so."""

Document: TypeAlias = dict[str, Any]

MAX_TIMESTAMP_SECONDS: Final = 2**32 - 1
"""The greatest number of seconds that a Timestamp holds, in the year 2106."""


def timestamp_at(seconds: int) -> Timestamp:
    """Return a Timestamp of a second; later seconds become MAX_TIMESTAMP_SECONDS."""
    return Timestamp(min(seconds, MAX_TIMESTAMP_SECONDS), 1)


# A date is any int64, and `datetime` ends at the year 9999. A stored text may be no valid UTF-8; a read must not fail
# for it.
CODEC_OPTIONS: Final[CodecOptions[Document]] = CodecOptions(
    document_class=dict,
    datetime_conversion=DatetimeConversion.DATETIME_MS,
    unicode_decode_error_handler="surrogateescape",
)


_REFERENCE: Final = b"\x02$ref\0"


def decode(data: bytes) -> Document:
    """Decode a document. MqlError 22 for invalid BSON."""
    try:
        # The bson library decodes database references to objects that lose the order of fields.
        return _decode(data, CODEC_OPTIONS) if _REFERENCE not in data else _decode_with_references(data)
    except (BSONError, ValueError, OverflowError, RecursionError) as error:
        raise MqlError(22, f"invalid BSON: {error}") from None


def _decode_with_references(data: bytes) -> Document:
    """Decode a document with database references as plain documents, at any depth. The library leaves the outermost
    document plain.
    """
    # Only the nested values with references are decoded by recursion. The library decodes the rest at once, and the
    # values go back to their places.
    parts = list(elements(data))
    apart = [part for part in parts if part.type in _NESTED_DECODERS and _REFERENCE in data[part.value : part.end]]
    if not apart:
        return _decode(data, CODEC_OPTIONS)
    rest = _decode(remove_elements(data, apart), CODEC_OPTIONS)
    document: Document = {}
    for part in parts:
        name = part.name.decode("utf-8", "surrogateescape")
        document[name] = rest[name] if part not in apart else _NESTED_DECODERS[part.type](data[part.value : part.end])
    return document


def _decode_scoped_code(value: bytes) -> Code:
    scope = scope_of(value)
    text = value[8 : len(value) - len(scope) - 1]
    return Code(text.decode("utf-8", "surrogateescape"), _decode_with_references(scope))


_NESTED_DECODERS: Final[Mapping[int, Callable[[bytes], Value]]] = {
    EMBEDDED: _decode_with_references,
    ARRAY: lambda value: list(_decode_with_references(value).values()),
    CODE_WITH_SCOPE: _decode_scoped_code,
}


def encode(document: Mapping[str, Any]) -> bytes:
    """Encode a document. MqlError 22 for a document that BSON cannot represent."""
    try:
        return _encode(document, codec_options=CODEC_OPTIONS)
    except (BSONError, ValueError, OverflowError, RecursionError) as error:
        raise MqlError(22, f"cannot be written as BSON: {error}") from None


MAX_COMPUTED_BYTES: Final = 32 * 1024 * 1024


def encode_computed(document: Mapping[str, Any]) -> bytes:
    """Encode a computed document, as `encode` does. MqlError 10334 for one of more than 32 MB.

    It may refer to one value many times, which takes no memory until it is encoded, and then all at once.
    """
    size, values = 0, [each for each in document.values() if type(each) in _MEASURED]
    while values:
        value = values.pop()
        size += len(value)
        if type(value) is dict:
            values += [each for each in value.values() if type(each) in _MEASURED]
        elif type(value) is list:
            # An element has its type, its number and mostly a value.
            size += 6 * len(value)
            values += [each for each in value if type(each) in _MEASURED]
        if size > MAX_COMPUTED_BYTES:
            raise MqlError(10334, f"BSONObj size: {size} is invalid. Size must be between 0 and 16793600(16MB)")
    return encode(document)


_MEASURED: Final = frozenset({str, bytes, Binary, list, dict})

# --- types -----------------------------------------------------------------------------------------------------------

INT32_MIN, INT32_MAX = -(1 << 31), (1 << 31) - 1
INT64_MIN, INT64_MAX = -(1 << 63), (1 << 63) - 1

NUMBERS: Final = (int, Int64, float, Decimal128)
"""The number types, for `type(value) in NUMBERS`; bool is not among them."""

_TYPE_NAMES: Final[Mapping[type, str]] = {
    float: "double",
    str: "string",
    dict: "object",
    list: "array",
    bytes: "binData",
    Binary: "binData",
    ObjectId: "objectId",
    bool: "bool",
    DatetimeMS: "date",
    type(None): "null",
    Regex: "regex",
    re.Pattern: "regex",
    Int64: "long",
    Timestamp: "timestamp",
    Decimal128: "decimal",
    MinKey: "minKey",
    MaxKey: "maxKey",
    Missing: "missing",
    BSON: "object",
    RawBSONDocument: "object",
}

TYPE_NUMBERS: Final[Mapping[str, int]] = {
    "double": 1,
    "string": 2,
    "object": 3,
    "array": 4,
    "binData": 5,
    "undefined": 6,
    "objectId": 7,
    "bool": 8,
    "date": 9,
    "null": 10,
    "regex": 11,
    "dbPointer": 12,
    "javascript": 13,
    "symbol": 14,
    "javascriptWithScope": 15,
    "int": 16,
    "timestamp": 17,
    "long": 18,
    "decimal": 19,
    "minKey": -1,
    "maxKey": 127,
}
"""The aliases that `$type` takes, with the numbers of the types."""


def type_name(value: Value) -> str:
    """Return the alias of a value's type: `int`, `long`, `string`, ...; `missing` for MISSING."""
    kind = type(value)
    if kind is int:
        return "int" if INT32_MIN <= value <= INT32_MAX else "long"
    if kind is Code:
        return "javascript" if value.scope is None else "javascriptWithScope"
    name = _TYPE_NAMES.get(kind)
    if name is None:
        raise MqlError(2, f"a value of {kind.__name__} has no BSON type")
    return name


def is_number(value: Value) -> bool:
    """Return whether a value is an int, long, double or decimal."""
    return type(value) in NUMBERS


# --- order -----------------------------------------------------------------------------------------------------------

# Ascending. Index keys take their tags from these numbers (`indexes.key_bytes.TAGS`), so another order invalidates
# stored indexes.
_MIN, _MISSING, _NULL, _NUMBER, _STRING, _OBJECT, _ARRAY, _BINARY = range(8)
_OBJECT_ID, _BOOL, _DATE, _TIMESTAMP, _REGEX, _CODE, _CODE_WITH_SCOPE, _MAX = range(8, 16)

OrderKey: TypeAlias = tuple[int, Any]
"""(class of types, comparable key within the class): compares and hashes as the value does."""

# Other numbers are (1, value). NaN is below all of them and, unlike in Python, equal to itself.
_NAN: Final = (0, 0)


def order_key(value: Value) -> OrderKey:
    """Return the key by which a value is compared, sorted, grouped and deduplicated. Equal values (5 and 5.0) have equal keys.

    MISSING sorts below null, as in expressions. A caller for which a missing field is null converts it first.
    """
    return _ORDER_KEYS[type(value)](value)


def type_class(value: Value) -> int:
    """Return the number of a value's class of types. Comparisons in queries match within one class; all numbers are
    one class.
    """
    return order_key(value)[0] if type(value) not in _TYPE_CLASSES else _TYPE_CLASSES[type(value)]


def equal(one: Value, other: Value) -> bool:
    """Return whether two values are equal: the order of a document's fields counts, the type of a number does not."""
    return order_key(one) == order_key(other)


# Python compares and hashes int, float and Decimal by their exact values: 2^53 + 1 differs from the double 2^53.
def _number_key(value: Any) -> OrderKey:
    return _NUMBER, (1, value)


def _float_key(value: float) -> OrderKey:
    return _NUMBER, _NAN if value != value else (1, value)


def _decimal_key(value: Decimal128) -> OrderKey:
    number: Decimal = value.to_decimal()
    return _NUMBER, _NAN if number.is_nan() else (1, number)


def _document_key(value: Mapping[str, Any]) -> OrderKey:
    # The server compares two fields by type class, then name, then value.
    fields = []
    for name, each in value.items():
        kind, key = order_key(each)
        fields.append((kind, name, key))
    return _OBJECT, tuple(fields)


def _binary_key(value: bytes) -> OrderKey:
    # By length, then subtype, then bytes.
    return _BINARY, (len(value), value.subtype if isinstance(value, Binary) else 0, bytes(value))


def _code_key(value: Code) -> OrderKey:
    if value.scope is None:
        return _CODE, str(value)
    return _CODE_WITH_SCOPE, (str(value), order_key(dict(value.scope)))


_REGEX_FLAGS: Final = (
    ("i", re.IGNORECASE),
    ("l", re.LOCALE),
    ("m", re.MULTILINE),
    ("s", re.DOTALL),
    ("u", re.UNICODE),
    ("x", re.VERBOSE),
)


def _regex_key(value: Any) -> OrderKey:
    flags = value.flags
    letters = "".join(letter for letter, flag in _REGEX_FLAGS if flags & flag)
    return _REGEX, (value.pattern, letters)


_ORDER_KEYS: Final[Mapping[type, Callable[[Any], OrderKey]]] = {
    MinKey: lambda value: (_MIN, ()),
    Missing: lambda value: (_MISSING, ()),
    type(None): lambda value: (_NULL, ()),
    int: _number_key,
    Int64: lambda value: (_NUMBER, (1, int(value))),
    float: _float_key,
    Decimal128: _decimal_key,
    str: lambda value: (_STRING, value),
    dict: _document_key,
    list: lambda value: (_ARRAY, tuple([order_key(each) for each in value])),
    bytes: _binary_key,
    Binary: _binary_key,
    ObjectId: lambda value: (_OBJECT_ID, value.binary),
    bool: lambda value: (_BOOL, value),
    DatetimeMS: lambda value: (_DATE, int(value)),
    Timestamp: lambda value: (_TIMESTAMP, (value.time, value.inc)),
    Regex: _regex_key,
    re.Pattern: _regex_key,
    Code: _code_key,
    MaxKey: lambda value: (_MAX, ()),
}

_TYPE_CLASSES: Final[Mapping[type, int]] = {
    int: _NUMBER,
    Int64: _NUMBER,
    float: _NUMBER,
    Decimal128: _NUMBER,
    str: _STRING,
    dict: _OBJECT,
    list: _ARRAY,
    bytes: _BINARY,
    Binary: _BINARY,
}


def is_truthy(value: Value) -> bool:
    """Return the truth of a value in `$and`, `$cond` and others: false, null, MISSING and zero are false."""
    if value is None or value is MISSING or value is False:
        return False
    if type(value) is Decimal128:
        return bool(value.to_decimal())
    # NaN is true: only zero is false.
    return not (type(value) in (int, Int64, float) and value == 0)


# --- how the server prints values ------------------------------------------------------------------------------------


def format_value(value: Value) -> str:
    """Return a value as the server prints it in messages: `{ key: { t: 1 }, name: "t_1" }`, `ObjectId('...')`, `new
    Date(0)`.
    """
    kind = type(value)
    if kind is dict:
        return (
            "{ " + ", ".join(f"{name}: {format_value(each)}" for name, each in value.items()) + " }" if value else "{}"
        )
    if kind is list:
        return "[ " + ", ".join(map(format_value, value)) + " ]" if value else "[]"
    if kind is str:
        escaped = value.replace("\\", "\\\\").replace('"', '\\"')
        return f'"{escaped}"'
    if kind is float:
        return _format_double(value)
    if kind is DatetimeMS:
        return f"new Date({int(value)})"
    if kind is Decimal128:
        return f'NumberDecimal("{value}")'
    if kind is ObjectId:
        return f"ObjectId('{value}')"
    if kind is Timestamp:
        return f"Timestamp({value.time}, {value.inc})"
    if kind in (bytes, Binary):
        return f"BinData({getattr(value, 'subtype', 0)}, {bytes(value).hex().upper()})"
    if kind in (Regex, re.Pattern):
        pattern, letters = _regex_key(value)[1]
        return f"/{pattern}/{letters}"
    return _CONSTANT_TEXTS.get(kind, str)(value)


def _format_double(value: float) -> str:
    if value != value:
        return "nan"
    if value in (float("inf"), float("-inf")):
        return "inf" if value > 0 else "-inf"
    return f"{value:.1f}" if value.is_integer() and abs(value) < 1e15 else f"{value:.15g}"


_CONSTANT_TEXTS: Final[Mapping[type, Callable[[Any], str]]] = {
    bool: lambda value: "true" if value else "false",
    type(None): lambda value: "null",
    MinKey: lambda value: "MinKey",
    MaxKey: lambda value: "MaxKey",
}
