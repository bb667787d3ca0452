"""BSON read as bytes: the positions of elements, and the documents of an array, without decoding them.

Layout: https://bsonspec.org/spec.html
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Final, NamedTuple

from mayflydb.query.mongo.faults import MqlError, type_mismatch

MAX_DEPTH: Final = 200
"""The maximum nesting of documents and arrays."""

MIN_DOCUMENT_SIZE: Final = 5

MIN_LEVEL_SIZE: Final = 7
"""The fewest bytes that a level of nesting takes: a type, the end of an empty name, and an empty document."""

EMBEDDED, ARRAY, CODE_WITH_SCOPE = 0x03, 0x04, 0x0F

_FIXED_SIZES: Final[Mapping[int, int]] = {
    0x01: 8,
    0x06: 0,
    0x07: 12,
    0x08: 1,
    0x09: 8,
    0x0A: 0,
    0x10: 4,
    0x11: 8,
    0x12: 8,
    0x13: 16,
    0x7F: 0,
    0xFF: 0,
}
"""The size in bytes of values of fixed size, by type."""

# The size of a text counts the text and its zero byte. That of a document, an array or code with scope counts its own
# four bytes too. Binary has a subtype, and a dbPointer an id of 12 bytes, that no size counts.
_EXTRA_SIZES: Final[Mapping[int, int]] = {0x02: 4, 0x03: 0, 0x04: 0, 0x05: 5, 0x0C: 16, 0x0D: 4, 0x0E: 4, 0x0F: 0}
"""The bytes of a value that its length prefix does not count, by type."""

TYPES: Final[Mapping[int, str]] = {
    0x01: "double",
    0x02: "string",
    0x03: "object",
    0x04: "array",
    0x05: "binData",
    0x06: "undefined",
    0x07: "objectId",
    0x08: "bool",
    0x09: "date",
    0x0A: "null",
    0x0B: "regex",
    0x0C: "dbPointer",
    0x0D: "javascript",
    0x0E: "symbol",
    0x0F: "javascriptWithScope",
    0x10: "int",
    0x11: "timestamp",
    0x12: "long",
    0x13: "decimal",
    0x7F: "maxKey",
    0xFF: "minKey",
}


class Element(NamedTuple):
    """One field of an encoded document. `start`: the offset of its type byte; `value`: the offset of its value;
    `end`: the offset behind it.
    """

    type: int
    name: bytes
    start: int
    value: int
    end: int


# document = size of the whole (int32, little endian), elements, 00
# element  = type (1 byte), name, 00, value
#
#   {a: "b"}   0E 00 00 00 | 02 'a' 00 | 02 00 00 00 'b' 00 | 00
def elements(data: bytes) -> Iterator[Element]:
    """Yield the fields of a document, one level deep. MqlError 22 for invalid BSON."""
    check_document_size(data)
    # Elements lie between the size and the final zero byte.
    position, last = 4, len(data) - 1
    while position < last:
        kind = data[position]
        named = data.find(b"\0", position + 1, last)
        if named < 0:
            raise _invalid_bson("a name does not end")
        value = named + 1
        end = _find_end(data, kind, value, last)
        if not value <= end <= last:
            raise _invalid_bson("a value is longer than its document")
        yield Element(kind, data[position + 1 : named], position, value, end)
        position = end


MAX_SELECTED: Final = 48
"""The most fields of a document that `select_fields` looks at. The library decodes larger documents more quickly."""


def select_fields(data: bytes, names: Collection[bytes], kept: bool) -> bytes | None:
    """Return a valid document with only the fields of these names, or without them; None if it has more than MAX_SELECTED."""
    parts: list[bytes] = []
    position, last = 4, len(data) - 1
    for _ in range(MAX_SELECTED):
        if position >= last:
            body = b"".join(parts)
            return b"".join(((len(body) + 5).to_bytes(4, "little"), body, b"\0"))
        kind, named = data[position], data.index(0, position + 1)
        value = named + 1
        fixed = _FIXED_SIZES.get(kind)
        end = value + fixed if fixed is not None else _find_end(data, kind, value, last)
        if (data[position + 1 : named] in names) is kept:
            parts.append(data[position:end])
        position = end
    return None


def check_document_size(data: bytes) -> None:
    """Raise MqlError 22 unless the bytes have the length that they declare and end with a zero byte."""
    if len(data) < MIN_DOCUMENT_SIZE or int.from_bytes(data[:4], "little", signed=True) != len(data) or data[-1]:
        raise _invalid_bson("a document is not as long as it says")


def _find_end(data: bytes, kind: int, value: int, last: int) -> int:
    fixed = _FIXED_SIZES.get(kind)
    if fixed is not None:
        return value + fixed
    beside = _EXTRA_SIZES.get(kind)
    if beside is not None:
        counted = int.from_bytes(data[value : value + 4], "little", signed=True)
        # With a negative size the value could end inside its own header, and the rest of it would be read as elements.
        if value + 4 > last or counted < 0:
            raise _invalid_bson("a length is negative or cut off")
        return value + beside + counted
    if kind == 0x0B:
        # Two C strings: the pattern and its flags.
        pattern = data.find(b"\0", value, last)
        options = data.find(b"\0", pattern + 1, last) if pattern >= 0 else -1
        if options < 0:
            raise _invalid_bson("a regular expression does not end")
        return options + 1
    raise _invalid_bson(f"there is no type 0x{kind:02x}")


def array_documents(data: bytes, field: str) -> list[bytes]:
    """Return the documents in an encoded array. MqlError 14 for another element; `field` is `<command>.<field>`."""
    found = []
    for element in elements(data):
        if element.type != EMBEDDED:
            place = f"{field}.{element.name.decode('utf-8', 'replace')}"
            raise type_mismatch(place, TYPES[element.type], "object")
        document = data[element.value : element.end]
        check_document_size(document)
        found.append(document)
    return found


def remove_elements(data: bytes, taken: list[Element]) -> bytes:
    """Return a document without some of its elements. `taken`: these elements, in order."""
    parts, position = [], 4
    for element in taken:
        parts.append(data[position : element.start])
        position = element.end
    parts.append(data[position:])
    rest = b"".join(parts)
    return (len(rest) + 4).to_bytes(4, "little") + rest


def check_depth(data: bytes, deepest: int = MAX_DEPTH) -> None:
    """Raise MqlError 22 for a document that nests too deeply, or that has an invalid document within it.

    A document that cannot be too deep is not searched for invalid ones.
    """
    if len(data) < deepest * MIN_LEVEL_SIZE:
        return
    if sum(map(data.count, (b"\x03", b"\x04", b"\x0f"))) < deepest:
        # Each level has a byte with its type: with fewer such bytes the document cannot be too deep.
        return
    # A stack of iterators instead of recursion; each entry resumes behind the document that was entered.
    open_documents: list[tuple[int, Iterator[Element], bytes]] = [(1, elements(data), data)]
    while open_documents:
        level, rest, within = open_documents[-1]
        element = next(rest, None)
        if element is None:
            open_documents.pop()
        elif element.type in _NESTED_BYTES:
            if level >= deepest:
                raise _invalid_bson(f"exceeded maximum nested object depth: {deepest}")
            inner = _NESTED_BYTES[element.type](within[element.value : element.end])
            open_documents.append((level + 1, elements(inner), inner))


def scope_of(value: bytes) -> bytes:
    """Return the scope document at the end of a value of code with scope. MqlError 22 for code longer than its value."""
    # value = size (int32), size of the code (int32), code, 00, scope document
    code = int.from_bytes(value[4:8], "little", signed=True)
    if not 0 < code <= len(value) - 8:
        raise _invalid_bson("code is longer than its value")
    return value[8 + code :]


def _same_bytes(value: bytes) -> bytes:
    return value


_NESTED_BYTES: Final[Mapping[int, Callable[[bytes], bytes]]] = {
    EMBEDDED: _same_bytes,
    ARRAY: _same_bytes,
    CODE_WITH_SCOPE: scope_of,
}


def _invalid_bson(what: str) -> MqlError:
    return MqlError(22, f"invalid BSON: {what}")
