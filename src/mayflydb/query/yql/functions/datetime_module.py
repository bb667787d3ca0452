"""`DateTime::` functions of broken-down time: Split, Make.., Get.., Update, StartOf.., EndOf.., Shift...

Source: https://ydb.tech/docs/en/yql/reference/udf/list/datetime
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Final

from mayflydb.query.yql.expression import Builder, Expression, Invocation, Operand
from mayflydb.query.yql.functions.broken_down_time import (
    DAY,
    SECOND,
    TM,
    TM64,
    LocalTime,
    break_down,
    broken_down_type,
    build_value,
    is_moment,
    last_day,
    moment_in_range,
    with_date,
)
from mayflydb.query.yql.functions.support import (
    apply_with_nulls,
    argument_fault,
    coerce,
    convert_operand,
    count_operands,
    map_value,
    mismatch_fault,
    value_at,
)
from mayflydb.query.yql.moments import days_of, is_wide
from mayflydb.query.yql.types import (
    DATE,
    DATE32,
    DATETIME,
    DATETIME64,
    INT32,
    INTERVAL,
    INTERVAL64,
    NULL,
    STRING,
    TIMESTAMP,
    TIMESTAMP64,
    TZ_DATE,
    TZ_DATE32,
    TZ_DATETIME,
    TZ_DATETIME64,
    TZ_TIMESTAMP,
    TZ_TIMESTAMP64,
    UINT8,
    UINT16,
    UINT32,
    Type,
    Value,
    bare,
    format_type,
    optional,
)
from mayflydb.query.yql.zones import zone_of

MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def moment_at(call: Invocation, index: int) -> Expression:
    """The operand as broken-down time; a date or an instant is broken down."""
    given = value_at(call, index)
    if given.type == NULL:
        return Expression(optional(TM), given.evaluate, given.constant)
    if not is_moment(given.type):
        raise mismatch_fault(call, index, given.type, TM)
    kind = bare(given.type)
    if kind in (TM, TM64):
        return given
    return map_value(given, broken_down_type(kind), lambda value: break_down(kind, value))


def _split(call: Invocation) -> Operand:
    count_operands(call, 1)
    return moment_at(call, 0)


def _make(kind: Type) -> Builder:
    def build(call: Invocation) -> Operand:
        count_operands(call, 1)
        given = moment_at(call, 0)
        if bare(given.type) == TM64 and not is_wide(kind):
            raise mismatch_fault(call, 0, given.type, TM)
        return map_value(given, kind, lambda moment: build_value(kind, moment))

    return build


def _get(kind: Type, read: Callable[[LocalTime], Value]) -> Builder:
    def build(call: Invocation) -> Operand:
        count_operands(call, 1)
        return map_value(moment_at(call, 0), kind, read)

    return build


def _year(call: Invocation) -> Operand:
    count_operands(call, 1)
    given = moment_at(call, 0)
    return map_value(given, INT32 if bare(given.type) == TM64 else UINT16, lambda moment: moment.date[0])


def _week_of_year(moment: LocalTime) -> int:
    """The week of the year: January 1 is in week 1, and weeks begin on Monday."""
    first = LocalTime(moment.days - moment.day_of_year + 1, 0)
    return (moment.day_of_year + first.weekday - 2) // 7 + 1


def _iso_week(moment: LocalTime) -> int:
    year, month, day = moment.date
    # The calendar repeats every 400 years; Python's calendar knows only some of them.
    return date(year % 400 + 2000, month, day).isocalendar().week


def _zone_id(call: Invocation) -> Operand:
    raise argument_fault(call, "The numbers of time zones are YDB's own; ask for GetTimezoneName")


# --- changes ---------------------------------------------------------------------------------------------------------

_FIELDS: Final = ("Year", "Month", "Day", "Hour", "Minute", "Second", "Microsecond", "Timezone")
_KINDS: Final[dict[str, Type]] = {
    "Year": INT32,
    "Month": UINT8,
    "Day": UINT8,
    "Hour": UINT8,
    "Minute": UINT8,
    "Second": UINT8,
    "Microsecond": UINT32,
    "Timezone": STRING,
}


def _update(call: Invocation) -> Operand:
    """`Update(moment, [Year, Month, Day, Hour, Minute, Second, Microsecond, Timezone])`: NULL keeps a part."""
    if not 1 <= len(call.operands) + len(call.named) <= 9:
        raise argument_fault(call, f"Expected from 1 to 9 argument(s), but got {len(call.operands) + len(call.named)}")
    given = moment_at(call, 0)
    kind = bare(given.type)
    named: dict[str, Operand] = dict(zip(_FIELDS, call.operands[1:], strict=False)) | dict(call.named)
    parts: list[tuple[str, Expression]] = []
    for name, operand in named.items():
        if name not in _KINDS:
            raise argument_fault(call, f"Unknown argument name: {name}")
        found = coerce(operand, optional(_KINDS[name])) if isinstance(operand, Expression) else None
        if found is None:
            raise argument_fault(call, f"Expected {format_type(_KINDS[name])}? as argument {name}")
        parts.append((name, found))
    names = [name for name, _ in parts]

    def update(moment: Value, *values: Value) -> Value:
        if moment is None:
            return None
        changed = _replace_fields(moment, {n: v for n, v in zip(names, values, strict=True) if v is not None})
        return None if changed is None else moment_in_range(changed, kind)

    return apply_with_nulls([given, *(each for _, each in parts)], optional(kind), update)


def _replace_fields(moment: LocalTime, new: dict[str, Value]) -> LocalTime | None:
    year, month, day = moment.date
    days = days_of(new.get("Year", year), new.get("Month", month), new.get("Day", day))
    seconds, micro = divmod(moment.of_day, SECOND)
    hour, minute = new.get("Hour", seconds // 3600), new.get("Minute", seconds // 60 % 60)
    second, micro = new.get("Second", seconds % 60), new.get("Microsecond", micro)
    zone = str(new["Timezone"], "utf-8", "replace") if "Timezone" in new else moment.zone
    if days is None or hour > 23 or minute > 59 or second > 59 or micro >= SECOND or zone_of(zone) is None:
        return None
    return LocalTime(days, (hour * 3600 + minute * 60 + second) * SECOND + micro, zone)


def _period_builder(change: Callable[[LocalTime], LocalTime | None]) -> Builder:
    """StartOf.. and EndOf..: NULL beyond the range of the type."""

    def build(call: Invocation) -> Operand:
        count_operands(call, 1)
        given = moment_at(call, 0)
        kind = bare(given.type)

        def move(moment: Value) -> Value:
            found = None if moment is None else change(moment)
            return None if found is None else moment_in_range(found, kind)

        return apply_with_nulls([given], optional(kind), move)

    return build


def start_of(moment: LocalTime, months: int) -> LocalTime:
    """The first microsecond of the moment's period; a period is `months` months of the year."""
    year, month, _ = moment.date
    days = days_of(year, (month - 1) // months * months + 1, 1)
    assert days is not None
    return LocalTime(days, 0, moment.zone)


def end_of(moment: LocalTime, months: int) -> LocalTime:
    """The last microsecond of the moment's period; a period is `months` months of the year."""
    year, month, _ = moment.date
    last = (month - 1) // months * months + months
    days = days_of(year, last, last_day(year, last))
    assert days is not None
    return LocalTime(days, DAY - 1, moment.zone)


def _week_edge(moment: LocalTime, end: bool) -> LocalTime:
    monday = moment.days - moment.weekday + 1
    return LocalTime(monday + 6, DAY - 1, moment.zone) if end else LocalTime(monday, 0, moment.zone)


def _within_day(end: bool) -> Builder:
    """`StartOf(moment, interval)`: periods of the day, at most a whole day long."""

    def build(call: Invocation) -> Operand:
        count_operands(call, 2)
        given = moment_at(call, 0)
        kind = bare(given.type)
        interval = convert_operand(call, 1, INTERVAL64 if kind == TM64 else INTERVAL)

        def move(moment: Value, stretch: Value) -> Value:
            if moment is None or stretch is None:
                return None
            stretch = min(abs(stretch), DAY)
            if not stretch:
                return moment
            start = moment.of_day // stretch * stretch
            of_day = min(start + stretch, DAY) - 1 if end else start
            return moment_in_range(LocalTime(moment.days, of_day, moment.zone), kind)

        return apply_with_nulls([given, interval], optional(kind), move)

    return build


def _time_of_day(call: Invocation) -> Operand:
    count_operands(call, 1)
    given = moment_at(call, 0)
    return map_value(given, INTERVAL64 if bare(given.type) == TM64 else INTERVAL, lambda moment: moment.of_day)


def _shift(months: int) -> Builder:
    """`ShiftMonths(moment, number)`: the last day of the month, if the month does not have the day."""

    def build(call: Invocation) -> Operand:
        count_operands(call, 2)
        given, number = moment_at(call, 0), convert_operand(call, 1, INT32)
        kind = bare(given.type)

        def shift(moment: Value, by: Value) -> Value:
            if moment is None or by is None:
                return None
            year, month, day = moment.date
            # There is no year 0: year 1 follows year -1.
            counted, month = divmod((year + (year < 0)) * 12 + month - 1 + by * months, 12)
            year, month = counted - (counted <= 0), month + 1
            found = with_date(moment, year, month, min(day, last_day(year, month)))
            return None if found is None else moment_in_range(found, kind)

        return apply_with_nulls([given, number], optional(kind), shift)

    return build


BUILDERS: Final[dict[str, Builder]] = {
    "Split": _split,
    **{f"Make{kind}": _make(kind) for kind in (DATE, DATETIME, TIMESTAMP, TZ_DATE, TZ_DATETIME, TZ_TIMESTAMP)},
    **{
        f"Make{kind}": _make(kind)
        for kind in (DATE32, DATETIME64, TIMESTAMP64, TZ_DATE32, TZ_DATETIME64, TZ_TIMESTAMP64)
    },
    "GetYear": _year,
    "GetDayOfYear": _get(UINT16, lambda moment: moment.day_of_year),
    "GetMonth": _get(UINT8, lambda moment: moment.date[1]),
    "GetMonthName": _get(STRING, lambda moment: MONTHS[moment.date[1] - 1].encode()),
    "GetWeekOfYear": _get(UINT8, _week_of_year),
    "GetWeekOfYearIso8601": _get(UINT8, _iso_week),
    "GetDayOfMonth": _get(UINT8, lambda moment: moment.date[2]),
    "GetDayOfWeek": _get(UINT8, lambda moment: moment.weekday),
    "GetDayOfWeekName": _get(STRING, lambda moment: WEEKDAYS[moment.weekday - 1].encode()),
    "GetHour": _get(UINT8, lambda moment: moment.of_day // (3600 * SECOND)),
    "GetMinute": _get(UINT8, lambda moment: moment.of_day // (60 * SECOND) % 60),
    "GetSecond": _get(UINT8, lambda moment: moment.of_day // SECOND % 60),
    "GetMillisecondOfSecond": _get(UINT32, lambda moment: moment.of_day // 1000 % 1000),
    "GetMicrosecondOfSecond": _get(UINT32, lambda moment: moment.of_day % SECOND),
    "GetTimezoneId": _zone_id,
    "GetTimezoneName": _get(STRING, lambda moment: moment.zone.encode()),
    "Update": _update,
    "StartOfYear": _period_builder(lambda moment: start_of(moment, 12)),
    "StartOfQuarter": _period_builder(lambda moment: start_of(moment, 3)),
    "StartOfMonth": _period_builder(lambda moment: start_of(moment, 1)),
    "StartOfWeek": _period_builder(lambda moment: _week_edge(moment, end=False)),
    "StartOfDay": _period_builder(lambda moment: LocalTime(moment.days, 0, moment.zone)),
    "StartOf": _within_day(end=False),
    "EndOfYear": _period_builder(lambda moment: end_of(moment, 12)),
    "EndOfQuarter": _period_builder(lambda moment: end_of(moment, 3)),
    "EndOfMonth": _period_builder(lambda moment: end_of(moment, 1)),
    "EndOfWeek": _period_builder(lambda moment: _week_edge(moment, end=True)),
    "EndOfDay": _period_builder(lambda moment: LocalTime(moment.days, DAY - 1, moment.zone)),
    "EndOf": _within_day(end=True),
    "TimeOfDay": _time_of_day,
    "ShiftYears": _shift(12),
    "ShiftQuarters": _shift(3),
    "ShiftMonths": _shift(1),
}
