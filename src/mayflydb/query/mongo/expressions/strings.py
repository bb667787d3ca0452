"""Operators over strings. Upper and lower case apply to ASCII letters only, as in MongoDB."""

from __future__ import annotations

import string
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from bson import Code, DatetimeMS, Decimal128, Timestamp

from mayflydb.query.mongo.date_formats import format_iso
from mayflydb.query.mongo.expressions.arrays import bound_of
from mayflydb.query.mongo.expressions.core import (
    MAX_DOCUMENT_SIZE,
    ArgumentCodes,
    CompileScope,
    Expression,
    Function,
    Parser,
    apply_function,
    check_arguments,
    check_size,
    check_text_size,
    fixed_arity,
    is_nullish,
    ranged_arity,
    text_size,
    with_name,
)
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.numbers import exact_int32, format_number, is_nan
from mayflydb.query.mongo.values import INT64_MAX, INT64_MIN, Value, format_value, is_number, type_name

_LOWER: Final = str.maketrans(string.ascii_uppercase, string.ascii_lowercase)
_UPPER: Final = str.maketrans(string.ascii_lowercase, string.ascii_uppercase)


def text_of(value: Value) -> str:
    """Return a string, number or date as `$toLower` and `$substr` read it; null or missing is "". MqlError 16007 for
    other types.
    """
    if is_nullish(value):
        return ""
    if type(value) is str or (type(value) is Code and value.scope is None):
        return str(value)
    if type(value) is float:
        # Six digits, as C++ streams print a double.
        return f"{value:g}"
    if is_number(value):
        return format_number(value)
    if type(value) is DatetimeMS:
        return format_iso(int(value))
    if type(value) is Timestamp:
        at = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=value.time)
        return f"{_MONTHS[at.month - 1]} {at.day:2} {at:%H:%M:%S}:{value.inc}"
    raise MqlError(16007, f"can't convert from BSON type {type_name(value)} to String")


_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def _to_bytes(text: str) -> bytes:
    return text.encode(errors="surrogateescape")


def _check_result_size(size: int) -> None:
    """Raise MqlError 13548 for a text of more than 64 MB, 16493 for one of 16 MB or more. Called before the text is built."""
    check_size(size)
    check_text_size(size)


def _concat(*values: Value) -> Value:
    for value in values:
        if is_nullish(value):
            return None
        if type(value) is not str:
            raise MqlError(16702, f"$concat only supports strings, not {type_name(value)}")
    # Counted in characters first: only long texts are measured in bytes.
    size = sum(map(len, values))
    if size * 4 >= MAX_DOCUMENT_SIZE:
        _check_result_size(sum(map(text_size, values)))
    return "".join(values)


def _compare(one: Value, other: Value) -> int:
    a, b = _to_bytes(text_of(one).translate(_UPPER)), _to_bytes(text_of(other).translate(_UPPER))
    return (a > b) - (a < b)


def _length_cp(value: Value) -> int:
    if type(value) is not str:
        raise MqlError(34471, f"$strLenCP requires a string argument, found: {type_name(value)}")
    return len(value)


def _length_bytes(value: Value) -> int:
    if type(value) is not str:
        raise MqlError(34473, f"$strLenBytes requires a string argument, found: {type_name(value)}")
    return len(_to_bytes(value))


def _substring_cp(value: Value, start: Value, count: Value) -> str:
    text = text_of(value)
    first = _parse_position(start, 34450, "starting index")
    length = _parse_position(count, 34452, "length")
    if length < 0:
        raise MqlError(34454, "$substrCP: length must be a nonnegative integer.")
    if first < 0:
        raise MqlError(34455, "$substrCP: the starting index must be nonnegative integer.")
    return text[first : first + length]


def _parse_position(value: Value, code: int, what: str) -> int:
    if not is_number(value):
        raise MqlError(code, f"$substrCP: {what} must be a numeric type (is BSON type {type_name(value)})")
    place = exact_int32(value)
    if place is None:
        raise MqlError(
            code + 1, f"$substrCP: {what} cannot be represented as a 32-bit integral value: {format_value(value)}"
        )
    return place


def _substring_bytes(name: str) -> Function:
    def substring(value: Value, start: Value, count: Value) -> str:
        data = _to_bytes(text_of(value))
        for code, what, number in ((16034, "starting index", start), (16035, "length", count)):
            if not is_number(number):
                raise MqlError(code, f"{name}:  {what} must be a numeric type (is BSON type {type_name(number)})")
        first, length = _to_int64(start), _to_int64(count)
        if first < 0:
            raise MqlError(50752, f"{name}:  starting index must be non-negative (got: {first})")
        end = len(data) if length < 0 else min(len(data), first + length)
        # A cut within a character would leave invalid UTF-8.
        if first < len(data) and _is_continuation(data[first]):
            raise MqlError(28656, f"{name}:  Invalid range, starting index is a UTF-8 continuation byte.")
        if first < end < len(data) and _is_continuation(data[end]):
            raise MqlError(28657, f"{name}:  Invalid range, ending index is in the middle of a UTF-8 character.")
        return data[first:end].decode(errors="surrogateescape")

    return substring


def _to_int64(value: Any) -> int:
    """Return the integer part of a number; 0 for NaN, the least int64 for a decimal beyond. MqlError 31109 for such a double."""
    if is_nan(value):
        return 0
    number = value.to_decimal() if type(value) is Decimal128 else value
    if INT64_MIN <= number < INT64_MAX + 1:
        return int(number)
    if type(value) is Decimal128:
        return INT64_MIN
    raise MqlError(31109, f"Can't coerce out of range value {format_number(value)} to long")


def _is_continuation(byte: int) -> bool:
    return byte & 0xC0 == 0x80


def _split(value: Value, separator: Value) -> Value:
    if is_nullish(value) or is_nullish(separator):
        return None
    if type(value) is not str:
        raise MqlError(
            40085,
            f"$split requires an expression that evaluates to a string as a first argument, found: {type_name(value)}",
        )
    if type(separator) is not str:
        raise MqlError(
            40086,
            f"$split requires an expression that evaluates to a string as a second argument, found: {type_name(separator)}",
        )
    if not separator:
        raise MqlError(40087, "$split requires a non-empty separator")
    return value.split(separator)


def _search_operator(name: str, code: int, convert: Callable[[str], str | bytes]) -> Function:
    def index_of(value: Value, wanted: Value, *bounds: Value) -> Value:
        if is_nullish(value):
            return None
        if type(value) is not str:
            raise MqlError(code, f"{name} requires a string as the first argument, found: {type_name(value)}")
        if type(wanted) is not str:
            raise MqlError(code + 1, f"{name} requires a string as the second argument, found: {type_name(wanted)}")
        text = convert(value)
        start = bound_of(name, bounds[0], "starting index") if bounds else 0
        end = bound_of(name, bounds[1], "ending index") if len(bounds) > 1 else len(text)
        if start > len(text) or end < start:
            return -1
        if convert is str:
            # A match must begin before the end; it may extend past it.
            found = text.find(wanted, start)  # type: ignore[arg-type]
            return found if found < end or not text else -1
        return text.find(convert(wanted), start, end)  # type: ignore[arg-type]

    return index_of


# --- named arguments -------------------------------------------------------------------------------------------------

_TRIM_CODES: Final = ArgumentCodes(50696, 50694, {"input": 50695})
_REPLACE_CODES: Final = ArgumentCodes(51751, 51750, {"input": 51749, "find": 51748, "replacement": 51747})

_WHITESPACE: Final = "\0\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"


def _trim_operator(strip: Callable[[str, str], str]) -> Parser:
    def parser(name: str, spec: Value, scope: CompileScope) -> Expression:
        given = check_arguments(name, spec, ("input",), ("chars",), _TRIM_CODES)

        def trim(value: Value, letters: Value = _WHITESPACE) -> Value:
            if is_nullish(value):
                return None
            if type(value) is not str:
                raise MqlError(
                    50699,
                    f"{name} requires its input to be a string, got {format_value(value)} (of type {type_name(value)}) instead.",
                )
            if is_nullish(letters):
                return None
            if type(letters) is not str:
                raise MqlError(
                    50700,
                    f"{name} requires 'chars' to be a string, got {format_value(letters)} "
                    f"(of type {type_name(letters)}) instead.",
                )
            return strip(value, letters) if letters else value

        return apply_function(trim, [scope.compile(given[field]) for field in ("input", "chars") if field in given])

    return parser


def _replace_operator(most: int) -> Parser:
    def parser(name: str, spec: Value, scope: CompileScope) -> Expression:
        given = check_arguments(name, spec, ("input", "find", "replacement"), (), _REPLACE_CODES)

        def replace(value: Value, find: Value, replacement: Value) -> Value:
            for code, field, each in (
                (10503904, "input", value),
                (10503901, "find", find),
                (10503902, "replacement", replacement),
            ):
                if not is_nullish(each) and type(each) is not str:
                    raise MqlError(code, f"{name} requires that '{field}' be a string, found: {format_value(each)}")
            if is_nullish(value) or is_nullish(find) or is_nullish(replacement):
                return None
            count = value.count(find) if most < 0 else int(find in value)
            # Checked before the text is built: a short replacement can make megabytes out of kilobytes.
            if (len(value) + len(replacement) * count) * 4 >= MAX_DOCUMENT_SIZE:
                _check_result_size(text_size(value) + (text_size(replacement) - text_size(find)) * count)
            return value.replace(find, replacement, most)

        return apply_function(replace, [scope.compile(given[field]) for field in ("input", "find", "replacement")])

    return parser


OPERATORS: Final[Mapping[str, Parser]] = {
    "$concat": ranged_arity(0, None, _concat),
    "$toLower": fixed_arity(1, lambda value: text_of(value).translate(_LOWER)),
    "$toUpper": fixed_arity(1, lambda value: text_of(value).translate(_UPPER)),
    "$strcasecmp": fixed_arity(2, _compare),
    "$strLenCP": fixed_arity(1, _length_cp),
    "$strLenBytes": fixed_arity(1, _length_bytes),
    "$substr": with_name(3, 3, _substring_bytes),
    "$substrBytes": with_name(3, 3, _substring_bytes),
    "$substrCP": fixed_arity(3, _substring_cp),
    "$split": fixed_arity(2, _split),
    "$indexOfCP": ranged_arity(2, 4, _search_operator("$indexOfCP", 40093, str)),
    "$indexOfBytes": ranged_arity(2, 4, _search_operator("$indexOfBytes", 40091, _to_bytes)),
    "$trim": _trim_operator(str.strip),
    "$ltrim": _trim_operator(str.lstrip),
    "$rtrim": _trim_operator(str.rstrip),
    "$replaceOne": _replace_operator(1),
    "$replaceAll": _replace_operator(-1),
}
