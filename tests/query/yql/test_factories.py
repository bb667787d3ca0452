"""Aggregation factories, UDAF, histograms and estimates in queries.

Source: https://ydb.tech/docs/en/yql/reference/builtins/basic#aggregationfactory and `builtins/aggregation`.
"""

from __future__ import annotations

from typing import Any

import pytest

from query.yql.asking import columns, refusal, rows

SUM = 'AggregationFactory("sum")'
LISTS = "$create = ($x, $_p) -> (AsList($x)); $add = ($s, $x, $_p) -> (ListExtend($s, AsList($x)));\n"
MERGE = "$merge = ($a, $b) -> (ListExtend($a, $b)); $end = ($s) -> (ListLength($s));\n"
STEPS = "$create, $add, $merge"

RESULTS: list[tuple[str, str, Any]] = [
    # Lists.
    (f"SELECT ListAggregate([1, 2, 3], {SUM})", "Int64?", 6),
    (f"SELECT ListAggregate(ListCreate(Int32), {SUM})", "Int64?", None),
    (f"SELECT ListAggregate(Nothing(List<Int32>?), {SUM})", "Int64?", None),
    ("SELECT ListAggregate(ListCreate(Int32), AGGREGATION_FACTORY('count'))", "Uint64", 0),
    ("SELECT ListAggregate([1, 1, NULL], AggregationFactory('COUNT'))", "Uint64", 2),
    ("SELECT ListAggregate([1, 2, 3, 4], AggregationFactory('PERCENTILE', 0.5))", "Double?", 2.5),
    ("SELECT ListAggregate([(1, 5), (2, 4)], AggregationFactory('MIN_BY'))", "Int32?", 2),
    ("SELECT ListAggregate([(1, 5), (2, 5)], AggregationFactory('MAX_BY', 1))", "List<Int32>", [1]),
    ("SELECT ListAggregate([(1, true), (2, false)], AggregationFactory('SUM_IF'))", "Int64?", 1),
    ("SELECT ListAggregate([3, 1, 2], AggregationFactory('BOTTOM', 2))", "List<Int32>", [1, 2]),
    (f"SELECT DictAggregate({{1: [1, 2], 2: [3]}}, {SUM})", "Dict<Int32,Int64>", {1: 3, 2: 3}),
    (f"SELECT DictAggregate({{1: [1, 2], 2: ListCreate(Int32)}}, {SUM})", "Dict<Int32,Int64>", {1: 3}),
    # Factories of factories.
    (
        f"$f = AggregateTransformInput({SUM}, ($x) -> (CAST($x AS Int32))); SELECT ListAggregate(['1', '2'], $f)",
        "Int64?",
        3,
    ),
    (f"$f = AggregateTransformOutput({SUM}, ($x) -> ($x * 2)); SELECT ListAggregate([1, 2], $f)", "Int64?", 6),
    (
        f"$f = AggregateTransformOutput({SUM}, ($x) -> ($x * 2)); SELECT ListAggregate(ListCreate(Int32), $f)",
        "Int64?",
        None,
    ),
    (f"SELECT ListAggregate([[1, 2], [3]], AggregateFlatten({SUM}))", "Int64?", 6),
    # Rows.
    (f"SELECT AGGREGATE_BY(n, {SUM}) FROM t", "Int64?", 60),
    (f"SELECT AGGREGATE_BY(n, {SUM}) FROM t WHERE id > 9", "Int64?", None),
    ("SELECT AggregateBy(n, AggregationFactory('count')) FROM t WHERE id > 9", "Uint64", 0),
    ("SELECT AGGREGATE_BY(DISTINCT n % 20, AggregationFactory('count')) FROM t", "Uint64", 2),
    ("SELECT AGGREGATE_BY(AsTuple(id, n), AggregationFactory('MAX_BY')) FROM t", "Uint64?", 3),
    (f"SELECT AGGREGATE_BY(n, AggregateTransformInput({SUM}, ($x) -> ($x + CAST(id AS Int64)))) FROM t", "Int64?", 66),
    (f"SELECT SUM(s) FROM (SELECT AGGREGATE_BY(n, {SUM}) OVER (ORDER BY id) AS s FROM t)", "Int64?", 100),
    (f"SELECT MULTI_AGGREGATE_BY((id, n), {SUM}) FROM t", "Tuple<Uint64?,Int64?>?", (6, 60)),
    (f"SELECT MULTI_AGGREGATE_BY(<|b: id, a: n|>, {SUM}) FROM t", "Struct<'a':Int64?,'b':Uint64?>?", (60, 6)),
    # The shortest list decides how long the result is.
    (f"SELECT MULTI_AGGREGATE_BY(x, {SUM}) FROM AS_TABLE([<|x: [1, 5, 3]|>, <|x: [2, 1]|>])", "List<Int64>?", [3, 6]),
    # User-defined aggregates leave out NULL.
    (f"{LISTS}{MERGE}SELECT UDAF(v, {STEPS}) FROM t", "List<Utf8>?", ["a", "b"]),
    (f"{LISTS}{MERGE}SELECT UDAF(v, {STEPS}, $end) FROM t", "Uint64?", 2),
    (f"{LISTS}{MERGE}SELECT UDAF(v, {STEPS}, $end) FROM t WHERE id = 3", "Uint64?", None),
    (
        f"{LISTS}{MERGE}$same = ($s) -> ($s); SELECT UDAF(v, {STEPS}, $end, $same, $same, 7ul) FROM t WHERE id = 3",
        "Uint64",
        7,
    ),
    (f"{LISTS}SELECT ListAggregate([1, 2], AggregationFactory('UDAF', $create, $add, NULL))", "List<Int32>?", [1, 2]),
    (
        "DECLARE $_k AS Int64?; $c = ($x) -> ($x); $a = ($s, $x) -> ($s + $x); SELECT UDAF(id, $c, $a, $a) FROM t",
        "Uint64?",
        6,
    ),
    # NULL counts as 0 in pairs.
    ("SELECT COVARIANCE(x, y) FROM AS_TABLE([<|x: Just(1), y: 2|>, <|x: NULL, y: 4|>])", "Double?", -1.0),
    ("SELECT COVAR_POPULATION(id, n) FROM t", "Double?", 20 / 3),
    # Few values are counted exactly.
    ("SELECT HLL(n % 20) FROM t", "Uint64?", 2),
    ("SELECT HyperLogLog(v, 4) FROM t WHERE id = 3", "Uint64?", None),
    ("SELECT MODE(n % 20) FROM t", "List<Struct<'Frequency':Uint64,'Value':Int64>>?", [(2, 10)]),
    ("SELECT TOPFREQ(n % 20, 5) FROM t", "List<Struct<'Frequency':Uint64,'Value':Int64>>?", [(2, 10), (1, 0)]),
    ("SELECT TOPFREQ(v, 5) FROM t WHERE id = 3", "List<Struct<'Frequency':Uint64,'Value':Utf8>>?", []),
]


@pytest.mark.parametrize(("text", "kind", "expected"), RESULTS, ids=[text for text, *_ in RESULTS])
def test_results(text: str, kind: str, expected: Any) -> None:
    assert columns(text).partition(" ")[2] == kind
    assert rows(text) == [(expected,)]


# Bins of (frequency, position), greatest, least, sum of weights.
HISTOGRAMS: list[tuple[str, str, Any]] = [
    ("HISTOGRAM(n)", "AdaptiveWard", ([(1.0, 10.0), (1.0, 20.0), (1.0, 30.0)], 30.0, 10.0, 3.0)),
    ("HISTOGRAM(n, 2)", "AdaptiveWard", ([(2.0, 15.0), (1.0, 30.0)], 30.0, 10.0, 3.0)),
    ("HISTOGRAM(n, 1)", "AdaptiveWard", ([(3.0, 20.0)], 30.0, 10.0, 3.0)),
    ("HISTOGRAM(n, 2.0 * id)", "AdaptiveWard", ([(2.0, 10.0), (4.0, 20.0), (6.0, 30.0)], 30.0, 10.0, 12.0)),
    ("HISTOGRAM(n, id - 1)", "AdaptiveWard", ([(1.0, 20.0), (2.0, 30.0)], 30.0, 20.0, 3.0)),
    ("AdaptiveWeightHistogram(n, id, 2)", "AdaptiveWeight", ([(3.0, 50 / 3), (3.0, 30.0)], 30.0, 10.0, 6.0)),
    ("AdaptiveDistanceHistogram(n, id, 2)", "AdaptiveDistance", ([(3.0, 50 / 3), (3.0, 30.0)], 30.0, 10.0, 6.0)),
    ("LinearHistogram(n, 20)", "Linear", ([(2.0, 20.0), (1.0, 40.0)], 40.0, 20.0, 3.0)),
    ("LinearHistogram(n, 1, 15, 25)", "Linear", ([(1.0, 15.0), (1.0, 20.0), (1.0, 25.0)], 25.0, 15.0, 3.0)),
    ("LogHistogram(n, 2)", "Logarithmic", ([(1.0, 8.0), (1.0, 16.0), (1.0, 32.0)], 32.0, 8.0, 3.0)),
    (
        "AGGREGATE_BY(AsTuple(n, 1), AggregationFactory('HISTOGRAM', 1))",
        "AdaptiveWard",
        ([(3.0, 20.0)], 30.0, 10.0, 3.0),
    ),
]


@pytest.mark.parametrize(("call", "kind", "expected"), HISTOGRAMS)
def test_histograms(call: str, kind: str, expected: Any) -> None:
    (((bins, found, *rest),),) = rows(f"SELECT {call} FROM t")
    assert (found.decode(), (bins, *rest)) == (kind, expected)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("GetSumBelowBound($h, 9.9)", 0.0),
        ("GetSumBelowBound($h, 10.0)", 0.5),
        ("GetSumBelowBound($h, 15.0)", 1.0),
        ("GetSumBelowBound($h, 31.0)", 3.0),
        ("GetSumAboveBound($h, 15.0)", 2.0),
        ("GetSumAboveBound($h, 9.9)", 3.0),
        ("GetSumInRange($h, 10.0, 20.0)", 1.5),
        ("GetSumInRange($h, 20.0, 10.0)", 0.0),
        ("CalcUpperBound($h, 0.0)", 10.0),
        ("CalcUpperBound($h, 1.5)", 20.0),
        ("CalcUpperBound($h, 4.0)", 30.0),
        ("CalcLowerBound($h, 1.5)", 20.0),
        ("CalcLowerBound($h, 4.0)", 10.0),
        ("CalcUpperBoundSafe($h, 0.0)", 15.0),
        ("CalcLowerBoundSafe($h, 0.0)", 25.0),
        ("Normalize($h, 3).WeightsSum", 3.0),
        ("Normalize($h).WeightsSum", 100.0),
        ("ToCumulativeDistributionFunction($h).WeightsSum", 6.0),
    ],
)
def test_the_module_histogram(call: str, expected: float) -> None:
    assert rows(f"$h = (SELECT HISTOGRAM(n) FROM t); SELECT Histogram::{call}") == [(pytest.approx(expected),)]


def test_a_printed_histogram() -> None:
    (((found,),),) = [rows("SELECT Histogram::Print(HISTOGRAM(n, id), 6) FROM t")]
    assert found.decode().splitlines() == [
        "Kind: AdaptiveWard Bins: 3 WeightsSum: 6.000 Min: 10.000 Max: 30.000",
        "██░░░░ P: 10.000 F: 1.000",
        "████░░ P: 20.000 F: 2.000",
        "██████ P: 30.000 F: 3.000",
    ]


@pytest.mark.parametrize("precision", [4, 14, 18])
def test_an_estimate_of_many_distinct_values_is_close(precision: int) -> None:
    size = 20_000
    text = f"SELECT HLL(x, {precision}) FROM (SELECT ListFromRange(0, {size}) AS x) FLATTEN BY x"
    ((found,),) = rows(text)
    # Three standard errors of HyperLogLog.
    assert abs(found - size) <= 3 * 1.04 / 2 ** (precision / 2) * size + 1


def test_only_the_most_frequent_values_are_kept() -> None:
    values = "ListExtend(ListReplicate(-1, 50), ListFromRange(0, 1000))"
    ((found,),) = rows(f"SELECT TOPFREQ(x, 1) FROM (SELECT {values} AS x) FLATTEN BY x")
    assert found == [(50, -1)]


REFUSED = [
    ("SELECT AGGREGATE_BY(n, 1) FROM t", "1:8 Expected an aggregation factory as argument #2, but got a value"),
    ("SELECT AggregationFactory('nope')", "1:8 Unknown aggregation function: nope"),
    ("SELECT AggregationFactory('AGGREGATE_BY')", "1:8 Unknown aggregation function: AGGREGATE_BY"),
    ("$f = AggregationFactory('sum'); SELECT $f", "1:40 Expected a value here, and not a lambda or a type"),
    ("$f = AggregationFactory('sum'); SELECT $f(1)", "1:40 Expected a lambda or a callable here"),
    ("SELECT ListMap([1], AggregationFactory('sum'))", "1:8 Expected a lambda as argument #2, but got a factory"),
    (
        "SELECT AGGREGATE_BY(n, AggregationFactory('MAX_BY')) FROM t",
        "1:8 Expected a tuple of two values, but got: Int64?",
    ),
    (
        f"SELECT AGGREGATE_BY(n, AggregateTransformOutput({SUM}, ($x) -> ($x + n))) FROM t",
        "1:90 Column references are not allowed without FROM: n",
    ),
    (f"SELECT ListAggregate(1, {SUM})", "1:8 Expected list type, but got: Int32"),
    ("SELECT UDAF(n, ($x) -> ($x)) FROM t", "1:8 Expected from 4 to 8 argument(s), but got 2"),
    (
        "SELECT UDAF(n, ($x) -> ($x), ($s, $x) -> ('a'), NULL) FROM t",
        "1:8 Mismatch of types of add lambda: String != Int64",
    ),
    ("SELECT HLL(n, 3) FROM t", "1:8 precision is expected to be between 4 and 18 (inclusive), got 3"),
    ("SELECT HLL(n, 19) FROM t", "1:8 precision is expected to be between 4 and 18 (inclusive), got 19"),
    ("SELECT HISTOGRAM(v) FROM t", "1:8 Expected numeric type, but got: Utf8?"),
    ("SELECT HISTOGRAM(n, 0) FROM t", "1:8 Expected a number of bins from 1 to 65536"),
    ("SELECT HISTOGRAM(n / 0.0) FROM t", "Histogram: bad value inf weight 1.000000"),
    ("SELECT LinearHistogram(n, 0) FROM t", "1:8 Expected a positive step, and not 1 for a logarithmic histogram"),
    ("SELECT BlockWardHistogram(n) FROM t", "1:8 Function BlockWardHistogram is not supported"),
    ("SELECT Histogram::Print(1)", "1:8 Mismatch type argument #1"),
]


@pytest.mark.parametrize(("text", "said"), REFUSED, ids=[text for text, _ in REFUSED])
def test_refusals(text: str, said: str) -> None:
    assert refusal(text).startswith(said)
