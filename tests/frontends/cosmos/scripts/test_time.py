"""Dates in scripts: at the instant of the request, in UTC, wherever the server runs."""

from __future__ import annotations

import time
from collections.abc import Iterator

import msgspec
import pytest

from mayflydb.frontends.cosmos.scripting.functions import function_caller
from mayflydb.frontends.cosmos.scripting.sandbox import ScriptLimits, TimeBudget

NOW = 1893456000_000_000

DATES = [
    ("new Date().getTime()", NOW // 1000),
    ("Date.now()", NOW // 1000),
    ("new Date().getHours()", 0),
    ("new Date(0).getDay()", 4),
    ("new Date(0).getTimezoneOffset()", 0),
    ("new Date(2030, 6, 1, 12).toISOString()", "2030-07-01T12:00:00.000Z"),
    ("new Date('2030-07-01T12:00').toISOString()", "2030-07-01T12:00:00.000Z"),
    ("new Date('2030-07-01T12:00:00.5').toISOString()", "2030-07-01T12:00:00.500Z"),
    ("new Date('Jul 1 2030 12:00').toISOString()", "2030-07-01T12:00:00.000Z"),
    ("new Date('2030-07-01').toISOString()", "2030-07-01T00:00:00.000Z"),
    ("new Date('2030-07-01T12:00Z').toISOString()", "2030-07-01T12:00:00.000Z"),
    ("new Date('2030-07-01T12:00+02:00').toISOString()", "2030-07-01T10:00:00.000Z"),
    ("new Date(new Date()).getTime()", NOW // 1000),
    ("Date.parse('2030-07-01T12:00')", 1909137600000),
    ("new Date(new Date(0).toString()).getTime()", 0),
    ("new Date(0).toString()", "Thu Jan 01 1970 00:00:00 GMT+0000"),
    ("new Date(0).toTimeString()", "00:00:00 GMT+0000"),
    ("Date().slice(0, 24)", "Tue Jan 01 2030 00:00:00"),
    ("(() => { var d = new Date(0); d.setHours(5); return d.toISOString(); })()", "1970-01-01T05:00:00.000Z"),
    ("isNaN(new Date('nonsense').getTime())", True),
    ("new (new Date(0).constructor)().getTime()", NOW // 1000),
    ("new (class extends Date {})().getTime()", NOW // 1000),
    ("new Date() instanceof Date", True),
]


@pytest.fixture(params=["UTC", "America/New_York", "Asia/Kolkata"])
def zone(request: pytest.FixtureRequest) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", request.param)
        time.tzset()
        yield
    time.tzset()


def test_dates(zone: None) -> None:
    texts = {f"f{number}": f"function () {{ return {text}; }}" for number, (text, _) in enumerate(DATES)}
    call = function_caller(texts, TimeBudget(ScriptLimits()), NOW)
    assert call is not None
    got = [(text, call(f"f{number}", ())) for number, (text, _) in enumerate(DATES)]
    assert got == DATES, msgspec.json.encode(got)
