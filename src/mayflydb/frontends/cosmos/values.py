"""Items from request bodies: strict JSON whose text is kept, an id, an own ttl; and a container's default ttl."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from math import isinf
from typing import Any, Final, Literal, NoReturn

import msgspec

from mayflydb.model.errors import BadRequest, TooLarge
from mayflydb.model.record import IGNORED
from mayflydb.model.releasing import keep

SYSTEM_PROPERTIES: Final = frozenset({"_rid", "_self", "_etag", "_attachments", "_ts", "_lsn"})
"""Properties that a body may contain from a read and that are not stored (`_lsn` comes from the change feed)."""

MAX_TTL: Final = 2147483647
MISSING_ID: Final = "The input content is invalid because the required properties - 'id; ' - are missing"


class ItemLimits(msgspec.Struct, frozen=True):
    """The limits of an item: bytes of its JSON (a body may be 64 KiB longer), levels of nesting, bytes of its id."""

    item_bytes: int = 2_097_152
    nesting: int = 128
    id_bytes: int = 1023


BODY_SLACK: Final = 65_536


class ParsedItem(msgspec.Struct, frozen=True, gc=False):
    """A parsed item. `doc`: the values without system properties. `text`: the JSON object that is stored."""

    doc: dict[str, Any]
    text: bytes


LARGE_BODY: Final = 256 * 1024
"""The bytes of a body above which it is decoded part by part, on a thread."""

LARGE_PART: Final = 64 * 1024
"""The bytes of a value above which its members are decoded one by one."""

PART_LEVELS: Final = 3
"""The outer levels of a body that are taken apart: each is scanned once more."""

_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_decode_raw = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode
_decode_raw_elements = msgspec.json.Decoder(list[msgspec.Raw]).decode
# Possessive quantifiers do not backtrack: a hostile body takes linear time, too.
_NAMES = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"([ \t\r\n]*+:)?', re.DOTALL)
_ESCAPED_COLON = re.compile(rb"\\u003[aA]")
_LONG_INTEGER = re.compile(rb"(?<![0-9.eE])(?<![eE][+-])[0-9]{309,}(?![0-9.eE])")
_TO_ZERO = bytes.maketrans(b"123456789", b"000000000")
_HUGE = b"0" * 309
_DIGITS = frozenset(b"0123456789")
_TO_SQUARE = bytes.maketrans(b"{}", b"[]")
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_RUNS = re.compile(rb"(\[+)(\]+)")
_OUT_OF_RANGE = "The input content is invalid: a number is out of the range of a double."


def parse_json(body: bytes, limits: ItemLimits, max_bytes: int) -> tuple[Any, bool]:
    """Parse strict JSON (finite numbers, valid Unicode, no name twice, bounded nesting); return (value, canonical).

    Canonical: the body is exactly what `msgspec.json.encode` writes. BadRequest, or TooLarge beyond `max_bytes`.
    """
    if len(body) > max_bytes:
        raise TooLarge(f"The request is larger than the limit of {max_bytes} bytes.")
    try:
        value = _decode(body) if len(body) <= LARGE_BODY else _decode_large(body)
    except (ValueError, RecursionError) as error:
        _raise_decode_error(body, error)
    # 256 bytes hold no more than 128 levels, the default limit, and no integer of 309 digits.
    if len(body) > 256:
        _check_depth(body, limits.nesting)
        # 309 digits in a row, found by one search: each digit is a zero after the translation. One of them is at a place that
        # is a multiple of 309, so that most bodies are not translated.
        if not _DIGITS.isdisjoint(body[308::309]) and _HUGE in body.translate(_TO_ZERO):
            _check_integers(body)
    encoded = _encode(value)
    # A text that is equal to its own re-encoding has lost nothing in decoding, so no name is in it twice.
    if encoded == body:
        return value, True
    if _count_names(body, encoded) != _count_names(encoded, body):
        raise BadRequest("The input content is invalid: an object has the same property name twice.")
    return value, False


def _decode_large(body: bytes) -> Any:
    """Decode a body part by part. Decoding 2 MB of small arrays in one call holds the interpreter for 24 ms; this, for 8."""
    try:
        return _decode_parts(body, PART_LEVELS)
    except (ValueError, RecursionError):
        # The text of an error counts bytes from the beginning of the body.
        return _decode(body)


def _decode_parts(text: bytes | msgspec.Raw, levels: int) -> Any:
    if levels and len(text) > LARGE_PART:
        first = bytes(memoryview(text)[:1])
        if first == b"{":
            return {name: _decode_parts(each, levels - 1) for name, each in _decode_raw(text).items()}
        if first == b"[":
            # Freed in slices, too.
            return keep([_decode_parts(each, levels - 1) for each in _decode_raw_elements(text)])
    return _decode(text)


def _count_names(text: bytes, other: bytes) -> int:
    """Count the names in a text, or its colons. The counts of a text and its re-encoding are equal unless a name was lost.

    `other`: the other text of the two, so that both are counted in the same way.
    """
    # Counting all colons suffices: strings keep theirs in the re-encoding, unless one is written as an escape.
    if _ESCAPED_COLON.search(text) is None and _ESCAPED_COLON.search(other) is None:
        return text.count(b":")
    return sum(map(bool, _NAMES.findall(text)))


def _raise_decode_error(body: bytes, error: Exception) -> NoReturn:
    if not body.strip():
        raise BadRequest("The input content is invalid: the body is empty.") from None
    if isinstance(error, RecursionError):
        raise BadRequest("The input content is invalid: it is nested too deeply.") from None
    if isinstance(error, msgspec.ValidationError):
        raise BadRequest(_OUT_OF_RANGE) from None
    if isinstance(error, UnicodeDecodeError):
        raise BadRequest("The input content is invalid: it is not UTF-8.") from None
    raise BadRequest(f"The input content is invalid: {error}.") from None


def _outside_strings(text: bytes) -> bytes:
    """Return valid JSON without the contents of its strings."""
    # Without escaped quotes, every second piece between quotes is outside of a string.
    return b"".join(text.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"')[::2])


def _check_depth(text: bytes, limit: int) -> None:
    # Most items hold no other object. To find a byte is much quicker than to count it.
    if text.find(b"[", 1) < 0 and text.find(b"{", 1) < 0:
        return
    if text.count(b"[") + text.count(b"{") <= limit:
        return
    brackets = _outside_strings(text).translate(_TO_SQUARE, _NO_BRACKETS)
    # Each pass removes the innermost level everywhere. A few passes leave little of a wide text for the loop.
    passes = min(8, limit)
    for _ in range(passes):
        brackets = brackets.replace(b"[]", b"")
    level = deepest = passes
    for opened, closed in _RUNS.findall(brackets):
        level += len(opened)
        deepest = max(deepest, level)
        level -= len(closed)
    if deepest > limit:
        raise BadRequest(f"The input content is invalid: it is nested more than {limit} levels deep.")


def _check_integers(text: bytes) -> None:
    # The decoder accepts integers of up to 4300 digits; a double holds no integer of more than 309.
    if any(map(isinf, map(float, _LONG_INTEGER.findall(_outside_strings(text))))):
        raise BadRequest(_OUT_OF_RANGE)


def check_item(item: ParsedItem, limits: ItemLimits) -> ParsedItem:
    """Return the item; BadRequest or TooLarge if a patch has made it too deeply nested or too large."""
    _check_depth(item.text, limits.nesting)
    if len(item.text) > limits.item_bytes:
        raise TooLarge(f"The item is larger than the limit of {limits.item_bytes} bytes.")
    return item


def parse_item(body: bytes, limits: ItemLimits) -> ParsedItem:
    """Parse an item from a request body. BadRequest, or TooLarge, names the fault."""
    doc, canonical = parse_json(body, limits, limits.item_bytes + BODY_SLACK)
    if type(doc) is not dict:
        raise BadRequest("The input content is invalid: an item must be a JSON object.")
    text = body if canonical else body.strip()
    if not SYSTEM_PROPERTIES.isdisjoint(doc):
        doc = {name: value for name, value in doc.items() if name not in SYSTEM_PROPERTIES}
        text = _encode(doc) if canonical else _remove_system_properties(text)
    if len(text) > limits.item_bytes:
        raise TooLarge(f"The item is larger than the limit of {limits.item_bytes} bytes.")
    return ParsedItem(doc, text)


def _remove_system_properties(text: bytes) -> bytes:
    """Return the text without system properties. The other values keep their spelling (5e0 stays 5e0)."""
    return _encode({name: raw for name, raw in member_texts(text).items() if name not in SYSTEM_PROPERTIES})


def member_texts(text: bytes) -> dict[str, msgspec.Raw]:
    """Return the texts of an object's values by name. Encoding the result gives an object with the same texts."""
    return _decode_raw(text)


def item_id(doc: Mapping[str, Any], limits: ItemLimits) -> str:
    """Return the `id` of an item. BadRequest if it is missing, no string, empty or too long.

    The documentation forbids `/ \\ ? #`; the service accepts them, as the public tests of its .NET and Go clients show
    (`IdWithDisallowedChar…`). Clients name such an item percent-encoded, or by its rid.
    """
    value = doc.get("id")
    if type(value) is not str:
        if value is None and "id" not in doc:
            raise BadRequest(MISSING_ID)
        raise BadRequest("The input content is invalid because the property 'id' must be a string.")
    # A character has at most 4 bytes, so that short ids are not encoded here.
    if not value or (len(value) * 4 > limits.id_bytes and len(value.encode()) > limits.id_bytes):
        raise BadRequest(
            "The input content is invalid because of the property 'id'."
            f" Ensure to provide a unique non-empty string less than '{limits.id_bytes + 1}' characters."
        )
    return value


# --- time to live ----------------------------------------------------------------------------------------------------


def own_ttl(doc: Mapping[str, Any]) -> tuple[int | None, str | None]:
    """Return (override, refusal) of an item: seconds, NEVER or None if absent; IGNORED and the text of the 400 if invalid.

    The refusal applies only while the container's TTL is on; else the item is stored with its invalid ttl.
    """
    if "ttl" not in doc:
        return None, None
    seconds = _ttl_seconds(doc["ttl"])
    if seconds is None:
        return IGNORED, ttl_refusal("ttl", doc["ttl"])
    return seconds, None


def _ttl_seconds(value: object) -> int | None:
    """Return -1 or 1 to 2147483647 for a number that equals one of them; None for anything else, booleans included."""
    if type(value) is int or (type(value) is float and value.is_integer()):
        return int(value) if value == -1 or 1 <= value <= MAX_TTL else None
    return None


def ttl_refusal(name: str, value: object) -> str:
    """Return the service's message about an invalid ttl. It shows the value as JSON, a string without quotes."""
    shown = _shorten_value(value)
    return (
        f"The input {name} '{shown}' is invalid. Ensure to provide a nonzero positive integer less than or equal to "
        f"'{MAX_TTL}', or '-1' which means never expire."
    )


def _shorten_value(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text if len(text) <= 100 else text[:100] + "…"


def parse_default_ttl(value: object | msgspec.UnsetType, on: Literal["create", "replace"]) -> int | None:
    """Parse a container's `defaultTtl` (UNSET: absent) to seconds, -1, or None for off. BadRequest if invalid.

    A null switches TTL off in a replace and is refused in a create.
    """
    if value is msgspec.UNSET or (value is None and on == "replace"):
        return None
    seconds = _ttl_seconds(value)
    if seconds is None:
        raise BadRequest(ttl_refusal("defaultTtl", value))
    return seconds
