"""`String::`: functions of bytes.

Source: https://ydb.tech/docs/en/yql/reference/udf/list/string
"""

from __future__ import annotations

import base64
import binascii
import html
import re
from collections.abc import Callable
from typing import Final

from mayflydb.query.yql.expression import Builder
from mayflydb.query.yql.faults import fault
from mayflydb.query.yql.functions import human_readable
from mayflydb.query.yql.functions.signatures import build_module
from mayflydb.query.yql.functions.text_tools import (
    cgi_escape,
    cgi_unescape,
    levenshtein_distance,
    remove_all,
    remove_first,
    remove_last,
    replace_last,
    split_to_list,
)
from mayflydb.query.yql.sizes import join_texts, replace_text
from mayflydb.query.yql.types import Value

MAX_PAD_BYTES: Final = 1_000_000


def _base64_decode(value: Value) -> Value:
    """Decode base64; NULL for other bytes. Blanks, missing padding and the URL-safe alphabet are accepted."""
    if value is None:
        return None
    # `-` and `_` are the URL-safe forms of `+` and `/`; blanks and commas are dropped.
    data = bytes(value).translate(bytes.maketrans(b"-_", b"+/"), b" \t\r\n,").rstrip(b"=")
    return _decode_strictly(data + b"=" * (-len(data) % 4))


def _base64_strict(value: Value) -> Value:
    return None if value is None or len(value) % 4 else _decode_strictly(value)


def _decode_strictly(value: bytes) -> Value:
    try:
        return base64.b64decode(value, validate=True)
    except binascii.Error:
        return None


def _hex_decode(value: Value) -> Value:
    try:
        return None if value is None else binascii.unhexlify(value)
    except binascii.Error:
        return None


_ESCAPES: Final = {
    ord("\n"): b"\\n",
    ord("\t"): b"\\t",
    ord("\r"): b"\\r",
    ord('"'): b'\\"',
    ord("\\"): b"\\\\",
}
_UNESCAPES: Final = {
    b"n": b"\n",
    b"t": b"\t",
    b"r": b"\r",
    b"a": b"\a",
    b"b": b"\b",
    b"f": b"\f",
    b"v": b"\v",
}
_ESCAPED: Final = re.compile(rb"\\(x[0-9A-Fa-f]{1,2}|[0-7]{1,3}|u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|.)", re.DOTALL)


def _escape(value: bytes) -> bytes:
    parts = []
    for index, each in enumerate(value):
        if each in _ESCAPES:
            parts.append(_ESCAPES[each])
        elif 32 <= each < 127:
            parts.append(bytes((each,)))
        else:
            # The octal escape has as few digits as the next byte allows.
            following = value[index + 1 : index + 2]
            if each < 8 and not following.isdigit():
                parts.append(b"\\%o" % each)
            elif following and following in b"0123456789abcdefABCDEF":
                parts.append(b"\\%03o" % each)
            else:
                parts.append(b"\\x%02X" % each)
    return b"".join(parts)


def _unescape(value: bytes) -> bytes:
    def one(found: re.Match[bytes]) -> bytes:
        word = found[1]
        if word[:1] == b"x" and len(word) > 1:
            return bytes((int(word[1:], 16),))
        if word[:1] in (b"u", b"U") and len(word) > 1:
            code = int(word[1:], 16)
            return chr(code).encode("utf-8", "replace") if code < 0x110000 else found[0]
        if word.isdigit() and word < b"8":
            return bytes((int(word, 8) & 0xFF,))
        return _UNESCAPES.get(word, word)

    return _ESCAPED.sub(one, value)


def _encode_html(value: bytes) -> bytes:
    text = html.escape(value.decode("latin-1"), quote=True)
    return text.replace("&#x27;", "&#39;").encode("latin-1")


def _decode_html(value: bytes) -> bytes:
    return html.unescape(value.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


def _collapse(value: bytes) -> bytes:
    return re.sub(rb"[ \t\n\v\f\r]+", b" ", value)


def _collapse_text(value: bytes, length: int) -> bytes:
    """Cut to `length` bytes, `...` included, after runs of blanks have become one blank."""
    text = _collapse(value).strip()
    return text if len(text) <= length else text[: max(0, length - 3)] + b"..."


def _test_ignoring_case(test: Callable[[bytes, bytes], bool]) -> Callable[[Value, Value], Value]:
    return lambda value, part: value is not None and part is not None and test(value.lower(), part.lower())


def _test_unless_null(test: Callable[[bytes, bytes], bool]) -> Callable[[Value, Value], Value]:
    return lambda value, part: value is not None and part is not None and test(value, part)


def _find(value: bytes, part: bytes, start: int | None = None) -> int:
    return value.find(part, start or 0)


def _reverse_find(value: bytes, part: bytes, start: int | None = None) -> int:
    return value.rfind(part) if start is None else value.rfind(part, 0, start + len(part))


def _substring(value: bytes, start: int | None = None, size: int | None = None) -> bytes:
    start = start or 0
    return value[start:] if size is None else value[start : start + size]


def _replace_first(value: bytes, find: bytes, replacement: bytes) -> bytes:
    return value.replace(find, replacement, 1)


def _pad(left: bool) -> Callable[..., bytes]:
    def pad(value: bytes, length: int, filler: bytes | None = None) -> bytes:
        if length > MAX_PAD_BYTES:
            raise fault(f"Padding length is too long: {length} > {MAX_PAD_BYTES}")
        filler = b" " if filler is None else filler
        if len(filler) != 1:
            raise fault("Not 1 symbol in paddingSymbol")
        return value.rjust(length, filler) if left else value.ljust(length, filler)

    return pad


def _signed_text(text: str, value: int) -> bytes:
    return (f"-{text}" if value < 0 else text).encode()


def _all_bytes(test: Callable[[bytes], bool]) -> Callable[[bytes], bool]:
    return lambda value: all(test(bytes((each,))) for each in value)


def _title(value: bytes) -> bytes:
    return value[:1].upper() + value[1:].lower()


_TESTS: Final = "(String) -> Bool"
_CHANGES: Final = "(String) -> String"
_DECODES: Final = "(String?) -> String?"
_HAS: Final = "(String?, String?) -> Bool"
_OF_SET: Final = "(String, String) -> String"
_REPLACES: Final = "(String, String, String) -> String"

BUILDERS: Final[dict[str, Builder]] = build_module(
    {
        "HumanReadableBytes": ("(Uint64) -> String", human_readable.format_bytes),
        "HumanReadableDuration": ("(Uint64) -> String", human_readable.format_duration),
        "HumanReadableQuantity": ("(Uint64) -> String", human_readable.format_quantity),
        "Base64Encode": (_CHANGES, base64.b64encode),
        "Base64EncodeUrl": (_CHANGES, base64.urlsafe_b64encode),
        "Base64Decode": (_DECODES, _base64_decode),
        "Base64StrictDecode": (_DECODES, _base64_strict),
        "Base32Encode": (_CHANGES, base64.b32encode),
        "HexEncode": (_CHANGES, lambda value: value.hex().upper().encode()),
        "HexDecode": (_DECODES, _hex_decode),
        "EscapeC": (_CHANGES, _escape),
        "UnescapeC": (_CHANGES, _unescape),
        "EncodeHtml": (_CHANGES, _encode_html),
        "DecodeHtml": (_CHANGES, _decode_html),
        "CgiEscape": (_CHANGES, cgi_escape),
        "CgiUnescape": (_CHANGES, cgi_unescape),
        "Strip": (_CHANGES, lambda value: value.strip(b" \t\n\v\f\r")),
        "Collapse": (_CHANGES, _collapse),
        "CollapseText": ("(String, Uint64) -> String", _collapse_text),
        "Contains": (_HAS, _test_unless_null(lambda value, part: part in value)),
        "HasPrefix": (_HAS, _test_unless_null(bytes.startswith)),
        "StartsWith": (_HAS, _test_unless_null(bytes.startswith)),
        "HasPrefixIgnoreCase": (_HAS, _test_ignoring_case(bytes.startswith)),
        "StartsWithIgnoreCase": (_HAS, _test_ignoring_case(bytes.startswith)),
        "AsciiStartsWithIgnoreCase": (_HAS, _test_ignoring_case(bytes.startswith)),
        "HasSuffix": (_HAS, _test_unless_null(bytes.endswith)),
        "EndsWith": (_HAS, _test_unless_null(bytes.endswith)),
        "HasSuffixIgnoreCase": (_HAS, _test_ignoring_case(bytes.endswith)),
        "EndsWithIgnoreCase": (_HAS, _test_ignoring_case(bytes.endswith)),
        "AsciiEndsWithIgnoreCase": (_HAS, _test_ignoring_case(bytes.endswith)),
        "AsciiContainsIgnoreCase": (_HAS, _test_ignoring_case(lambda value, part: part in value)),
        "AsciiEqualsIgnoreCase": (_HAS, _test_ignoring_case(lambda value, part: part == value)),
        "Find": ("(String, String, [Uint64?]) -> Int64", _find),
        "ReverseFind": ("(String, String, [Uint64?]) -> Int64", _reverse_find),
        "Substring": ("(String, [Uint64?, Uint64?]) -> String", _substring),
        "AsciiToLower": (_CHANGES, bytes.lower),
        "AsciiToUpper": (_CHANGES, bytes.upper),
        "AsciiToTitle": (_CHANGES, _title),
        "SplitToList": (
            "(String?, String, [DelimeterString:Bool?, SkipEmpty:Bool?, Limit:Uint64?]) -> List<String>",
            split_to_list,
        ),
        "JoinFromList": ("(List<String>, String) -> String", join_texts),
        "ToByteList": ("(String) -> List<Uint8>", list),
        "FromByteList": ("(List<Uint8>) -> String", bytes),
        "ReplaceAll": (_REPLACES, replace_text),
        "ReplaceFirst": (_REPLACES, _replace_first),
        "ReplaceLast": (_REPLACES, replace_last),
        "RemoveAll": (_OF_SET, remove_all),
        "RemoveFirst": (_OF_SET, remove_first),
        "RemoveLast": (_OF_SET, remove_last),
        "IsAscii": (_TESTS, bytes.isascii),
        "IsAsciiSpace": (_TESTS, _all_bytes(bytes.isspace)),
        "IsAsciiUpper": (_TESTS, _all_bytes(bytes.isupper)),
        "IsAsciiLower": (_TESTS, _all_bytes(bytes.islower)),
        "IsAsciiAlpha": (_TESTS, _all_bytes(bytes.isalpha)),
        "IsAsciiAlnum": (_TESTS, _all_bytes(bytes.isalnum)),
        "IsAsciiHex": (_TESTS, _all_bytes(lambda each: each in b"0123456789abcdefABCDEF")),
        "LevensteinDistance": ("(String, String) -> Uint64", levenshtein_distance),
        "LeftPad": ("(String, Uint64, [String?]) -> String", _pad(left=True)),
        "RightPad": ("(String, Uint64, [String?]) -> String", _pad(left=False)),
        "Hex": ("(Uint64) -> String", lambda value: f"0x{value:016X}".encode()),
        "SHex": ("(Int64) -> String", lambda value: _signed_text(f"0x{abs(value):016X}", value)),
        "Bin": ("(Uint64) -> String", lambda value: f"0b{value:064b}".encode()),
        "SBin": ("(Int64) -> String", lambda value: _signed_text(f"0b{abs(value):064b}", value)),
        "HexText": (_CHANGES, lambda value: value.hex(" ").upper().encode()),
        "BinText": (_CHANGES, lambda value: " ".join(f"{each:08b}" for each in value).encode()),
        "Reverse": (_DECODES, lambda value: None if value is None else value[::-1]),
    }
)
