"""The module DateTime: examples of YQL's documentation, and values at the limits of types."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from mayflydb.query.yql import texts
from mayflydb.query.yql.expression import Expression
from mayflydb.query.yql.faults import Fault
from mayflydb.query.yql.types import (
    DATE,
    DATETIME,
    INT64,
    INTERVAL,
    STRING,
    TIMESTAMP,
    TIMESTAMP64,
    TZ_DATE32,
    TZ_DATETIME,
    TZ_DATETIME64,
    TZ_TIMESTAMP64,
    UINT64,
    bare,
)
from yql_calling import call, null, run, text, typed, value

NUMBERS = [
    ("FromSeconds", (1546304523,), "Timestamp?", 1546304523_000_000),
    ("FromMilliseconds", (value(UINT64, 1546304523456),), "Timestamp?", 1546304523_456_000),
    ("FromMicroseconds", (value(UINT64, 1546304523456789),), "Timestamp?", 1546304523_456_789),
    ("FromMicroseconds", (value(UINT64, 2**63),), "Timestamp?", None),
    ("FromSeconds64", (value(INT64, -1),), "Timestamp64?", -1_000_000),
    ("ToMicroseconds", (text(TIMESTAMP, "2019-01-01T01:02:03.456789Z"),), "Uint64", 1546304523456789),
    ("ToMilliseconds", (text(TIMESTAMP, "2019-01-01T01:02:03.456789Z"),), "Uint64", 1546304523456),
    ("ToSeconds", (text(DATE, "2019-09-16"),), "Uint32", 1568592000),
    ("ToSeconds", (text(DATETIME, "2019-09-16T00:00:00Z"),), "Uint32", 1568592000),
    ("ToSeconds", (text(TIMESTAMP64, "1969-12-31T23:59:59Z"),), "Int64", -1),
    ("ToSeconds", (text(TZ_DATETIME, "2019-09-16T00:00:00,Europe/Moscow"),), "Uint32", 1568581200),
    ("ToSeconds", (null(DATE),), "Uint32?", None),
    ("ToDays", (text(INTERVAL, "PT3000M"),), "Int32", 2),
    ("ToDays", (text(INTERVAL, "-PT3000M"),), "Int32", -2),
    ("ToSeconds", (text(INTERVAL, "PT1.5S"),), "Int64", 1),
    ("IntervalFromSeconds", (1000000,), "Interval?", 10**12),
    ("IntervalFromDays", (1,), "Interval?", 86_400_000_000),
    ("IntervalFromDays", (2**30,), "Interval?", None),
    ("IntervalFromMicroseconds", (-5,), "Interval?", -5),
    ("Interval64FromHours", (value(INT64, 3),), "Interval64?", 10_800_000_000),
]


@pytest.mark.parametrize(("name", "operands", "kind", "expected"), NUMBERS)
def test_numbers(name: Any, operands: Any, kind: Any, expected: Any) -> None:
    assert typed(f"DateTime::{name}", *operands) == (kind, expected)


def shown(expression: Any) -> str:
    """A moment by its text."""
    return texts.to_text(bare(expression.type), expression.evaluate((), run()))


def dt(name: str, *operands: Any, **named: Any) -> Any:
    return call(f"DateTime::{name}", *operands, **named)


def formatted(pattern: str, moment: Any, *flags: Any) -> Any:
    bound = dt("Format", pattern, *flags).bind([moment.type])
    return bound.call((moment.evaluate((), run()),), (), run())


def parsed(pattern: str, given: str, name: str = "Parse") -> Any:
    bound = dt(name, pattern).bind([STRING])
    return Expression(bound.type, lambda row, run: bound.call((given.encode(),), row, run), constant=True)


D, T, TS = partial(text, DATE), partial(text, DATETIME), partial(text, TIMESTAMP)
TZ = partial(text, TZ_DATETIME)
TM = dt("Split", TS("2019-01-01T01:02:03.456789Z"))
TM1 = dt("Split", T("2019-01-31T01:01:01Z"))
TM2 = dt("Split", TZ("2049-05-20T12:34:50,Europe/Moscow"))

MOMENTS = [
    ("MakeTimestamp", dt("Split", T("2019-01-01T15:30:00Z")), "2019-01-01T15:30:00Z"),
    ("MakeDate", T("2019-01-01T15:30:00Z"), "2019-01-01"),
    ("MakeTimestamp", dt("Split", TZ("2019-01-01T00:00:00,Europe/Moscow")), "2018-12-31T21:00:00Z"),
    ("MakeDate", TZ("2019-01-01T12:00:00,GMT"), "2019-01-01"),
    ("MakeTzDatetime", TZ("2019-01-01T12:00:00,Europe/Moscow"), "2019-01-01T12:00:00,Europe/Moscow"),
    ("MakeDate", dt("Update", TM, 2012), "2012-01-01"),
    ("MakeDate", dt("Update", TM, 2000, 6, 6), "2000-06-06"),
    ("MakeDate", dt("Update", TM, None, 2, 30), None),
    ("MakeDatetime", dt("Update", TM, None, None, 31), "2019-01-31T01:02:03Z"),
    ("MakeDatetime", dt("Update", TM, Hour=15, Minute=30), "2019-01-01T15:30:03Z"),
    ("MakeTimestamp", dt("Update", TM, Microsecond=999999), "2019-01-01T01:02:03.999999Z"),
    ("MakeTimestamp", dt("Update", TM, Timezone="Europe/Moscow"), "2018-12-31T22:02:03.456789Z"),
    ("MakeTzTimestamp", dt("Update", TM, Timezone="Europe/Moscow"), "2019-01-01T01:02:03.456789,Europe/Moscow"),
    ("MakeDate", dt("StartOfYear", D("2019-06-06")), "2019-01-01"),
    ("MakeDatetime", dt("StartOfQuarter", T("2019-06-06T01:02:03Z")), "2019-04-01T00:00:00Z"),
    ("MakeDate", dt("StartOfMonth", TS("2019-06-06T01:02:03.456789Z")), "2019-06-01"),
    ("MakeDate", dt("StartOfWeek", D("1970-01-01")), None),
    ("MakeTimestamp", dt("StartOfWeek", D("2019-01-01")), "2018-12-31T00:00:00Z"),
    ("MakeDatetime", dt("StartOfDay", T("2019-06-06T01:02:03Z")), "2019-06-06T00:00:00Z"),
    ("MakeTzDatetime", dt("StartOfDay", TZ("1970-01-01T05:00:00,Europe/Moscow")), None),
    ("MakeTzDatetime", dt("StartOfDay", TZ("1970-01-02T05:00:00,Europe/Moscow")), "1970-01-02T00:00:00,Europe/Moscow"),
    ("MakeDatetime", dt("StartOf", T("2019-06-06T23:45:00Z"), text(INTERVAL, "PT7H")), "2019-06-06T21:00:00Z"),
    ("MakeDatetime", dt("StartOf", T("2019-06-06T23:45:00Z"), text(INTERVAL, "PT20M")), "2019-06-06T23:40:00Z"),
    ("MakeTimestamp", dt("EndOfMonth", D("2020-02-06")), "2020-02-29T23:59:59.999999Z"),
    ("MakeDate", dt("EndOfYear", D("2020-02-06")), "2020-12-31"),
    ("MakeDate", dt("EndOfQuarter", D("2020-02-06")), "2020-03-31"),
    ("MakeDate", dt("EndOfWeek", D("2020-02-06")), "2020-02-09"),
    ("MakeDate", dt("ShiftYears", TM1, 10), "2029-01-31"),
    ("MakeDate", dt("ShiftYears", TM2, -10000), None),
    ("MakeDate", dt("ShiftQuarters", TM2, 0), "2049-05-20"),
    ("MakeDate", dt("ShiftQuarters", TM1, -3), "2018-04-30"),
    ("MakeDate", dt("ShiftMonths", TM1, 1), "2019-02-28"),
    ("MakeDate", dt("ShiftMonths", TM1, -35), "2016-02-29"),
    ("MakeTimestamp64", dt("ShiftMonths", text(TIMESTAMP64, "-0001-12-31T00:00:00Z"), 2), "1-02-28T00:00:00Z"),
    (
        "MakeTimestamp64",
        dt("Update", text(TIMESTAMP64, "12020-07-01T03:00:00Z"), Timezone="Europe/Moscow"),
        "12020-07-01T00:00:00Z",
    ),
    ("MakeTimestamp64", text(TZ_DATE32, "-1-12-31,UTC"), "-1-12-31T00:00:00Z"),
    ("MakeTzDate32", text(TZ_DATETIME64, "1900-01-01T01:02:03,Europe/Moscow"), "1900-01-01,Europe/Moscow"),
    (
        "MakeTzDatetime64",
        text(TZ_TIMESTAMP64, "1900-01-01T01:02:03.5,Europe/Moscow"),
        "1900-01-01T01:02:03,Europe/Moscow",
    ),
    (
        "MakeTzTimestamp64",
        dt("Update", text(TIMESTAMP64, "12020-07-01T03:00:00.5Z"), Timezone="Europe/Moscow"),
        "12020-07-01T03:00:00.500000,Europe/Moscow",
    ),
    ("MakeDatetime", parsed("%H:%M:%S", "01:02:03"), "1970-01-01T01:02:03Z"),
    ("MakeTimestamp", parsed("%S", "12.3456"), "1970-01-01T00:00:12.345600Z"),
    ("MakeTimestamp", parsed("%m/%d/%Y", "02/30/2000"), None),
    ("MakeTimestamp", parsed("%Z", "Canada/Central"), "1970-01-01T06:00:00Z"),
    ("MakeTimestamp64", parsed("%m/%d/%Y", "02/10/1931", "Parse64"), "1931-02-10T00:00:00Z"),
    ("MakeDate", parsed("%d %b %Y", "05 mar 2020"), "2020-03-05"),
    ("MakeDate", parsed("%d %B %Y", "05 MARCH 2020"), "2020-03-05"),
    ("MakeDatetime", parsed("%Y-%m-%d %H:%M:%S %Z", "2019-09-16 00:00:00 Europe/Moscow"), "2019-09-15T21:00:00Z"),
    ("MakeTimestamp", dt("ParseRfc822", "Fri, 4 Mar 2005 19:34:45 EST"), "2005-03-05T00:34:45Z"),
    ("MakeTimestamp", dt("ParseIso8601", "2009-02-14T02:31:30+0300"), "2009-02-13T23:31:30Z"),
    ("MakeTimestamp", dt("ParseHttp", "Sunday, 06-Nov-94 08:49:37 GMT"), "1994-11-06T08:49:37Z"),
    ("MakeTimestamp", dt("ParseX509", "20091014165533Z"), "2009-10-14T16:55:33Z"),
    ("MakeTimestamp", dt("ParseIso8601", "yesterday"), None),
]


@pytest.mark.parametrize(("make", "moment", "expected"), MOMENTS)
def test_moments(make: Any, moment: Any, expected: Any) -> None:
    made = dt(make, moment)
    if expected is None:
        assert made.evaluate((), run()) is None
    else:
        assert shown(made) == expected


TM3 = dt("Split", TZ("2019-01-09T00:00:00,Europe/Moscow"))
PARTS = [
    ("GetDayOfMonth", TM3, "Uint8", 9),
    ("GetMonthName", TM3, "String", b"January"),
    ("GetMonth", TM3, "Uint8", 1),
    ("GetYear", TM3, "Uint16", 2019),
    ("GetYear", text(TIMESTAMP64, "-0005-01-01T00:00:00Z"), "Int32", -5),
    ("GetTimezoneName", TM3, "String", b"Europe/Moscow"),
    ("GetDayOfWeekName", TM3, "String", b"Wednesday"),
    ("GetDayOfWeek", TM3, "Uint8", 3),
    ("GetDayOfYear", D("2020-12-31"), "Uint16", 366),
    ("GetWeekOfYear", D("2022-01-01"), "Uint8", 1),
    ("GetWeekOfYear", D("2022-01-03"), "Uint8", 2),
    ("GetWeekOfYearIso8601", D("2022-01-01"), "Uint8", 52),
    ("GetHour", TS("2019-02-14T01:02:03.456789Z"), "Uint8", 1),
    ("GetMinute", TS("2019-02-14T01:02:03.456789Z"), "Uint8", 2),
    ("GetSecond", TS("2019-02-14T01:02:03.456789Z"), "Uint8", 3),
    ("GetMillisecondOfSecond", TS("2019-02-14T01:02:03.456789Z"), "Uint32", 456),
    ("GetMicrosecondOfSecond", TS("2019-02-14T01:02:03.456789Z"), "Uint32", 456789),
    ("TimeOfDay", TS("2019-02-14T01:02:03.456789Z"), "Interval", 3723456789),
    ("GetYear", null(DATE), "Uint16?", None),
]


@pytest.mark.parametrize(("name", "moment", "kind", "expected"), PARTS)
def test_parts(name: Any, moment: Any, kind: Any, expected: Any) -> None:
    assert typed(f"DateTime::{name}", moment) == (kind, expected)


FORMATS = [
    ("%Y-%m-%d %H:%M:%S %Z", TZ("2019-01-01T01:02:03,Europe/Moscow"), (), "2019-01-01 01:02:03 Europe/Moscow"),
    ("%Y-%m-%d %H:%M:%S %Z", T("2019-09-16T00:00:00Z"), (), "2019-09-16 00:00:00 GMT"),
    ("%d %b %Y, %B 100%%", D("2019-09-16"), (), "16 Sep 2019, September 100%"),
    ("%S", TS("2019-02-14T01:02:03.456789Z"), (), "03.456789"),
    ("%S", T("2019-02-14T01:02:03Z"), (True,), "03.000000"),
    ("%z", TZ("2019-01-01T01:02:03,Europe/Moscow"), (), "+0300"),
    ("%z", TZ("2019-01-01T01:02:03,America/St_Johns"), (), "-0330"),
]


@pytest.mark.parametrize(("pattern", "moment", "flags", "expected"), FORMATS)
def test_formats(pattern: Any, moment: Any, flags: Any, expected: Any) -> None:
    assert formatted(pattern, moment, *flags) == expected.encode()


@pytest.mark.parametrize(
    ("name", "operands", "message"),
    [
        ("Format", ("%Q",), "invalid format specifier: %Q"),
        ("Parse", ("%",), "format string ends unexpectedly"),
        ("GetYear", ("x",), "Mismatch type argument #1"),
        ("Update", (TM, 1, 2, 3, 4, 5, 6, 7, 8, 9), "Expected from 1 to 9"),
    ],
)
def test_refused(name: Any, operands: Any, message: Any) -> None:
    with pytest.raises(Fault, match=message):
        dt(name, *operands)
