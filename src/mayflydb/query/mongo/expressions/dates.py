"""Operators over dates: parts, text, arithmetic by units, bins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from bson import DatetimeMS, Int64, ObjectId, Timestamp

from mayflydb.query.calendar import days_of
from mayflydb.query.mongo import dates
from mayflydb.query.mongo.date_formats import ISO, ISO_LOCAL, DateParseError, format_date, parse_date
from mayflydb.query.mongo.dates import DAY, Zone, parts_of, zone_of
from mayflydb.query.mongo.expressions.core import (
    ArgumentCodes,
    CompileScope,
    Expression,
    Frame,
    Parser,
    apply_function,
    check_arguments,
    check_text,
    fold_constants,
    is_nullish,
)
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.numbers import exact_integer
from mayflydb.query.mongo.values import INT64_MAX, INT64_MIN, Value, format_value, type_name


def instant_of(value: Value) -> int:
    """Return the milliseconds of a date, a Timestamp or an ObjectId. MqlError 16006 for other types."""
    found = _find_instant(value)
    if found is None:
        raise MqlError(16006, f"can't convert from BSON type {type_name(value)} to Date")
    return found


def _find_instant(value: Value) -> int | None:
    kind = type(value)
    if kind is DatetimeMS:
        return int(value)
    if kind is Timestamp:
        return int(value.time) * 1000
    if kind is ObjectId:
        # The server reads the seconds as an int32, so that they end in 2038.
        return int.from_bytes(value.binary[:4], "big", signed=True) * 1000
    return None


def _resolve_zone(value: Value) -> Zone:
    if type(value) is not str:
        raise MqlError(40517, f"timezone must evaluate to a string, found {type_name(value)}")
    return zone_of(value)


_Arguments = Mapping[str, Expression]


def _compile_arguments(
    name: str, spec: Value, scope: CompileScope, required: Sequence[str], optional: Sequence[str], codes: ArgumentCodes
) -> dict[str, Expression]:
    given = check_arguments(name, spec, required, optional, codes)
    return {field: scope.compile(each) for field, each in given.items()}


def _evaluate_arguments(parts: _Arguments, frame: Frame) -> dict[str, Value]:
    return {field: part(frame) for field, part in parts.items()}


# --- parts -----------------------------------------------------------------------------------------------------------


def _compile_part(name: str, spec: Value, scope: CompileScope) -> Expression:
    pick = dates.PARTS_BY_OPERATOR[name]
    # On the server the year of an ISO week is a long, all other parts are ints.
    wide = name == "$isoWeekYear"

    def part(value: Value, place: Value = "UTC") -> Value:
        if is_nullish(value) or is_nullish(place):
            return None
        number = pick(parts_of(_resolve_zone(place).local(instant_of(value))))
        return Int64(number) if wide else number

    if type(spec) is list:
        if len(spec) != 1:
            raise MqlError(40536, f"{name} accepts exactly one argument if given an array, but was given {len(spec)}")
        return apply_function(part, [scope.compile(spec[0])])
    if type(spec) is dict and not (len(spec) == 1 and next(iter(spec)).startswith("$")):
        for field in spec:
            if field not in ("date", "timezone"):
                raise MqlError(40535, f'unrecognized option to {name}: "{field}"')
        if "date" not in spec:
            raise MqlError(40539, f"missing 'date' argument to {name}, provided: {name}: {format_value(spec)}")
        return apply_function(part, [scope.compile(spec[field]) for field in ("date", "timezone") if field in spec])
    return apply_function(part, [scope.compile(spec)])


_TO_PARTS_CODES: Final = ArgumentCodes(40524, 40520, {"date": 40522})
_TIME_FIELDS: Final = ("hour", "minute", "second", "millisecond")


def _compile_to_parts(name: str, spec: Value, scope: CompileScope) -> Expression:
    compiled = _compile_arguments(name, spec, scope, ("date",), ("timezone", "iso8601"), _TO_PARTS_CODES)

    def parts(frame: Frame) -> Value:
        given = _evaluate_arguments(compiled, frame)
        iso = given.get("iso8601", False)
        if any(is_nullish(each) for each in given.values()):
            return None
        if type(iso) is not bool:
            raise MqlError(40521, f"iso8601 must evaluate to a bool, found {type_name(iso)}")
        split = parts_of(_resolve_zone(given.get("timezone", "UTC")).local(instant_of(given["date"])))
        if iso:
            year, week = split.iso_week()
            first = {"isoWeekYear": year, "isoWeek": week, "isoDayOfWeek": split.weekday}
        else:
            first = {"year": split.year, "month": split.month, "day": split.day}
        return first | {field: getattr(split, field) for field in _TIME_FIELDS}

    return fold_constants(parts, list(compiled.values()))


_FROM_PARTS_CODES: Final = ArgumentCodes(40519, 40518, {})
_CALENDAR_FIELDS: Final = ("year", "month", "day")
_ISO_FIELDS: Final = ("isoWeekYear", "isoWeek", "isoDayOfWeek")


def _compile_from_parts(name: str, spec: Value, scope: CompileScope) -> Expression:
    compiled = _compile_arguments(
        name, spec, scope, (), (*_CALENDAR_FIELDS, *_ISO_FIELDS, *_TIME_FIELDS, "timezone"), _FROM_PARTS_CODES
    )
    if "year" not in compiled and "isoWeekYear" not in compiled:
        raise MqlError(40516, "$dateFromParts requires either 'year' or 'isoWeekYear' to be present")
    if "year" in compiled and any(field in compiled for field in _ISO_FIELDS):
        raise MqlError(40489, "$dateFromParts does not allow mixing natural dates with ISO dates")
    if "isoWeekYear" in compiled and any(field in compiled for field in _CALENDAR_FIELDS):
        raise MqlError(40525, "$dateFromParts does not allow mixing ISO dates with natural dates")

    def build_date(frame: Frame) -> Value:
        given = _evaluate_arguments(compiled, frame)
        if any(is_nullish(each) for each in given.values()):
            return None
        zone = _resolve_zone(given.get("timezone", "UTC"))
        if "year" in given:
            days = days_of(
                _get_year("year", 40523, given), _get_integer("month", 1, given), _get_integer("day", 1, given)
            )
        else:
            year = _get_year("isoWeekYear", 31095, given)
            days = dates.iso_days(year, _get_integer("isoWeek", 1, given), _get_integer("isoDayOfWeek", 1, given))
        local = days * DAY
        for field in _TIME_FIELDS:
            local += _get_integer(field, 0, given) * dates.FIXED_UNITS[field]
        return DatetimeMS(dates.check_range(zone.instant(local), name))

    return fold_constants(build_date, list(compiled.values()))


def _get_integer(field: str, default: int, given: Mapping[str, Value]) -> int:
    if field not in given:
        return default
    number = exact_integer(given[field])
    if number is None:
        value = given[field]
        raise MqlError(
            40515, f"'{field}' must evaluate to an integer, found {type_name(value)} with value {format_value(value)}"
        )
    # Seconds and milliseconds may be a whole timestamp; the other fields are int16.
    low, high = (INT64_MIN, INT64_MAX) if field in ("second", "millisecond") else (-32768, 32767)
    if not low <= number <= high:
        raise MqlError(
            31034, f"'{field}' must evaluate to a value in the range [{low}, {high}]; value {number} is not in range"
        )
    return number


def _get_year(field: str, code: int, given: Mapping[str, Value]) -> int:
    year = _get_integer(field, 1970, given)
    if not 1 <= year <= 9999:
        raise MqlError(code, f"'{field}' must evaluate to an integer in the range 1 to 9999, found {year}")
    return year


# --- text ------------------------------------------------------------------------------------------------------------

_TO_STRING_CODES: Final = ArgumentCodes(18629, 18534, {"date": 18628})
_FROM_STRING_CODES: Final = ArgumentCodes(40540, 40541, {"dateString": 40542})


def _compile_to_string(name: str, spec: Value, scope: CompileScope) -> Expression:
    compiled = _compile_arguments(name, spec, scope, ("date",), ("format", "timezone", "onNull"), _TO_STRING_CODES)
    on_null = compiled.pop("onNull", None)

    def text(frame: Frame) -> Value:
        given = _evaluate_arguments(compiled, frame)
        layout = given.get("format")
        if "format" in given and not is_nullish(layout) and type(layout) is not str:
            raise MqlError(
                18533,
                f"$dateToString requires that 'format' be a string, found: {type_name(layout)} with value {format_value(layout)}",
            )
        if is_nullish(given["date"]):
            return on_null(frame) if on_null is not None else None
        if any(is_nullish(each) for each in given.values()):
            return None
        zone = _resolve_zone(given.get("timezone", "UTC"))
        return check_text(format_date(instant_of(given["date"]), layout or (ISO if zone.is_utc else ISO_LOCAL), zone))

    return fold_constants(text, [*compiled.values(), *([on_null] if on_null else [])])


def _compile_from_string(name: str, spec: Value, scope: CompileScope) -> Expression:
    optional = ("format", "timezone", "onError", "onNull")
    compiled = _compile_arguments(name, spec, scope, ("dateString",), optional, _FROM_STRING_CODES)
    on_null, on_error = compiled.pop("onNull", None), compiled.pop("onError", None)

    def date(frame: Frame) -> Value:
        given = _evaluate_arguments(compiled, frame)
        text, layout = given["dateString"], given.get("format")
        if "format" in given and not is_nullish(layout) and type(layout) is not str:
            raise MqlError(
                40684,
                f"$dateFromString requires that 'format' be a string, found: {type_name(layout)} "
                f"with value {format_value(layout)}",
            )
        zone = None if is_nullish(given.get("timezone")) else _resolve_zone(given["timezone"])
        if is_nullish(text):
            return on_null(frame) if on_null is not None else None
        if any(is_nullish(each) for each in given.values()):
            return None
        try:
            if type(text) is not str:
                raise DateParseError(f"it is of type {type_name(text)}")
            return DatetimeMS(parse_date(text, layout, zone))
        except DateParseError as reason:
            if on_error is not None:
                return on_error(frame)
            raise MqlError(241, _parse_error_message(text, reason)) from None

    return fold_constants(date, [*compiled.values(), *(each for each in (on_null, on_error) if each)])


def _parse_error_message(text: Value, reason: DateParseError) -> str:
    if type(text) is not str:
        return f"$dateFromString requires that 'dateString' be a string, found: {type_name(text)} with value {format_value(text)}"
    return f"Error parsing date string '{text}'; {reason}"


# --- arithmetic ------------------------------------------------------------------------------------------------------


def _resolve_unit(name: str, value: Value, code: int) -> str:
    if type(value) is not str:
        raise MqlError(code, f"{name} requires 'unit' to be a string, but got {type_name(value)}")
    return dates.check_unit(name, value)


_SHIFT_CODES: Final = ArgumentCodes(5166400, 5166401, {"startDate": 5166402, "unit": 5166402, "amount": 5166402})


def _shift_operator(sign: int) -> Parser:
    def parser(name: str, spec: Value, scope: CompileScope) -> Expression:
        compiled = _compile_arguments(name, spec, scope, ("startDate", "unit", "amount"), ("timezone",), _SHIFT_CODES)

        def shift_date(frame: Frame) -> Value:
            given = _evaluate_arguments(compiled, frame)
            if any(is_nullish(each) for each in given.values()):
                return None
            unit = _resolve_unit(name, given["unit"], 5439013)
            start = _find_instant(given["startDate"])
            if start is None:
                raise MqlError(5166403, f"{name} requires startDate to be convertible to a date")
            amount = exact_integer(given["amount"])
            if amount is None:
                raise MqlError(5166405, f"{name} expects integer amount of time units")
            if abs(amount) > INT64_MAX:
                raise MqlError(5976500, f"invalid {name} 'amount' parameter value: {amount} {unit}")
            zone = _resolve_zone(given.get("timezone", "UTC"))
            return DatetimeMS(dates.check_range(dates.add_units(start, unit, sign * amount, zone), name))

        return fold_constants(shift_date, list(compiled.values()))

    return parser


_DIFFERENCE_CODES: Final = ArgumentCodes(5166301, 5166302, {"startDate": 5166303, "endDate": 5166304, "unit": 5166305})
_TRUNCATE_CODES: Final = ArgumentCodes(5439007, 5439008, {"date": 5439009, "unit": 5439010})


def _require_instant(name: str, field: str, value: Value, code: int) -> int:
    found = _find_instant(value)
    if found is None:
        raise MqlError(code, f"{name} requires '{field}' to be a date, but got {type_name(value)}")
    return found


def _resolve_first_day(name: str, given: Mapping[str, Value]) -> int:
    """Return the day that `startOfWeek` names; Sunday by default."""
    if "startOfWeek" not in given:
        return 7
    day = given["startOfWeek"]
    if type(day) is not str:
        raise MqlError(5439015, f"{name} requires 'startOfWeek' to be a string, but got {type_name(day)}")
    return dates.parse_weekday(name, day)


def _evaluate_by_week(compiled: _Arguments, frame: Frame) -> dict[str, Value] | None:
    """Evaluate the arguments; None if one is null. `startOfWeek` is dropped unless the unit is a week."""
    given = _evaluate_arguments(compiled, frame)
    # The server ignores startOfWeek for other units, null or invalid.
    if given["unit"] != "week":
        given.pop("startOfWeek", None)
    return None if any(is_nullish(each) for each in given.values()) else given


def _compile_difference(name: str, spec: Value, scope: CompileScope) -> Expression:
    compiled = _compile_arguments(
        name, spec, scope, ("startDate", "endDate", "unit"), ("timezone", "startOfWeek"), _DIFFERENCE_CODES
    )

    def difference(frame: Frame) -> Value:
        given = _evaluate_by_week(compiled, frame)
        if given is None:
            return None
        start = _require_instant(name, "startDate", given["startDate"], 5166307)
        end = _require_instant(name, "endDate", given["endDate"], 5166307)
        unit = _resolve_unit(name, given["unit"], 5439013)
        zone = _resolve_zone(given.get("timezone", "UTC"))
        count = dates.count_boundaries(start, end, unit, zone, _resolve_first_day(name, given))
        if not INT64_MIN <= count <= INT64_MAX:
            raise MqlError(15, "dateDiff overflowed")
        return Int64(count)

    return fold_constants(difference, list(compiled.values()))


def _compile_truncate(name: str, spec: Value, scope: CompileScope) -> Expression:
    compiled = _compile_arguments(
        name, spec, scope, ("date", "unit"), ("binSize", "timezone", "startOfWeek"), _TRUNCATE_CODES
    )

    def truncate_date(frame: Frame) -> Value:
        given = _evaluate_by_week(compiled, frame)
        if given is None:
            return None
        instant = _require_instant(name, "date", given["date"], 5166307)
        unit = _resolve_unit(name, given["unit"], 5439013)
        size = exact_integer(given.get("binSize", 1))
        if size is None:
            raise MqlError(
                5439017,
                f"$dateTrunc requires 'binSize' to be a 64-bit integer, but got value '{format_value(given['binSize'])}'",
            )
        if size <= 0:
            raise MqlError(5439018, f"$dateTrunc requires 'binSize' to be greater than 0, but got value {size}")
        zone = _resolve_zone(given.get("timezone", "UTC"))
        start = dates.start_of_bin(instant, unit, size, zone, _resolve_first_day(name, given))
        return DatetimeMS(dates.check_range(start, name))

    return fold_constants(truncate_date, list(compiled.values()))


OPERATORS: Final[Mapping[str, Parser]] = {
    **dict.fromkeys(dates.PARTS_BY_OPERATOR, _compile_part),
    "$dateToParts": _compile_to_parts,
    "$dateFromParts": _compile_from_parts,
    "$dateToString": _compile_to_string,
    "$dateFromString": _compile_from_string,
    "$dateAdd": _shift_operator(1),
    "$dateSubtract": _shift_operator(-1),
    "$dateDiff": _compile_difference,
    "$dateTrunc": _compile_truncate,
}
