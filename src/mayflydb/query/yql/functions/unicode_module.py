"""`Unicode::`: functions of Utf8, by code points.

Source: https://ydb.tech/docs/en/yql/reference/udf/list/unicode
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Final, Literal

from mayflydb.query.yql.expression import Builder
from mayflydb.query.yql.faults import fault
from mayflydb.query.yql.functions.signatures import build_module
from mayflydb.query.yql.functions.text_tools import (
    levenshtein_distance,
    remove_all,
    remove_first,
    remove_last,
    replace_last,
    split_to_list,
)
from mayflydb.query.yql.sizes import check_items, join_texts, replace_text
from mayflydb.query.yql.types import Value


def _is_utf(value: Value) -> bool:
    try:
        return value is not None and bool(value.decode() or True)
    except UnicodeDecodeError:
        return False


def _find(value: str, part: str, start: int | None = None) -> int | None:
    found = value.find(part, start or 0)
    return None if found < 0 else found


def _reverse_find(value: str, part: str, start: int | None = None) -> int | None:
    found = value.rfind(part) if start is None else value.rfind(part, 0, start + len(part))
    return None if found < 0 else found


def _substring(value: str, start: int | None = None, size: int | None = None) -> str:
    start = start or 0
    return value[start:] if size is None else value[start : start + size]


def _normalizer(form: Literal["NFC", "NFD", "NFKC", "NFKD"]) -> Callable[[str], str]:
    return lambda value: unicodedata.normalize(form, value)


def _from_points(points: list[int]) -> str:
    try:
        return "".join(map(chr, points)).encode().decode()
    except (ValueError, OverflowError):
        raise fault("Invalid code point") from None


def _parse_number(value: str, base: int | None) -> int | None:
    """Parse a number as C does: base 0 means that the prefix gives the base; None for a text that is no number."""
    text = value.strip()
    sign = text[:1]
    digits = text.removeprefix("-") if sign == "-" else text.removeprefix("+")
    base = base or 0
    if base in (0, 16) and digits[:2].lower() == "0x":
        digits, base = digits[2:], 16
    elif base == 0:
        base = 8 if digits[:1] == "0" and len(digits) > 1 else 10
    try:
        if not digits.isascii() or not digits.isalnum():
            return None
        found = int(digits, base)
    except ValueError:
        return None
    # A negative number wraps around, as in C's strtoull.
    return None if found >= 2**64 else (-found if sign == "-" else found) % 2**64


def _to_number(value: str, base: int | None = None) -> int:
    found = _parse_number(value, base)
    if found is None:
        raise fault(f"Input string is not a number: {value}")
    return found


def _try_number(value: str, base: int | None = None) -> int | None:
    return _parse_number(value, base)


def _all_characters(test: Callable[[str], bool]) -> Callable[[str], bool]:
    return lambda value: all(map(test, value))


_CHANGES: Final = "(Utf8) -> Utf8"
_TESTS: Final = "(Utf8) -> Bool"
_OF_SET: Final = "(Utf8, Utf8) -> Utf8"
_REPLACES: Final = "(Utf8, Utf8, Utf8) -> Utf8"


def _code_points(value: str) -> list[int]:
    check_items(len(value), "Unicode::ToCodePointList")
    return list(map(ord, value))


BUILDERS: Final[dict[str, Builder]] = build_module(
    {
        "IsUtf": ("(String?) -> Bool", _is_utf),
        "GetLength": ("(Utf8) -> Uint64", len),
        "Find": ("(Utf8, Utf8, [Uint64?]) -> Uint64?", _find),
        "RFind": ("(Utf8, Utf8, [Uint64?]) -> Uint64?", _reverse_find),
        "Substring": ("(Utf8, [Uint64?, Uint64?]) -> Utf8", _substring),
        "Normalize": (_CHANGES, _normalizer("NFC")),
        "NormalizeNFC": (_CHANGES, _normalizer("NFC")),
        "NormalizeNFD": (_CHANGES, _normalizer("NFD")),
        "NormalizeNFKC": (_CHANGES, _normalizer("NFKC")),
        "NormalizeNFKD": (_CHANGES, _normalizer("NFKD")),
        "LevensteinDistance": ("(Utf8, Utf8) -> Uint64", levenshtein_distance),
        "ReplaceAll": (_REPLACES, replace_text),
        "ReplaceFirst": (_REPLACES, lambda value, find, by: value.replace(find, by, 1) if find else value),
        "ReplaceLast": (_REPLACES, replace_last),
        "RemoveAll": (_OF_SET, remove_all),
        "RemoveFirst": (_OF_SET, remove_first),
        "RemoveLast": (_OF_SET, remove_last),
        "ToCodePointList": ("(Utf8) -> List<Uint32>", _code_points),
        "FromCodePointList": ("(List<Uint32>) -> Utf8", _from_points),
        "Reverse": (_CHANGES, lambda value: value[::-1]),
        "ToLower": (_CHANGES, str.lower),
        "ToUpper": (_CHANGES, str.upper),
        "ToTitle": (_CHANGES, str.title),
        "SplitToList": (
            "(Utf8?, Utf8, [DelimeterString:Bool?, SkipEmpty:Bool?, Limit:Uint64?]) -> List<Utf8>",
            split_to_list,
        ),
        "JoinFromList": ("(List<Utf8>, Utf8) -> Utf8", join_texts),
        "ToUint64": ("(Utf8, [Uint16?]) -> Uint64", _to_number),
        "TryToUint64": ("(Utf8, [Uint16?]) -> Uint64?", _try_number),
        "Strip": (_CHANGES, str.strip),
        "IsAscii": (_TESTS, str.isascii),
        "IsSpace": (_TESTS, _all_characters(str.isspace)),
        "IsUpper": (_TESTS, _all_characters(str.isupper)),
        "IsLower": (_TESTS, _all_characters(str.islower)),
        "IsAlpha": (_TESTS, _all_characters(str.isalpha)),
        "IsAlnum": (_TESTS, _all_characters(str.isalnum)),
        "IsHex": (_TESTS, _all_characters(lambda each: each in "0123456789abcdefABCDEF")),
    }
)
