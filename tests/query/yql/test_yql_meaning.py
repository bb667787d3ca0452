"""Types and values of expressions in queries: facts of YQL's documentation and of its tests.

Sources: https://ydb.tech/docs/en/yql/reference/, https://github.com/ydb-platform/ydb `yql/essentials/tests/sql/suites` and
`yql/essentials/sql/v1/sql_ut_common.h`.
"""

from __future__ import annotations

from typing import Any

import pytest

from query.yql.asking import columns, refusal, rows

VALUES: list[tuple[str, str, Any]] = [
    # A literal takes the type of what stands beside it, in functions as in operators.
    ("COALESCE(v, 'x')", "Utf8", "a"),
    ("v ?? 'x'", "Utf8", "a"),
    ("NVL(NULL, v, 'x')", "Utf8", "a"),
    ("IF(n > 100, v, 'x')", "Utf8?", "x"),
    ("CASE WHEN n > 100 THEN v ELSE 'x' END", "Utf8?", "x"),
    ("COALESCE(n, 0)", "Int64", 10),
    ("COALESCE(id, 0)", "Uint64", 1),
    ("AsList(v, 'x')", "List<Utf8?>", ["a", "x"]),
    ("[v, 'x']", "List<Utf8?>", ["a", "x"]),
    ("BITCAST(n AS Uint64)", "Uint64?", 10),
    ("BITCAST(n AS Uint8)", "Uint8?", 10),
    # Division, and what is too large or too small.
    ("5 / 2", "Int32?", 2),
    ("-5 / 2", "Int32?", -2),
    ("-5 % 3", "Int32?", -2),
    ("5 / 0", "Int32?", None),
    ("5 % 0", "Int32?", None),
    ("5.0 / 0", "Double", float("inf")),
    ("2147483647 + 1", "Int32", -2147483648),
    ("255ut + 1ut", "Uint8", 0),
    ("255ut + 1", "Int32", 256),
    ("1u - 2u", "Uint32", 4294967295),
    # NULL
    ("true AND NULL", "Bool?", None),
    ("false AND NULL", "Bool?", False),
    ("true OR NULL", "Bool?", True),
    ("NULL = NULL", "Bool?", None),
    ("NULL IS NULL", "Bool", True),
    ("5 BETWEEN 6 AND NULL", "Bool?", False),
    ("NULL || 'a'", "Null", None),
    ("Just(1) + 1", "Int32?", 2),
    # Casts
    ("CAST('1.5' AS Int32)", "Int32?", None),
    ("CAST(-1.9 AS Int32)", "Int32?", -1),
    ("CAST(300 AS Uint8)", "Uint8?", None),
    ("CAST(true AS Int32)", "Int32", 1),
    ("CAST(Date('2020-01-02') AS Datetime)", "Datetime", 1577923200),
    ("CAST(Interval('P1DT2H') AS Utf8)", "Utf8", "P1DT2H"),
    ("CAST(Timestamp('2020-01-02T10:00:00.5Z') AS String)", "String", b"2020-01-02T10:00:00.500000Z"),
    ("CAST(Decimal('1.50', 10, 2) AS String)", "String", b"1.5"),
    ("Date('2020-01-05') - Date('2020-01-02')", "Interval", 259200000000),
    ("Date('2020-01-02') + Interval('P1D')", "Date?", 18264),
    ("DateTime::MakeDatetime(DateTime::ShiftMonths(Date('2020-01-31'), 1))", "Datetime?", 1582934400),
    ("FromBytes('\\x01\\0\\0\\0\\0\\0\\0\\0', Uint64)", "Uint64?", 1),
    ("'abc' REGEXP 'b' AND NOT ('abc' MATCH 'b')", "Bool", True),
    ("LENGTH('жук'u)", "Uint32", 6),
    ("Unicode::GetLength('жук'u)", "Uint64", 3),
    # A minus belongs to its number.
    ("-2147483648", "Int32", -2147483648),
    ("-2147483649", "Int64", -2147483649),
    ("-9223372036854775808", "Int64", -9223372036854775808),
    ("-1u", "Uint32", 4294967295),
]


@pytest.mark.parametrize(("text", "type", "value"), VALUES)
def test_values(text: str, type: str, value: Any) -> None:
    """Over the row `id` 1, `v` 'a', `n` 10."""
    query = f"SELECT {text} AS c FROM t WHERE id = 1"
    assert columns(query) == f"c {type}"
    assert rows(query) == [(value,)]


NO_KEY = "must either be a key column in GROUP BY or it should be used in aggregation function"
IN_TEXT = (
    "Unable to use IN predicate with string argument, it won't search substring - "
    "expecting tuple, list, dict or single column table source"
)
PLAIN_STAR = (
    "Unable to use plain '*' with other projection items. Please use qualified asterisk instead: "
    "'<table>.*' (<table> can be either table name or table alias)."
)

REFUSED = [
    ("SELECT DateTime::Format(1)", "1:8 Mismatch type argument #1, type diff: Int32 != String"),
    # What lives only while a query runs does not leave it.
    (
        "SELECT DateTime::Split(Date('2020-01-01'))",
        "1:1 Expected persistable data, but got: List<Struct<'column0':Resource<'DateTime2.TM'>>>",
    ),
    (
        "SELECT [Yson::Parse('{a=1}'y)]",
        "1:1 Expected persistable data, but got: List<Struct<'column0':List<Resource<'Yson2.Node'>>>>",
    ),
    (
        "SELECT DateTime::StartOfMonth(Date('2020-01-11')) AS a",
        "1:1 Expected persistable data, but got: List<Struct<'a':Optional<Resource<'DateTime2.TM'>>>>",
    ),
    ("SELECT lead(id, 2) FROM t", "1:8 Failed to use window function Lead without window specification"),
    (
        "SELECT EnsureType(NULL, List<Int32>, ['a', 'b'])",
        "1:8 Mismatch type argument #3, type diff: List<String> != String",
    ),
    ("SELECT n FROM t ORDER BY MIN(n)", "1:26 Unable to ORDER BY aggregated values"),
    ("SELECT ListFilter()", "1:8 Expected at least 1 argument(s), but got 0"),
    ("SELECT Count(($x, $y) -> ($x))", "1:8 Expected a value as argument #1, but got a lambda"),
    ("SELECT SpreadMembers(<|a: 1|>, -1)", "1:8 Expected a list or tuple of names, but got: Int32"),
    ("SELECT ListFromRange('a', 'b')", "1:8 Expected numeric type, but got: String"),
    ("PRAGMA CheckedOps; SELECT 1", "1:1 PRAGMA CheckedOps is not supported"),
    ("PRAGMA AnsiCurrentRow; SELECT 1", "1:1 PRAGMA AnsiCurrentRow is not supported"),
    ("SELECT * FROM t WHERE 'foo' IN 'foovalue'", f"1:32 {IN_TEXT}"),
    # Names and places.
    ("SELECT z.id FROM t AS a", "1:8 Unknown correlation name: z"),
    ("SELECT a.nothing FROM t AS a", "1:8 Member not found: nothing"),
    ("SELECT n FROM t ORDER BY 1", "1:26 Unable to ORDER BY constant expression"),
    ("SELECT n FROM t ORDER BY 1 * 42", "1:28 Unable to ORDER BY constant expression"),
    ("SELECT * FROM t WHERE COUNT(id) > 1", "1:23 Can not use aggregated values in filtering"),
    (
        "SELECT 1 + n + Min(id) FROM t",
        f"1:12 Column `n` {NO_KEY}",
    ),
    (
        "SELECT *, LENGTH(v) FROM t",
        f"1:8 {PLAIN_STAR}",
    ),
    ("SELECT t.*, id, t.* FROM t", "1:17 Unable to use twice same qualified asterisk. Invalid source: t"),
    # Grouping.
    (
        "SELECT n FROM t GROUP BY CUBE (n, v || v)",
        "1:37 Unnamed expressions are not supported in CUBE. Please use '<expr> AS <name>'.",
    ),
    (
        "SELECT n FROM t GROUP BY ROLLUP (n / n)",
        "1:36 Unnamed expressions are not supported in ROLLUP. Please use '<expr> AS <name>'.",
    ),
    (
        "SELECT n FROM t GROUP BY GROUPING SETS (CAST(n AS Uint32), v)",
        "1:41 Unnamed expressions are not supported in GROUPING SETS. Please use '<expr> AS <name>'.",
    ),
    ("SELECT GROUPING(a, c) FROM p GROUP BY CUBE (a, b)", "1:20 Column 'c' is not a grouping column"),
    # Frames.
    (
        "SELECT SUM(n) OVER w FROM t WINDOW w AS (ROWS UNBOUNDED FOLLOWING)",
        "1:47 Frame cannot start from UNBOUNDED FOLLOWING",
    ),
    (
        "SELECT SUM(n) OVER w FROM t WINDOW w AS (ROWS BETWEEN 5 PRECEDING AND UNBOUNDED PRECEDING)",
        "1:71 Frame cannot end with UNBOUNDED PRECEDING",
    ),
    (
        "SELECT SUM(n) OVER w FROM t WINDOW w AS (ROWS BETWEEN CURRENT ROW AND 5 PRECEDING)",
        "1:55 Frame cannot start from CURRENT ROW and end with PRECEDING",
    ),
    (
        "SELECT SUM(n) OVER w FROM t WINDOW w AS (ROWS BETWEEN 5 FOLLOWING AND CURRENT ROW)",
        "1:55 Frame cannot start from FOLLOWING and end with CURRENT ROW",
    ),
    # Numbers.
    (
        "SELECT 0xc000000000000000l",
        "1:8 Failed to parse 13835058055282163712 as integer literal of Int64 type: value out of range for Int64",
    ),
    (
        "SELECT -9223372036854775809",
        "1:8 Failed to parse negative integer: -9223372036854775809, number limit overflow",
    ),
    # Writes.
    ("INSERT INTO t VALUES (1)", "1:13 INSERT INTO ... VALUES requires specification of table columns"),
    ("REPLACE INTO t VALUES (1)", "1:14 REPLACE INTO ... VALUES requires specification of table columns"),
    ("UPSERT INTO t (id, v, n) VALUES (2, '3')", "1:16 VALUES have 2 columns, UPSERT INTO expects: 3"),
    ("$f = ($x?, $y) -> ($x + $y); SELECT $f(1)", "1:12 Non-optional argument can not follow optional one"),
    ("$f = 1; SELECT $f?", "1:18 Unexpected token '?' at the end of expression"),
]


@pytest.mark.parametrize(("text", "expected"), REFUSED)
def test_refusals(text: str, expected: str) -> None:
    assert refusal(text) == expected


PRAGMAS: list[tuple[str, str, Any]] = [
    ("PRAGMA ClassicDivision = 'false'; SELECT 5 / 2", "column0 Double", 2.5),
    ("PRAGMA DisableClassicDivision; SELECT 5 / 2", "column0 Double", 2.5),
    ("PRAGMA ClassicDivision = 'true'; SELECT 5 / 2", "column0 Int32?", 2),
    ("PRAGMA UnicodeLiterals; SELECT 'a'", "column0 Utf8", "a"),
    ("PRAGMA UnicodeLiterals; SELECT 'a's", "column0 String", b"a"),
    ("PRAGMA DisableUnicodeLiterals; SELECT 'a'", "column0 String", b"a"),
    ("PRAGMA CheckedOps = 'false'; SELECT 1", "column0 Int32", 1),
]


@pytest.mark.parametrize(("text", "names", "value"), PRAGMAS)
def test_pragmas(text: str, names: str, value: Any) -> None:
    assert columns(text) == names
    assert rows(text) == [(value,)]


GROUPS: list[tuple[str, list[tuple[Any, ...]]]] = [
    (
        "SELECT a, b, GROUPING(a, b) AS g, COUNT(*) AS c FROM p WHERE a < 3 GROUP BY CUBE (a, b) ORDER BY g, a, b",
        [
            *((1, "x", 0, 1), (1, "y", 0, 1), (2, "x", 0, 1), (2, "y", 0, 1)),
            *((1, None, 1, 2), (2, None, 1, 2), (None, "x", 2, 2), (None, "y", 2, 2), (None, None, 3, 4)),
        ],
    ),
    (
        "SELECT b, GROUPING(b) AS g FROM p GROUP BY ROLLUP (b) HAVING GROUPING(b) = 1",
        [(None, 1)],
    ),
    ("SELECT GROUPING(a) AS g FROM p GROUP BY a HAVING a = 1u", [(0,)]),
    (
        "SELECT k, GROUPING(k) AS g FROM p GROUP BY GROUPING SETS (a / 2 AS k, ()) ORDER BY g, k",
        [(0, 0), (1, 0), (None, 1)],
    ),
]


@pytest.mark.parametrize(("text", "expected"), GROUPS)
def test_grouping(text: str, expected: list[tuple[Any, ...]]) -> None:
    assert rows(text) == expected


# An aggregate over no rows is NULL, so its type is Optional where a group or a frame may be empty; COUNT is 0 there.
OF_NO_ROWS: list[tuple[str, str, Any]] = [
    ("SELECT MIN(a) AS r FROM p WHERE a > 9", "r Uint64?", None),
    ("SELECT SUM(a) AS r FROM p WHERE a > 9", "r Uint64?", None),
    ("SELECT MAX(c) AS r FROM p WHERE a > 9", "r Int32?", None),
    ("SELECT COUNT(a) AS r FROM p WHERE a > 9", "r Uint64", 0),
    ("SELECT COUNT(*) AS r FROM p WHERE a > 9", "r Uint64", 0),
    ("SELECT MAX(a) OVER (ROWS BETWEEN 8 FOLLOWING AND 9 FOLLOWING) AS r FROM p LIMIT 1", "r Uint64?", None),
    ("SELECT COUNT(a) OVER (ROWS BETWEEN 8 FOLLOWING AND 9 FOLLOWING) AS r FROM p LIMIT 1", "r Uint64", 0),
    ("SELECT MAX(a) OVER () AS r FROM p LIMIT 1", "r Uint64", 3),
    ("SELECT MIN(a) AS r FROM p GROUP BY b LIMIT 1", "r Uint64", 1),
]


@pytest.mark.parametrize(("text", "type", "value"), OF_NO_ROWS)
def test_aggregates_of_no_rows(text: str, type: str, value: Any) -> None:
    assert columns(text) == type
    assert rows(text) == [(value,)]
