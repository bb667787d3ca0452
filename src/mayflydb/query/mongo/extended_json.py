"""Extended JSON of BSON documents, from bytes and to bytes, so that every type survives the way to a text and back.

`format_document` writes relaxed Extended JSON, but canonical for each value that would change its type on the way back, such as
an int64 of 5. `parse_json` reads relaxed, canonical and mixed texts. Specification:
https://github.com/mongodb/specifications/blob/master/source/extended-json/extended-json.md
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from struct import pack, unpack_from
from typing import Any, Final, NamedTuple, TypeAlias

from bson import Decimal128, ObjectId

from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.raw import ARRAY, CODE_WITH_SCOPE, EMBEDDED, Element, elements
from mayflydb.query.mongo.values import INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN

DOUBLE, TEXT, BINARY, UNDEFINED, OBJECT_ID, BOOLEAN, DATE, NULL = 0x01, 0x02, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0A
REGEX, DB_POINTER, CODE, SYMBOL, INT32, TIMESTAMP = 0x0B, 0x0C, 0x0D, 0x0E, 0x10, 0x11
INT64, DECIMAL, MAX_KEY, MIN_KEY = 0x12, 0x13, 0x7F, 0xFF

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
LAST_WRITTEN_DATE: Final = 253_402_300_800_000
"""Milliseconds of the year 10000: relaxed Extended JSON writes dates from 1970 up to it as ISO 8601."""

MAX_TEXT_DEPTH: Final = 180
"""The maximum nesting of a text."""


class Encoded(NamedTuple):
    """A BSON value: its type and its bytes."""

    kind: int
    data: bytes


Read: TypeAlias = "Encoded | str | bool | list[Any] | None"
"""A value that is being read: texts, booleans, null and arrays stay as they are until their place is known."""


def _bad(sentence: str) -> MqlError:
    return MqlError(9, sentence)


# --- BSON bytes ------------------------------------------------------------------------------------------------------


def encode_value(value: Any) -> Encoded:
    """Encode a value: one that was read, an int, a float, bytes of a document, a mapping or a sequence."""
    if isinstance(value, Encoded):
        return value
    if isinstance(value, str):
        return Encoded(TEXT, _with_size(_utf8(value)))
    if isinstance(value, bool):
        return Encoded(BOOLEAN, b"\1" if value else b"\0")
    if value is None:
        return Encoded(NULL, b"")
    if isinstance(value, int):
        return encode_whole_number(value)
    if isinstance(value, float):
        return Encoded(DOUBLE, pack("<d", value))
    if isinstance(value, bytes):
        return Encoded(EMBEDDED, value)
    if isinstance(value, Mapping):
        return Encoded(EMBEDDED, encode_pairs(value.items()))
    return Encoded(ARRAY, encode_pairs((str(place), each) for place, each in enumerate(value)))


def encode_pairs(pairs: Iterable[tuple[str, Any]]) -> bytes:
    """Encode a document of these fields, in this order. A name may come twice, as BSON allows."""
    parts = []
    for name, value in pairs:
        kind, data = encode_value(value)
        parts += [bytes((kind,)), _c_string(name, "the name of a field"), data]
    body = b"".join(parts)
    return b"".join((pack("<i", len(body) + 5), body, b"\0"))


def encode_whole_number(value: int) -> Encoded:
    """Encode a whole number by its size: int32, int64 or double."""
    if INT32_MIN <= value <= INT32_MAX:
        return Encoded(INT32, pack("<i", value))
    if INT64_MIN <= value <= INT64_MAX:
        return Encoded(INT64, pack("<q", value))
    try:
        return Encoded(DOUBLE, pack("<d", float(value)))
    except OverflowError:
        raise _bad("a number is too large") from None


def _with_size(text: bytes) -> bytes:
    return pack("<i", len(text) + 1) + text + b"\0"


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise _bad("a text holds half of a surrogate pair, which BSON cannot hold") from None


def _c_string(text: str, what: str) -> bytes:
    data = _utf8(text)
    if b"\0" in data:
        raise _bad(f"{what} may hold no NUL character")
    return data + b"\0"


# --- reading ---------------------------------------------------------------------------------------------------------


def parse_json(text: str) -> Encoded:
    """Parse Extended JSON. MqlError 9 with a sentence for a text that is none."""
    try:
        return encode_value(_DECODER.decode(text))
    except json.JSONDecodeError as error:
        raise _bad(f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except RecursionError:
        raise _bad("the text nests too deeply") from None


def read_object(pairs: Sequence[tuple[str, Any]]) -> Encoded:
    """Return an object that was read: the value that its `$` fields stand for, or a document."""
    if pairs and pairs[0][0].startswith("$"):
        wrapper = _WRAPPERS.get(pairs[0][0])
        named = dict(pairs)
        if wrapper is not None and len(named) == len(pairs) and named.keys() <= wrapper[0]:
            try:
                return wrapper[1](named)
            except (ValueError, TypeError, KeyError, OverflowError, Base64Error):
                raise _bad(f"{pairs[0][0]} has a value that is no Extended JSON") from None
    return Encoded(EMBEDDED, encode_pairs(pairs))


def read_whole_number(text: str) -> Encoded:
    """Return the number of a text that has neither a fraction nor an exponent."""
    # int() of a long text takes time that grows faster than its length.
    return encode_whole_number(int(text)) if len(text) < 400 else encode_value(float(text))


def read_fraction(text: str) -> Encoded:
    """Return the double of a text."""
    return encode_value(float(text))


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=read_object, parse_int=read_whole_number, parse_float=read_fraction, parse_constant=read_fraction
)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _fields(value: Any) -> dict[str, Element]:
    """Return the fields of a nested object, by name."""
    if not isinstance(value, Encoded) or value.kind != EMBEDDED:
        raise TypeError
    return {element.name.decode(): element for element in elements(value.data)}


def _nested_text(value: Any, name: str) -> str:
    element = _fields(value)[name]
    if element.type != TEXT:
        raise TypeError
    return value.data[element.value + 4 : element.end - 1].decode()  # type: ignore[no-any-return]


def _nested_number(value: Any, name: str) -> int:
    element = _fields(value)[name]
    found: int = unpack_from({INT32: "<i", INT64: "<q"}[element.type], value.data, element.value)[0]
    return found


def object_id(digits: str) -> Encoded:
    """Encode an ObjectId of 24 hexadecimal digits. ValueError."""
    if len(digits) != 24 or not digits.isascii() or not digits.isalnum():
        raise ValueError(digits)
    return Encoded(OBJECT_ID, bytes.fromhex(digits))


def whole(text: str, low: int, high: int) -> int:
    """Parse a whole number within these bounds. ValueError."""
    if len(text) > 25 or not low <= (value := int(text)) <= high:
        raise ValueError(text)
    return value


def int32(text: str) -> Encoded:
    """Encode an int32. ValueError."""
    return Encoded(INT32, pack("<i", whole(text, INT32_MIN, INT32_MAX)))


def int64(text: str) -> Encoded:
    """Encode an int64. ValueError."""
    return Encoded(INT64, pack("<q", whole(text, INT64_MIN, INT64_MAX)))


def decimal(text: str) -> Encoded:
    """Encode a Decimal128. ValueError."""
    try:
        return Encoded(DECIMAL, Decimal128(text).bid)
    except ArithmeticError:
        raise ValueError(text) from None


def double(text: str) -> Encoded:
    """Encode a double. ValueError."""
    return Encoded(DOUBLE, pack("<d", float(text)))


def binary(subtype: int, data: bytes) -> Encoded:
    """Encode binary data."""
    # Subtype 2 repeats the length within its data.
    inner = pack("<i", len(data)) + data if subtype == 2 else data
    return Encoded(BINARY, pack("<iB", len(inner), subtype) + inner)


def uuid(text: str) -> Encoded:
    """Encode a UUID of 32 hexadecimal digits, with hyphens or without. ValueError."""
    data = bytes.fromhex(text.replace("-", ""))
    if len(data) != 16:
        raise ValueError(text)
    return binary(4, data)


def date(text: str) -> Encoded:
    """Encode the date of an ISO 8601 text, in UTC where it has no offset. ValueError."""
    found = datetime.fromisoformat(text)
    found = found if found.tzinfo is not None else found.replace(tzinfo=UTC)
    return Encoded(DATE, pack("<q", (found - EPOCH) // timedelta(milliseconds=1)))


def timestamp(seconds: int, increment: int) -> Encoded:
    """Encode a Timestamp. ValueError."""
    if not (0 <= seconds < 1 << 32 and 0 <= increment < 1 << 32):
        raise ValueError
    return Encoded(TIMESTAMP, pack("<II", increment, seconds))


def regex(pattern: str, options: str) -> Encoded:
    """Encode a regular expression; BSON has its options in alphabetical order."""
    return Encoded(REGEX, _c_string(pattern, "a pattern") + _c_string("".join(sorted(options)), "an option"))


def code(text: str, scope: bytes | None = None) -> Encoded:
    """Encode JavaScript code."""
    sized = _with_size(_utf8(text))
    if scope is None:
        return Encoded(CODE, sized)
    return Encoded(CODE_WITH_SCOPE, pack("<i", 4 + len(sized) + len(scope)) + sized + scope)


def _read_date(named: dict[str, Any]) -> Encoded:
    value = named["$date"]
    if isinstance(value, str):
        return date(value)
    if isinstance(value, Encoded) and value.kind in (INT32, INT64):
        return Encoded(DATE, pack("<q", unpack_from("<i" if value.kind == INT32 else "<q", value.data)[0]))
    raise TypeError


def _read_binary(named: dict[str, Any]) -> Encoded:
    value = named["$binary"]
    if isinstance(value, str):
        return binary(int(_text(named["$type"]), 16), b64decode(value, validate=True))
    if "$type" in named:
        raise TypeError
    return binary(int(_nested_text(value, "subType"), 16), b64decode(_nested_text(value, "base64"), validate=True))


def _read_code(named: dict[str, Any]) -> Encoded:
    text = _text(named["$code"])
    if "$scope" not in named:
        return code(text)
    scope = named["$scope"]
    if not isinstance(scope, Encoded) or scope.kind != EMBEDDED:
        raise TypeError
    return code(text, scope.data)


def _read_pointer(named: dict[str, Any]) -> Encoded:
    value = named["$dbPointer"]
    id = _fields(value)["$id"]
    if id.type != OBJECT_ID:
        raise TypeError
    return Encoded(DB_POINTER, _with_size(_utf8(_nested_text(value, "$ref"))) + value.data[id.value : id.end])


def _read_key(name: str, kind: int) -> Callable[[dict[str, Any]], Encoded]:
    def read(named: dict[str, Any]) -> Encoded:
        if named[name] != encode_value(1):
            raise TypeError
        return Encoded(kind, b"")

    return read


def _read_undefined(named: dict[str, Any]) -> Encoded:
    if named["$undefined"] is not True:
        raise TypeError
    return Encoded(UNDEFINED, b"")


def _of_text(name: str, encode: Callable[[str], Encoded]) -> Callable[[dict[str, Any]], Encoded]:
    return lambda named: encode(_text(named[name]))


def _regular_expression(named: dict[str, Any]) -> Encoded:
    value = named["$regularExpression"]
    return regex(_nested_text(value, "pattern"), _nested_text(value, "options"))


def _read_timestamp(named: dict[str, Any]) -> Encoded:
    value = named["$timestamp"]
    return timestamp(_nested_number(value, "t"), _nested_number(value, "i"))


_WRAPPERS: Final[Mapping[str, tuple[frozenset[str], Callable[[dict[str, Any]], Encoded]]]] = {
    "$oid": (frozenset({"$oid"}), _of_text("$oid", object_id)),
    "$symbol": (frozenset({"$symbol"}), _of_text("$symbol", lambda text: Encoded(SYMBOL, _with_size(_utf8(text))))),
    "$numberInt": (frozenset({"$numberInt"}), _of_text("$numberInt", int32)),
    "$numberLong": (frozenset({"$numberLong"}), _of_text("$numberLong", int64)),
    "$numberDouble": (frozenset({"$numberDouble"}), _of_text("$numberDouble", double)),
    "$numberDecimal": (frozenset({"$numberDecimal"}), _of_text("$numberDecimal", decimal)),
    "$uuid": (frozenset({"$uuid"}), _of_text("$uuid", uuid)),
    "$binary": (frozenset({"$binary", "$type"}), _read_binary),
    "$code": (frozenset({"$code", "$scope"}), _read_code),
    "$timestamp": (frozenset({"$timestamp"}), _read_timestamp),
    "$regularExpression": (frozenset({"$regularExpression"}), _regular_expression),
    "$dbPointer": (frozenset({"$dbPointer"}), _read_pointer),
    "$date": (frozenset({"$date"}), _read_date),
    "$minKey": (frozenset({"$minKey"}), _read_key("$minKey", MIN_KEY)),
    "$maxKey": (frozenset({"$maxKey"}), _read_key("$maxKey", MAX_KEY)),
    "$undefined": (frozenset({"$undefined"}), _read_undefined),
}
"""Fields that stand for a type, as the first of an object: all fields that the object may have, and the reader."""


# --- writing ---------------------------------------------------------------------------------------------------------


def format_document(document: bytes, canonical: bool = False, indent: bool = False) -> str:
    """Write a document as Extended JSON: on one line, or indented."""
    return _Writer(canonical, indent).document(document, 1)


def format_value(value: Encoded, canonical: bool = False) -> str:
    """Write a value as Extended JSON on one line."""
    return _Writer(canonical, False).value(value.kind, value.data, 1)


def is_exact(document: bytes, text: str) -> bool:
    """Return whether a text is read as the very same bytes.

    False for fields named like those of Extended JSON, for invalid UTF-8, and for other bytes that no text has.
    """
    try:
        return parse_json(text).data == document
    except MqlError:
        return False


def fields_of(document: bytes) -> dict[str, Encoded]:
    """Return the fields of a document, one level deep."""
    return {
        element.name.decode("utf-8", "replace"): Encoded(element.type, document[element.value : element.end])
        for element in elements(document)
    }


_ENCODER: Final = json.JSONEncoder(ensure_ascii=False)
_FRACTION: Final = re.compile(r"[.e]")


class _Writer:
    """Writes values. Each level of nesting is a call."""

    def __init__(self, canonical: bool, indent: bool) -> None:
        self._canonical = canonical
        self._indent = indent

    def document(self, data: bytes, level: int) -> str:
        return self._join(
            "{}",
            [
                f"{_quote(element.name)}: {self.value(element.type, data[element.value : element.end], level + 1)}"
                for element in elements(data)
            ],
            level,
        )

    def _array(self, data: bytes, level: int) -> str:
        found = [self.value(element.type, data[element.value : element.end], level + 1) for element in elements(data)]
        return self._join("[]", found, level)

    def _join(self, brackets: str, parts: list[str], level: int) -> str:
        if not parts:
            return brackets
        if not self._indent:
            return f"{brackets[0]}{', '.join(parts)}{brackets[1]}"
        before, after = "\n" + "  " * level, "\n" + "  " * (level - 1)
        return f"{brackets[0]}{before}{f',{before}'.join(parts)}{after}{brackets[1]}"

    def value(self, kind: int, data: bytes, level: int) -> str:
        if kind == EMBEDDED:
            return self.document(data, level)
        if kind == ARRAY:
            return self._array(data, level)
        if kind == CODE_WITH_SCOPE:
            size = unpack_from("<i", data, 4)[0]
            return f'{{"$code": {_quote(data[8 : 7 + size])}, "$scope": {self.document(data[8 + size :], level)}}}'
        if kind in (DOUBLE, INT32, INT64):
            return self._number(kind, data)
        if kind == DATE:
            return self._date(unpack_from("<q", data)[0])
        return _SIMPLE[kind](data)

    def _number(self, kind: int, data: bytes) -> str:
        if kind == DOUBLE:
            number = unpack_from("<d", data)[0]
            written = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(text := repr(number))
            if written is None and not self._canonical:
                return text
            return f'{{"$numberDouble": "{written or text}"}}'
        value = unpack_from("<i" if kind == INT32 else "<q", data)[0]
        if kind == INT32:
            return f'{{"$numberInt": "{value}"}}' if self._canonical else str(value)
        # A small int64 would be read as an int32.
        plain = not self._canonical and not INT32_MIN <= value <= INT32_MAX
        return str(value) if plain else f'{{"$numberLong": "{value}"}}'

    def _date(self, milliseconds: int) -> str:
        if self._canonical or not 0 <= milliseconds < LAST_WRITTEN_DATE:
            return f'{{"$date": {{"$numberLong": "{milliseconds}"}}}}'
        found = EPOCH + timedelta(milliseconds=milliseconds)
        text = found.isoformat(timespec="milliseconds" if milliseconds % 1000 else "seconds")
        return f'{{"$date": "{text.removesuffix("+00:00")}Z"}}'


def _quote(text: bytes) -> str:
    return _ENCODER.encode(text.decode("utf-8", "replace"))


def _binary_text(data: bytes) -> str:
    inner = data[9:] if data[4] == 2 else data[5:]
    return f'{{"$binary": {{"base64": "{b64encode(inner).decode()}", "subType": "{data[4]:02x}"}}}}'


def _regex_text(data: bytes) -> str:
    pattern, options, _ = data.split(b"\0")
    return f'{{"$regularExpression": {{"pattern": {_quote(pattern)}, "options": {_quote(options)}}}}}'


def _timestamp_text(data: bytes) -> str:
    increment, seconds = unpack_from("<II", data)
    # As plain numbers, also where the text is canonical: so the specification has it.
    return f'{{"$timestamp": {{"t": {seconds}, "i": {increment}}}}}'


_SIMPLE: Final[Mapping[int, Callable[[bytes], str]]] = {
    TEXT: lambda data: _quote(data[4:-1]),
    BINARY: _binary_text,
    UNDEFINED: lambda data: '{"$undefined": true}',
    OBJECT_ID: lambda data: f'{{"$oid": "{ObjectId(data)}"}}',
    BOOLEAN: lambda data: "true" if data[0] else "false",
    NULL: lambda data: "null",
    REGEX: _regex_text,
    DB_POINTER: lambda data: (
        f'{{"$dbPointer": {{"$ref": {_quote(data[4:-13])}, "$id": {{"$oid": "{data[-12:].hex()}"}}}}}}'
    ),
    CODE: lambda data: f'{{"$code": {_quote(data[4:-1])}}}',
    SYMBOL: lambda data: f'{{"$symbol": {_quote(data[4:-1])}}}',
    TIMESTAMP: _timestamp_text,
    DECIMAL: lambda data: f'{{"$numberDecimal": "{Decimal128.from_bid(data)}"}}',
    MAX_KEY: lambda data: '{"$maxKey": 1}',
    MIN_KEY: lambda data: '{"$minKey": 1}',
}
