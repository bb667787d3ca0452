"""Bytes of values: they sort as the values, none is a prefix of another, and complements reverse the order."""

from __future__ import annotations

import itertools
import random
from decimal import Decimal
from typing import Any

import pytest
from bson import Binary, Code, DatetimeMS, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp

from mayflydb.query.mongo.indexes.key_bytes import encode_descending, encode_value, id_key, prefix_end
from mayflydb.query.mongo.values import MISSING, order_key

NUMBERS: list[Any] = [
    float("nan"),
    Decimal128("NaN"),
    float("-inf"),
    Decimal128("-Infinity"),
    Decimal128("-1E+6144"),
    -1.7976931348623157e308,
    Int64(-(1 << 63)),
    Int64(-(1 << 53) - 1),
    -(float(1 << 53)),
    Decimal128("-9007199254740993.5"),
    -5,
    -5.0,
    Decimal128("-5.00"),
    -0.1,
    Decimal128("-0.1"),
    Decimal128("-1E-6176"),
    0,
    -0.0,
    Decimal128("-0"),
    Decimal128("1E-6176"),
    5e-324,
    0.1,
    Decimal128("0.1"),
    Decimal128("0.1000000000000000055511151231257827"),
    1,
    Decimal128("1.0"),
    Decimal128("9.999999999999999999999999999999999"),
    10,
    Int64((1 << 53) - 1),
    Int64(1 << 53),
    Int64((1 << 53) + 1),
    Decimal128("9007199254740992.5"),
    Decimal128("9007199254740993"),
    Decimal128("9007199254740993.5"),
    float((1 << 53) + 2),
    Int64((1 << 63) - 1),
    9.223372036854775807e18,
    Decimal128("9223372036854775807.5"),
    1.7976931348623157e308,
    Decimal128("1E+309"),
    Decimal128("9.999999999999999999999999999999999E+6144"),
    float("inf"),
    Decimal128("Infinity"),
]

OTHERS: list[Any] = [
    MinKey(),
    MISSING,
    None,
    "",
    "\0",
    "\x01",
    "\x01\x01",
    "a",
    "a\0",
    "a\0b",
    "a\x01",
    "aa",
    "é",
    "\ud800",
    "\U0001f600",
    {},
    {"a": 1},
    {"a": 1.0},
    {"a": "x"},
    {"a": 1, "b": None},
    {"b": 1},
    {"a": {"b": [1]}},
    {"$ref": "c", "$id": 1},
    [],
    [None],
    [1, 2],
    [1, [2]],
    [[]],
    b"",
    Binary(b"\0\xff", 4),
    b"\0\xff",
    b"\xff" * 3,
    ObjectId("0" * 24),
    ObjectId("f" * 24),
    False,
    True,
    DatetimeMS(-(1 << 63)),
    DatetimeMS(-1),
    DatetimeMS((1 << 63) - 1),
    Timestamp(0, 1),
    Timestamp(1, 0),
    Regex("a", "i"),
    Regex("a"),
    Regex("a\0", "x"),
    Code("f"),
    Code("f", {"a": 1}),
    MaxKey(),
]

VALUES = NUMBERS + OTHERS


def random_value(chance: random.Random, depth: int = 2) -> Any:
    """A value of any type, most of them small so that many are near each other."""
    draw = chance.random()
    if depth and draw < 0.12:
        return [random_value(chance, depth - 1) for _ in range(chance.randrange(3))]
    if depth and draw < 0.24:
        return {
            chance.choice(["a", "b", "ab", ""]): random_value(chance, depth - 1) for _ in range(chance.randrange(3))
        }
    if draw < 0.4:
        return "".join(chance.choice("\0\x01\x02abé￿") for _ in range(chance.randrange(4)))
    if draw < 0.7:
        return random_number(chance)
    return chance.choice(OTHERS[:1] + OTHERS[2:])


def random_number(chance: random.Random) -> Any:
    whole = chance.choice(
        [chance.randrange(-3, 4), chance.getrandbits(63) - (1 << 62), (1 << 53) + chance.randrange(4)]
    )
    number = Decimal(whole) + Decimal(chance.choice(["0", "0.5", "0.1", "1e-20"]))
    kind = chance.randrange(4)
    if kind == 0:
        return whole if abs(whole) < 1 << 31 else Int64(whole)
    return float(number) if kind < 3 else Decimal128(str(number)[:34])


def check_order(one: Any, other: Any) -> None:
    a, b = encode_value(one), encode_value(other)
    left, right = order_key(one), order_key(other)
    assert (a < b, a == b) == (left < right, left == right), (one, other)
    if a != b:
        assert not a.startswith(b) and not b.startswith(a)
        assert (encode_descending(a) > encode_descending(b)) == (a < b)
        assert (a + b"\xff" < b + b"\0") == (a < b)


def test_bytes_order_as_the_values_do() -> None:
    for one, other in itertools.product(VALUES, VALUES):
        check_order(one, other)


def test_bytes_order_as_random_values_do(chance: random.Random) -> None:
    values = [random_value(chance) for _ in range(150)]
    for one, other in itertools.combinations(values, 2):
        check_order(one, other)


@pytest.mark.parametrize("group", [(5, Int64(5), 5.0, Decimal128("5.0")), ({"a": 1}, {"a": 1.0}), (b"x", Binary(b"x"))])
def test_equal_ids_are_one(group: tuple[Any, ...]) -> None:
    assert len({id_key(each) for each in group}) == 1


@pytest.mark.parametrize("prefix", [b"a", b"a\xff", b"a\xff\xff", b"\x00"])
def test_prefix_end_is_above_all_with_the_prefix_and_below_the_others(prefix: bytes) -> None:
    bound = prefix_end(prefix)
    assert prefix < bound and prefix + b"\xff" * 9 < bound
    assert not any(prefix + b"\xff" * 9 < each < bound for each in (prefix[:-1] + bytes((n,)) for n in range(256)))
