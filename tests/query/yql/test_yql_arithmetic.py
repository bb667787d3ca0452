"""Operators: type and value of the result, and YDB's messages for types without the operator.

Source: https://ydb.tech/docs/en/yql/reference/types/primitive#implicit-cast
"""

from __future__ import annotations

import math
import random

import pytest

from mayflydb.query.yql import arithmetic
from mayflydb.query.yql.texts import BOUNDS
from mayflydb.query.yql.types import (
    BOOL,
    DATE,
    DATE32,
    DATETIME,
    DECIMAL_INF,
    DECIMAL_NAN,
    DOUBLE,
    FLOAT,
    INT8,
    INT16,
    INT32,
    INT64,
    INTEGERS,
    INTERVAL,
    INTERVAL64,
    JSON,
    PRIMITIVES,
    STRING,
    TIMESTAMP,
    TIMESTAMP64,
    TZ_DATETIME,
    TZ_DATETIME64,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    UTF8,
    DecimalType,
    OptionalType,
    Type,
    Value,
)

NAMES = ("Int8", "Int16", "Int32", "Int64", "Uint8", "Uint16", "Uint32", "Uint64", "Float", "Double")

# Of the type in the row and the one in the column, the type of their sum; "-" where the two are one.
SUMS = """
-      Int16  Int32  Int64  Int8   Uint16 Uint32 Uint64 Float  Double
Int16  -      Int32  Int64  Int16  Int16  Uint32 Uint64 Float  Double
Int32  Int32  -      Int64  Int32  Int32  Int32  Uint64 Float  Double
Int64  Int64  Int64  -      Int64  Int64  Int64  Int64  Float  Double
Int8   Int16  Int32  Int64  -      Uint16 Uint32 Uint64 Float  Double
Uint16 Int16  Int32  Int64  Uint16 -      Uint32 Uint64 Float  Double
Uint32 Uint32 Int32  Int64  Uint32 Uint32 -      Uint64 Float  Double
Uint64 Uint64 Uint64 Int64  Uint64 Uint64 Uint64 -      Float  Double
Float  Float  Float  Float  Float  Float  Float  Float  -      Double
Double Double Double Double Double Double Double Double Double -
"""


@pytest.mark.parametrize(("row", "line"), list(zip(NAMES, SUMS.split("\n")[1:-1], strict=True)))
def test_common_types_of_numbers(row: str, line: str) -> None:
    for column, name in zip(NAMES, line.split(), strict=True):
        sum_of = arithmetic.find_binary("+", PRIMITIVES[row], PRIMITIVES[column])
        assert sum_of is not None
        assert sum_of[0] == PRIMITIVES[row if name == "-" else name], column


D52, D229 = DecimalType(5, 2), DecimalType(22, 9)
DAY = 86_400_000_000
TOP = 49_672

VALUES: list[tuple[Type, Value, str, Type, Value, Type, Value]] = [
    (INT32, 2, "+", INT32, 3, INT32, 5),
    (INT32, 2_147_483_647, "+", INT32, 1, INT32, -2_147_483_648),
    (INT64, (1 << 63) - 1, "+", INT32, 1, INT64, -(1 << 63)),
    (UINT64, 0, "-", UINT64, 1, UINT64, (1 << 64) - 1),
    (UINT8, 200, "+", UINT8, 100, UINT8, 44),
    (INT8, 100, "*", INT8, 2, INT8, -56),
    (INT32, -1, "+", UINT64, 0, UINT64, (1 << 64) - 1),
    (UINT64, (1 << 64) - 1, "+", INT64, 0, INT64, -1),
    (INT32, 7, "/", INT32, 2, OptionalType(INT32), 3),
    (INT32, -7, "/", INT32, 2, OptionalType(INT32), -3),
    (INT32, 7, "/", INT32, 0, OptionalType(INT32), None),
    (INT32, -2_147_483_648, "/", INT32, -1, OptionalType(INT32), None),
    (INT64, 9_007_199_254_740_993, "/", INT64, 1, OptionalType(INT64), 9_007_199_254_740_993),
    (INT32, 7, "%", INT32, -4, OptionalType(INT32), 3),
    (INT32, -7, "%", INT32, 4, OptionalType(INT32), -3),
    (INT32, 7, "%", INT32, 0, OptionalType(INT32), None),
    (DOUBLE, 1.0, "/", DOUBLE, 0.0, DOUBLE, math.inf),
    (DOUBLE, -1.0, "/", INT32, 0, DOUBLE, -math.inf),
    (DOUBLE, 1.0, "/", DOUBLE, -0.0, DOUBLE, -math.inf),
    (DOUBLE, 7.5, "%", DOUBLE, 2.0, DOUBLE, 1.5),
    (DOUBLE, -7.5, "%", DOUBLE, 2.0, DOUBLE, -1.5),
    (DOUBLE, 1e308, "*", DOUBLE, 10.0, DOUBLE, math.inf),
    (INT32, 1, "/", DOUBLE, 2.0, DOUBLE, 0.5),
    (FLOAT, 0.5, "+", INT32, 1, FLOAT, 1.5),
    (FLOAT, 0.10000000149011612, "+", FLOAT, 0.20000000298023224, FLOAT, 0.30000001192092896),
    (INT64, 16_777_217, "+", FLOAT, 0.0, FLOAT, 16_777_216.0),
    # Bits
    (UINT32, 5, "&", UINT32, 3, UINT32, 1),
    (UINT8, 5, "|", UINT32, 3, UINT32, 7),
    (UINT32, 5, "^", UINT32, 3, UINT32, 6),
    (UINT8, 1, "<<", INT32, 7, UINT8, 128),
    (UINT8, 3, "<<", UINT8, 7, UINT8, 128),
    (UINT8, 1, "<<", UINT8, 8, UINT8, 0),
    (UINT8, 128, ">>", UINT8, 7, UINT8, 1),
    (UINT8, 129, "|<<", UINT8, 1, UINT8, 3),
    (UINT8, 129, ">>|", UINT8, 1, UINT8, 192),
    (UINT8, 129, "|<<", UINT8, 8, UINT8, 129),
    (UINT64, 1, ">>|", UINT8, 1, UINT64, 1 << 63),
    # Decimals
    (D52, 150, "+", D52, 275, D52, 425),
    (D52, 99_999, "+", D52, 1, D52, DECIMAL_INF),
    (D52, -99_999, "-", D52, 1, D52, -DECIMAL_INF),
    (D52, DECIMAL_INF, "-", D52, DECIMAL_INF, D52, DECIMAL_NAN),
    (D52, 150, "*", D52, 150, D52, 225),
    (D52, 1, "*", D52, 50, D52, 0),
    (D52, 3, "*", D52, 50, D52, 2),
    (D52, 150, "*", INT32, 3, D52, 450),
    (INT32, 3, "*", D52, 150, D52, 450),
    (D52, 100, "/", D52, 300, D52, 33),
    (D52, 200, "/", D52, 300, D52, 67),
    (D52, 100, "/", INT32, 3, D52, 33),
    (D52, 100, "/", INT32, 0, D52, DECIMAL_INF),
    (D52, 0, "/", D52, 0, D52, DECIMAL_NAN),
    (D52, 750, "%", D52, 200, D52, 150),
    (D52, -750, "%", INT32, 2, D52, -150),
    (D52, 750, "%", D52, 0, D52, DECIMAL_NAN),
    # Texts
    (STRING, b"a", "||", STRING, b"b", STRING, b"ab"),
    (UTF8, "a", "||", UTF8, "b", UTF8, "ab"),
    (UTF8, "\u00e9", "||", STRING, b"b", STRING, b"\xc3\xa9b"),
    # Moments
    (DATE, 1, "+", INTERVAL, DAY, OptionalType(DATE), 2),
    (DATE, 1, "+", INTERVAL, DAY - 1, OptionalType(DATE), 1),
    (DATE, 0, "-", INTERVAL, 1, OptionalType(DATE), None),
    (DATE, TOP, "+", INTERVAL, DAY, OptionalType(DATE), None),
    (INTERVAL, DAY, "+", DATE, 1, OptionalType(DATE), 2),
    (TIMESTAMP, DAY, "-", INTERVAL, 1, OptionalType(TIMESTAMP), DAY - 1),
    (DATETIME, 10, "+", INTERVAL, -3_000_000, OptionalType(DATETIME), 7),
    (DATE32, 0, "-", INTERVAL, DAY, OptionalType(DATE32), -1),
    (TIMESTAMP64, 0, "-", INTERVAL64, 5, OptionalType(TIMESTAMP64), -5),
    (TZ_DATETIME, (10, "GMT"), "+", INTERVAL, 1_000_000, OptionalType(TZ_DATETIME), (11, "GMT")),
    (TZ_DATETIME, (0, "GMT"), "-", INTERVAL, 1_000_000, OptionalType(TZ_DATETIME), None),
    (TZ_DATETIME64, (0, "GMT"), "-", INTERVAL, 1_000_000, OptionalType(TZ_DATETIME64), (-1, "GMT")),
    (TZ_DATETIME, (0, "GMT"), "-", INTERVAL64, 1_000_000, OptionalType(TZ_DATETIME64), (-1, "GMT")),
    (TZ_DATETIME64, (-1, "Europe/Moscow"), "-", DATE, 0, INTERVAL64, -1_000_000),
    (TIMESTAMP, DAY + 5, "-", TIMESTAMP, DAY, INTERVAL, 5),
    (DATE, 2, "-", DATETIME, 86_400, INTERVAL, DAY),
    (DATE, 1, "-", DATE, 2, INTERVAL, -DAY),
    (DATE, 1, "-", TIMESTAMP64, -1, INTERVAL64, DAY + 1),
    (TZ_DATETIME, (1, "Europe/Moscow"), "-", DATE, 0, INTERVAL, 1_000_000),
    (INTERVAL, 5, "+", INTERVAL, 6, OptionalType(INTERVAL), 11),
    (INTERVAL, TOP * DAY, "+", INTERVAL, DAY, OptionalType(INTERVAL), None),
    (INTERVAL, 5, "-", INTERVAL64, 6, OptionalType(INTERVAL64), -1),
    (INTERVAL, DAY, "*", INT32, 3, OptionalType(INTERVAL), 3 * DAY),
    (UINT64, 3, "*", INTERVAL, DAY, OptionalType(INTERVAL), 3 * DAY),
    (INTERVAL, DAY, "*", INT32, 50_000, OptionalType(INTERVAL), None),
    (INTERVAL, 7, "/", INT32, -2, OptionalType(INTERVAL), -3),
    (INTERVAL, 7, "/", INT32, 0, OptionalType(INTERVAL), None),
]


@pytest.mark.parametrize(("left", "a", "operator", "right", "b", "type", "result"), VALUES)
def test_values(left: Type, a: Value, operator: str, right: Type, b: Value, type: Type, result: Value) -> None:
    operation = arithmetic.find_binary(operator, left, right)
    assert operation is not None
    assert operation[0] == type
    got = operation[1](a, b)
    assert got == result and got.__class__ is result.__class__


NAN = [
    (DOUBLE, 0.0, "/", DOUBLE, 0.0),
    (DOUBLE, math.nan, "/", DOUBLE, 0.0),
    (DOUBLE, 1.0, "%", DOUBLE, 0.0),
    (DOUBLE, math.inf, "%", DOUBLE, 2.0),
    (DOUBLE, math.inf, "-", DOUBLE, math.inf),
]


@pytest.mark.parametrize(("left", "a", "operator", "right", "b"), NAN)
def test_results_that_are_nan(left: Type, a: Value, operator: str, right: Type, b: Value) -> None:
    operation = arithmetic.find_binary(operator, left, right)
    assert operation is not None
    assert math.isnan(operation[1](a, b))


REFUSED = [
    (INT32, "+", STRING, "Cannot add type Int32 and String"),
    (OptionalType(STRING), "-", INT32, "Cannot substract type Optional<String> and Int32"),
    (BOOL, "*", INT32, "Cannot multiply type Bool and Int32"),
    (DATE, "+", DATE, "Cannot add type Date and Date"),
    (INTERVAL, "-", DATE, "Cannot substract type Interval and Date"),
    (DATE, "/", INT32, "Cannot divide type Date and Int32"),
    (INTERVAL, "%", INT32, "Cannot mod type Interval and Int32"),
    (INTERVAL, "*", DOUBLE, "Cannot multiply type Interval and Double"),
    (D52, "+", D229, "Cannot add different decimals."),
    (D52, "-", D229, "Cannot substract different decimals."),
    (D52, "*", D229, "Cannot calculate with different decimals."),
    (D52, "*", DOUBLE, "Cannot operate with decimal and Double"),
    (D52, "+", INT32, "Cannot add type Decimal(5,2) and Int32"),
    (INT32, "/", D52, "Cannot divide type Int32 and Decimal(5,2)"),
    (INT32, "&", UINT32, "Expected unsigned data type, but got: Int32"),
    (UINT32, "|", DOUBLE, "Expected unsigned data type, but got: Double"),
    (INT32, "<<", UINT8, "Expected unsigned data type, but got: Int32"),
    (UTF8, "||", INT32, "Cannot concat type Utf8 and Int32"),
    (JSON, "+", JSON, "Cannot add type Json and Json"),
]


@pytest.mark.parametrize(("left", "operator", "right", "text"), REFUSED)
def test_refusals(left: Type, operator: str, right: Type, text: str) -> None:
    bare = [each.item if isinstance(each, OptionalType) else each for each in (left, right)]
    assert arithmetic.find_binary(operator, *bare) is None
    assert arithmetic.refusal_message(operator, left, right) == text


UNARY: list[tuple[str, Type, Value, Type, Value]] = [
    ("-", INT32, 5, INT32, -5),
    ("-", INT8, -128, INT8, -128),
    ("-", UINT16, 1, UINT16, 65_535),
    ("-", DOUBLE, 1.5, DOUBLE, -1.5),
    ("-", D52, 150, D52, -150),
    ("-", D52, DECIMAL_NAN, D52, DECIMAL_NAN),
    ("-", D52, DECIMAL_INF, D52, -DECIMAL_INF),
    ("-", INTERVAL, 5, INTERVAL, -5),
    ("+", INT16, 5, INT16, 5),
    ("+", INTERVAL, 5, INTERVAL, 5),
    ("~", UINT8, 1, UINT8, 254),
    ("~", UINT64, 0, UINT64, (1 << 64) - 1),
    ("NOT", BOOL, True, BOOL, False),
]


@pytest.mark.parametrize(("operator", "operand", "value", "type", "result"), UNARY)
def test_unary(operator: str, operand: Type, value: Value, type: Type, result: Value) -> None:
    operation = arithmetic.find_unary(operator, operand)
    assert operation is not None
    assert (operation[0], operation[1](value)) == (type, result)


UNARY_REFUSED = [
    ("-", STRING, "Expected numeric, decimal or interval data type, but got: String"),
    ("+", DATE, "Expected numeric, decimal or interval data type, but got: Date"),
    ("~", INT32, "Expected unsigned data type, but got: Int32"),
]


@pytest.mark.parametrize(("operator", "operand", "text"), UNARY_REFUSED)
def test_unary_refusals(operator: str, operand: Type, text: str) -> None:
    assert arithmetic.find_unary(operator, operand) is None
    assert arithmetic.refusal_message(operator, operand) == text


def test_integers_wrap_as_their_bits_do(chance: random.Random) -> None:
    """For all types, the result is computed from the bits of both operands in the type of the result."""
    for _ in range(3000):
        left, right = chance.choice(INTEGERS), chance.choice(INTEGERS)
        a, b = (chance.choice([*BOUNDS[each], chance.randint(*BOUNDS[each])]) for each in (left, right))
        operator = chance.choice("+-*/%")
        operation = arithmetic.find_binary(operator, left, right)
        assert operation is not None
        type = operation[0].item if isinstance(operation[0], OptionalType) else operation[0]
        low, high = BOUNDS[type]
        got = operation[1](a, b)
        bits = high - low + 1
        a, b = ((value - low) % bits + low for value in (a, b))
        if operator in "+-*":
            exact = a + b if operator == "+" else a - b if operator == "-" else a * b
            assert low <= got <= high and (got - exact) % bits == 0
        elif got is None:
            assert b == 0 or (a, b) == (low, -1)
        elif operator == "/":
            assert abs(got * b) <= abs(a) < abs(got * b) + abs(b) and got * a * b >= 0
        else:
            assert abs(got) < abs(b) and got * a >= 0 and (a - got) % b == 0
