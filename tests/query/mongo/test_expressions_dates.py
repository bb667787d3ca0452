"""Dates: parts, zones, text, units; conversions between types."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

import pytest
from bson import Binary, DatetimeMS, Decimal128, Int64, ObjectId, Regex, Timestamp

from evaluating import NOW, check, evaluate, refused, typed
from mayflydb.query.calendar import days_of
from mayflydb.query.mongo import dates
from mayflydb.query.mongo.date_formats import format_iso

D = Decimal128


def at(text: str) -> DatetimeMS:
    """A date in ISO 8601, UTC unless it says otherwise."""
    moment = datetime.fromisoformat(text)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return DatetimeMS((moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1))


SOME = at("2024-03-10T09:05:06.789")
PARTS = [
    ({"$year": SOME}, 2024),
    ({"$month": SOME}, 3),
    ({"$dayOfMonth": SOME}, 10),
    ({"$hour": SOME}, 9),
    ({"$minute": SOME}, 5),
    ({"$second": SOME}, 6),
    ({"$millisecond": SOME}, 789),
    ({"$dayOfWeek": SOME}, 1),
    ({"$isoDayOfWeek": SOME}, 7),
    ({"$dayOfYear": SOME}, 70),
    ({"$week": SOME}, 10),
    ({"$isoWeek": SOME}, 10),
    ({"$isoWeekYear": SOME}, Int64(2024)),
    ({"$isoWeekYear": at("2021-01-03")}, Int64(2020)),
    ({"$isoWeek": at("2021-01-03")}, 53),
    ({"$week": at("2021-01-01")}, 0),
    ({"$week": at("2021-01-03")}, 1),
    ({"$year": DatetimeMS(-1)}, 1969),
    ({"$millisecond": DatetimeMS(-1)}, 999),
    ({"$year": [SOME]}, 2024),
    ({"$hour": {"date": SOME, "timezone": "America/New_York"}}, 5),
    ({"$hour": {"date": at("2024-03-10T07:05:00"), "timezone": "America/New_York"}}, 3),
    ({"$hour": {"date": SOME, "timezone": "+05:30"}}, 14),
    ({"$minute": {"date": SOME, "timezone": "-0330"}}, 35),
    ({"$hour": {"date": SOME, "timezone": "+02"}}, 11),
    ({"$hour": {"date": SOME, "timezone": None}}, None),
    ({"$hour": {"date": SOME, "timezone": "+24:00"}}, 9),
    ({"$dayOfMonth": {"date": SOME, "timezone": "+24:00"}}, 11),
    ({"$hour": {"date": SOME, "timezone": "+25:00"}}, 10),
    ({"$hour": {"date": SOME, "timezone": "-2500"}}, 8),
    ({"$dayOfMonth": {"date": SOME, "timezone": "-25"}}, 9),
    ({"$minute": {"date": SOME, "timezone": "+05:70"}}, 15),
    ({"$dayOfMonth": {"date": SOME, "timezone": "+99:99"}}, 14),
    ({"$isoWeek": {"date": SOME, "timezone": "+25:00"}}, 11),
    ({"$hour": {"date": SOME, "timezone": "+100:00"}}, refused(40485)),
    ({"$hour": {"date": SOME, "timezone": "+\u0662\u0665"}}, refused(40485)),
    ({"$year": "$missing"}, None),
    ({"$year": ObjectId("65f00000" + "0" * 16)}, 2024),
    ({"$year": Timestamp(1700000000, 1)}, 2023),
    ({"$year": "2024"}, refused(16006)),
    ({"$year": [SOME, SOME]}, refused(40536)),
    ({"$year": {"date": SOME, "x": 1}}, refused(40535)),
    ({"$year": {"timezone": "UTC"}}, refused(40539)),
    ({"$year": {"date": SOME, "timezone": "Mars/Base"}}, refused(40485)),
    ({"$year": {"date": SOME, "timezone": "../etc/passwd"}}, refused(40485)),
    ({"$year": {"date": SOME, "timezone": 1}}, refused(40517)),
    (
        {"$dateToParts": {"date": SOME}},
        {"year": 2024, "month": 3, "day": 10, "hour": 9, "minute": 5, "second": 6, "millisecond": 789},
    ),
    (
        {"$dateToParts": {"date": SOME, "iso8601": True, "timezone": "+01"}},
        {
            "isoWeekYear": 2024,
            "isoWeek": 10,
            "isoDayOfWeek": 7,
            "hour": 10,
            "minute": 5,
            "second": 6,
            "millisecond": 789,
        },
    ),
    ({"$dateToParts": {"date": None}}, None),
    ({"$dateToParts": {}}, refused(40522)),
    ({"$dateToParts": {"date": SOME, "iso8601": 1}}, refused(40521)),
    ({"$dateFromParts": {"year": 2024, "month": 2, "day": 29, "hour": 1}}, at("2024-02-29T01:00")),
    ({"$dateFromParts": {"year": 2024, "month": 14, "day": 0, "minute": -1}}, at("2025-01-30T23:59")),
    ({"$dateFromParts": {"year": 2024, "timezone": "Europe/Berlin"}}, at("2023-12-31T23:00")),
    ({"$dateFromParts": {"year": 2024, "timezone": "+99:99"}}, at("2023-12-27T19:21")),
    (
        {"$dateToParts": {"date": at("2020-01-01T12:00"), "timezone": "-99:99"}},
        {"year": 2019, "month": 12, "day": 28, "hour": 7, "minute": 21, "second": 0, "millisecond": 0},
    ),
    ({"$dateFromParts": {"isoWeekYear": 2020, "isoWeek": 53, "isoDayOfWeek": 7}}, at("2021-01-03")),
    ({"$dateFromParts": {"year": None}}, None),
    ({"$dateFromParts": {"month": 1}}, refused(40516)),
    ({"$dateFromParts": {"year": 2024, "isoWeek": 1}}, refused(40489)),
    ({"$dateFromParts": {"isoWeekYear": 2024, "day": 1}}, refused(40525)),
    ({"$dateFromParts": {"year": 0}}, refused(40523)),
    ({"$dateFromParts": {"year": 2024, "month": 1.5}}, refused(40515)),
    ({"$dateFromParts": {"year": 2024, "month": 40000}}, refused(31034)),
]

TEXT = [
    ({"$dateToString": {"date": SOME}}, "2024-03-10T09:05:06.789Z"),
    ({"$dateToString": {"date": SOME, "timezone": "+02:00"}}, "2024-03-10T11:05:06.789"),
    (
        {"$dateToString": {"date": SOME, "format": "%d/%m/%Y %H:%M:%S.%L %j %u %w %U %V %G %%"}},
        "10/03/2024 09:05:06.789 070 7 1 10 10 2024 %",
    ),
    ({"$dateToString": {"date": SOME, "format": "%b %B"}}, "Mar March"),
    ({"$dateToString": {"date": SOME, "format": "%z %Z", "timezone": "-03:30"}}, "-0330 -210"),
    ({"$dateToString": {"date": SOME, "format": "%z", "timezone": "Europe/Berlin"}}, "+0100"),
    ({"$dateToString": {"date": SOME, "format": "%z %Z", "timezone": "+04:30"}}, "+0430 270"),
    ({"$dateToString": {"date": SOME, "format": "%z %Z"}}, "+0000 0"),
    ({"$dateToString": {"date": SOME, "format": "%d %H:%M %z", "timezone": "+99:99"}}, "14 13:44 +10039"),
    ({"$dateToString": {"date": SOME, "format": "%%Y%%%d%%%%"}}, "%Y%10%%"),
    ({"$dateToString": {"date": SOME, "format": "%%%"}}, refused(18535)),
    ({"$dateToString": {"date": SOME, "format": "%\0"}}, refused(18536)),
    ({"$dateToString": {"date": "$missing"}}, None),
    ({"$dateToString": {"date": None, "onNull": "never"}}, "never"),
    ({"$dateToString": {"date": SOME, "format": "%q"}}, refused(18536)),
    ({"$dateToString": {"date": SOME, "format": "%"}}, refused(18535)),
    ({"$dateToString": {"date": SOME, "format": 1}}, refused(18533)),
    ({"$dateToString": {"format": "%Y"}}, refused(18628)),
    ({"$dateToString": SOME}, refused(18629)),
    ({"$dateToString": {"date": SOME, "x": 1}}, refused(18534)),
    ({"$dateToString": {"date": DatetimeMS(1 << 60)}}, refused(18537)),
    ({"$dateFromString": {"dateString": "2017-02-08T12:10:40.787"}}, at("2017-02-08T12:10:40.787")),
    ({"$dateFromString": {"dateString": "2017-02-08T12:10:40.787Z"}}, at("2017-02-08T12:10:40.787")),
    ({"$dateFromString": {"dateString": "2017-02-08T12:10:40.787-0500"}}, at("2017-02-08T17:10:40.787")),
    ({"$dateFromString": {"dateString": "2017-02-08 12:10+02:00"}}, at("2017-02-08T10:10")),
    ({"$dateFromString": {"dateString": "2017-02-08"}}, at("2017-02-08")),
    ({"$dateFromString": {"dateString": "20170208T121040"}}, at("2017-02-08T12:10:40")),
    ({"$dateFromString": {"dateString": "8 Feb 2017 12:10"}}, at("2017-02-08T12:10")),
    ({"$dateFromString": {"dateString": "Wed, 08 Feb 2017 12:10:00 GMT"}}, at("2017-02-08T12:10")),
    ({"$dateFromString": {"dateString": "February 8, 2017"}}, at("2017-02-08")),
    ({"$dateFromString": {"dateString": "02/08/2017"}}, at("2017-02-08")),
    ({"$dateFromString": {"dateString": "2017-02-08", "timezone": "America/New_York"}}, at("2017-02-08T05:00")),
    ({"$dateFromString": {"dateString": "2017-02-08", "timezone": "-25:00"}}, at("2017-02-09T01:00")),
    ({"$dateFromString": {"dateString": "2017-02-08T00:00+25:00"}}, at("2017-02-06T23:00")),
    ({"$dateFromString": {"dateString": "06-15-2018", "format": "%m-%d-%Y"}}, at("2018-06-15")),
    ({"$dateFromString": {"dateString": "15.6.2018 7h", "format": "%d.%m.%Y %Hh"}}, at("2018-06-15T07:00")),
    ({"$dateFromString": {"dateString": "2018 166", "format": "%Y %j"}}, at("2018-06-15")),
    ({"$dateFromString": {"dateString": "2020-53-7", "format": "%G-%V-%u"}}, at("2021-01-03")),
    ({"$dateFromString": {"dateString": "2018-06-15 +0200", "format": "%Y-%m-%d %z"}}, at("2018-06-14T22:00")),
    ({"$dateFromString": {"dateString": None}}, None),
    ({"$dateFromString": {"dateString": None, "onNull": 1}}, 1),
    ({"$dateFromString": {"dateString": "nonsense", "onError": "$s"}}, "text"),
    ({"$dateFromString": {"dateString": 5, "onError": 1}}, 1),
    ({"$dateFromString": {"dateString": 5}}, refused(241)),
    ({"$dateFromString": {"dateString": "nonsense"}}, refused(241)),
    ({"$dateFromString": {"dateString": "2017-02-30"}}, refused(241)),
    ({"$dateFromString": {"dateString": "2017-02-08T25:00"}}, refused(241)),
    ({"$dateFromString": {"dateString": "2017-02-08Z", "timezone": "+01"}}, refused(241)),
    ({"$dateFromString": {"dateString": "2017-02-08T00:00Z", "timezone": "+01"}}, refused(241)),
    ({"$dateFromString": {"dateString": "x", "format": "%q"}}, refused(18536)),
    ({"$dateFromString": {"dateString": "x", "format": 1}}, refused(40684)),
    ({"$dateFromString": {}}, refused(40542)),
    ({"$dateFromString": "x"}, refused(40540)),
    ({"$dateFromString": {"dateString": "x", "x": 1}}, refused(40541)),
]


def add(start: str, unit: str, amount: Any, zone: str | None = None, name: str = "$dateAdd") -> dict[str, Any]:
    """An expression that shifts a date."""
    return {name: {"startDate": at(start), "unit": unit, "amount": amount} | ({"timezone": zone} if zone else {})}


def diff(start: str, end: str, unit: str, **more: Any) -> dict[str, Any]:
    """An expression that counts boundaries."""
    return {"$dateDiff": {"startDate": at(start), "endDate": at(end), "unit": unit} | more}


def trunc(date: str, unit: str, **more: Any) -> dict[str, Any]:
    """An expression that finds the beginning of a bin."""
    return {"$dateTrunc": {"date": at(date), "unit": unit} | more}


UNITS = [
    (add("2024-01-31", "month", 1), at("2024-02-29")),
    (add("2024-01-31", "month", -2), at("2023-11-30")),
    (add("2024-02-29", "year", 1), at("2025-02-28")),
    (add("2024-01-31", "quarter", 1), at("2024-04-30")),
    (add("2024-01-31", "week", 1), at("2024-02-07")),
    (add("2024-01-31", "day", 1.0), at("2024-02-01")),
    (add("2024-01-31", "hour", 25), at("2024-02-01T01:00")),
    (add("2024-01-31", "minute", -1), at("2024-01-30T23:59")),
    (add("2024-01-31", "second", Int64(61)), at("2024-01-31T00:01:01")),
    (add("2024-01-31", "millisecond", 1), at("2024-01-31T00:00:00.001")),
    (add("2024-03-09T17:00", "day", 1, "America/New_York"), at("2024-03-10T16:00")),
    (add("2024-03-09T17:00", "hour", 24, "America/New_York"), at("2024-03-10T17:00")),
    (add("2024-03-31", "month", 1, name="$dateSubtract"), at("2024-02-29")),
    (add("2024-01-31", "month", None), None),
    (add("2024-01-31", "month", 1.5), refused(5166405)),
    (add("2024-01-31", "fortnight", 1), refused(9)),
    (add("2024-01-31", "year", Int64(1 << 62)), refused(15)),
    ({"$dateAdd": {"startDate": "x", "unit": "day", "amount": 1}}, refused(5166403)),
    ({"$dateAdd": {"startDate": SOME, "unit": 1, "amount": 1}}, refused(5439013)),
    ({"$dateAdd": {"startDate": SOME, "unit": "day"}}, refused(5166402)),
    ({"$dateAdd": 1}, refused(5166400)),
    ({"$dateAdd": {"x": 1}}, refused(5166401)),
    ({"$dateAdd": {"startDate": "$$NOW", "unit": "second", "amount": 60}}, DatetimeMS(NOW + 60000)),
    (diff("2023-12-31T23:59", "2024-01-01", "year"), Int64(1)),
    (diff("2024-01-01", "2023-12-31", "month"), Int64(-1)),
    (diff("2024-01-01", "2024-12-31", "quarter"), Int64(3)),
    (diff("2024-01-06", "2024-01-07", "week"), Int64(1)),
    (diff("2024-01-06", "2024-01-07", "week", startOfWeek="monday"), Int64(0)),
    (diff("2024-01-07", "2024-01-08", "week", startOfWeek="Mon"), Int64(1)),
    (diff("2024-01-01T23:00", "2024-01-02T01:00", "day"), Int64(1)),
    (diff("2024-01-01T23:00", "2024-01-02T01:00", "day", timezone="+05"), Int64(0)),
    (diff("2024-01-01T22:00", "2024-01-01T23:00", "day", timezone="+25:00"), Int64(1)),
    (diff("2024-01-01T00:59", "2024-01-01T01:00", "hour"), Int64(1)),
    (diff("2024-03-10T06:30", "2024-03-10T07:30", "hour", timezone="America/New_York"), Int64(1)),
    (diff("2024-01-01T00:00:59", "2024-01-01T00:01", "minute"), Int64(1)),
    (diff("2024-01-01", "2024-01-01T00:00:01.5", "second"), Int64(1)),
    (diff("2024-01-01", "2024-01-01T00:00:01.5", "millisecond"), Int64(1500)),
    ({"$dateDiff": {"startDate": None, "endDate": SOME, "unit": "day"}}, None),
    ({"$dateDiff": {"startDate": 1, "endDate": SOME, "unit": "day"}}, refused(5166307)),
    (diff("2024-01-01", "2024-01-01", "week", startOfWeek=1), refused(5439015)),
    (diff("2024-01-01", "2024-01-01", "week", startOfWeek="x"), refused(9)),
    (diff("2024-01-01", "2024-01-01", "day", startOfWeek=None), Int64(0)),
    ({"$dateDiff": {"startDate": SOME, "endDate": SOME, "unit": 1}}, refused(5439013)),
    ({"$dateDiff": {"startDate": SOME, "endDate": SOME}}, refused(5166305)),
    ({"$dateDiff": {"startDate": SOME, "unit": "day"}}, refused(5166304)),
    (trunc("2024-03-10T09:05:06.789", "second"), at("2024-03-10T09:05:06")),
    (trunc("2024-03-10T09:05:06.789", "minute", binSize=15), at("2024-03-10T09:00")),
    (trunc("2024-03-10T09:05:06.789", "hour", binSize=2), at("2024-03-10T08:00")),
    (trunc("2024-03-10T09:05", "day"), at("2024-03-10")),
    (trunc("2024-03-10T02:05", "day", timezone="America/New_York"), at("2024-03-09T05:00")),
    (trunc("2021-06-15T12:00", "hour", timezone="+99:99"), at("2021-06-15T11:21")),
    (trunc("2021-06-15T12:00", "hour", timezone="-99:99"), at("2021-06-15T11:39")),
    (trunc("2024-03-13T09:05", "week"), at("2024-03-10")),
    (trunc("2024-03-13T09:05", "week", startOfWeek="monday"), at("2024-03-11")),
    (trunc("2024-03-13", "week", startOfWeek="wed"), at("2024-03-13")),
    (trunc("2000-01-20", "week", binSize=2, startOfWeek="monday"), at("2000-01-17")),
    (trunc("2024-03-13", "month"), at("2024-03-01")),
    (trunc("2024-05-13", "quarter"), at("2024-04-01")),
    (trunc("2024-05-13", "month", binSize=5), at("2024-03-01")),
    (trunc("1999-05-13", "year", binSize=10), at("1990-01-01")),
    (trunc("2024-05-13", "day", binSize=0), refused(5439018)),
    (trunc("2024-05-13", "day", binSize="x"), refused(5439017)),
    (trunc("2024-05-13", "day", binSize=None), None),
    ({"$dateTrunc": {"date": 1, "unit": "day"}}, refused(5166307)),
    ({"$year": ObjectId("7fffffff" + "0" * 16)}, 2038),
    ({"$year": ObjectId("ffffffff" + "0" * 16)}, 1969),
    ({"$dateTrunc": {"date": SOME}}, refused(5439010)),
    ({"$dateTrunc": {"unit": "day"}}, refused(5439009)),
    ({"$dateTrunc": 1}, refused(5439007)),
    ({"$dateTrunc": {"x": 1}}, refused(5439008)),
]

CONVERSIONS = [
    ({"$toInt": "42"}, 42),
    ({"$toInt": -3.9}, -3),
    ({"$toInt": True}, 1),
    ({"$toInt": D("5.9")}, 5),
    ({"$toInt": "4.2"}, refused(241)),
    ({"$toInt": ""}, refused(241)),
    ({"$toInt": " 1"}, refused(241)),
    ({"$toInt": 3e9}, refused(241)),
    ({"$toInt": "3000000000"}, refused(241)),
    ({"$toInt": float("nan")}, refused(241)),
    ({"$toInt": float("inf")}, refused(241)),
    ({"$toInt": SOME}, refused(241)),
    ({"$toInt": None}, None),
    ({"$toInt": "$missing"}, None),
    ({"$toLong": "42"}, Int64(42)),
    ({"$toLong": SOME}, Int64(int(SOME))),
    ({"$toLong": 1e19}, refused(241)),
    ({"$toDouble": "1.5e3"}, 1500.0),
    ({"$toDouble": 5}, 5.0),
    ({"$toDouble": False}, 0.0),
    ({"$toDouble": "0x10"}, refused(241)),
    ({"$toDouble": "1_0"}, refused(241)),
    ({"$toDouble": D("1e400")}, refused(241)),
    ({"$toDouble": []}, refused(50723)),
    ({"$toDouble": [1, 2]}, refused(50723)),
    ({"$toDouble": [[]]}, refused(241)),
    ({"$toDecimal": "1.50"}, D("1.50")),
    ({"$toDecimal": 2.5}, D("2.50000000000000")),
    ({"$toDecimal": 3}, D("3")),
    ({"$toDecimal": "x"}, refused(241)),
    ({"$toString": 5}, "5"),
    ({"$toString": 2.5}, "2.5"),
    ({"$toString": 5.0}, "5"),
    ({"$toString": float("nan")}, "NaN"),
    ({"$toString": Int64(5)}, "5"),
    ({"$toString": D("1.50")}, "1.50"),
    ({"$toString": True}, "true"),
    ({"$toString": SOME}, "2024-03-10T09:05:06.789Z"),
    ({"$toString": ObjectId("a" * 24)}, "a" * 24),
    ({"$toString": [[]]}, refused(241)),
    ({"$toBool": 0}, False),
    ({"$toBool": 0.1}, True),
    ({"$toBool": ""}, True),
    ({"$toBool": "false"}, True),
    ({"$toBool": SOME}, True),
    ({"$toBool": {}}, True),
    ({"$toBool": [[]]}, True),
    ({"$toBool": {"$literal": Regex("x")}}, True),
    ({"$toBool": {"$literal": b""}}, True),
    ({"$toBool": []}, refused(50723)),
    ({"$toString": 0.1 + 0.2}, "0.30000000000000004"),
    ({"$toString": 5e-324}, "5e-324"),
    ({"$toString": 9e-05}, "9e-05"),
    ({"$toString": 100.0}, "100"),
    ({"$substrCP": [Timestamp(1, 1), 0, 30]}, "Jan  1 00:00:01:1"),
    ({"$substrCP": [1.234567, 0, 30]}, "1.23457"),
    ({"$substrCP": [1000000.0, 0, 30]}, "1e+06"),
    ({"$indexOfCP": ["", ""]}, 0),
    ({"$indexOfCP": ["abc", "", 3]}, -1),
    ({"$indexOfCP": ["abc", "", 1, 1]}, -1),
    ({"$indexOfCP": ["abc", "", 1]}, 1),
    ({"$indexOfCP": ["abcd", "cd", 0, 3]}, 2),
    ({"$indexOfBytes": ["abcd", "cd", 0, 3]}, -1),
    ({"$toDate": Int64(5)}, DatetimeMS(5)),
    ({"$toDate": 5.9}, DatetimeMS(5)),
    ({"$toDate": 5}, refused(241)),
    ({"$toDate": "2018-03-20"}, at("2018-03-20")),
    ({"$toDate": "20.3"}, refused(241)),
    ({"$toDate": ObjectId("65f00000" + "0" * 16)}, DatetimeMS(0x65F00000 * 1000)),
    ({"$toDate": Timestamp(5, 1)}, DatetimeMS(5000)),
    ({"$toObjectId": "a" * 24}, ObjectId("a" * 24)),
    ({"$toObjectId": "a"}, refused(241)),
    ({"$toObjectId": "z" * 24}, refused(241)),
    ({"$toUUID": "00112233-4455-6677-8899-aabbccddeeff"}, Binary(bytes.fromhex("00112233445566778899aabbccddeeff"), 4)),
    ({"$toUUID": "0011"}, refused(241)),
    ({"$toString": {"$literal": b"abc"}}, "YWJj"),
    ({"$toString": Binary(bytes(range(16)), 4)}, "00010203-0405-0607-0809-0a0b0c0d0e0f"),
    ({"$toString": Binary(bytes(15), 4)}, "AAAAAAAAAAAAAAAAAAAA"),
    ({"$toString": Binary(b"a", 2)}, "AQAAAGE="),
    ({"$toInt": Binary(b"\xff", 0)}, -1),
    ({"$toInt": Binary(b"\x00\x01", 128)}, 256),
    ({"$toInt": Binary(b"abc", 0)}, refused(241)),
    ({"$toInt": Binary(bytes(8), 0)}, refused(241)),
    ({"$toLong": Binary(b"\x01" + bytes(7), 0)}, Int64(1)),
    ({"$toDouble": Binary(bytes.fromhex("0000c03f"), 0)}, 1.5),
    ({"$toDouble": Binary(bytes(2), 0)}, refused(241)),
    ({"$toDouble": "+0x1.8p1"}, 3.0),
    ({"$toDouble": "0X10"}, 16.0),
    ({"$toDouble": "0x10"}, refused(241)),
    ({"$toDouble": "-0x1p-2000"}, refused(241)),
    ({"$toDouble": "+0x1p2000"}, refused(241)),
    ({"$toDouble": "1e-400"}, refused(241)),
    ({"$toDouble": "0e-400"}, 0.0),
    ({"$toInt": "-" + "0" * 5000 + "7"}, -7),
    ({"$toInt": "1" + "0" * 5000}, refused(241)),
    ({"$convert": {"input": 1, "to": "binData"}}, Binary(b"\x01\0\0\0", 0)),
    ({"$convert": {"input": Int64(1), "to": "binData", "byteOrder": "big"}}, Binary(bytes(7) + b"\x01", 0)),
    ({"$convert": {"input": 1.5, "to": {"type": "binData", "subtype": 5}}}, Binary(bytes(6) + b"\xf8\x3f", 5)),
    ({"$convert": {"input": Binary(b"\0\x01", 0), "to": "int", "byteOrder": "big"}}, 1),
    ({"$convert": {"input": "YQ==", "to": "binData", "format": "base64"}}, Binary(b"a", 0)),
    ({"$convert": {"input": "YQ", "to": "binData", "format": "base64"}}, refused(241)),
    ({"$convert": {"input": "_-8", "to": "binData", "format": "base64url"}}, Binary(b"\xff\xef", 0)),
    ({"$convert": {"input": "_-8=", "to": "binData", "format": "base64url"}}, Binary(b"\xff\xef", 0)),
    ({"$convert": {"input": "/+8=", "to": "binData", "format": "base64url"}}, refused(241)),
    ({"$convert": {"input": "fF", "to": "binData", "format": "hex"}}, Binary(b"\xff", 0)),
    ({"$convert": {"input": "f", "to": "binData", "format": "hex"}}, refused(241)),
    ({"$convert": {"input": "a", "to": "binData", "format": "auto"}}, refused(241)),
    ({"$convert": {"input": "a", "to": "binData"}}, refused(4341115)),
    ({"$convert": {"input": Binary(b"\xff", 0), "to": "string"}}, refused(4341115)),
    ({"$convert": {"input": Binary(b"\xff", 0), "to": "string", "format": "hex"}}, "FF"),
    ({"$convert": {"input": Binary(b"\xff", 0), "to": "string", "format": "utf8"}}, refused(241)),
    ({"$convert": {"input": Binary(b"\xff", 0), "to": "string", "format": "utf8", "onError": 1}}, 1),
    ({"$convert": {"input": Binary(b"\xff", 0), "to": "string", "format": "uuid"}}, refused(241)),
    ({"$convert": {"input": Binary(b"a", 3), "to": "binData"}}, refused(241)),
    ({"$convert": {"input": Binary(b"a", 3), "to": {"type": "binData", "subtype": 3}}}, Binary(b"a", 3)),
    ({"$convert": {"input": True, "to": "binData"}}, refused(241)),
    ({"$convert": {"input": 1, "to": {"type": "int", "subtype": "a"}}}, refused(4341108)),
    ({"$convert": {"input": 1, "to": {"type": "binData", "subtype": 1.5}}}, refused(4341106)),
    ({"$convert": {"input": 1, "to": {"type": "binData", "subtype": 9}}}, Binary(b"\x01\0\0\0", 9)),
    ({"$convert": {"input": 1, "to": {"type": "binData", "subtype": 10}}}, refused(4341107)),
    ({"$convert": {"input": 1, "to": {"type": "binData", "subtype": 127}}}, refused(4341107)),
    ({"$convert": {"input": 1, "to": {"type": "binData", "subtype": 256}}}, refused(4341107)),
    ({"$convert": {"input": 1, "to": "string", "format": 1}}, refused(4341114)),
    ({"$convert": {"input": 1, "to": "string", "format": "HEX"}}, refused(4341125)),
    ({"$convert": {"input": 1, "to": "string", "byteOrder": 1}}, refused(9130001)),
    ({"$convert": {"input": 1, "to": "string", "byteOrder": "Big", "onError": 1}}, refused(9130002)),
    ({"$convert": {"input": None, "to": "string", "byteOrder": 1}}, None),
    ({"$convert": {"input": 1, "to": "string", "format": None, "byteOrder": None}}, "1"),
    ({"$convert": {"input": "5", "to": "int"}}, 5),
    ({"$convert": {"input": "5", "to": 16}}, 5),
    ({"$convert": {"input": "x", "to": "int", "onError": "bad"}}, "bad"),
    ({"$convert": {"input": "x", "to": "int"}}, refused(241)),
    ({"$convert": {"input": None, "to": "int", "onNull": 0}}, 0),
    ({"$convert": {"input": "$missing", "to": "int"}}, None),
    ({"$convert": {"input": "x", "to": None}}, None),
    ({"$convert": {"input": "x", "to": "object", "onError": 1}}, 1),
    ({"$convert": {"input": "x", "to": "object"}}, refused(241)),
    ({"$convert": {"input": "x", "to": "number"}}, refused(2)),
    ({"$convert": {"input": "x", "to": []}}, refused(9)),
    ({"$convert": {"input": "x", "to": 1.5}}, refused(9)),
    ({"$convert": {"input": "x", "to": 99}}, refused(9)),
    ({"$convert": {"input": "x"}}, refused(9)),
    ({"$convert": {"input": "x", "to": "int", "x": 1}}, refused(9)),
    ({"$convert": "x"}, refused(9)),
    ({"$tsSecond": Timestamp(5, 7)}, Int64(5)),
    ({"$tsIncrement": Timestamp(5, 7)}, Int64(7)),
    ({"$tsSecond": None}, None),
    ({"$tsSecond": 5}, refused(5687301)),
]


@pytest.mark.parametrize(("spec", "expected"), PARTS + TEXT + UNITS + CONVERSIONS)
def test_an_expression_yields(spec: Any, expected: Any) -> None:
    check(spec, expected)


def test_the_calendar_agrees_with_pythons(chance: Random) -> None:
    for _ in range(500):
        moment = datetime(1, 1, 1, tzinfo=UTC) + timedelta(
            days=chance.randrange(3652058), milliseconds=chance.randrange(dates.DAY)
        )
        parts = dates.parts_of((moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(milliseconds=1))
        assert (parts.year, parts.month, parts.day, parts.hour) == (moment.year, moment.month, moment.day, moment.hour)
        assert (parts.iso_week(), parts.weekday) == (moment.isocalendar()[:2], moment.isoweekday())
        assert (f"{parts.week:02}", f"{parts.day_of_year:03}") == (moment.strftime("%U"), moment.strftime("%j"))
        assert days_of(parts.year, parts.month, parts.day) == parts.days


def test_a_formatted_date_is_parsed_again(chance: Random) -> None:
    for _ in range(200):
        date = DatetimeMS(chance.randrange(-30_000_000_000_000, 200_000_000_000_000))
        assert evaluate({"$toDate": format_iso(int(date))}) == typed(date)


@pytest.mark.parametrize("year", [10_400, 12_000, 200_000_000])
def test_time_zones_keep_their_rules_outside_of_pythons_years(year: int) -> None:
    zone = dates.zone_of("Europe/Berlin")
    for month, hours in ((1, 1), (7, 2)):
        instant = days_of(year, month, 15) * dates.DAY
        assert zone.offset(instant) == hours * dates.HOUR
        assert zone.instant(zone.local(instant)) == instant


def test_local_mean_time_applies_before_the_first_rule_of_a_time_zone() -> None:
    zone = dates.zone_of("Europe/Berlin")
    assert {zone.offset(days_of(year, 1, 15) * dates.DAY) for year in (-300_000, 0, 1000)} == {3_208_000}


def test_local_times_that_exist_twice_or_never() -> None:
    zone = dates.zone_of("America/New_York")
    assert zone.instant(int(at("2024-11-03T01:30"))) == int(at("2024-11-03T05:30"))
    assert zone.instant(int(at("2024-03-10T02:30"))) == int(at("2024-03-10T07:30"))
