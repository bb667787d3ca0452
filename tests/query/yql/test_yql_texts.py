"""Values as text and back: numbers, documents, Decimal, DyNumber, Uuid, and the validation of YSON."""

from __future__ import annotations

import math
import random
from decimal import Decimal

import pytest

from mayflydb.query.yql import decimals, dynumbers, texts, yson
from mayflydb.query.yql.types import (
    BOOL,
    DECIMAL_INF,
    DECIMAL_NAN,
    DOUBLE,
    DYNUMBER,
    FLOAT,
    INT8,
    INT64,
    JSON,
    JSON_DOCUMENT,
    STRING,
    UINT8,
    UTF8,
    UUID,
    VOID,
    YSON,
    DecimalType,
    ListType,
    Type,
    Value,
)

D52, D229, D350, D3535 = DecimalType(5, 2), DecimalType(22, 9), DecimalType(35, 0), DecimalType(35, 35)

BOTH: list[tuple[Type, str, Value]] = [
    # Text that reads as the value, which is written as the same text.
    (BOOL, "true", True),
    (BOOL, "false", False),
    (INT8, "-128", -128),
    (UINT8, "255", 255),
    (DOUBLE, "0.1", 0.1),
    (DOUBLE, "1", 1.0),
    (DOUBLE, "-0", -0.0),
    (DOUBLE, "100000", 100_000.0),
    (DOUBLE, "123456789012345680000", 123_456_789_012_345_678_901.0),
    (DOUBLE, "1e+21", 1e21),
    (DOUBLE, "1.5e+300", 1.5e300),
    (DOUBLE, "0.0000000001", 1e-10),
    (DOUBLE, "1e-11", 1e-11),
    (DOUBLE, "5e-324", 5e-324),
    (DOUBLE, "-inf", -math.inf),
    (FLOAT, "3.14", 3.140000104904175),
    (FLOAT, "16777216", 16_777_216.0),
    (FLOAT, "1e+30", 1.0000000150474662e30),
    (FLOAT, "inf", math.inf),
    (UTF8, "\u00e9", "\u00e9"),
    (STRING, "\u00e9", b"\xc3\xa9"),
    (JSON, ' {"b": 1, "a": 2} ', ' {"b": 1, "a": 2} '),
    (UUID, "f9d5cc3f-f1dc-4d9c-b97e-766e57ca4ccb", bytes.fromhex("3fccd5f9dcf19c4db97e766e57ca4ccb")),
    (YSON, "[1;2]", b"[1;2]"),
    (D52, "1.23", 123),
    (D52, "-0.05", -5),
    (D52, "999.99", 99_999),
    (D52, "10", 1_000),
    (D52, "0", 0),
    (D52, "inf", DECIMAL_INF),
    (D52, "-inf", -DECIMAL_INF),
    (D52, "nan", DECIMAL_NAN),
    (D350, "9" * 35, 10**35 - 1),
    (D3535, "0." + "0" * 34 + "1", 1),
    (DYNUMBER, "0", Decimal(0)),
    (DYNUMBER, ".5", Decimal("0.5")),
    (DYNUMBER, ".314e1", Decimal("3.14")),
    (DYNUMBER, "-.1e-129", Decimal("-1e-130")),
    (DYNUMBER, ".1e126", Decimal("1e125")),
    (DYNUMBER, "." + "9" * 38 + "e126", Decimal("9" * 38 + "e88")),
]


@pytest.mark.parametrize(("type", "text", "value"), BOTH)
def test_parse_and_format(type: Type, text: str, value: Value) -> None:
    got = texts.from_text(type, text)
    assert got == value and got.__class__ is value.__class__
    assert texts.to_text(type, value) == text


READ: list[tuple[Type, str, Value]] = [
    (BOOL, "TRUE", True),
    (INT64, "+5", 5),
    (INT64, "007", 7),
    (DOUBLE, "1e5", 100_000.0),
    (DOUBLE, ".5", 0.5),
    (DOUBLE, "5.", 5.0),
    (DOUBLE, "+INF", math.inf),
    (FLOAT, "1e39", math.inf),
    (JSON_DOCUMENT, ' {"b" : [1.0, null], "a": "x"} ', '{"a":"x","b":[1,null]}'),
    (JSON_DOCUMENT, '{"a":1,"a":2}', '{"a":2}'),
    (JSON_DOCUMENT, "12345678901234567890123", "1.2345678901234568e+22"),
    (JSON_DOCUMENT, "true", "true"),
    (UUID, "F9D5CC3F-F1DC-4D9C-B97E-766E57CA4CCB", bytes.fromhex("3fccd5f9dcf19c4db97e766e57ca4ccb")),
    (D52, "1.235", 124),
    (D52, "1.245", 124),
    (D52, "1.2450000001", 125),
    (D52, "-1.235", -124),
    (D52, "0.004", 0),
    (D52, "0.006", 1),
    (D52, "0.005", 0),
    (D52, "0.015", 2),
    (D52, "999.995", DECIMAL_INF),
    (D52, "1000", DECIMAL_INF),
    (D52, "-1e10", -DECIMAL_INF),
    (D52, "1e999999", DECIMAL_INF),
    (D52, "0e999999", 0),
    (D52, "1e-999999", 0),
    (D52, "12.5e1", 12_500),
    (D52, ".5", 50),
    (D52, "5.", 500),
    (D52, "+Inf", DECIMAL_INF),
    (D52, "NaN", DECIMAL_NAN),
    (DYNUMBER, "1.500", Decimal("1.5")),
    (DYNUMBER, "-0", Decimal(0)),
    (DYNUMBER, "0.001e3", Decimal(1)),
    (DYNUMBER, "1000000", Decimal(1_000_000)),
]


@pytest.mark.parametrize(("type", "text", "value"), READ)
def test_parse(type: Type, text: str, value: Value) -> None:
    assert texts.from_text(type, text) == value


MALFORMED: list[tuple[Type, str]] = [
    *((BOOL, text) for text in ("1", "yes", "", " true")),
    *((INT8, text) for text in ("128", "-129", "", "-", "1.0", "1e1", " 1", "1 ", "0x1", "1_0", "\u0661", "9" * 5000)),
    *((UINT8, text) for text in ("256", "-1", "-0")),
    *((DOUBLE, text) for text in ("", ".", "e5", "1e", "0x1p3", "1,5", " 1", "1_0", "infinit", "--1")),
    *((D52, text) for text in ("", ".", "-", "1e", "1.2.3", " 1", "x", "--1", "1_0", "infinity")),
    *((DYNUMBER, text) for text in ("", ".", "1e126", "1e-131", "1" * 39, "inf", "nan", "1e99999", "1e999999")),
    *(
        (UUID, text)
        for text in ("", "f9d5cc3f", "f9d5cc3ff1dc4d9cb97e766e57ca4ccb", "{f9d5cc3f-f1dc-4d9c-b97e-766e57ca4ccb}")
    ),
    *((JSON, text) for text in ("", "{", "[1,]", "NaN", "01", "'a'", "{a:1}", "[" * 100_000)),
    *((JSON_DOCUMENT, text) for text in ("", "{", "1e400", "[" * 100_000 + "]" * 100_000)),
    (UTF8, "\ud800"),
    (YSON, "["),
]


@pytest.mark.parametrize(("type", "text"), MALFORMED, ids=range(len(MALFORMED)))
def test_malformed(type: Type, text: str) -> None:
    assert texts.from_text(type, text) is None


@pytest.mark.parametrize("type", [VOID, ListType(INT8)])
def test_types_without_text(type: Type) -> None:
    assert not texts.has_text(type)
    with pytest.raises(TypeError):
        texts.to_text(type, None)
    with pytest.raises(TypeError):
        texts.from_text(type, "")


def test_floats_read_back(chance: random.Random) -> None:
    for _ in range(2000):
        value = chance.choice([-1, 1]) * chance.random() * 10.0 ** chance.randint(-30, 30)
        assert texts.from_text(DOUBLE, texts.to_text(DOUBLE, value)) == value
        single = texts.to_single(value)
        assert texts.from_text(FLOAT, texts.to_text(FLOAT, single)) == single


def test_decimals_read_back_and_round_as_the_standard_library(chance: random.Random) -> None:
    for _ in range(2000):
        type = DecimalType(precision := chance.randint(1, 35), chance.randint(0, precision))
        value = chance.randint(-(10**precision) + 1, 10**precision - 1)
        assert decimals.parse(decimals.to_text(value, type.scale), type) == value
        exact = Decimal(value).scaleb(-chance.randint(0, 40))
        scaled = int(exact.scaleb(type.scale).to_integral_value()) if exact else 0
        if abs(scaled) < 10**precision and len(exact.as_tuple().digits) < 28:
            assert decimals.parse(str(exact), type) == scaled


def test_dynumbers_read_back(chance: random.Random) -> None:
    for _ in range(2000):
        digits = "".join(chance.choice("0123456789") for _ in range(chance.randint(1, 38)))
        value = dynumbers.parse(f"{chance.choice(['', '-'])}.{digits}e{chance.randint(-90, 126)}")
        assert value is not None and dynumbers.is_valid(value)
        assert dynumbers.parse(dynumbers.to_text(value)) == value
        assert dynumbers.from_bytes(dynumbers.to_bytes(value)) == value


DYNUMBER_BYTES = [
    ("0", "01"),
    ("1", "028210"),
    ("3.14", "02823140"),
    ("-3.14", "007dcebf"),
    ("1e-130", "020010"),
    ("9e125", "02ff90"),
]


@pytest.mark.parametrize(("text", "data"), DYNUMBER_BYTES)
def test_dynumbers_as_bytes(text: str, data: str) -> None:
    value = dynumbers.parse(text)
    assert value is not None
    assert dynumbers.to_bytes(value).hex() == data


@pytest.mark.parametrize("data", ["", "00", "02", "0282", "0102", "0382", "02821a", "028200", "0282" + "11" * 20])
def test_bytes_that_are_no_dynumber(data: str) -> None:
    assert dynumbers.from_bytes(bytes.fromhex(data)) is None


def test_positive_dynumbers_order_as_their_bytes(chance: random.Random) -> None:
    values = [Decimal(chance.randint(1, 10**6)).scaleb(chance.randint(-20, 20)) for _ in range(200)]
    assert sorted(values) == sorted(values, key=dynumbers.to_bytes)


IS_YSON = [
    *(
        "1",
        "-1",
        "+1",
        "1u",
        "1.5",
        "-1e5",
        '"a"',
        "a",
        "a.b-c",
        "%true",
        "%false",
        "%nan",
        "%inf",
        "%-inf",
        "#",
        " 1 ",
    ),
    *("[]", "[1]", "[1;2]", "[1;2;]", "{}", "{a=1}", "{a=1;}", '{"a b"=1;c=[2;{d=3}]}', "<a=1>[3;%false]", "<>1"),
    *("<a=<b=1>2>3", "[<a=1>#;#]", '"\\x41\\"b"', "[[[[1]]];[]]", "[" * 5000 + "]" * 5000),
]
NO_YSON = [
    *(
        "",
        " ",
        "[",
        "]",
        "[1",
        "{a}",
        "{a=}",
        "{=1}",
        "{a=1;;}",
        "[;]",
        "[1 2]",
        "1 2",
        "<a=1>",
        '"a',
        "%maybe",
        "{1=2}",
    ),
    *("[1}", "{a=1]", "<a=1]1", "[1;2", "%", "[1,2]", "<a=1"),
]
BINARY_YSON = [
    (b"\x01\x06abc", True),
    (b"\x01\x08abc", False),
    (b"\x01\x05abc", False),
    (b"\x02\x07", True),
    (b"\x06\x80\x01", True),
    (b"\x02", False),
    (b"\x02\x80", False),
    (b"\x03" + bytes(8), True),
    (b"\x03" + bytes(7), False),
    (b"\x04", True),
    (b"\x05", True),
    (b"[\x01\x06abc;\x02\x07]", True),
    (b"{\x01\x02a=\x05;b=\x04}", True),
    (b"\x07", False),
]


@pytest.mark.parametrize(
    ("data", "valid"), [*((text.encode(), True) for text in IS_YSON), *((t.encode(), False) for t in NO_YSON)], ids=str
)
def test_yson(data: bytes, valid: bool) -> None:
    assert yson.is_valid(data) is valid


@pytest.mark.parametrize(("data", "valid"), BINARY_YSON)
def test_binary_yson(data: bytes, valid: bool) -> None:
    assert yson.is_valid(data) is valid
