"""Keys as bytes: they sort as values do, a prefix of the values is a prefix of the bytes, and they decode to the values."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from decimal import Decimal

import pytest

from mayflydb.query.yql import comparison, keys, moments
from mayflydb.query.yql.texts import BOUNDS
from mayflydb.query.yql.types import (
    BOOL,
    DATE,
    DECIMAL_INF,
    DECIMAL_NAN,
    DOUBLE,
    DYNUMBER,
    FLOAT,
    INT16,
    INT64,
    INTEGERS,
    JSON,
    STRING,
    TZ_TIMESTAMP,
    UINT8,
    UINT64,
    UTF8,
    UUID,
    DecimalType,
    ListType,
    OptionalType,
    Type,
    Value,
)

D229 = DecimalType(22, 9)


def integer(type: Type) -> Callable[[random.Random], Value]:
    low, high = BOUNDS.get(type) or moments.LIMITS[type]
    return lambda chance: chance.choice([low, high, chance.randint(low, high), chance.randint(max(low, -3), 3)])


def data(chance: random.Random) -> bytes:
    return bytes(chance.choice([0, 0, 1, 97, 254, 255, 255]) for _ in range(chance.randrange(5)))


def text(chance: random.Random) -> str:
    return "".join(chance.choice("\x00\x00\x01az\u00e9\uffff\U00010000") for _ in range(chance.randrange(5)))


def number(chance: random.Random) -> float:
    return chance.choice([0.0, -0.0, math.inf, -math.inf, chance.uniform(-2, 2), chance.uniform(-1, 1) * 1e300, 5e-324])


def dynumber(chance: random.Random) -> Decimal:
    digits = tuple(chance.choice([0, 0, 1, 3, 9]) for _ in range(chance.choice([1, 2, 3, 4, 38])))
    exponent = chance.choice([-2, -1, 0, 1, 80, -130 + len(digits)]) - len(digits)
    return Decimal((chance.randrange(2), (1, *digits[1:]), exponent))


VALUES: dict[Type, Callable[[random.Random], Value]] = {
    BOOL: lambda chance: chance.random() < 0.5,
    **{each: integer(each) for each in (*INTEGERS, *moments.NARROW, *moments.WIDE, *moments.INTERVALS)},
    STRING: data,
    UTF8: text,
    UUID: lambda chance: chance.randbytes(16) if chance.random() < 0.5 else bytes(15) + bytes([chance.randrange(256)]),
    DOUBLE: number,
    FLOAT: lambda chance: chance.choice([0.0, 0.5, -1.5, math.inf]),
    DYNUMBER: dynumber,
    D229: lambda chance: chance.choice(
        [chance.randint(-(10**22), 10**22), 0, -1, DECIMAL_INF, -DECIMAL_INF, DECIMAL_NAN]
    ),
    TZ_TIMESTAMP: lambda chance: (chance.randrange(5), chance.choice(["GMT", "Europe/Moscow"])),
}


def row(types: list[Type], chance: random.Random) -> tuple[Value, ...]:
    return tuple(None if chance.random() < 0.1 else VALUES[type](chance) for type in types)


def draw(chance: random.Random) -> list[Type]:
    return [chance.choice(list(VALUES)) for _ in range(chance.randint(1, 4))]


@pytest.mark.parametrize("type", VALUES, ids=str)
def test_order_of_one_column(type: Type, chance: random.Random) -> None:
    order = comparison.sort_key(OptionalType(type))
    values = [*(VALUES[type](chance) for _ in range(150)), None]
    encoded = {index: keys.encode_key([type], [value]) for index, value in enumerate(values)}
    for a in range(len(values)):
        for b in range(len(values)):
            first, second = order(values[a]), order(values[b])
            assert (first < second) == (encoded[a] < encoded[b]), (values[a], values[b])
            assert (first == second) == (encoded[a] == encoded[b]), (values[a], values[b])


def test_order_of_several_columns(chance: random.Random) -> None:
    for _ in range(300):
        types = draw(chance)
        orders = [comparison.sort_key(OptionalType(type)) for type in types]
        shared = row(types, chance)
        rows = [row(types, chance) for _ in range(5)]
        # Rows that agree in their first columns are where orders go wrong.
        cuts = [chance.randint(0, len(types)) for _ in range(5)]
        rows += [(*shared[:cut], *row(types[cut:], chance)) for cut in cuts]
        expected = sorted(
            rows, key=lambda values: tuple(order(value) for order, value in zip(orders, values, strict=True))
        )
        got = sorted(rows, key=lambda values: keys.encode_key(types, values))
        assert [keys.encode_key(types, values) for values in got] == [
            keys.encode_key(types, values) for values in expected
        ]


def test_prefixes(chance: random.Random) -> None:
    """Exactly the rows that begin with some values have keys that begin with the key of those values."""
    for _ in range(300):
        types = draw(chance)
        rows = [row(types, chance) for _ in range(8)]
        count = chance.randint(0, len(types))
        orders = [comparison.sort_key(OptionalType(type)) for type in types]
        prefix = rows[0][:count]
        encoded = keys.encode_key(types, prefix)
        for values in rows:
            begins = all(key(a) == key(b) for key, a, b in zip(orders, prefix, values, strict=False))
            key = keys.encode_key(types, values)
            assert key.startswith(encoded) == begins
            assert not begins or encoded <= key < encoded + b"\xff"


def test_keys_read_back(chance: random.Random) -> None:
    for _ in range(500):
        types = draw(chance)
        values = row(types, chance)[: chance.randint(0, len(types))]
        key = keys.encode_key(types, values)
        assert keys.decode_key(types, key) == values
        assert keys.key_encoder(tuple(types[: len(values)]))(values) == key


def test_columns_that_take_null_have_the_same_bytes() -> None:
    assert keys.encode_key([OptionalType(UINT64)], [5]) == keys.encode_key([UINT64], [5])


ENCODED: list[tuple[Type, Value, str]] = [
    (UINT8, None, "10"),
    (UINT8, 5, "2005"),
    (INT16, -1, "207fff"),
    (UINT64, 5, "200000000000000005"),
    (DATE, 1, "208000000000000001"),
    (STRING, b"a\x00b", "206100ff620000"),
    (UTF8, "", "200000"),
    (BOOL, True, "2001"),
    (DOUBLE, -0.0, "208000000000000000"),
    (DYNUMBER, Decimal(0), "2002"),
    (DYNUMBER, Decimal("3.14"), "200382202900"),
    (DYNUMBER, Decimal("-3.14"), "20017ddfd6ff"),
    (D229, 0, "2080000000000000000000000000000000"),
]


@pytest.mark.parametrize(("type", "value", "encoded"), ENCODED)
def test_bytes_that_stores_hold(type: Type, value: Value, encoded: str) -> None:
    """Stores hold these bytes: another encoding would not find their rows."""
    assert keys.encode_key([type], [value]).hex() == encoded


def test_nan_is_last_and_reads_back() -> None:
    key = keys.encode_key([DOUBLE], [math.nan])
    assert key > keys.encode_key([DOUBLE], [math.inf])
    assert math.isnan(keys.decode_key([DOUBLE], key)[0])


@pytest.mark.parametrize("type", [JSON, ListType(INT64), OptionalType(OptionalType(INT64))])
def test_types_that_no_key_has(type: Type) -> None:
    with pytest.raises(TypeError):
        keys.encode_key([type], [None])


BROKEN = [
    (UINT64, "30"),
    (UINT64, "20000000"),
    (STRING, "2061"),
    (STRING, "206100"),
    (STRING, "20610001"),
    (UTF8, "20ff0000"),
    (UUID, "2000"),
    (D229, "2000"),
    (DYNUMBER, "20038211"),
    (DYNUMBER, "20"),
    (UINT8, "200520"),
    (DOUBLE, "2080"),
]


@pytest.mark.parametrize(("type", "key"), BROKEN)
def test_bytes_that_are_no_key(type: Type, key: str) -> None:
    with pytest.raises(ValueError, match="no key"):
        keys.decode_key([type], bytes.fromhex(key))
