"""`Knn::`: vectors as bytes, and distances between them."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from mayflydb.query.yql.types import DOUBLE, FLOAT, INT8, STRING, UINT8, ListType, TaggedType, Type
from yql_calling import null, result, typed, value

PACKED: list[tuple[str, Type, list[Any], str, bytes]] = [
    ("Float", FLOAT, [1.0, -2.5], "FloatVector", bytes.fromhex("0000803f000020c001")),
    ("Float", FLOAT, [], "FloatVector", b"\x01"),
    ("Uint8", UINT8, [0, 255], "Uint8Vector", b"\x00\xff\x02"),
    ("Int8", INT8, [-1, 127], "Int8Vector", b"\xff\x7f\x03"),
    ("Bit", FLOAT, [1.0, -1.0, 2.0], "BitVector", b"\x05\x05\x0a"),
    ("Bit", DOUBLE, [1.0] * 8, "BitVector", b"\xff\x00\x0a"),
    ("Bit", UINT8, [1, *[0] * 8], "BitVector", b"\x00\x01\x07\x0a"),
    ("Bit", INT8, [*[-1] * 63, 1, 1], "BitVector", b"\x01" + bytes(7) + b"\x01\x07\x0a"),
]


@pytest.mark.parametrize(("name", "kind", "items", "tag", "expected"), PACKED)
def test_vectors_as_bytes(name: str, kind: Type, items: list[Any], tag: str, expected: bytes) -> None:
    found = typed(f"Knn::ToBinaryString{name}", value(ListType(kind), items))
    assert found == (str(TaggedType(tag, STRING)), expected)


ONE, OTHER = bytes.fromhex("0000803f0000004001"), bytes.fromhex("000080400000a04001")
MEASURED = [
    ("InnerProductSimilarity", ONE, OTHER, 14.0),
    ("ManhattanDistance", ONE, OTHER, 6.0),
    ("EuclideanDistance", ONE, OTHER, 4.242640495300293),
    ("CosineSimilarity", ONE, OTHER, 0.9778023958206177),
    ("CosineDistance", ONE, ONE, 0.0),
    ("CosineSimilarity", b"\x00\x02", b"\x07\x02", 1.0),
    ("ManhattanDistance", b"\x01\x05\x02", b"\x03\x01\x02", 6.0),
    ("EuclideanDistance", b"\xff\x03", b"\x02\x03", 3.0),
    ("ManhattanDistance", b"\x05\x05\x0a", b"\x06\x05\x0a", 2.0),
    ("InnerProductSimilarity", b"\x05\x05\x0a", b"\x06\x05\x0a", 1.0),
    ("ManhattanDistance", ONE, b"\x01\x05\x02", None),
    ("ManhattanDistance", b"\x01\x02", b"\x01\x05\x02", None),
    ("ManhattanDistance", b"", b"", None),
    ("ManhattanDistance", b"abc", b"abc", None),
]


@pytest.mark.parametrize(("name", "one", "other", "expected"), MEASURED)
def test_distances(name: str, one: bytes, other: bytes, expected: float | None) -> None:
    assert typed(f"Knn::{name}", value(STRING, one), value(STRING, other)) == ("Float?", expected)


def test_a_distance_to_null_is_null() -> None:
    assert result("Knn::CosineDistance", value(STRING, ONE), null(STRING)) is None


def test_packed_vectors_unpack(chance: Random) -> None:
    for name, kind, low in (("Uint8", UINT8, 0), ("Int8", INT8, -128)):
        items = [chance.randrange(low, low + 256) for _ in range(chance.randrange(70))]
        packed = result(f"Knn::ToBinaryString{name}", value(ListType(kind), items))
        assert result("Knn::FloatFromBinaryString", value(STRING, packed)) == items
    signs = [chance.choice((-1.0, 1.0)) for _ in range(chance.randrange(200))]
    packed = result("Knn::ToBinaryStringBit", value(ListType(DOUBLE), signs))
    assert result("Knn::FloatFromBinaryString", value(STRING, packed)) is None
    ones = value(STRING, packed)
    assert result("Knn::InnerProductSimilarity", ones, ones) == signs.count(1.0)
