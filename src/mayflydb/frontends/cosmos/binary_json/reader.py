"""Decodes binary JSON to text."""

from __future__ import annotations

import asyncio
import struct
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Callable, Iterator
from math import copysign, isfinite
from typing import Final, NoReturn
from uuid import UUID

import msgspec

from mayflydb.frontends.cosmos.binary_json.forms import PREAMBLE, SYSTEM_STRINGS
from mayflydb.model.errors import BadRequest, TooLarge, Unsupported

VALUES_PER_TURN: Final = 1000
"""Values that are decoded in one turn of the event loop."""

MAX_DEPTH: Final = 256
"""Levels of arrays and objects. The limit for items is checked later, on the text."""

ENVIRONMENT_HINT: Final = "AZURE_COSMOS_BINARY_ENCODING_ENABLED=false in its environment has the client send text"

_LENGTHS = {1: struct.Struct("<B"), 2: struct.Struct("<H"), 4: struct.Struct("<I")}

# One letter of `struct` for each marker from C7 on and from D7 on. The format has most widths twice.
_NUMBERS: Final = {
    marker: struct.Struct("<" + code)
    for markers, codes in ((range(0xC7, 0xCF), "QBhiqdfd"), (range(0xD7, 0xDD), "BbhiqI"))
    for marker, code in zip(markers, codes, strict=True)
}
_LITERALS: Final = {0xD0: b"null", 0xD1: b"false", 0xD2: b"true", 0xE0: b"[]", 0xE8: b"{}"}
_TABLES: Final = {0x78: "0123456789abcdef", 0x79: "0123456789ABCDEF", 0x7A: " 0123456789:-.TZ"}
# 16 bytes as a GUID: in lower case, in upper case, in lower case between quotes that belong to the string.
_GUIDS: Final = {0x75: ("%s", 0x78), 0x76: ("%s", 0x79), 0x77: ('"%s"', 0x78)}
_PACKED: Final = {0x7B: (4, 1, 1), 0x7C: (5, 1, 1), 0x7D: (6, 1, 1), 0x7E: (7, 0, 1), 0x7F: (7, 0, 2)}
"""By marker: bits of a character, bytes of the base that is added to each character, bytes of the length."""
# By marker: the alphabet, and the bytes of the length, which counts groups of 4 characters.
_BASE64: Final = {
    0x71: (b64encode, 1),
    0x72: (b64encode, 2),
    0x73: (urlsafe_b64encode, 1),
    0x74: (urlsafe_b64encode, 2),
}
_STRINGS: Final = {0xC0: 1, 0xC1: 2, 0xC2: 4}
_BLOBS: Final = {0xDD: 1, 0xDE: 2, 0xDF: 4}
_GUID_VALUE: Final = 0xD3
_UNIFORM: Final = range(0xF0, 0xF4)
_UNIFORM_ITEMS: Final = {marker: _NUMBERS[marker] for marker in (0xCD, 0xCE, *range(0xD7, 0xDD))}
_REFUSED: Final = {
    **dict.fromkeys(range(0x40, 0x68), "a string of a user's dictionary, which no request contains"),
    0xCF: "a number of half precision",
}
_REFERENCES: Final = range(0xC3, 0xC7)

_encode = msgspec.json.Encoder().encode


async def to_text(body: bytes, max_bytes: int) -> bytes:
    """Decode a binary body to JSON text. The event loop runs other work in between.

    Raises:
        BadRequest: the body is cut short or contradicts itself.
        TooLarge: the text is longer than `max_bytes`; references make it longer than the body.
        Unsupported: the body holds a type that Mayfly does not read.
    """
    reader = _BinaryReader(body, max_bytes)
    for _ in reader.decode():
        await asyncio.sleep(0)
    return b"".join(reader.parts)


class _Frame(msgspec.Struct):
    """An array or object that is being read.

    `end`: the offset of its end, or None where it has exactly one member; `count`: the number of members, or None.
    `item`: the form of the numbers of a uniform array, which have no markers; `inner`: how many each of its arrays has, if it
    consists of arrays.
    """

    closing: bytes
    end: int | None
    count: int | None
    members: int = 0
    item: struct.Struct | None = None
    inner: int | None = None


class _BinaryReader:
    """Decodes one body. `parts` is the text so far."""

    def __init__(self, body: bytes, max_bytes: int) -> None:
        self.parts: list[bytes] = []
        self._body = body
        self._position = len(PREAMBLE)
        self._remaining_bytes = max_bytes
        self._frames: list[_Frame] = []
        self._values_this_turn = 0

    def decode(self) -> Iterator[None]:
        """Decode the whole body into `parts`; yield after each `VALUES_PER_TURN` values, so that others get their turn."""
        while True:
            self._read_value()
            if not self._frames:
                break
            if self._values_this_turn >= VALUES_PER_TURN:
                self._values_this_turn = 0
                yield
        if self._position != len(self._body):
            _refuse("something follows its value")

    def _read_value(self) -> None:
        self._values_this_turn += 1
        frame = self._frames[-1] if self._frames else None
        if frame is not None and frame.item is not None:
            self._read_items(frame, frame.item)
        else:
            if frame is not None:
                self._begin_member(frame)
            self._read_marked_value(self._read_byte())
        # The last byte of a value may end several frames.
        while self._frames and self._is_complete(self._frames[-1]):
            self._write(self._frames.pop().closing)

    def _read_marked_value(self, marker: int) -> None:
        if marker in _UNIFORM:
            self._open_uniform_array(marker)
        elif 0xE0 <= marker <= 0xEF and marker not in _LITERALS:
            self._open_frame(marker)
        else:
            self._write(self._read_scalar(marker))

    def _begin_member(self, frame: _Frame) -> None:
        if frame.members:
            self._write(b",")
        frame.members += 1
        if frame.closing == b"}":
            self._write(_encode(self._read_string(self._read_byte())))
            self._write(b":")

    def _push(self, frame: _Frame, opening: bytes = b"[") -> None:
        if len(self._frames) == MAX_DEPTH:
            _refuse(f"it is nested more than {MAX_DEPTH} levels deep")
        self._frames.append(frame)
        self._write(opening)

    def _open_uniform_array(self, marker: int) -> None:
        # F0 and F1 are followed by the type of the numbers and their count, of 1 or 2 bytes. F2 and F3 are arrays of these:
        # between marker and type stands F0 or F1, and behind the count of numbers that of arrays.
        width, is_nested = 1 + marker % 2, marker >= 0xF2
        if is_nested and self._read_byte() != marker - 2:
            _refuse("an array of uniform arrays has members of another kind")
        item = _UNIFORM_ITEMS.get(self._read_byte())
        if item is None:
            _refuse("a uniform array is of no type of numbers")
        count, inner = self._read_length(width), None
        if is_nested:
            inner, count = count, self._read_length(width)
        if self._position + item.size * count * (1 if inner is None else inner) > len(self._body):
            _refuse("it is cut short")
        self._push(_Frame(b"]", None, count, item=item, inner=inner))

    def _read_items(self, frame: _Frame, item: struct.Struct) -> None:
        """Read one of the arrays of a uniform array, or as many of its numbers as one turn may take."""
        missing = (frame.count or 0) - frame.members
        if frame.members and missing:
            self._write(b",")
        if frame.inner is not None:
            frame.members += 1
            self._push(_Frame(b"]", None, frame.inner, item=item))
            return
        taken = min(missing, VALUES_PER_TURN)
        frame.members += taken
        self._values_this_turn += taken
        numbers = item.iter_unpack(self._take(taken * item.size))
        self._write(b",".join(_encode_number(number) for (number,) in numbers))

    def _open_frame(self, marker: int) -> None:
        opening, closing = (b"[", b"]") if marker < 0xE8 else (b"{", b"}")
        # The low 3 bits of the marker, for E0 to E7 (arrays) and E8 to EF (objects):
        #   0  empty (a literal)          1  one member, no length
        #   2, 3, 4  length in 1, 2, 4 bytes        5, 6, 7  length and number of members, each in 1, 2, 4 bytes
        form = marker & 7
        end = count = None
        if form > 1:
            width = (1, 2, 4)[(form - 2) % 3]
            length = self._read_length(width)
            count = self._read_length(width) if form > 4 else None
            # The length counts the bytes behind these fields.
            end = self._position + length
        self._push(_Frame(closing, end, count), opening)

    def _is_complete(self, frame: _Frame) -> bool:
        if frame.item is not None:
            return frame.members == frame.count
        if frame.end is None:
            return frame.members == 1
        if self._position > frame.end:
            _refuse("a value is longer than what it is part of")
        if self._position == frame.end and frame.count not in (None, frame.members):
            _refuse("an array or object has another number of members than it says")
        return self._position == frame.end

    def _read_scalar(self, marker: int) -> bytes:
        if marker < 0x20:
            return b"%d" % marker
        if marker in _LITERALS:
            return _LITERALS[marker]
        if marker in _NUMBERS:
            layout = _NUMBERS[marker]
            return _encode_number(layout.unpack(self._take(layout.size))[0])
        # Text has no type for these. Clients have the same strings for them.
        if marker == _GUID_VALUE:
            return b'"%s"' % str(UUID(bytes_le=self._take(16))).encode()
        if marker in _BLOBS:
            return b'"%s"' % b64encode(self._take(self._read_length(_BLOBS[marker])))
        return _encode(self._read_string(marker))

    def _read_string(self, marker: int) -> str:
        if marker in _REFERENCES:
            # C3 to C6: an offset of 1 to 4 bytes, from the beginning of the body.
            return self._read_reference(int.from_bytes(self._take(marker - 0xC2), "little"))
        if 0x20 <= marker < 0x40:
            return SYSTEM_STRINGS[marker - 0x20]
        if 0x80 <= marker < 0xC0:
            return _decode_utf8(self._take(marker - 0x80))
        if marker in _STRINGS:
            return _decode_utf8(self._take(self._read_length(_STRINGS[marker])))
        return self._read_compressed_string(marker)

    def _read_reference(self, target: int) -> str:
        """Read the string at an offset of the body, which must not be a reference itself."""
        marker = self._body[target] if target < len(self._body) else None
        # A reference to a reference could lead in a circle.
        if marker is None or marker in _REFERENCES or not 0x20 <= marker < 0xC7:
            _refuse("a reference leads to no string")
        following, self._position = self._position, target + 1
        found = self._read_string(marker)
        self._position = following
        return found

    def _read_compressed_string(self, marker: int) -> str:
        if marker in _TABLES:
            length = self._read_length(1)
            return _decode_digits(self._take((length + 1) // 2), _TABLES[marker])[:length]
        if marker in _GUIDS:
            form, table = _GUIDS[marker]
            digits = _decode_digits(self._take(16), _TABLES[table])
            return form % "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
        if marker in _PACKED:
            return self._read_packed_string(*_PACKED[marker])
        if marker in _BASE64:
            return self._read_base64(*_BASE64[marker])
        if marker not in _REFUSED:
            _refuse(f"0x{marker:02X} is not the marker of a value, or of a name")
        raise Unsupported(
            f"Binary JSON's type marker 0x{marker:02X}, {_REFUSED[marker]}, is not supported by Mayfly; {ENVIRONMENT_HINT}."
        )

    def _read_packed_string(self, bits: int, base_width: int, width: int) -> str:
        length = self._read_length(width)
        base = self._read_byte() if base_width else 0
        # Some 64 packed characters take about as long as a value.
        self._values_this_turn += length // 64
        stream = int.from_bytes(self._take((length * bits + 7) // 8), "little")
        # The stream is little-endian: the last bits of its number are the first character.
        codes = _spread(stream, bits, length)
        return codes.translate(bytes((base + code) & 0xFF for code in range(256))).decode("latin-1")

    def _read_base64(self, encode: Callable[[bytes], bytes], width: int) -> str:
        length, padding = 4 * self._read_length(width), self._read_byte()
        # The byte is the number of padding characters (0 to 2), or its complement where the text omits them.
        missing = padding ^ 0xFF if padding > 2 else padding
        if missing > min(2, length):
            _refuse("a base64 string has more padding than text")
        text = encode(self._take((length - missing) * 3 // 4)).decode("ascii")
        return text[: length - missing] if padding > 2 else text

    def _read_byte(self) -> int:
        return self._take(1)[0]

    def _read_length(self, width: int) -> int:
        found: int = _LENGTHS[width].unpack(self._take(width))[0]
        return found

    def _take(self, length: int) -> bytes:
        start, self._position = self._position, self._position + length
        if self._position > len(self._body):
            _refuse("it is cut short")
        return self._body[start : self._position]

    def _write(self, text: bytes) -> None:
        self._remaining_bytes -= len(text)
        if self._remaining_bytes < 0:
            raise TooLarge("The request is larger than the limit, as text.")
        self.parts.append(text)


def _encode_number(value: float) -> bytes:
    if isinstance(value, int):
        return b"%d" % value
    if not isfinite(value):
        _refuse("a number is not finite")
    # The service writes whole numbers without a fraction. -0 keeps its sign, which `%d` would lose.
    whole = value.is_integer() and abs(value) < 2**53 and (value != 0 or copysign(1, value) > 0)
    return b"%d" % value if whole else repr(value).encode("ascii")


def _decode_digits(data: bytes, table: str) -> str:
    """Return two characters for each byte, that of the lower four bits first."""
    return "".join(table[byte & 0xF] + table[byte >> 4] for byte in data)


def _spread(stream: int, bits: int, length: int) -> bytes:
    """Give each group of so many bits a byte of its own.

    The upper half of all groups moves up to where it ends, then the upper half of each half, and so on: a long string takes as
    many steps as its length has bits, where one step for each character would hold the event loop.
    """
    size = half = 1 << max(length - 1, 0).bit_length()
    # Bits behind the last character mean nothing.
    stream &= (1 << length * bits) - 1
    while half := half // 2:
        lower = int.from_bytes(((1 << half * bits) - 1).to_bytes(2 * half, "little") * (size // half // 2), "little")
        stream = stream & lower | (stream & lower << half * bits) << half * (8 - bits)
    return stream.to_bytes(size, "little")[:length]


def _decode_utf8(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        _refuse("it is not UTF-8")


def _refuse(reason: str) -> NoReturn:
    raise BadRequest(f"The input content is invalid binary JSON: {reason}.")
