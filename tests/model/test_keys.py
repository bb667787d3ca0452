"""Order-preserving keys: order(encode(a), encode(b)) is order(a, b), and nothing is lost."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mayflydb.model.keys import UNDEFINED, KeyValue, decode, encode

MAX = 1.7976931348623157e308

# Ascending; values on one line are equal and have one key.
LADDER: list[list[KeyValue]] = [
    [UNDEFINED],
    [None],
    [False],
    [True],
    [-math.inf],
    [-(2**2039)],
    [-(2**1024)],
    [-int(MAX) - 1],
    [-MAX, -int(MAX)],
    [-(2**63) - 1],
    [-(2**63), -(2.0**63)],
    [-(2**63) + 1],
    [-(2**53) - 2, -(2.0**53) - 2],
    [-(2**53) - 1],
    [-(2**53), -(2.0**53)],
    [-(2**53) + 1],
    [-1.5],
    [-1, -1.0],
    [-0.1],
    [-5e-324],
    [0, 0.0, -0.0],
    [5e-324],
    [2.2250738585072014e-308],
    [0.1],
    [1, 1.0],
    [1.0000000000000002],
    [5, 5.0],
    [2**53 - 1],
    [2**53, 2.0**53],
    [2**53 + 1],
    [2**53 + 2, 2.0**53 + 2],
    [2**60, 2.0**60],
    [2**60 + 1],
    [2**60 + 255],
    [2**60 + 256, 2.0**60 + 256],
    [2**60 + 257],
    [2**64 - 1],
    [2**64, 2.0**64],
    [10**300 + 1],
    [MAX, int(MAX)],
    [int(MAX) + 1],
    [2**1024],
    [2**2039],
    [math.inf],
    [""],
    ["\x00"],
    ["\x00\x00"],
    ["\x00\x01"],
    ["\x00ÿ"],
    ["\x01"],
    ["5"],
    ["A"],
    ["a"],
    ["a\x00"],
    ["a\x00b"],
    ["a\x01"],
    ["ab"],
    ["b"],
    ["é"],
    ["日本"],
    ["\ud800"],
    ["\uffff"],
    ["\U00010000"],
    ["\U0010ffff"],
    [b""],
    [b"\x00"],
    [b"\x00\x00"],
    [b"\x00\xff"],
    [b"\x01"],
    [b"\xff"],
    [b"\xff\x00"],
    [b"\xff\xff"],
]


def rank(value: KeyValue) -> tuple[int, Any]:
    """The order of values, as Python compares them within a type."""
    if value is UNDEFINED or value is None or isinstance(value, bool):
        return [UNDEFINED, None, False, True].index(value), 0
    if isinstance(value, (int, float)):
        return 4, value
    return (5, value) if isinstance(value, str) else (6, value)


NUMBERS = st.one_of(
    st.integers(),
    st.integers(-(2**70), 2**70),
    st.integers(-(2**1100), 2**1100),
    st.floats(allow_nan=False),
    st.floats(allow_nan=False).filter(math.isfinite).map(int),
    st.builds(lambda power, step: 2**power + step, st.integers(50, 1030), st.integers(-3, 3)),
)
VALUES: st.SearchStrategy[KeyValue] = st.one_of(
    st.sampled_from([UNDEFINED, None, False, True]), NUMBERS, st.text(st.characters()), st.binary()
)
TUPLES = st.lists(VALUES, max_size=4).map(tuple)
NEAR = st.lists(st.sampled_from([UNDEFINED, None, True, 0, 5, 5.5, "", "a", "a\x00", b"", b"\x00"]), max_size=4).map(
    tuple
)


def test_ladder_order() -> None:
    for low, high in pairwise(LADDER):
        assert encode([low[0]]) < encode([high[0]]), f"{low} < {high}"


def test_ladder_equals() -> None:
    for step in LADDER:
        assert len({encode([value]) for value in step}) == 1, step


@given(VALUES, VALUES)
@example(2**53 + 1, 2.0**53)
@example(2**1024, math.inf)
def test_order_of_values(left: KeyValue, right: KeyValue) -> None:
    assert (encode([left]) < encode([right])) == (rank(left) < rank(right))
    assert (encode([left]) == encode([right])) == (rank(left) == rank(right))


@given(st.one_of(st.tuples(TUPLES, TUPLES), st.tuples(NEAR, NEAR)))
@settings(max_examples=400)
def test_order_of_tuples(pair: tuple[tuple[KeyValue, ...], tuple[KeyValue, ...]]) -> None:
    left, right = pair
    expected = [rank(value) for value in left] < [rank(value) for value in right]
    assert (encode(left) < encode(right)) == expected


@given(TUPLES)
def test_round_trip(values: tuple[KeyValue, ...]) -> None:
    decoded = decode(encode(values))
    assert [rank(value) for value in decoded] == [rank(value) for value in values]
    assert encode(decoded) == encode(values)


@given(TUPLES, TUPLES)
def test_joined(left: tuple[KeyValue, ...], right: tuple[KeyValue, ...]) -> None:
    """Keys join as tuples do, and prefix + FF lies above all that begins with the prefix."""
    assert encode(left) + encode(right) == encode(left + right)
    assert encode(left + right) < encode(left) + b"\xff"


@given(VALUES, VALUES)
def test_no_key_begins_another(left: KeyValue, right: KeyValue) -> None:
    """So a complemented key orders exactly the other way round."""
    if rank(left) != rank(right):
        assert not encode([left]).startswith(encode([right]))


@pytest.mark.parametrize(
    ("value", "decoded"),
    [
        (5.0, 5),
        (-0.0, 0),
        (2.0**53, 2**53),
        (2**53 + 1, 2**53 + 1),
        (2**60, 2.0**60),
        (1e300, 1e300),
        (0.5, 0.5),
        (-math.inf, -math.inf),
        (2**1024, 2**1024),
    ],
)
def test_decoded_type(value: float, decoded: float) -> None:
    (found,) = decode(encode([value]))
    assert (type(found), found) == (type(decoded), decoded)


@pytest.mark.parametrize("value", [[], {}, (), object(), bytearray(b"x"), 1j])
def test_other_types(value: Any) -> None:
    with pytest.raises(TypeError):
        encode([value])


@pytest.mark.parametrize("value", [math.nan, -math.nan, 2**2400, -(2**2400)])
def test_no_place(value: float) -> None:
    with pytest.raises(ValueError, match=r"NaN|2040"):
        encode([value])


def test_malformed_keys() -> None:
    """Whatever cuts a key short inside a value is noticed."""
    for value in (5, -(2**60) - 1, 2**60 + 1, "ab", b"x"):
        key = encode([value])
        for length in range(1, len(key)):
            with pytest.raises(ValueError, match="no key"):
                decode(key[:length])
    for tag in (0x00, 0x05, 0x80, 0xFF):
        with pytest.raises(ValueError, match="no key"):
            decode(bytes([tag]))
