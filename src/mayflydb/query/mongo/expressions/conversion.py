"""`$convert` and its short forms such as `$toInt`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, Final

from bson import Binary, DatetimeMS, Decimal128, Int64, ObjectId, Timestamp

from mayflydb.query.mongo import numbers
from mayflydb.query.mongo.date_formats import DateParseError, format_iso, parse_date
from mayflydb.query.mongo.decimal_powers import DECIMAL
from mayflydb.query.mongo.expressions.binary_conversion import (
    PLAIN,
    BinaryOptions,
    binary_to_number,
    binary_to_string,
    is_binary,
    parse_format,
    parse_order,
    parse_subtype,
    to_binary,
)
from mayflydb.query.mongo.expressions.conversion_failures import NO_HANDLER, ConversionError, unsupported_error
from mayflydb.query.mongo.expressions.core import (
    CompileScope,
    Constant,
    Expression,
    Frame,
    Parser,
    apply_function,
    compile_operands,
    fixed_arity,
    fold_constants,
    is_nullish,
)
from mayflydb.query.mongo.faults import MqlError, failed_to_parse
from mayflydb.query.mongo.numbers import exact_integer
from mayflydb.query.mongo.values import (
    INT32_MAX,
    INT32_MIN,
    INT64_MAX,
    INT64_MIN,
    NUMBERS,
    TYPE_NUMBERS,
    Value,
    format_value,
    is_number,
    is_truthy,
    type_name,
)


def _parse_error(text: str, reason: str) -> ConversionError:
    return ConversionError(f"Failed to parse number '{text}' {NO_HANDLER}: {reason}")


# --- to each type ----------------------------------------------------------------------------------------------------

_INTEGER: Final = re.compile(r"[+-]?\d+", re.ASCII)
_HEXADECIMAL: Final = re.compile(
    r"(?:[+-]0[xX]|0X)(?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)(?:[pP][+-]?\d+)?", re.ASCII
)
"""A number that begins with `0x` is refused; `+0x`, `-0x` and `0X` are taken."""
_SIGNIFICANT: Final = re.compile(r"[+-]?[0.]*[1-9]", re.ASCII)
_DOUBLE: Final = re.compile(
    r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?(?:inf|infinity|nan)", re.ASCII | re.IGNORECASE
)


def _integer_converter(
    name: str, low: int, high: int, make: Callable[[int], Value], dates: bool
) -> Callable[[Value], Value]:
    def convert(value: Value) -> Value:
        kind = type(value)
        if kind is bool:
            return make(int(value))
        if kind is str:
            return make(_parse_integer(value, low, high))
        if kind is DatetimeMS and dates:
            return make(int(value))
        if kind not in NUMBERS:
            raise unsupported_error(value, name)
        return make(_truncate_in_range(value, low, high))

    return convert


def _parse_integer(text: str, low: int, high: int) -> int:
    if not _INTEGER.fullmatch(text):
        if not text:
            raise _parse_error(text, "Empty string")
        if text[0].isspace():
            raise _parse_error(text, "Leading whitespace")
        raise _parse_error(
            text,
            "Did not consume whole string."
            if text[:1].isdigit()
            else 'Bad digit "' + text[0] + '" while parsing ' + text,
        )
    # More digits count as an overflow: int() takes quadratic time, and Python refuses more than 4300 digits.
    sign, digits = ("-" if text[0] == "-" else ""), text.lstrip("+-").lstrip("0") or "0"
    number = int(sign + digits) if len(digits) < 64 else high + 1
    if not low <= number <= high:
        raise _parse_error(text, "Overflow")
    return number


def _truncate_in_range(value: Any, low: int, high: int) -> int:
    """Return the integer part of a number. ConversionError if it lies outside the range."""
    if numbers.is_nan(value):
        raise ConversionError(f"Attempt to convert NaN value to integer type {NO_HANDLER}")
    if numbers.double_of(value) in (float("inf"), float("-inf")):
        raise ConversionError(f"Attempt to convert infinity value to integer type {NO_HANDLER}")
    number = exact_integer(numbers.truncate_to(value, 0))
    if number is None or not low <= number <= high:
        shown = "" if type(value) in (int, Int64) else numbers.format_number(value)
        raise ConversionError(f"Conversion would overflow target type {NO_HANDLER}: {shown}")
    return number


def _to_double(value: Value) -> Value:
    kind = type(value)
    if kind in NUMBERS:
        number = numbers.double_of(value)
        # A finite decimal beyond the doubles is an overflow; an infinite one is not.
        if kind is Decimal128 and abs(number) == float("inf") and value.to_decimal().is_finite():
            raise ConversionError(f"Conversion would overflow target type {NO_HANDLER}: {value}")
        return number
    if kind is bool or kind is DatetimeMS:
        return float(int(value))
    if kind is not str:
        raise unsupported_error(value, "double")
    if _HEXADECIMAL.fullmatch(value):
        return _parse_hexadecimal(value)
    if not _DOUBLE.fullmatch(value):
        raise _parse_error(value, _describe_number_fault(value))
    number = float(value)
    if abs(number) == float("inf") and "inf" not in value.lower():
        raise _parse_error(value, "Out of range")
    if not number and _SIGNIFICANT.match(value):
        raise _parse_error(value, "Out of range")
    return number


def _parse_hexadecimal(text: str) -> float:
    try:
        number = float.fromhex(text)
    except OverflowError:
        raise _parse_error(text, "Out of range") from None
    if not number and re.search("[1-9a-fA-F]", text.lower().partition("x")[2].partition("p")[0]):
        raise _parse_error(text, "Out of range")
    return number


def _describe_number_fault(text: str) -> str:
    if not text:
        return "Empty string"
    return "Leading whitespace" if text[0].isspace() else "Did not consume whole string."


def _to_decimal(value: Value) -> Value:
    kind = type(value)
    if kind is Decimal128:
        return value
    if kind in NUMBERS:
        return numbers.to_decimal128(numbers.decimal_of(value))
    if kind is bool or kind is DatetimeMS:
        return Decimal128(Decimal(int(value)))
    if kind is not str:
        raise unsupported_error(value, "decimal")
    if not _DOUBLE.fullmatch(value):
        raise _parse_error(value, "Empty string" if not value else "Failed to parse string to decimal")
    try:
        return Decimal128(DECIMAL.create_decimal(value))
    except InvalidOperation:
        raise _parse_error(value, "Failed to parse string to decimal") from None


def _to_string(value: Value) -> Value:
    kind = type(value)
    if kind is str:
        return value
    if kind is bool:
        return "true" if value else "false"
    if kind in NUMBERS:
        return numbers.format_number(value)
    if kind is ObjectId:
        return str(value)
    if kind is DatetimeMS:
        return format_iso(int(value))
    raise unsupported_error(value, "string")


def _to_bool(value: Value) -> Value:
    return is_truthy(value)


def _to_date(value: Value) -> Value:
    kind = type(value)
    if kind is DatetimeMS:
        return value
    if kind is ObjectId:
        return DatetimeMS(int.from_bytes(value.binary[:4], "big", signed=True) * 1000)
    if kind is Timestamp:
        return DatetimeMS(value.time * 1000)
    # An int32 is no date on the server, a long is.
    if kind in (Int64, float, Decimal128) or (kind is int and not INT32_MIN <= value <= INT32_MAX):
        return DatetimeMS(_truncate_in_range(value, INT64_MIN, INT64_MAX))
    if kind is not str:
        raise unsupported_error(value, "date")
    try:
        return DatetimeMS(parse_date(value, None, None))
    except DateParseError as reason:
        raise ConversionError(f"Error parsing date string '{value}'; {reason}") from None


def _to_object_id(value: Value) -> Value:
    if type(value) is ObjectId:
        return value
    if type(value) is not str:
        raise unsupported_error(value, "objectId")
    problem = f"Failed to parse objectId '{value}' {NO_HANDLER}: "
    if len(value) != 24:
        raise ConversionError(f"{problem}Invalid string length for parsing to OID, expected 24 but found {len(value)}")
    if not re.fullmatch("[0-9a-fA-F]{24}", value):
        raise ConversionError(f"{problem}Invalid character found in hex string: '{value}'")
    return ObjectId(value)


_UUID: Final = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}", re.IGNORECASE)


def _to_uuid(value: Value) -> Value:
    if type(value) is Binary and value.subtype == 4:
        return value
    if type(value) is not str:
        raise unsupported_error(value, "binData")
    if not _UUID.fullmatch(value):
        raise ConversionError(f"Input string '{value}' is not a valid UUID {NO_HANDLER}")
    return Binary(bytes.fromhex(value.replace("-", "")), 4)


_CONVERTERS: Final[Mapping[str, Callable[[Value], Value]]] = {
    "double": _to_double,
    "string": _to_string,
    "objectId": _to_object_id,
    "bool": _to_bool,
    "date": _to_date,
    "int": _integer_converter("int", INT32_MIN, INT32_MAX, int, False),
    "long": _integer_converter("long", INT64_MIN, INT64_MAX, Int64, True),
    "decimal": _to_decimal,
}
_TYPES_BY_NUMBER: Final = {number: name for name, number in TYPE_NUMBERS.items()}


# --- operators -------------------------------------------------------------------------------------------------------


def _convert(value: Value, kind: str, options: BinaryOptions) -> Value:
    """Return the counterpart of a value. ConversionError if it has none."""
    if kind == "binData":
        return to_binary(value, options)
    if is_binary(value) and kind in ("int", "long", "double"):
        return binary_to_number(value, kind, options)
    if is_binary(value) and kind == "string":
        return binary_to_string(value, options)
    converter = _CONVERTERS.get(kind)
    if converter is None:
        raise unsupported_error(value, kind)
    return converter(value)


def _short_form(kind: str) -> Parser:
    return _one_argument(lambda value: _convert(value, kind, PLAIN))


def _one_argument(convert: Callable[[Value], Value]) -> Parser:
    def function(value: Value) -> Value:
        if is_nullish(value):
            return None
        try:
            return convert(value)
        except ConversionError as reason:
            raise MqlError(241, str(reason)) from None

    def parser(name: str, spec: Value, scope: CompileScope) -> Expression:
        if type(spec) is list and len(spec) != 1:
            raise MqlError(50723, f"{name} requires a single argument, got {len(spec)}")
        return apply_function(function, compile_operands(name, spec, scope, 1, 1))

    return parser


_ARGUMENTS: Final = ("input", "to", "onError", "onNull", "format", "byteOrder")


def _compile_convert(name: str, spec: Value, scope: CompileScope) -> Expression:
    if type(spec) is not dict:
        raise failed_to_parse(f"$convert expects an object of named arguments but found: {type_name(spec)}")
    for field in spec:
        if field not in _ARGUMENTS:
            raise failed_to_parse(f"$convert found an unknown argument: {field}")
    for field in ("input", "to"):
        if field not in spec:
            raise failed_to_parse(f"Missing '{field}' parameter to $convert")
    parts = {field: scope.compile(given) for field, given in spec.items()}
    source, target, on_error = parts["input"], parts["to"], parts.get("onError")
    on_null = parts.get("onNull", _NOTHING)
    form, order = parts.get("format", _NOTHING), parts.get("byteOrder", _NOTHING)

    def convert_value(frame: Frame) -> Value:
        to = target(frame)
        value = source(frame)
        if is_nullish(value):
            return on_null(frame)
        if is_nullish(to):
            return None
        kind, subtype = _resolve_target(to)
        options = BinaryOptions(subtype, parse_order(_find_given(order(frame))), parse_format(_find_given(form(frame))))
        try:
            return _convert(value, kind, options)
        except ConversionError as reason:
            if on_error is not None:
                return on_error(frame)
            raise MqlError(241, str(reason)) from None

    return fold_constants(convert_value, list(parts.values()))


_NOTHING: Final = Constant(None)


def _find_given(value: Value) -> Value:
    return None if is_nullish(value) else value


def _resolve_target(to: Value) -> tuple[str, int]:
    """Return a type's name and the subtype of binary values."""
    if type(to) is not dict:
        return _resolve_type(to), 0
    for field in to:
        if field not in ("type", "subtype"):
            raise failed_to_parse(f"$convert found an unknown argument in 'to': {field}")
    if "type" not in to:
        raise failed_to_parse("Missing 'type' parameter to $convert's 'to'")
    return _resolve_type(to["type"]), parse_subtype(to["subtype"]) if "subtype" in to else 0


def _resolve_type(to: Value) -> str:
    if type(to) is str:
        if to not in TYPE_NUMBERS:
            raise MqlError(2, f"Unknown type name: {to}")
        return to
    if not is_number(to):
        raise failed_to_parse(f"$convert's 'to' argument must be a string or number, but is {type_name(to)}")
    number = exact_integer(to)
    if number is None:
        raise failed_to_parse(f"In $convert, numeric 'to' argument is not an integer: {format_value(to)}")
    if number not in _TYPES_BY_NUMBER:
        raise failed_to_parse(f"In $convert, numeric value for 'to' does not correspond to a BSON type: {number}")
    return _TYPES_BY_NUMBER[number]


def _timestamp_part(name: str, part: Callable[[Timestamp], int]) -> Parser:
    def function(value: Value) -> Value:
        if is_nullish(value):
            return None
        if type(value) is not Timestamp:
            code = 5687301 if name == "$tsSecond" else 5687302
            raise MqlError(code, f" Argument to {name} must be a timestamp, but is {type_name(value)}")
        return Int64(part(value))

    return fixed_arity(1, function)


OPERATORS: Final[Mapping[str, Parser]] = {
    "$convert": _compile_convert,
    "$toDouble": _short_form("double"),
    "$toString": _short_form("string"),
    "$toObjectId": _short_form("objectId"),
    "$toBool": _short_form("bool"),
    "$toDate": _short_form("date"),
    "$toInt": _short_form("int"),
    "$toLong": _short_form("long"),
    "$toDecimal": _short_form("decimal"),
    "$toUUID": _one_argument(_to_uuid),
    "$type": fixed_arity(1, type_name),
    "$isNumber": fixed_arity(1, is_number),
    "$tsSecond": _timestamp_part("$tsSecond", lambda value: value.time),
    "$tsIncrement": _timestamp_part("$tsIncrement", lambda value: value.inc),
}
