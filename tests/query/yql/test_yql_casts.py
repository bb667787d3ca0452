"""CAST: the pairs of types that have one, those that may fail, and the values.

Source: https://ydb.tech/docs/en/yql/reference/types/primitive#explicit-cast and `types/cast`.
"""

from __future__ import annotations

import math
from decimal import Decimal

import pytest

from mayflydb.query.yql import conversions
from mayflydb.query.yql.types import (
    BOOL,
    DATE,
    DATE32,
    DATETIME,
    DECIMAL_INF,
    DECIMAL_NAN,
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
    JSON,
    JSON_DOCUMENT,
    NULL,
    PRIMITIVES,
    STRING,
    TIMESTAMP,
    TIMESTAMP64,
    TZ_DATETIME,
    TZ_TIMESTAMP,
    UINT8,
    UINT16,
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
    TupleType,
    Type,
    Value,
    VariantType,
)

COLUMNS = (
    *("Bool", "Int8", "Uint8", "Int16", "Uint16", "Int32", "Uint32", "Int64", "Uint64", "Double", "Float"),
    *("String", "Utf8", "Yson", "Json", "Uuid", "Date", "Datetime", "Timestamp", "Interval"),
    *(
        "TzDate",
        "TzDatetime",
        "TzTimestamp",
        "DyNumber",
        "JsonDocument",
        "Date32",
        "Datetime64",
        "Timestamp64",
        "Interval64",
    ),
    *("TzDate32", "TzDatetime64", "TzTimestamp64"),
)

# By source, a letter for each of the columns: o always gives a value, m may fail, . is no CAST.
ROWS = {
    "Bool": "ooooooooo oo oo ... .... ... .. .... ...",
    "Int8": "oomomomom oo oo ... mmmo mmm .. oooo ooo",
    "Uint8": "omooooooo oo oo ... oooo ooo .. oooo ooo",
    "Int16": "ommomomom oo oo ... mmmo mmm .. oooo ooo",
    "Uint16": "ommmooooo oo oo ... mooo moo .. oooo ooo",
    "Int32": "ommmmomom oo oo ... mmmo mmm .. mooo moo",
    "Uint32": "ommmmmooo oo oo ... mmoo mmo .. mooo moo",
    "Int64": "ommmmmmom oo oo ... mmmm mmm .. mmmm mmm",
    "Uint64": "ommmmmmmo oo oo ... mmmm mmm .. mmmm mmm",
    "Double": "mmmmmmmmm oo oo ... .... ... .. .... ...",
    "Float": "mmmmmmmmm oo oo ... .... ... .. .... ...",
    "String": "mmmmmmmmm mm om mmm mmmm mmm mm mmmm mmm",
    "Utf8": "mmmmmmmmm mm oo mmm mmmm mmm mm mmmm mmm",
    "Yson": "......... .. o. o.. .... ... .. .... ...",
    "Json": "......... .. oo .o. .... ... .o .... ...",
    "Uuid": "......... .. oo ..o .... ... .. .... ...",
    "Date": ".mmmooooo oo oo ... ooo. ooo .. ooo. ooo",
    "Datetime": ".mmmmmooo oo oo ... ooo. ooo .. ooo. ooo",
    "Timestamp": ".mmmmmmoo oo oo ... ooo. ooo .. ooo. ooo",
    "Interval": ".mmmmmmom oo oo ... ...o ... .. ...o ...",
    "TzDate": ".mmmooooo oo oo ... ooo. ooo .. ooo. ooo",
    "TzDatetime": ".mmmmmooo oo oo ... ooo. ooo .. ooo. ooo",
    "TzTimestamp": ".mmmmmmoo oo oo ... ooo. ooo .. ooo. ooo",
    "DyNumber": "......... .. oo ... .... ... o. .... ...",
    "JsonDocument": "......... .. oo .o. .... ... .o .... ...",
    "Date32": ".mmmmomom oo oo ... mmm. mmm .. ooo. ooo",
    "Datetime64": ".mmmmmmom oo oo ... mmm. mmm .. ooo. ooo",
    "Timestamp64": ".mmmmmmom oo oo ... mmm. mmm .. ooo. ooo",
    "Interval64": ".mmmmmmom oo oo ... ...m ... .. ...o ...",
    "TzDate32": ".mmmmomom oo oo ... mmm. mmm .. ooo. ooo",
    "TzDatetime64": ".mmmmmmom oo oo ... mmm. mmm .. ooo. ooo",
    "TzTimestamp64": ".mmmmmmom oo oo ... mmm. mmm .. ooo. ooo",
}


@pytest.mark.parametrize("source", ROWS)
def test_the_matrix(source: str) -> None:
    got = ""
    for name in COLUMNS:
        result = conversions.resolve_cast(PRIMITIVES[source], PRIMITIVES[name])
        got += "." if result is None else "o" if result[0] == PRIMITIVES[name] else "m"
    expected = ROWS[source].replace(" ", "")
    differ = [f"{name}: {a}, not {b}" for name, a, b in zip(COLUMNS, got, expected, strict=True) if a != b]
    assert not differ


D52, D229, D358, D70 = DecimalType(5, 2), DecimalType(22, 9), DecimalType(35, 8), DecimalType(7, 0)

PAIR = StructType((("one", STRING), ("two", INT32)))

VALUES: list[tuple[Type, Value, Type, Type, Value]] = [
    # source, value, CAST's target, the type of the result, the result
    (STRING, b"12345", DOUBLE, OptionalType(DOUBLE), 12345.0),
    (DOUBLE, 1.2345, UINT8, OptionalType(UINT8), 1),
    (DOUBLE, -0.9, UINT8, OptionalType(UINT8), 0),
    (DOUBLE, 256.0, UINT8, OptionalType(UINT8), None),
    (DOUBLE, math.inf, INT64, OptionalType(INT64), None),
    (DOUBLE, math.nan, BOOL, OptionalType(BOOL), None),
    (DOUBLE, 9.3e18, INT64, OptionalType(INT64), None),
    (INT32, 12345, STRING, STRING, b"12345"),
    (INT32, 12345, UTF8, UTF8, "12345"),
    (STRING, b"1.2345", D52, OptionalType(D52), 123),
    (STRING, b"xyz", UINT64, OptionalType(UINT64), None),
    (STRING, b" 1", UINT64, OptionalType(UINT64), None),
    (STRING, b"-1", UINT64, OptionalType(UINT64), None),
    (STRING, b"+7", INT8, OptionalType(INT8), 7),
    (STRING, b"18446744073709551616", UINT64, OptionalType(UINT64), None),
    (STRING, b"1_000", INT32, OptionalType(INT32), None),
    (STRING, b"3.14", OptionalType(FLOAT), OptionalType(FLOAT), 3.140000104904175),
    (STRING, b"TRUE", BOOL, OptionalType(BOOL), True),
    (STRING, b"1", BOOL, OptionalType(BOOL), None),
    (STRING, b"\xff", UTF8, OptionalType(UTF8), None),
    (STRING, b"\xff", JSON, OptionalType(JSON), None),
    (STRING, b"\xff", INT32, OptionalType(INT32), None),
    (STRING, b'{"b": 1, "a": [ ]}', JSON, OptionalType(JSON), '{"b": 1, "a": [ ]}'),
    (STRING, b'{"b": 1.50, "a": [ ]}', JSON_DOCUMENT, OptionalType(JSON_DOCUMENT), '{"a":[],"b":1.5}'),
    (STRING, b"{", JSON, OptionalType(JSON), None),
    (STRING, b"<a=1>[3;%false]", YSON, OptionalType(YSON), b"<a=1>[3;%false]"),
    (
        STRING,
        b"f9d5cc3f-f1dc-4d9c-b97e-766e57ca4ccb",
        UUID,
        OptionalType(UUID),
        bytes.fromhex("3fccd5f9dcf19c4db97e766e57ca4ccb"),
    ),
    (UTF8, "3.14", DYNUMBER, OptionalType(DYNUMBER), Decimal("3.14")),
    (JSON, '{"b":1,"a":2}', JSON_DOCUMENT, JSON_DOCUMENT, '{"a":2,"b":1}'),
    (INT32, -1, UINT16, OptionalType(UINT16), None),
    (INT32, 255, UINT8, OptionalType(UINT8), 255),
    (INT32, 256, UINT8, OptionalType(UINT8), None),
    (INT32, 7, INT64, INT64, 7),
    (INT32, 2, BOOL, BOOL, True),
    (BOOL, True, UINT8, UINT8, 1),
    (INT32, 16_777_217, FLOAT, FLOAT, 16_777_216.0),
    (DOUBLE, 1e300, FLOAT, FLOAT, math.inf),
    (DOUBLE, 0.1, STRING, STRING, b"0.1"),
    (INT32, -1, DATE, OptionalType(DATE), None),
    (INT32, 49_673, DATE, OptionalType(DATE), None),
    (INT32, 1, TZ_DATETIME, OptionalType(TZ_DATETIME), (1, "GMT")),
    (UINT16, 1, DATE, OptionalType(DATE), 1),
    (DATE, 1, TIMESTAMP, TIMESTAMP, 86_400_000_000),
    (TIMESTAMP, 86_400_000_001, DATE, DATE, 1),
    (TIMESTAMP, 86_400_999_999, DATETIME, DATETIME, 86_400),
    (TIMESTAMP64, -1, DATE32, DATE32, -1),
    (TIMESTAMP64, -1, DATE, OptionalType(DATE), None),
    (DATE, 18_262, STRING, STRING, b"2020-01-01"),
    (DATETIME, 1, TZ_TIMESTAMP, TZ_TIMESTAMP, (1_000_000, "GMT")),
    (TZ_DATETIME, (1, "Europe/Moscow"), TZ_TIMESTAMP, TZ_TIMESTAMP, (1_000_000, "Europe/Moscow")),
    (TZ_DATETIME, (1, "Europe/Moscow"), DATE, DATE, 0),
    (INTERVAL, 86_400_000_000, STRING, STRING, b"P1D"),
    (STRING, b"P1D", INTERVAL, OptionalType(INTERVAL), 86_400_000_000),
    (INTERVAL, -1, UINT64, OptionalType(UINT64), None),
    # Decimals
    (INT32, 5, D229, D229, 5 * 10**9),
    (INT64, 5, D229, OptionalType(D229), 5 * 10**9),
    (INT64, 10**13, D229, OptionalType(D229), None),
    (INT32, -1000, D52, OptionalType(D52), None),
    (D52, 250, INT32, OptionalType(INT32), 2),
    (D52, -250, INT32, OptionalType(INT32), -2),
    (D52, DECIMAL_INF, INT32, OptionalType(INT32), None),
    (D52, 250, DOUBLE, DOUBLE, 2.5),
    (D52, 250, STRING, STRING, b"2.5"),
    (D52, DECIMAL_NAN, STRING, STRING, b"nan"),
    (D52, 125, D229, D229, 1_250_000_000),
    (D229, 1_250_000_001, D52, OptionalType(D52), 125),
    (D229, 10**13, D52, OptionalType(D52), None),
    (DecimalType(5, 1), 99_999, DecimalType(4, 0), DecimalType(4, 0), DECIMAL_INF),
    (D229, -DECIMAL_INF, D52, OptionalType(D52), -DECIMAL_INF),
    # Optional
    (INT32, 1, OptionalType(INT32), OptionalType(INT32), 1),
    (NULL, None, INT32, OptionalType(INT32), None),
    (OptionalType(INT32), None, INT64, OptionalType(INT64), None),
    (OptionalType(INT32), 4, INT64, OptionalType(INT64), 4),
    (OptionalType(INT32), 300, UINT8, OptionalType(UINT8), None),
    (OptionalType(OptionalType(INT32)), Just(3), OptionalType(FLOAT), OptionalType(FLOAT), 3.0),
    (OptionalType(INT32), 2, OptionalType(OptionalType(FLOAT)), OptionalType(OptionalType(FLOAT)), Just(2.0)),
    (OptionalType(INT32), None, OptionalType(OptionalType(FLOAT)), OptionalType(OptionalType(FLOAT)), Just(None)),
    (
        OptionalType(OptionalType(INT32)),
        Just(None),
        OptionalType(OptionalType(FLOAT)),
        OptionalType(OptionalType(FLOAT)),
        Just(None),
    ),
    (
        OptionalType(OptionalType(INT32)),
        None,
        OptionalType(OptionalType(FLOAT)),
        OptionalType(OptionalType(FLOAT)),
        None,
    ),
    # Containers
    (ListType(INT32), [-1, 0, 1], ListType(OptionalType(UINT8)), ListType(OptionalType(UINT8)), [None, 0, 1]),
    (ListType(STRING), [b"3.5", b"bad", b"42"], ListType(FLOAT), ListType(FLOAT), [3.5, 42.0]),
    (EMPTY_LIST, [], ListType(UTF8), ListType(UTF8), []),
    (EMPTY_DICT, {}, DictType(UTF8, INT8), DictType(UTF8, INT8), {}),
    (DictType(INT32, DOUBLE), {-1: 3.14, 7: 1.6}, DictType(UINT8, UTF8), DictType(UINT8, UTF8), {7: "1.6"}),
    (
        DictType(INT32, DOUBLE),
        {-1: 3.14, 7: 1.6},
        DictType(OptionalType(UINT8), UTF8),
        DictType(OptionalType(UINT8), UTF8),
        {7: "1.6", None: "3.14"},
    ),
    (
        TupleType((INT32, INT32, INT32)),
        (-1, 0, 1),
        TupleType((OptionalType(UINT16), OptionalType(UINT16), UTF8)),
        TupleType((OptionalType(UINT16), OptionalType(UINT16), UTF8)),
        (None, 0, "1"),
    ),
    (TupleType((INT32, INT32)), (-2, 0), TupleType((UINT16, UTF8)), OptionalType(TupleType((UINT16, UTF8))), None),
    (
        TupleType((INT32, INT32)),
        (3, 4),
        TupleType((UINT16, STRING)),
        OptionalType(TupleType((UINT16, STRING))),
        (3, b"4"),
    ),
    (
        TupleType((STRING,)),
        (b"4",),
        TupleType((UINT16, OptionalType(STRING))),
        OptionalType(TupleType((UINT16, OptionalType(STRING)))),
        (4, None),
    ),
    (
        TupleType((INT32, INT32, NULL)),
        (5, 6, None),
        TupleType((OptionalType(UINT8),)),
        TupleType((OptionalType(UINT8),)),
        (5,),
    ),
    (
        PAIR,
        (b"8912", 42),
        StructType((("two", UTF8), ("three", OptionalType(DATE)))),
        StructType((("two", UTF8), ("three", OptionalType(DATE)))),
        ("42", None),
    ),
    (
        VariantType(StructType((("a", INT32), ("b", UTF8)))),
        (0, 300),
        VariantType(StructType((("b", STRING), ("a", INT16)))),
        OptionalType(VariantType(StructType((("b", STRING), ("a", INT16))))),
        (1, 300),
    ),
    (
        VariantType(TupleType((INT32, UTF8))),
        (1, "x"),
        VariantType(TupleType((INT64,))),
        OptionalType(VariantType(TupleType((INT64,)))),
        None,
    ),
    (DATE32, -1, INT64, INT64, -1),
]


@pytest.mark.parametrize(("source", "value", "to", "type", "result"), VALUES)
def test_values(source: Type, value: Value, to: Type, type: Type, result: Value) -> None:
    cast = conversions.resolve_cast(source, to)
    assert cast is not None
    assert cast[0] == type
    got = cast[1](value)
    assert got == result and got.__class__ is result.__class__


IMPOSSIBLE = [
    (D52, BOOL),
    (BOOL, D52),
    (DOUBLE, D52),
    (D52, DATE),
    (D52, DYNUMBER),
    (DATE, INTERVAL),
    (ListType(INT32), INT32),
    (INT32, ListType(INT32)),
    (PAIR, StructType((("three", DATE),))),
    (TupleType((INT32,)), TupleType((INT32, INT32))),
    (DictType(INT32, VOID), ListType(INT32)),
    (ListType(DOUBLE), ListType(DATE)),
]


@pytest.mark.parametrize(("source", "to"), IMPOSSIBLE)
def test_impossible(source: Type, to: Type) -> None:
    assert conversions.resolve_cast(source, to) is None


BITS = [
    (INT32, -1, UINT32_ := PRIMITIVES["Uint32"], UINT32_, 4_294_967_295),
    (INT32, -1, UINT64, UINT64, 18_446_744_073_709_551_615),
    (UINT64, 1 << 63, INT64, INT64, -(1 << 63)),
    (INT32, 300, UINT8, UINT8, 44),
    (OptionalType(INT32), None, UINT8, OptionalType(UINT8), None),
    (OptionalType(INT32), -1, INT8, OptionalType(INT8), -1),
]


@pytest.mark.parametrize(("source", "value", "to", "type", "result"), BITS)
def test_bits(source: Type, value: Value, to: Type, type: Type, result: Value) -> None:
    cast = conversions.resolve_bitcast(source, to)
    assert cast is not None
    assert (cast[0], cast[1](value)) == (type, result)


def test_bits_are_those_of_integers() -> None:
    assert conversions.resolve_bitcast(DOUBLE, INT64) is None
    assert conversions.resolve_bitcast(STRING, INT64) is None
