"""Results that YDB's documentation and tests state, and that one would not expect.

Sources: https://ydb.tech/docs/en/yql/reference/ (`builtins/aggregation`, `builtins/json`, `types/cast`, `syntax/expressions`),
`yql/essentials/sql/v1/sql_ut.cpp`, `yql/essentials/minikql/mkql_type_ops.cpp` and `yql/essentials/udfs/common/re2/re2_udf.cpp` of
https://github.com/ydb-platform/ydb.
"""

from __future__ import annotations

from typing import Any

import pytest

from query.yql.asking import columns, refusal, rows, shop

MOSCOW = "Europe/Moscow"

ROWS: list[tuple[str, Any]] = [
    # With a limit: the values of the rows whose key is the greatest, and no others.
    ("SELECT MAX_BY(id, n, 10) FROM t", [3]),
    ("SELECT MIN_BY(id, n, 10) FROM t", [1]),
    ("SELECT MAX_BY(id, n % 20, 10) FROM t", [1, 3]),
    ("SELECT MAX_BY(id, n % 20, 1) FROM t", [1]),
    ("SELECT MIN_BY(id, n % 20, 10) FROM t", [2]),
    ("SELECT MAX_BY(id, n) FROM t", 3),
    ("SELECT TOP_BY(id, n, 2) FROM t", [3, 2]),
    ("SELECT BOTTOM_BY(id, n, 2) FROM t", [1, 2]),
    # A default that the type cannot hold is an error like any other.
    ("SELECT JSON_VALUE(Json('{}'), '$.a' RETURNING Uint64 DEFAULT -1 ON EMPTY DEFAULT 20 ON ERROR)", 20),
    ("SELECT JSON_VALUE(Json('{}'), '$.a' RETURNING Uint64 DEFAULT -1 ON EMPTY)", None),
    ("SELECT JSON_VALUE(Json('{}'), '$.a' RETURNING Uint8 DEFAULT 256 ON EMPTY DEFAULT 20 ON ERROR)", 20),
    ("SELECT JSON_VALUE(Json('{}'), '$.a' RETURNING Uint8 DEFAULT 255 ON EMPTY DEFAULT 20 ON ERROR)", 255),
    ("SELECT JSON_VALUE(Json('{\"a\":\"x\"}'), '$.a' RETURNING Int8 DEFAULT 20 ON ERROR)", 20),
    # The day is the one that clocks of the zone show.
    (f"SELECT CAST(CAST(TzDatetime('2020-01-01T23:59:59,{MOSCOW}') AS TzDate) AS String)", f"2020-01-01,{MOSCOW}"),
    (f"SELECT CAST(CAST(TzDatetime('2020-01-02T00:00:00,{MOSCOW}') AS TzDate) AS String)", f"2020-01-02,{MOSCOW}"),
    (f"SELECT CAST(CAST(TzDatetime('2020-01-02T02:59:59,{MOSCOW}') AS TzDate) AS String)", f"2020-01-02,{MOSCOW}"),
    (f"SELECT CAST(CAST(TzDatetime('2020-01-02T03:00:00,{MOSCOW}') AS TzDate) AS String)", f"2020-01-02,{MOSCOW}"),
    (
        "SELECT CAST(CAST(TzTimestamp('2020-01-01T23:59:59.999999,America/Los_Angeles') AS TzDate) AS String)",
        "2020-01-01,America/Los_Angeles",
    ),
    (
        "SELECT CAST(CAST(TzDatetime('1970-01-01T23:59:59,America/Los_Angeles') AS TzDate) AS String)",
        "1970-01-01,America/Los_Angeles",
    ),
    ("SELECT CAST(CAST(Datetime('2020-01-01T23:59:59Z') AS TzDate) AS String)", "2020-01-01,GMT"),
    (f"SELECT CAST(CAST(TzDatetime64('1900-01-01T23:59:59,{MOSCOW}') AS TzDate32) AS String)", f"1900-01-01,{MOSCOW}"),
    (
        f"SELECT CAST(CAST(TzDatetime64('148108-01-01T02:59:59,{MOSCOW}') AS TzDate32) AS String)",
        f"148108-01-01,{MOSCOW}",
    ),
    (f"SELECT CAST(TzDatetime64('1970-01-01T02:59:59,{MOSCOW}') AS TzDate)", None),
    (f"SELECT CAST(TzDatetime64('1970-01-01T03:00:00,{MOSCOW}') AS TzDate)", None),
    (f"SELECT CAST(CAST(TzDatetime64('1970-01-02T00:00:00,{MOSCOW}') AS TzDate) AS String)", f"1970-01-02,{MOSCOW}"),
    (f"SELECT CAST(CAST('1900-01-01,{MOSCOW}' AS TzDate32) AS String)", f"1900-01-01,{MOSCOW}"),
    (
        f"SELECT CAST(AddTimezone(Datetime64('1900-01-01T01:02:03Z'), '{MOSCOW}') AS String)",
        f"1900-01-01T03:32:20,{MOSCOW}",
    ),
    (f"SELECT CAST(RemoveTimezone(TzDate32('1900-01-02,{MOSCOW}')) AS String)", "1900-01-01"),
    (
        f"SELECT CAST(RemoveTimezone(TzTimestamp64('1900-01-01T03:32:20.5,{MOSCOW}')) AS String)",
        "1900-01-01T01:02:03.500000Z",
    ),
    ("SELECT FormatType(TypeOf(Nothing(TzDate32?)))", "Optional<TzDate32>"),
    # A tag is put on the type as it is, and taken from it.
    ("SELECT FormatType(TypeOf(Just(AsTagged(1, 't'))))", "Optional<Tagged<Int32,'t'>>"),
    ("SELECT FormatType(TypeOf(AsTagged(Just(1), 't')))", "Tagged<Optional<Int32>,'t'>"),
    ("SELECT FormatType(TypeOf(AsTagged(Nothing(Int32?), 't')))", "Tagged<Optional<Int32>,'t'>"),
    ("SELECT FormatType(TypeOf(Untag(Just(AsTagged(Just(1), 't')), 't')))", "Optional<Optional<Int32>>"),
    ("SELECT Unwrap(Unwrap(Untag(Just(AsTagged(Just(1), 't')), 't')))", 1),
    ("SELECT Untag(AsTagged(Nothing(Int32?), 't'), 't')", None),
    ("SELECT Untag(Unwrap(Just(AsTagged(Nothing(Int32?), 't'))), 't')", None),
    ("SELECT ListNotNull([Just(AsTagged(Nothing(Int32?), 't')), NULL])", [None]),
    ("SELECT AsTagged(Just(1), 't') = AsTagged(Nothing(Int32?), 't')", None),
    ("SELECT {1: AsTagged(Nothing(Int32?), 't')}[1]", None),
    ("SELECT FormatType(TypeOf(IF(true, AsTagged(Just(1), 't'))))", "Tagged<Optional<Int32>,'t'>"),
    ("SELECT COUNT(DISTINCT x) FROM (SELECT Just(AsTagged(Just(n), 't')) AS x FROM t)", 3),
    # Groups without a name are numbered among themselves; an empty one is NULL.
    ("SELECT Re2::Capture('(?P<foo>x)(a)')('xa')._1", "a"),
    ("SELECT Re2::Capture('(?P<foo>x)(a)')('xa').foo", "x"),
    ("SELECT Re2::Capture('(x)(?P<foo>a)(b)')('xab')", ("xab", "x", "b", "a")),
    ("SELECT Re2::Capture('(x)(a*)')('x')", ("x", "x", None)),
    # JSON: keys in order, numbers as short as they are.
    (
        "SELECT JSON_QUERY(Json('{\"b\":1,\"a\":2}'), '$.keyvalue()' WITH WRAPPER)",
        '[{"name":"a","value":2},{"name":"b","value":1}]',
    ),
    ("SELECT JSON_QUERY(Json('-1.0'), '$.abs()' WITH WRAPPER)", "[1]"),
    ("SELECT JSON_VALUE(Json('null'), '(-1.0).abs()')", "1"),
    ("SELECT JSON_QUERY(Json('\"1.0\"'), '$.double()' WITH WRAPPER)", "[1]"),
    ("SELECT JSON_QUERY(Json('[-1.5, 1e2]'), '$')", "[-1.5,100]"),
    # Microseconds are written in full, where there are any.
    ("SELECT CAST(CAST(500000 AS Timestamp64) AS String)", "1970-01-01T00:00:00.500000Z"),
    ("SELECT CAST(CAST(1000000 AS Timestamp64) AS String)", "1970-01-01T00:00:01Z"),
    ("SELECT CAST(CAST(-1 AS Timestamp64) AS String)", "1969-12-31T23:59:59.999999Z"),
    ("SELECT CAST(Timestamp('2020-01-02T10:00:00.5Z') AS String)", "2020-01-02T10:00:00.500000Z"),
    (f"SELECT CAST(TzTimestamp('2020-01-02T10:00:00.5,{MOSCOW}') AS String)", f"2020-01-02T10:00:00.500000,{MOSCOW}"),
    # Types are written as in texts of errors.
    ("SELECT FormatType(TypeOf(Just(1)))", "Optional<Int32>"),
    ("SELECT FormatType(TypeOf([Just(1)]))", "List<Optional<Int32>>"),
    ("SELECT FormatType(TypeOf(<|b: Just(1u), a: 'x'|>))", "Struct<'a':String,'b':Optional<Uint32>>"),
    ("$_, $second, $_ = (1, 2, 3); SELECT $second", 2),
    ("$f = ($_, $y) -> ($y); SELECT $f(1, 2)", 2),
    # A table without an alias is called as it was written; `.` is the place that a path is relative to.
    ("SELECT id FROM t ORDER BY t.id DESC LIMIT 1", 3),
    ("SELECT id FROM `./t` WHERE `./t`.id > 2", 3),
    ("SELECT id FROM `././t` AS t ORDER BY t.id LIMIT 1", 1),
    ("PRAGMA TablePathPrefix = '/local'; SELECT id FROM `./t` ORDER BY id LIMIT 1", 1),
    ("PRAGMA TablePathPrefix = './'; SELECT id FROM t ORDER BY id LIMIT 1", 1),
    ("UPDATE `./t` SET v = 'x' WHERE id = 1 RETURNING v", "x"),
    ("DELETE FROM `./t` WHERE id = 1 RETURNING v", "a"),
]


def text_of(value: Any) -> Any:
    """Decode bytes, also inside of tuples."""
    if isinstance(value, tuple):
        return tuple(map(text_of, value))
    return value.decode() if isinstance(value, bytes) else value


@pytest.mark.parametrize(("text", "expected"), ROWS, ids=[text for text, _ in ROWS])
def test_results(text: str, expected: Any) -> None:
    ((found, *_),) = rows(text)
    assert text_of(found) == expected


REFUSED: list[tuple[str, str]] = [
    (
        f"SELECT CAST(TzDatetime('1970-01-01T23:59:59,{MOSCOW}') AS TzDate)",
        f"Timestamp 1970-01-01T23:59:59.000000,{MOSCOW} cannot be casted to TzDate",
    ),
    (
        f"SELECT DateTime::MakeTzDate(DateTime::Split(TzTimestamp('1970-01-01T03:00:00.25,{MOSCOW}')))",
        f"Timestamp 1970-01-01T03:00:00.250000,{MOSCOW} cannot be casted to TzDate",
    ),
    (
        f"SELECT CAST(AddTimezone(CAST(-4611669820218 AS Datetime64), '{MOSCOW}') AS TzDate32)",
        f"Timestamp -144169-01-01T23:59:59.000000,{MOSCOW} cannot be casted to TzDate32",
    ),
    (
        "SELECT DateTime::MakeTzDate(TzDate32('3000-01-01,UTC'))",
        "1:8 Mismatch type argument #1, type diff: Resource<'DateTime2.TM64'> != Resource<'DateTime2.TM'>",
    ),
    (
        "SELECT ListFromRange(TzDate32('1-01-01,UTC'), TzDate32('1-01-03,UTC'))",
        "1:8 Expected a type without a timezone, but got: TzDate32",
    ),
    ("$_ = 1; SELECT $_", "1:16 Unable to reference anonymous name $_"),
    (
        "SELECT JSON_VALUE(Json('{}'), '$.a' RETURNING Uint64 DEFAULT -1 ON EMPTY DEFAULT -2 ON ERROR)",
        "1:8 Failed to cast default value from ON ERROR clause to target type Uint64",
    ),
    ("SELECT id FROM t AS a ORDER BY t.id", "1:32 Member not found: t"),
    # VALUES have no names of their own.
    ("INSERT INTO u VALUES (7, 'x')", "1:13 INSERT INTO ... VALUES requires specification of table columns"),
    ("UPSERT INTO u VALUES (7, 'x')", "1:13 UPSERT INTO ... VALUES requires specification of table columns"),
    ("REPLACE INTO u VALUES (7, 'x')", "1:14 REPLACE INTO ... VALUES requires specification of table columns"),
]


@pytest.mark.parametrize(("text", "said"), REFUSED, ids=[text for text, _ in REFUSED])
def test_refusals(text: str, said: str) -> None:
    assert refusal(text) == said


@pytest.mark.parametrize("verb", ["INSERT", "UPSERT", "REPLACE"])
def test_a_write_takes_the_names_of_its_query(verb: str) -> None:
    tables = shop()
    rows(f"{verb} INTO `./u` SELECT 'x'u AS w, 9ul AS id; SELECT 1", tables)
    assert {"id": 9, "w": "x"} in tables.rows["/local/u"]


def test_captured_groups_are_members_of_a_struct() -> None:
    text = "SELECT Re2::Capture('(?P<foo>x)(a)')('xa')"
    assert columns(text) == "column0 Struct<'_0':String?,'_1':String?,'foo':String?>"
