"""Types that compare, NULL and NaN inside of values, and the total order of sorting and grouping.

Source: https://ydb.tech/docs/en/yql/reference/syntax/expressions#comparison
"""

from __future__ import annotations

import itertools
import math
import random
from decimal import Decimal

import pytest

from mayflydb.query.yql import comparison
from mayflydb.query.yql.types import (
    BOOL,
    DATE,
    DATE32,
    DATETIME,
    DECIMAL_INF,
    DECIMAL_NAN,
    DOUBLE,
    DYNUMBER,
    EMPTY_LIST,
    FLOAT,
    INT8,
    INT32,
    INT64,
    INTERVAL,
    INTERVAL64,
    JSON,
    JSON_DOCUMENT,
    NULL,
    STRING,
    TIMESTAMP,
    TIMESTAMP64,
    TZ_DATE,
    TZ_DATE32,
    TZ_DATETIME,
    TZ_DATETIME64,
    UINT32,
    UINT64,
    UTF8,
    UUID,
    VOID,
    YSON,
    DecimalType,
    DictType,
    Just,
    ListType,
    OptionalType,
    StructType,
    TaggedType,
    TupleType,
    Type,
    Value,
    VariantType,
)

D52, D229 = DecimalType(5, 2), DecimalType(22, 9)
PAIR = TupleType((INT32, OptionalType(INT32)))
DAY = 86_400_000_000

ORDER: list[tuple[Type, Value, Type, Value, int | None]] = [
    (INT32, 1, INT32, 2, -1),
    (INT32, -1, UINT64, (1 << 64) - 1, -1),
    (INT64, 1 << 62, UINT32, 5, 1),
    (INT32, 1, DOUBLE, 1.0, 0),
    (INT64, 9_007_199_254_740_993, DOUBLE, 9_007_199_254_740_992.0, 1),
    (DOUBLE, math.nan, DOUBLE, math.nan, None),
    (DOUBLE, math.nan, INT32, 1, None),
    (FLOAT, 0.5, DOUBLE, 0.25, 1),
    (DOUBLE, -0.0, DOUBLE, 0.0, 0),
    (BOOL, False, BOOL, True, -1),
    (STRING, b"a", UTF8, "b", -1),
    (UTF8, "\u00e9", STRING, b"\xc3\xa9", 0),
    (UTF8, "\uffff", UTF8, "\U00010000", -1),
    (STRING, b"a", STRING, b"a\x00", -1),
    (UUID, bytes(16), UUID, bytes(15) + b"\x01", -1),
    (DYNUMBER, Decimal("1.0"), DYNUMBER, Decimal(1), 0),
    (DATE, 1, TIMESTAMP, DAY, 0),
    (DATE, 1, DATETIME, 86_401, -1),
    (DATE32, -1, TIMESTAMP, 0, -1),
    (TIMESTAMP64, DAY, DATE, 1, 0),
    (TZ_DATETIME, (86_400, "Europe/Moscow"), DATE, 1, 0),
    (TZ_DATETIME, (5, "Europe/Moscow"), TZ_DATETIME, (5, "GMT"), 0),
    (TZ_DATE, (1, "GMT"), TZ_DATETIME, (86_401, "GMT"), -1),
    (INTERVAL, 5, INTERVAL64, 5, 0),
    (D52, 150, D229, 1_500_000_000, 0),
    (D52, 150, INT32, 2, -1),
    (UINT64, (1 << 64) - 1, D52, 99_999, 1),
    (D52, DECIMAL_INF, D229, DECIMAL_INF, 0),
    (D52, DECIMAL_INF, UINT64, (1 << 64) - 1, 1),
    (D52, -DECIMAL_INF, D229, -(10**22), -1),
    (D52, DECIMAL_NAN, D52, DECIMAL_NAN, None),
    (VOID, None, VOID, None, 0),
    (NULL, None, INT32, 5, None),
    (OptionalType(INT32), 5, INT64, 6, -1),
    (OptionalType(INT32), None, INT64, 6, None),
    (OptionalType(OptionalType(INT32)), Just(5), OptionalType(OptionalType(INT32)), Just(5), 0),
    (OptionalType(OptionalType(INT32)), Just(None), OptionalType(OptionalType(INT32)), Just(None), None),
    (TupleType((INT32, UTF8)), (1, "b"), TupleType((INT64, STRING)), (1, b"a"), 1),
    (TupleType(()), (), TupleType(()), (), 0),
    (PAIR, (1, None), PAIR, (2, None), -1),
    (PAIR, (1, None), PAIR, (1, 5), None),
    (ListType(INT32), [1, 2], ListType(INT32), [1, 2, 3], -1),
    (ListType(INT32), [2], ListType(INT32), [1, 2, 3], 1),
    (ListType(INT32), [1], EMPTY_LIST, [], 1),
    (TaggedType("t", INT32), 1, TaggedType("t", INT32), 2, -1),
    (TaggedType("t", OptionalType(INT32)), 1, TaggedType("t", OptionalType(INT32)), None, None),
    (TZ_DATE32, (-1, "UTC"), TIMESTAMP, 0, -1),
    (TZ_DATE32, (0, "UTC"), TZ_DATETIME64, (0, "Europe/Moscow"), 0),
]


@pytest.mark.parametrize(("left", "a", "right", "b", "order"), ORDER)
def test_order(left: Type, a: Value, right: Type, b: Value, order: int | None) -> None:
    compare, back = comparison.find_order(left, right), comparison.find_order(right, left)
    assert compare is not None and back is not None
    assert compare(a, b) == order
    assert back(b, a) == (None if order is None else -order)


INCOMPARABLE = [
    (INT32, STRING),
    (BOOL, INT32),
    (DATE, INT32),
    (DATE, STRING),
    (DATE, INTERVAL),
    (UUID, STRING),
    (JSON, JSON),
    (JSON_DOCUMENT, JSON_DOCUMENT),
    (YSON, YSON),
    (D52, DOUBLE),
    (DYNUMBER, INT32),
    (TupleType((INT32,)), TupleType((INT32, INT32))),
    (ListType(INT32), ListType(UTF8)),
    (ListType(INT32), INT32),
    (StructType((("a", INT32),)), StructType((("a", INT32),))),
    (OptionalType(JSON), JSON),
]


@pytest.mark.parametrize(("left", "right"), INCOMPARABLE)
def test_incomparable(left: Type, right: Type) -> None:
    assert comparison.find_order(left, right) is None
    assert comparison.find_order(right, left) is None
    assert comparison.find_relation("<", left, right) is None


S1, S2 = StructType((("a", INT32), ("b", UTF8))), StructType((("b", STRING), ("a", INT64)))
CHOICE = VariantType(TupleType((INT32, OptionalType(INT32))))

EQUAL: list[tuple[Type, Value, Type, Value, bool | None]] = [
    (INT32, 1, UINT64, 1, True),
    (DOUBLE, math.nan, DOUBLE, math.nan, False),
    (D52, DECIMAL_NAN, D52, DECIMAL_NAN, False),
    (PAIR, (1, None), PAIR, (2, None), False),
    (PAIR, (1, None), PAIR, (1, None), None),
    (TupleType((OptionalType(INT32), INT32)), (None, 1), TupleType((INT32, INT32)), (1, 2), False),
    (ListType(OptionalType(INT32)), [None, 1], ListType(INT32), [1], False),
    (ListType(OptionalType(INT32)), [None, 1], ListType(INT32), [1, 1], None),
    (S1, (1, "x"), S2, (b"x", 1), True),
    (S1, (1, "x"), S2, (b"y", 1), False),
    (DictType(INT32, UTF8), {1: "a"}, DictType(INT32, UTF8), {1: "a"}, True),
    (DictType(INT32, UTF8), {1: "a"}, DictType(INT32, UTF8), {2: "a"}, False),
    (DictType(INT32, UTF8), {1: "a"}, DictType(INT32, UTF8), {1: "b"}, False),
    (DictType(INT32, VOID), {1: None}, DictType(INT32, VOID), {1: None}, True),
    (DictType(INT32, OptionalType(UTF8)), {1: None}, DictType(INT32, OptionalType(UTF8)), {1: "a"}, None),
    (CHOICE, (0, 1), CHOICE, (1, 1), False),
    (CHOICE, (0, 1), CHOICE, (0, 1), True),
    (CHOICE, (1, None), CHOICE, (1, None), None),
    (OptionalType(S1), None, S1, (1, "x"), None),
]


@pytest.mark.parametrize(("left", "a", "right", "b", "same"), EQUAL)
def test_equality(left: Type, a: Value, right: Type, b: Value, same: bool | None) -> None:
    equal, different = comparison.find_relation("==", left, right), comparison.find_relation("!=", left, right)
    assert equal is not None and different is not None
    assert equal(a, b) is same
    assert different(a, b) is (None if same is None else not same)


UNEQUATABLE = [
    (JSON, JSON),
    (S1, StructType((("a", INT32),))),
    (S1, StructType((("a", INT32), ("c", UTF8)))),
    (DictType(INT32, JSON), DictType(INT32, JSON)),
    (CHOICE, VariantType(TupleType((INT32,)))),
]


@pytest.mark.parametrize(("left", "right"), UNEQUATABLE)
def test_no_equality(left: Type, right: Type) -> None:
    assert comparison.find_relation("==", left, right) is None
    assert comparison.find_relation("!=", left, right) is None


RELATIONS = [
    ("<", 1, 2, True),
    ("<", 2, 2, False),
    ("<=", 2, 2, True),
    (">", 2, 1, True),
    (">=", 1, 2, False),
    ("==", 1, 1, True),
    ("!=", 1, 1, False),
]


@pytest.mark.parametrize(("operator", "a", "b", "holds"), RELATIONS)
def test_relations(operator: str, a: int, b: int, holds: bool) -> None:
    relation = comparison.find_relation(operator, INT8, INT64)
    assert relation is not None
    assert relation(a, b) is holds


@pytest.mark.parametrize("operator", ["<", "<=", ">", ">=", "=="])
def test_relations_with_nan_are_false(operator: str) -> None:
    relation = comparison.find_relation(operator, DOUBLE, DOUBLE)
    assert relation is not None
    assert relation(math.nan, math.nan) is False


def test_a_null_inside_gives_null() -> None:
    relation = comparison.find_relation("<", PAIR, PAIR)
    assert relation is not None
    assert relation((1, None), (1, 2)) is None


def test_the_refusal() -> None:
    text = "Uncompatible types in compare: Optional<Int32> '==' String"
    assert comparison.refusal_message("==", OptionalType(INT32), STRING) == text


SORTED: list[tuple[Type, list[Value]]] = [
    (OptionalType(INT32), [None, -5, 0, 7]),
    (OptionalType(UTF8), [None, "", "A", "a", "\u00e9", "\U00010000"]),
    (DOUBLE, [-math.inf, -1.0, 0.0, math.inf]),
    (OptionalType(BOOL), [None, False, True]),
    (TupleType((OptionalType(INT32), STRING)), [(None, b"z"), (1, b"a"), (1, b"b")]),
    (OptionalType(TupleType((OptionalType(INT32),))), [None, (None,), (0,)]),
    (ListType(OptionalType(INT32)), [[], [None], [None, 1], [1]]),
    (D52, [-DECIMAL_INF, -1, 0, 1, DECIMAL_INF, DECIMAL_NAN]),
    (OptionalType(OptionalType(INT32)), [None, Just(None), Just(1), Just(2)]),
    (TZ_DATETIME, [(1, "GMT"), (2, "Europe/Moscow")]),
    (NULL, [None]),
]


@pytest.mark.parametrize(("type", "values"), SORTED)
def test_sorting(type: Type, values: list[Value], chance: random.Random) -> None:
    shuffled = chance.sample(values, len(values))
    assert sorted(shuffled, key=comparison.sort_key(type)) == values
    assert sorted(shuffled, key=comparison.sort_key(type), reverse=True) == values[::-1]


def test_nan_sorts_last() -> None:
    values: list[Value] = [math.nan, None, math.inf, -1.0]
    got = sorted(values, key=comparison.sort_key(OptionalType(DOUBLE)))
    assert got[:3] == [None, -1.0, math.inf] and math.isnan(got[3])


def test_sorting_agrees_with_comparing(chance: random.Random) -> None:
    type = TupleType((INT32, ListType(DOUBLE), UTF8))
    compare, key = comparison.find_order(type, type), comparison.sort_key(type)
    assert compare is not None
    values = [
        (
            chance.randrange(3),
            [chance.choice([0.5, 1.0, -2.0]) for _ in range(chance.randrange(3))],
            chance.choice("ab"),
        )
        for _ in range(60)
    ]
    for a, b in itertools.product(values, values):
        assert compare(a, b) == (key(a) > key(b)) - (key(a) < key(b))


GROUPS: list[tuple[Type, Value, Value, bool]] = [
    (DOUBLE, math.nan, -math.nan, True),
    (DOUBLE, 0.0, -0.0, True),
    (OptionalType(DOUBLE), None, 0.0, False),
    (OptionalType(INT32), None, None, True),
    (TupleType((OptionalType(INT32), UTF8)), (None, "a"), (None, "a"), True),
    (TupleType((OptionalType(DOUBLE), UTF8)), (None, "a"), (0.0, "a"), False),
    (ListType(INT32), [1, 2], [1, 2], True),
    (DictType(INT32, ListType(INT32)), {1: [1], 2: []}, {2: [], 1: [1]}, True),
    (S1, (1, "a"), (1, "b"), False),
    (CHOICE, (0, 1), (1, 1), False),
    (TZ_DATETIME, (5, "GMT"), (5, "Europe/Moscow"), True),
    (OptionalType(OptionalType(INT32)), Just(None), None, False),
    (DYNUMBER, Decimal("1.0"), Decimal(1), True),
    (VariantType(TupleType((ListType(DOUBLE),))), (0, [math.nan]), (0, [math.nan]), True),
    (EMPTY_LIST, [], [], True),
]


@pytest.mark.parametrize(("type", "a", "b", "together"), GROUPS)
def test_grouping(type: Type, a: Value, b: Value, together: bool) -> None:
    key = comparison.group_key(type)
    assert (len({key(a), key(b)}) == 1) is together
