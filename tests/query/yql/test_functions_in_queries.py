"""Functions in queries: literals, lambdas, functions that return functions, named expressions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from mayflydb.query.yql.faults import Fault
from mayflydb.query.yql.parser import parse
from mayflydb.query.yql.plans import bind, execute
from mayflydb.query.yql.schemas import Access, Effect, Row
from yql_calling import run


class NoTables:
    """Tables for queries that read none."""

    def read(self, access: Access) -> AsyncIterator[Sequence[Row]]:
        raise AssertionError(access)

    async def write(self, effect: Effect) -> Sequence[Row]:
        raise AssertionError(effect)


def ask(text: str) -> list[Any]:
    """The values of the only row of a query."""

    async def rows() -> list[Row]:
        plan = bind(parse(text), {}, "/local", {})
        return [row async for part in execute(plan, run(), NoTables()) for row in part.rows]

    (row,) = asyncio.run(rows())
    return list(row)


QUERIES = [
    ("SELECT ListMap(AsList(1, 2), ($x) -> { RETURN $x * 2; })", [2, 4]),
    ("SELECT ListFilter(ListFromRange(1, 5), ($x) -> ($x % 2 == 0))", [2, 4]),
    ("SELECT ListSortDesc([3, 1, 2])", [3, 2, 1]),
    ("SELECT DateTime::Format('%Y-%m-%d')(Date('2020-01-02'))", b"2020-01-02"),
    (
        "$f = DateTime::Format('%d/%m/%Y %H:%M:%S'); SELECT $f(DateTime::FromSeconds(1546304523u))",
        b"01/01/2019 01:02:03",
    ),
    ("$p = DateTime::Parse('%d.%m.%Y'); SELECT DateTime::MakeDate($p('02.01.1970'))", 1),
    ("SELECT DateTime::ToSeconds(Timestamp('2019-01-01T01:02:03Z'))", 1546304523),
    ("SELECT CAST(CurrentUtcTimestamp() AS Uint64) > 0ul", True),
    ("SELECT CurrentUtcTimestamp() - Interval('P1D') < CurrentUtcTimestamp()", True),
    ("SELECT Digest::CityHash('1')", 11413460447292444913),
    ("SELECT Digest::NumericHash(123456789)", 1734215268924325803),
    ("SELECT String::AsciiToUpper('abc') || String::Strip(' d ')", b"ABCd"),
    ("SELECT String::SplitToList('1,2,3,4', ',', 2 AS Limit)", [b"1", b"2", b"3,4"]),
    ("SELECT Math::Round(1.2345, -2)", 1.23),
    ("SELECT Math::Round(1.5, 400)", 0.0),
    ("SELECT Math::Round(1.5, -400)", 1.5),
    ("SELECT Unicode::ToUpper('жук'u)", "ЖУК"),
    ("SELECT COALESCE(NULL, 5)", 5),
    ("SELECT IF(1 > 2, 'a', 'b')", b"b"),
    ("SELECT NVL(Nothing(Int32?), 7)", 7),
    ("SELECT DictLookup(AsDict(AsTuple(1, 'a')), 1)", b"a"),
    ("SELECT AsStruct(1 AS a, 'x' AS b).b", b"x"),
    ("SELECT FormatType(TypeOf(Just(1)))", b"Optional<Int32>"),
    ("SELECT Unwrap(CAST('12' AS Int32))", 12),
    ("SELECT 'abc' LIKE 'a%', 'abc' REGEXP 'b', 'abc' MATCH 'b'", None),
    ('SELECT JSON_VALUE(Json(@@{"a": {"b": 5}}@@), \'$.a.b\' RETURNING Int64)', 5),
    ("SELECT JSON_EXISTS(CAST('{\"a\": 1}' AS Json), '$.z')", False),
    ("SELECT JSON_QUERY(Json('[1, 2]'), '$')", "[1,2]"),
    ("SELECT Yson::ConvertTo(Yson::YPath(Json('{\"a\": \"x\"}'), '/a'), Optional<Utf8>)", "x"),
    ('SELECT Yson::ConvertTo(Yson::YPath(Json(\'{"a": [1, {"b": "x"}]}\'), \'//a/1/b\'), Optional<Utf8>)', "x"),
    ("SELECT Yson::ConvertTo(Json('{\"a\": [1, 2]}')['a'], List<Int64>)", [1, 2]),
    ("SELECT Yson::ConvertTo(Json('{\"a\": [1, 2]}').a[1l], Optional<Int64>)", 2),
    ("SELECT Yson::ConvertTo(Json('{\"a\": 1}')['b'], Optional<Int64>) IS NULL", True),
    ("SELECT Yson::ConvertToInt64(Yson::Parse('{a=[7;8]}').a[0])", 7),
    ("SELECT Yson::ConvertTo(Yson('{a={b=5}}').a.b, Optional<Int64>)", 5),
    (
        "SELECT Yson::ConvertTo(Yson::YPath(Json('{\"a\": 1}'), '/a'), Optional<String>, Yson::Options(true AS AutoConvert))",
        b"1",
    ),
    ("SELECT Re2::Grep('b+')('abc')", True),
    ("SELECT Decimal('1.5', 22, 9) + Decimal('1', 22, 9)", 2_500_000_000),
    ("SELECT ListLength(AsList())", 0),
    ("SELECT ListFold([1, 4, 7, 2], 6, ($x, $y) -> { RETURN $x + $y; })", 20),
    ("SELECT SUM(x) FROM AS_TABLE([<|x: 1|>, <|x: 2|>])", 3),
    ("SELECT AGGREGATE_LIST(x) FROM AS_TABLE([<|x: 1|>, <|x: 2|>])", [1, 2]),
    ("SELECT COUNT(*) FROM AS_TABLE([<|x: 1|>, <|x: 2|>])", 2),
    ("SELECT COUNT(DISTINCT x) FROM AS_TABLE([<|x: 1|>, <|x: 1|>])", 1),
    ("SELECT MAX_BY(y, x) FROM AS_TABLE([<|x: 1, y: 'a'|>, <|x: 2, y: 'b'|>])", b"b"),
    ("SELECT PERCENTILE(x, 0.5) FROM AS_TABLE([<|x: 1|>, <|x: 2|>])", 1.5),
    ("SELECT Variant(1, 'a', Variant<a: Int32, b: String>)", (0, 1)),
]


@pytest.mark.parametrize(("query", "expected"), QUERIES)
def test_queries(query: str, expected: Any) -> None:
    found = ask(query)
    if expected is None:
        assert found == [True, True, False]
    else:
        assert found == [expected]


MILLION = "ListConcat(ListReplicate('a', 1000000ul))"


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("ListFold(ListFromRange(0, 100), 'a', ($i, $s) -> ($s || $s))", "A string longer than 16777216"),
        ("ListFold(ListFromRange(0, 100), 'a'u, ($i, $s) -> ($s || $s))", "A string longer than 16777216"),
        (f"ListConcat(ListReplicate({MILLION}, 100ul), ',')", "A string longer than 16777216"),
        (f"String::JoinFromList(ListReplicate(Unwrap({MILLION}), 100ul), ',')", "A string longer than 16777216"),
        (f"String::ReplaceAll({MILLION}, 'a', {MILLION})", "A string longer than 16777216"),
        ("ListFlatMap(ListFromRange(0, 1001), ($i) -> (ListFromRange(0, 1000)))", "ListFlatMap makes more than"),
        ("ListFlatten(ListReplicate(ListFromRange(0, 1001), 1000ul))", "ListFlatten makes more than"),
        ("ListExtend(ListFromRange(0, 600000), ListFromRange(0, 600000))", "ListExtend makes more than"),
        ("ListFromRange(0, 1000001)", "ListFromRange makes more than"),
        ("ListReplicate(1, 1000001ul)", "ListReplicate makes more than"),
    ],
)
def test_results_beyond_the_limits_are_refused(expression: str, text: str) -> None:
    with pytest.raises(Fault) as caught:
        ask(f"SELECT {expression}")
    assert caught.value.message.startswith(text)
