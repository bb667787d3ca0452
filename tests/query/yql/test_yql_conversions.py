"""Implicit conversions: literals that fit, values that widen, and the common type of several."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from mayflydb.query.yql import conversions
from mayflydb.query.yql.expression import Expression
from mayflydb.query.yql.types import (
    BOOL,
    DATE,
    DATE32,
    DATETIME,
    DATETIME64,
    DOUBLE,
    DYNUMBER,
    EMPTY_DICT,
    EMPTY_LIST,
    FLOAT,
    INT8,
    INT16,
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
    TZ_TIMESTAMP,
    TZ_TIMESTAMP64,
    UINT8,
    UINT16,
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
)

D229, D52 = DecimalType(22, 9), DecimalType(5, 2)
REFUSED: Any = object()


def literal(type: Type, value: Value) -> Expression:
    return conversions.constant(type, value, literal=True)


def variable(type: Type, value: Value) -> Expression:
    return Expression(type, lambda row, run: value)


def evaluated(expression: Expression | None) -> Value:
    return REFUSED if expression is None else expression.evaluate((), None)  # type: ignore[arg-type]


LITERALS: list[tuple[Type, Value, Type, Value]] = [
    (INT32, 5, UINT8, 5),
    (INT32, 255, UINT8, 255),
    (INT32, 256, UINT8, REFUSED),
    (INT32, -1, UINT8, REFUSED),
    (INT32, 5, INT64, 5),
    (INT32, 5, UINT64, 5),
    (INT64, 1 << 40, INT32, REFUSED),
    (UINT64, 5, INT32, 5),
    (INT32, 5, DATE, 5),
    (INT32, 49_673, DATE, REFUSED),
    (INT32, 5, TIMESTAMP, 5),
    (INT32, -5, TIMESTAMP64, -5),
    (INT32, -5, INTERVAL, -5),
    (INT32, 5, DOUBLE, 5.0),
    (INT32, 5, FLOAT, 5.0),
    (INT32, 5, D229, 5 * 10**9),
    (INT32, 1000, D52, REFUSED),
    (INT32, 5, DYNUMBER, Decimal(5)),
    (INT32, 5, STRING, REFUSED),
    (INT32, 5, BOOL, REFUSED),
    (INT32, 5, OptionalType(UINT8), 5),
    (INT32, 5, OptionalType(OptionalType(UINT8)), Just(5)),
    (STRING, b"a", UTF8, "a"),
    (STRING, b"\xff", UTF8, REFUSED),
    (STRING, b"a", OptionalType(UTF8), "a"),
    (STRING, b"[1]", JSON, "[1]"),
    (STRING, b"[1", JSON, REFUSED),
    (STRING, b"[1 ]", JSON_DOCUMENT, "[1]"),
    (UTF8, "[1]", JSON, "[1]"),
    (UTF8, "a", STRING, b"a"),
    (STRING, b"[1]", YSON, b"[1]"),
    (STRING, b"2020-01-01", DATE, REFUSED),
    (STRING, b"1", INT32, REFUSED),
    (DOUBLE, 1.5, FLOAT, REFUSED),
    (FLOAT, 1.5, DOUBLE, 1.5),
    (NULL, None, OptionalType(UUID), None),
    (NULL, None, UUID, REFUSED),
]


@pytest.mark.parametrize(("source", "value", "to", "result"), LITERALS)
def test_literals(source: Type, value: Value, to: Type, result: Value) -> None:
    converted = conversions.convert_implicitly(literal(source, value), to)
    got = evaluated(converted)
    assert got == result and got.__class__ is result.__class__
    assert converted is None or converted.type == to


STRUCT = StructType((("a", INT32), ("b", UTF8)))

WIDENED: list[tuple[Type, Value, Type, Value]] = [
    (INT32, 5, INT64, 5),
    (INT8, -1, INT16, -1),
    (UINT8, 5, INT8, 5),
    (INT32, 5, UINT64, 5),
    # Only the bits are taken over, and `warning` says so.
    (INT32, -1, UINT64, (1 << 64) - 1),
    (INT64, 5, UINT64, REFUSED),
    (INT32, 5, UINT32, REFUSED),
    (UINT32, 5, INT32, 5),
    (INT64, 5, INT32, REFUSED),
    (INT64, 5, DOUBLE, 5.0),
    (INT64, 16_777_217, FLOAT, 16_777_216.0),
    (DOUBLE, 1.5, FLOAT, REFUSED),
    (FLOAT, 1.5, DOUBLE, 1.5),
    (DOUBLE, 1.0, INT64, REFUSED),
    (BOOL, True, INT32, REFUSED),
    (INT32, 5, OptionalType(INT32), 5),
    (INT32, 5, OptionalType(INT64), 5),
    (OptionalType(INT32), None, OptionalType(INT64), None),
    (OptionalType(INT32), 5, OptionalType(INT64), 5),
    (OptionalType(INT32), 5, INT64, REFUSED),
    (OptionalType(INT32), 5, OptionalType(OptionalType(INT32)), Just(5)),
    (OptionalType(INT32), None, OptionalType(OptionalType(INT32)), Just(None)),
    (INT32, 5, OptionalType(OptionalType(INT32)), Just(5)),
    (OptionalType(OptionalType(INT32)), Just(None), OptionalType(OptionalType(INT64)), Just(None)),
    (OptionalType(OptionalType(INT32)), Just(5), OptionalType(OptionalType(INT64)), Just(5)),
    (OptionalType(OptionalType(INT32)), None, OptionalType(OptionalType(INT64)), None),
    (UTF8, "a", STRING, b"a"),
    (STRING, b"a", UTF8, REFUSED),
    (JSON, "1", UTF8, "1"),
    (JSON, "1", STRING, b"1"),
    (YSON, b"1", STRING, b"1"),
    (UTF8, "1", JSON, REFUSED),
    (DATE, 1, DATETIME, 86_400),
    (DATE, 1, TIMESTAMP, 86_400_000_000),
    (DATE, 1, DATE32, 1),
    (DATE, 1, TIMESTAMP64, 86_400_000_000),
    (DATE, 1, TZ_DATE, (1, "GMT")),
    (DATETIME, 1, DATE, REFUSED),
    (DATETIME, 1, DATE32, REFUSED),
    (DATETIME, 1, DATETIME64, 1),
    (DATE32, 1, DATE, REFUSED),
    (DATE32, 1, TIMESTAMP, REFUSED),
    (TZ_DATE, (1, "GMT"), TZ_TIMESTAMP, (86_400_000_000, "GMT")),
    (TZ_DATE, (1, "GMT"), DATE, REFUSED),
    (TZ_DATE, (1, "UTC"), TZ_TIMESTAMP64, (86_400_000_000, "UTC")),
    (TZ_DATE, (1, "UTC"), DATE32, REFUSED),
    (DATE, 1, TZ_DATE32, (1, "GMT")),
    (DATE32, -1, TZ_TIMESTAMP64, (-86_400_000_000, "GMT")),
    (DATE32, 1, TZ_DATE, REFUSED),
    (TZ_DATE32, (-1, "UTC"), TZ_TIMESTAMP64, (-86_400_000_000, "UTC")),
    (TZ_DATE32, (1, "UTC"), TZ_DATE, REFUSED),
    (TZ_DATE32, (1, "UTC"), DATE32, REFUSED),
    (INTERVAL, 5, INTERVAL64, 5),
    (INTERVAL64, 5, INTERVAL, REFUSED),
    (D52, 125, D229, 1_250_000_000),
    (D229, 1, D52, REFUSED),
    (INT32, 1, D52, REFUSED),
    (ListType(INT32), [1, 2], ListType(INT64), [1, 2]),
    (ListType(INT64), [1, 2], ListType(INT32), REFUSED),
    (ListType(INT32), [1, 2], ListType(OptionalType(INT32)), [1, 2]),
    (EMPTY_LIST, [], ListType(STRUCT), []),
    (EMPTY_DICT, {}, DictType(INT32, VOID), {}),
    (TupleType((INT32, UTF8)), (1, "a"), TupleType((INT64, STRING)), (1, b"a")),
    (TupleType((INT32,)), (1,), TupleType((INT32, INT32)), REFUSED),
    (STRUCT, (1, "x"), StructType((("b", STRING), ("a", INT64))), (b"x", 1)),
    (STRUCT, (1, "x"), StructType((("a", INT32), ("b", UTF8), ("c", OptionalType(DATE)))), (1, "x", None)),
    (STRUCT, (1, "x"), StructType((("a", INT32), ("b", UTF8), ("c", DATE))), REFUSED),
    (ListType(STRUCT), [(1, "x")], ListType(StructType((("b", UTF8), ("a", INT32)))), [("x", 1)]),
    (DictType(INT32, INT32), {1: 2}, DictType(INT64, DOUBLE), {1: 2.0}),
    (TaggedType("t", INT32), 1, TaggedType("t", INT64), 1),
    (TaggedType("t", INT32), 1, TaggedType("u", INT32), REFUSED),
    (TaggedType("t", OptionalType(INT32)), None, OptionalType(TaggedType("t", OptionalType(INT32))), Just(None)),
    (TaggedType("t", OptionalType(INT32)), 1, OptionalType(TaggedType("t", OptionalType(INT64))), Just(1)),
]


@pytest.mark.parametrize(("source", "value", "to", "result"), WIDENED)
def test_values(source: Type, value: Value, to: Type, result: Value) -> None:
    converted = conversions.convert_implicitly(variable(source, value), to)
    got = evaluated(converted)
    assert got == result and got.__class__ is result.__class__
    assert converted is None or converted.type == to


CONSTANTS: list[tuple[Type, Value, Type, Value]] = [
    (ListType(STRING), [b"a"], ListType(UTF8), ["a"]),
    (ListType(STRING), [b"\xff"], ListType(UTF8), REFUSED),
    (ListType(INT64), [5], ListType(UINT8), [5]),
    (TupleType((INT32, STRING)), (5, b"a"), TupleType((UINT8, UTF8)), (5, "a")),
    (StructType((("a", STRING),)), (b"a",), StructType((("a", UTF8), ("b", OptionalType(UTF8)))), ("a", None)),
    (DictType(STRING, INT32), {b"a": 1}, DictType(UTF8, UINT8), {"a": 1}),
]


@pytest.mark.parametrize(("source", "value", "to", "result"), CONSTANTS)
def test_constant_containers_fit_by_their_parts(source: Type, value: Value, to: Type, result: Value) -> None:
    assert evaluated(conversions.convert_implicitly(conversions.constant(source, value), to)) == result


COMMON: list[tuple[list[Type], Type | None]] = [
    ([], None),
    ([INT32], INT32),
    ([INT32, INT64], INT64),
    ([INT64, UINT64], INT64),
    ([INT32, UINT64], UINT64),
    ([UINT32, INT32], INT32),
    ([UINT16, INT8], UINT16),
    ([INT32, FLOAT, DOUBLE], DOUBLE),
    ([NULL, INT32], OptionalType(INT32)),
    ([INT32, NULL, INT64], OptionalType(INT64)),
    ([NULL, NULL], NULL),
    ([OptionalType(INT32), INT64], OptionalType(INT64)),
    ([INT64, OptionalType(INT32)], OptionalType(INT64)),
    ([UTF8, STRING], STRING),
    ([JSON, UTF8], UTF8),
    ([STRING, INT32], None),
    ([DATE, TIMESTAMP], TIMESTAMP),
    ([DATE32, TIMESTAMP], None),
    ([INTERVAL64, INTERVAL], INTERVAL64),
    ([D52, D229], D229),
    ([D52, DecimalType(4, 3)], DecimalType(6, 3)),
    ([DecimalType(35, 0), DecimalType(35, 30)], None),
    ([EMPTY_LIST, ListType(INT32)], ListType(INT32)),
    ([ListType(INT32), ListType(OptionalType(INT64))], ListType(OptionalType(INT64))),
    ([TupleType((INT32, NULL)), TupleType((NULL, UTF8))], TupleType((OptionalType(INT32), OptionalType(UTF8)))),
    ([TupleType((INT32,)), TupleType((INT32, INT32))], None),
    (
        [StructType((("a", INT32),)), StructType((("a", INT64), ("b", UTF8)))],
        StructType((("a", INT64), ("b", OptionalType(UTF8)))),
    ),
    ([DictType(INT32, INT32), DictType(INT64, UTF8)], None),
    ([DictType(INT32, INT32), DictType(INT64, INT8)], DictType(INT64, INT32)),
]


@pytest.mark.parametrize(("types", "result"), COMMON)
def test_common(types: list[Type], result: Type | None) -> None:
    assert conversions.common_type(types) == result
    # Whatever they meet in, each of them becomes by itself.
    assert result is None or all(conversions.find_widening(each, result) for each in types)


OF_EXPRESSIONS: list[tuple[list[Expression], Type | None]] = [
    ([literal(INT32, 1), variable(UINT8, 1)], UINT8),
    ([variable(UINT8, 1), literal(INT32, 1)], UINT8),
    ([literal(INT32, 256), variable(UINT8, 1)], INT32),
    ([literal(STRING, b"a"), variable(UTF8, "b")], UTF8),
    ([variable(STRING, b"a"), variable(UTF8, "b")], STRING),
    ([literal(NULL, None), literal(INT32, 1)], OptionalType(INT32)),
    ([literal(INT32, 1), variable(OptionalType(UINT64), 1)], OptionalType(UINT64)),
    ([literal(INT32, 1), literal(STRING, b"a")], None),
]


@pytest.mark.parametrize(("expressions", "result"), OF_EXPRESSIONS, ids=range(len(OF_EXPRESSIONS)))
def test_common_of_expressions(expressions: list[Expression], result: Type | None) -> None:
    found = conversions.unify(expressions)
    assert (found and found[0]) == result
