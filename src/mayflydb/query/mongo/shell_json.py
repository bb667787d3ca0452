"""Values as people type them in MongoDB's shell: Extended JSON, names without quotes, single quotes, comments, trailing commas,
regular expressions between slashes, and constructors such as ObjectId("...") and ISODate("...").

A number with a fraction or an exponent is a double, and another one an int32 or int64 by its size. Code is not executed.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Callable, Mapping
from struct import pack, unpack
from typing import Any, Final

from mayflydb.query.mongo import extended_json as ejson
from mayflydb.query.mongo.extended_json import MAX_TEXT_DEPTH, Encoded, encode_value
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.raw import ARRAY, EMBEDDED

MAX_TEXT: Final = 1 << 20
"""Characters of a text that is read token by token. Longer ones must be JSON."""

_TOKEN: Final = re.compile(
    r"""
      (?P<space>\s+|//[^\n]*|/\*.*?\*/)
    | (?P<string>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')
    | (?P<number>[+-]?(?:\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|Infinity\b))
    | (?P<name>[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)*)
    | (?P<regex>/(?:[^/\\\n\[]|\\.|\[(?:[^\]\\\n]|\\.)*\])+/[a-z]*)
    | (?P<mark>[{}\[\](),:])
    """,
    re.VERBOSE | re.DOTALL,
)


def parse_shell(text: str) -> Encoded:
    """Parse a value. MqlError 9 with the line and column of the fault."""
    try:
        return ejson.parse_json(text)
    except MqlError as error:
        if len(text) > MAX_TEXT:
            raise
        return _Reader(text, error).read()


def parse_document(text: str, what: str) -> bytes:
    """Parse a document, `{}` for an empty text. MqlError 9 whose sentence begins with `what`."""
    return _of_kind(text.strip() or "{}", EMBEDDED, what, "a document in braces")


def parse_array(text: str, what: str) -> bytes:
    """Parse an array, `[]` for an empty text. MqlError 9."""
    return _of_kind(text.strip() or "[]", ARRAY, what, "an array in brackets")


def _of_kind(text: str, kind: int, what: str, form: str) -> bytes:
    try:
        found = parse_shell(text)
    except MqlError as error:
        raise MqlError(9, f"{what}: {error.message}") from None
    if found.kind != kind:
        raise MqlError(9, f"{what}: it must be {form}")
    return found.data


class _Reader:
    """Reads one text, token by token. `first`: the error of the same text read as JSON."""

    def __init__(self, text: str, first: MqlError) -> None:
        self._text = text
        self._first = first
        self._position = 0
        self._kind, self._token, self._start = "", "", 0
        self._advance()

    def read(self) -> Encoded:
        value = encode_value(self._value(0))
        if self._kind:
            raise self._fault(f"{self._token[:20]!r} follows the end")
        return value

    def _advance(self) -> str:
        """Go to the next token, and return the present one."""
        before = self._token
        while True:
            self._start = self._position
            if self._position >= len(self._text):
                self._kind = self._token = ""
                return before
            found = _TOKEN.match(self._text, self._position)
            if found is None:
                raise self._fault(f"{self._text[self._position : self._position + 10]!r} has no meaning")
            self._position = found.end()
            if found.lastgroup != "space":
                self._kind, self._token = found.lastgroup or "", found.group()
                return before

    def _fault(self, sentence: str) -> MqlError:
        line = self._text.count("\n", 0, self._start) + 1
        column = self._start - self._text.rfind("\n", 0, self._start)
        return MqlError(9, f"line {line}, column {column}: {sentence}")

    def _expect(self, mark: str) -> None:
        if self._token != mark or self._kind != "mark":
            raise self._fault(f"{mark} is expected")
        self._advance()

    def _at(self, mark: str) -> bool:
        return self._kind == "mark" and self._token == mark

    def _value(self, depth: int) -> Any:
        if depth > MAX_TEXT_DEPTH:
            raise self._fault("the text nests too deeply")
        if self._kind == "string":
            return _unquote(self._advance())
        if self._kind == "number":
            return _number(self._advance())
        if self._kind == "regex":
            pattern, _, options = self._advance()[1:].rpartition("/")
            return ejson.regex(pattern.replace("\\/", "/"), options)
        if self._at("{"):
            return self._object(depth)
        if self._at("["):
            return self._list("[", "]", depth)
        if self._kind == "name":
            return self._read_name(depth)
        raise self._fault("a value is expected")

    def _object(self, depth: int) -> Encoded:
        self._advance()
        pairs = []
        while not self._at("}"):
            if self._kind not in ("string", "name", "number"):
                raise self._fault("the name of a field is expected")
            name = _unquote(self._token) if self._kind == "string" else self._token
            self._advance()
            self._expect(":")
            pairs.append((name, self._value(depth + 1)))
            if not self._at("}"):
                self._expect(",")
        self._advance()
        return ejson.read_object(pairs)

    def _list(self, opening: str, closing: str, depth: int) -> list[Any]:
        self._expect(opening)
        found = []
        while not self._at(closing):
            found.append(self._value(depth + 1))
            if not self._at(closing):
                self._expect(",")
        self._advance()
        return found

    def _read_name(self, depth: int) -> Any:
        at, name = self._start, self._advance()
        if name == "new" and self._kind == "name":
            name = self._advance()
        if name in _CONSTANTS and not self._at("("):
            return _CONSTANTS[name]
        constructor = _CONSTRUCTORS.get(name)
        if constructor is None or not self._at("("):
            self._start = at
            raise self._fault(f"{name} is no value: texts stand in quotes")
        given = self._list("(", ")", depth)
        try:
            return constructor(*given)
        except (ValueError, TypeError, KeyError, OverflowError):
            self._start = at
            raise self._fault(f"{name} does not take these arguments") from None


def _unquote(token: str) -> str:
    if token[0] == '"':
        try:
            found: str = json.loads(token, strict=False)
        except ValueError:
            pass
        else:
            return found
    return re.sub(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|.)", _unescape, token[1:-1], flags=re.DOTALL)


def _unescape(found: re.Match[str]) -> str:
    mark = found[1]
    if len(mark) > 1:
        return chr(int(mark[1:], 16))
    return {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "0": "\0", "v": "\v", "\n": ""}.get(mark, mark)


def _number(token: str) -> Encoded:
    if token.lstrip("+-").isdigit():
        return ejson.read_whole_number(token)
    return ejson.read_fraction(token)


_CONSTANTS: Final[Mapping[str, Any]] = {
    "true": True,
    "false": False,
    "null": None,
    "undefined": Encoded(ejson.UNDEFINED, b""),
    "NaN": encode_value(float("nan")),
    "Infinity": encode_value(float("inf")),
    "MinKey": Encoded(ejson.MIN_KEY, b""),
    "MaxKey": Encoded(ejson.MAX_KEY, b""),
}


def _digits(value: Any) -> str:
    """Return the text of a number's constructor: a text, or a number that was typed without quotes."""
    if isinstance(value, str):
        return value
    if isinstance(value, Encoded) and value.kind in (ejson.INT32, ejson.INT64):
        return str(_whole(value))
    if isinstance(value, Encoded) and value.kind == ejson.DOUBLE:
        return repr(unpack("<d", value.data)[0])
    raise TypeError


def _whole(value: Any) -> int:
    if not isinstance(value, Encoded):
        raise TypeError
    found: int = unpack({ejson.INT32: "<i", ejson.INT64: "<q"}[value.kind], value.data)[0]
    return found


def _date(value: Any) -> Encoded:
    if isinstance(value, str):
        return ejson.date(value)
    return Encoded(ejson.DATE, pack("<q", _whole(value)))


def _db_ref(collection: str, id: Any, database: str | None = None) -> Encoded:
    pairs = [("$ref", collection), ("$id", id), *([] if database is None else [("$db", database)])]
    return Encoded(EMBEDDED, ejson.encode_pairs(pairs))


def _code(text: str, scope: Encoded | None = None) -> Encoded:
    if scope is not None and scope.kind != EMBEDDED:
        raise TypeError
    return ejson.code(text, None if scope is None else scope.data)


_CONSTRUCTORS: Final[Mapping[str, Callable[..., Any]]] = {
    "ObjectId": ejson.object_id,
    "ISODate": _date,
    "Date": _date,
    "NumberInt": lambda value: ejson.int32(_digits(value)),
    "Int32": lambda value: ejson.int32(_digits(value)),
    "NumberLong": lambda value: ejson.int64(_digits(value)),
    "Long": lambda value: ejson.int64(_digits(value)),
    "Double": lambda value: ejson.double(_digits(value)),
    "NumberDecimal": lambda value: ejson.decimal(_digits(value)),
    "Decimal128": lambda value: ejson.decimal(_digits(value)),
    "BinData": lambda subtype, text: ejson.binary(_whole(subtype) & 0xFF, b64decode(text, validate=True)),
    "UUID": ejson.uuid,
    "Timestamp": lambda seconds, increment: ejson.timestamp(_whole(seconds), _whole(increment)),
    "RegExp": lambda pattern, options="": ejson.regex(pattern, options),
    "MinKey": lambda: _CONSTANTS["MinKey"],
    "MaxKey": lambda: _CONSTANTS["MaxKey"],
    "DBRef": _db_ref,
    "Code": _code,
}
"""Constructors of the shell. Those that would make something new, as `new Date()`, need their argument here."""
