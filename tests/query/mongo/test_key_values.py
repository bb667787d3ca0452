"""Decoded keys: the value of a key has that key, and the narrowest type among the values that have it."""

from __future__ import annotations

import random
from typing import Any

import pytest
from bson import Binary, DatetimeMS, Decimal128, Int64, ObjectId

from mayflydb.query.mongo.indexes.key_bytes import id_key
from mayflydb.query.mongo.indexes.key_values import decode_key
from query.mongo.test_key_bytes import VALUES, random_value


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_a_decoded_value_has_the_same_key(value: Any) -> None:
    assert id_key(decode_key(id_key(value))) == id_key(value)


def test_a_decoded_random_value_has_the_same_key(chance: random.Random) -> None:
    for _ in range(2000):
        key = id_key(random_value(chance))
        assert id_key(decode_key(key)) == key


@pytest.mark.parametrize(
    ("value", "read"),
    [
        ("a\0b", "a\0b"),
        (5.0, 5),
        (Decimal128("5.00"), 5),
        (Int64(5), 5),
        (-0.0, 0),
        (1 << 31, Int64(1 << 31)),
        (float(1 << 53), Int64(1 << 53)),
        (Int64((1 << 63) - 1), Int64((1 << 63) - 1)),
        (Int64(-(1 << 53) - 1), Int64(-(1 << 53) - 1)),
        (0.5, 0.5),
        (Decimal128("0.1"), Decimal128("0.1")),
        (Decimal128("-9007199254740993.5"), Decimal128("-9007199254740993.5")),
        (ObjectId("0" * 24), ObjectId("0" * 24)),
        (Binary(b"\1\2", 4), Binary(b"\1\2", 4)),
        (DatetimeMS(-1), DatetimeMS(-1)),
        ({"a": [1, {"b": None}]}, {"a": [1, {"b": None}]}),
        ([[], "x", True], [[], "x", True]),
    ],
    ids=repr,
)
def test_a_key_decodes_to_the_narrowest_type(value: Any, read: Any) -> None:
    found = decode_key(id_key(value))
    assert (found, type(found)) == (read, type(read))


@pytest.mark.parametrize(
    "key", [b"", b"\0", b"\x01x", id_key("a")[:-1], id_key("a") + b"\0", id_key(5)[:-2], id_key(5)[:1]]
)
def test_invalid_keys_are_refused(key: bytes) -> None:
    with pytest.raises(ValueError, match=r"no key|not found"):
        decode_key(key)
