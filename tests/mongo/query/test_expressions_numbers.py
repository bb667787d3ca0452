"""Arithmetic: promotions, overflow, rounding, powers, trigonometry, bits; what nulls do; totals over arrays."""

from __future__ import annotations

import math
from typing import Any

import pytest
from bson import DatetimeMS, Decimal128, Int64

from evaluating import check, refused
from mayflydb.query.mongo import numbers
from mayflydb.query.mongo.faults import MqlError

MAX32, MAX64 = (1 << 31) - 1, (1 << 63) - 1
D = Decimal128

ARITHMETIC = [
    ({"$add": []}, 0),
    ({"$add": 1}, 1),
    ({"$add": [1, 2]}, 3),
    ({"$add": [1, 2.0]}, 3.0),
    ({"$add": [1, Int64(2)]}, Int64(3)),
    ({"$add": [1, D("2.5")]}, D("3.5")),
    ({"$add": [0.1, 0.2]}, 0.1 + 0.2),
    ({"$add": [MAX32, 1]}, Int64(MAX32 + 1)),
    ({"$add": [Int64(MAX64), 1]}, float(MAX64)),
    ({"$add": [1, None]}, None),
    ({"$add": [1, "$missing"]}, None),
    ({"$add": [DatetimeMS(5), 3]}, DatetimeMS(8)),
    ({"$add": [3, DatetimeMS(5), 1.6]}, DatetimeMS(10)),
    ({"$add": [DatetimeMS(5), None]}, None),
    ({"$add": [DatetimeMS(5), DatetimeMS(5)]}, refused(16612)),
    ({"$add": [DatetimeMS(5), float("inf")]}, refused(15)),
    ({"$add": ["x"]}, refused(14)),
    ({"$add": [True, 1]}, refused(14)),
    ({"$subtract": [5, 3]}, 2),
    ({"$subtract": [-MAX32, 2]}, Int64(-MAX32 - 2)),
    ({"$subtract": [Int64(-MAX64), 2]}, -float(MAX64)),
    ({"$subtract": [DatetimeMS(9), DatetimeMS(4)]}, Int64(5)),
    ({"$subtract": [DatetimeMS(9), 4]}, DatetimeMS(5)),
    ({"$subtract": ["$missing", 1]}, None),
    ({"$subtract": [DatetimeMS(9), None]}, None),
    ({"$subtract": [4, DatetimeMS(9)]}, refused(14)),
    ({"$subtract": ["a", 1]}, refused(14)),
    ({"$multiply": []}, 1),
    ({"$multiply": [2, 3]}, 6),
    ({"$multiply": [MAX32, 2]}, Int64(MAX32 * 2)),
    ({"$multiply": [Int64(MAX64), 2]}, float(MAX64) * 2),
    ({"$multiply": [2, 1.5]}, 3.0),
    ({"$multiply": [D("0.1"), 3]}, D("0.3")),
    ({"$multiply": [2, None]}, None),
    ({"$multiply": [2, "a"]}, refused(14)),
    ({"$divide": [4, 2]}, 2.0),
    ({"$divide": [1, 3]}, 1 / 3),
    ({"$divide": [Int64(7), 2]}, 3.5),
    ({"$divide": [D("1"), 3]}, D("0.3333333333333333333333333333333333")),
    ({"$divide": [1, 0]}, refused(2)),
    ({"$divide": [1, 0.0]}, refused(2)),
    ({"$divide": [1, D("0")]}, refused(2)),
    ({"$divide": [1, None]}, None),
    ({"$divide": ["a", 1]}, refused(14)),
    ({"$mod": [7, 3]}, 1),
    ({"$mod": [-7, 3]}, -1),
    ({"$mod": [7, -3]}, 1),
    ({"$mod": [7.5, 2]}, 1.5),
    ({"$mod": [Int64(7), 4]}, Int64(3)),
    ({"$mod": [D("7.5"), 2]}, D("1.5")),
    ({"$mod": [float("inf"), 2]}, math.nan),
    ({"$mod": [1, 0]}, refused(16610)),
    ({"$mod": [1, None]}, None),
    ({"$mod": ["a", 1]}, refused(16611)),
    ({"$abs": -3}, 3),
    ({"$abs": -3.5}, 3.5),
    ({"$abs": D("-3.5")}, D("3.5")),
    ({"$abs": -MAX32 - 1}, Int64(MAX32 + 1)),
    ({"$abs": Int64(-MAX64 - 1)}, refused(28680)),
    ({"$abs": None}, None),
    ({"$abs": "a"}, refused(28765)),
    ({"$floor": 1.7}, 1.0),
    ({"$floor": -1.2}, -2.0),
    ({"$floor": D("1.7")}, D("1")),
    ({"$floor": 3}, 3),
    ({"$floor": float("inf")}, math.inf),
    ({"$floor": float("nan")}, math.nan),
    ({"$ceil": 1.2}, 2.0),
    ({"$ceil": -1.7}, -1.0),
    ({"$ceil": Int64(3)}, Int64(3)),
    ({"$ceil": "a"}, refused(28765)),
    ({"$round": 2.5}, 2.0),
    ({"$round": 3.5}, 4.0),
    ({"$round": [1.005, 2]}, 1.0),
    ({"$round": [19.25, 1]}, 19.2),
    ({"$round": [1234, -2]}, 1200),
    ({"$round": [1250, -2]}, 1200),
    ({"$round": [MAX32, -1]}, Int64(MAX32 + 3)),
    ({"$round": [1.5, -1]}, 0.0),
    ({"$round": [D("2.345"), 2]}, D("2.34")),
    ({"$round": [5, 2]}, 5),
    ({"$round": [1.5, None]}, None),
    ({"$round": [1.5, 101]}, refused(51083)),
    ({"$round": [1.5, 0.5]}, refused(51082)),
    ({"$round": "a"}, refused(51081)),
    ({"$trunc": -2.7}, -2.0),
    ({"$trunc": [2.789, 2]}, 2.78),
    ({"$trunc": [1299, -2]}, 1200),
    ({"$sqrt": 25}, 5.0),
    ({"$sqrt": D("2")}, D("1.414213562373095048801688724209698")),
    ({"$sqrt": -1}, refused(28714)),
    ({"$sqrt": None}, None),
    ({"$exp": 0}, 1.0),
    ({"$exp": 1000}, math.inf),
    ({"$exp": D("1")}, D("2.718281828459045235360287471352662")),
    ({"$ln": 1}, 0.0),
    ({"$ln": 0}, refused(28766)),
    ({"$log10": 1000}, 3.0),
    ({"$log10": -1}, refused(28761)),
    ({"$log": [8, 2]}, 3.0),
    ({"$log": [D("8"), 2]}, D("3")),
    ({"$log": [0, 2]}, refused(28758)),
    ({"$log": [8, 1]}, refused(28759)),
    ({"$log": ["a", 1]}, refused(28756)),
    ({"$log": [8, "a"]}, refused(28757)),
    ({"$log": [None, 2]}, None),
    ({"$pow": [2, 10]}, 1024),
    ({"$pow": [2, 31]}, Int64(1 << 31)),
    ({"$pow": [2, 63]}, 2.0**63),
    ({"$pow": [2, -1]}, 0.5),
    ({"$pow": [-1, -3]}, -1),
    ({"$pow": [0, 0]}, 1),
    ({"$pow": [Int64(2), 2]}, Int64(4)),
    ({"$pow": [2.0, 0.5]}, 2**0.5),
    ({"$pow": [-8, 0.5]}, math.nan),
    ({"$pow": [10, 1000]}, math.inf),
    ({"$pow": [D("2"), 3]}, D("8")),
    ({"$pow": [0, -1]}, refused(28764)),
    ({"$pow": ["a", 1]}, refused(28762)),
    ({"$pow": [1, "a"]}, refused(28763)),
    ({"$pow": [None, 1]}, None),
]

TRIGONOMETRY = [
    ({"$sin": 0}, 0.0),
    ({"$cos": 0}, 1.0),
    ({"$tan": 0.5}, math.tan(0.5)),
    ({"$asin": 1}, math.pi / 2),
    ({"$acos": 2}, refused(50989)),
    ({"$acos": 1}, 0.0),
    ({"$atan": 1}, math.pi / 4),
    ({"$atan2": [1, -1]}, math.atan2(1, -1)),
    ({"$atan2": [None, 1]}, None),
    ({"$atan2": ["a", 1]}, refused(51044)),
    ({"$atan2": [1, "a"]}, refused(51045)),
    ({"$sinh": 1}, math.sinh(1)),
    ({"$cosh": 1000}, math.inf),
    ({"$tanh": 1}, math.tanh(1)),
    ({"$asinh": 1}, math.asinh(1)),
    ({"$acosh": 0.5}, refused(50989)),
    ({"$atanh": 1}, math.inf),
    ({"$sin": float("inf")}, refused(50989)),
    ({"$sin": None}, None),
    ({"$sin": "a"}, refused(28765)),
    ({"$sin": float("nan")}, math.nan),
    ({"$degreesToRadians": 180}, math.pi),
    ({"$radiansToDegrees": math.pi}, 180.0),
    ({"$degreesToRadians": D("180")}, D("3.141592653589793238462643383279503")),
    ({"$sin": D("1")}, D("0.8414709848078965066525023216302990")),
    ({"$cos": D("1")}, D("0.5403023058681397174009366074429766")),
    ({"$tan": D("1")}, D("1.557407724654902230506974807458360")),
    ({"$atan": D("1")}, D("0.7853981633974483096156608458198757")),
    ({"$asin": D("1")}, D("1.570796326794896619231321691639751")),
    ({"$acos": D("-1")}, D("3.141592653589793238462643383279503")),
    ({"$sinh": D("1")}, D("1.175201193643801456882381850595601")),
    ({"$cosh": D("1")}, D("1.543080634815243778477905620757062")),
    ({"$tanh": D("1")}, D("0.7615941559557648881194582826047936")),
    ({"$asinh": D("1")}, D("0.8813735870195430252326093249797923")),
    ({"$acosh": D("2")}, D("1.316957896924816708625046347307968")),
    ({"$atanh": D("0.5")}, D("0.5493061443340548456976226184612629")),
    ({"$atan2": [D("1"), D("1")]}, D("0.7853981633974483096156608458198757")),
    ({"$sin": D("1E+30")}, D("-0.09011690191213805803038642895298733")),
]

BITS = [
    ({"$bitAnd": [12, 10]}, 8),
    ({"$bitOr": [12, 10]}, 14),
    ({"$bitXor": [12, 10]}, 6),
    ({"$bitNot": 12}, -13),
    ({"$bitAnd": [12, Int64(10)]}, Int64(8)),
    ({"$bitAnd": []}, -1),
    ({"$bitOr": []}, 0),
    ({"$bitOr": [1, None]}, None),
    ({"$bitOr": [1, 1.0]}, refused(14)),
    ({"$bitNot": None}, None),
    ({"$bitNot": 1.5}, refused(14)),
    ({"$bitNot": "a"}, refused(28765)),
]

TOTALS = [
    ({"$sum": "$l"}, 6),
    ({"$sum": ["$l"]}, 6),
    ({"$sum": ["$l", 1]}, 1),
    ({"$sum": [1, 2.5, "x", None]}, 3.5),
    ({"$sum": "$missing"}, 0),
    ({"$sum": [[0.1] * 10]}, 1.0),
    ({"$sum": [MAX32, 1]}, Int64(MAX32 + 1)),
    ({"$sum": [Int64(MAX64), 1]}, float(MAX64)),
    ({"$sum": [Int64(MAX64), 1, -1]}, Int64(MAX64)),
    ({"$sum": [D("0.1"), 1]}, D("1.1")),
    ({"$sum": [float("inf"), 1]}, math.inf),
    ({"$avg": "$l"}, 2.0),
    ({"$avg": [1, 2]}, 1.5),
    ({"$avg": ["x"]}, None),
    ({"$avg": [D("1"), 2]}, D("1.5")),
    ({"$min": "$l"}, 1),
    ({"$min": [3, None, "a"]}, 3),
    ({"$max": [3, None, "a"]}, "a"),
    ({"$max": [[1, 9, 4]]}, 9),
    ({"$max": ["$n", "$missing"]}, None),
    ({"$max": ["$expireAt", "$a"]}, DatetimeMS(1_699_999_999_999)),
    ({"$stdDevPop": [[1, 3]]}, 1.0),
    ({"$stdDevSamp": [[1, 3]]}, math.sqrt(2)),
    ({"$stdDevSamp": [1]}, None),
    ({"$stdDevPop": []}, None),
    ({"$median": {"input": [1, 2, 3, "a"], "method": "approximate"}}, 2.0),
    ({"$percentile": {"input": "$l", "p": [0, 0.5, 1], "method": "approximate"}}, [1.0, 2.0, 3.0]),
    ({"$percentile": {"input": "$l", "p": [2], "method": "approximate"}}, refused(7750303)),
    ({"$median": {"input": "$l", "method": "exact"}}, refused(2)),
]


@pytest.mark.parametrize(("spec", "expected"), ARITHMETIC + TRIGONOMETRY + BITS + TOTALS)
def test_an_expression_yields(spec: Any, expected: Any) -> None:
    check(spec, expected)


STRICT = [
    (numbers.strict_add, 1, 2, 3),
    (numbers.strict_add, MAX32, 1, Int64(MAX32 + 1)),
    (numbers.strict_add, Int64(MAX64), 1.0, float(MAX64)),
    (numbers.strict_multiply, Int64(3), 2, Int64(6)),
]


@pytest.mark.parametrize(("operation", "one", "other", "expected"), STRICT)
def test_updates_promote_as_expressions_do(operation: Any, one: Any, other: Any, expected: Any) -> None:
    result = operation(one, other)
    assert (type(result), result) == (type(expected), expected)


@pytest.mark.parametrize("operation", [numbers.strict_add, numbers.strict_multiply])
def test_an_int64_that_overflows_in_an_update_is_refused(operation: Any) -> None:
    with pytest.raises(MqlError) as refusal:
        operation(Int64(MAX64), Int64(MAX64))
    assert refusal.value.code == 2
