"""The values of the language: decoded JSON and `undefined`; equality, order and keys.

A value is None, bool, int, float, str, list, dict or UNDEFINED. Numbers are IEEE doubles; an int stands for the double it
equals. Python holds that True == 1, so every comparison here looks at the type first.
"""

from __future__ import annotations

import struct
from typing import Any, Final, TypeAlias

Value: TypeAlias = Any
"""Decoded JSON or UNDEFINED."""


class Undefined:
    """The type of UNDEFINED, the value of a missing property or of a failed operation. Its one instance is compared by `is`."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "undefined"

    def __reduce__(self) -> str:
        return "UNDEFINED"


UNDEFINED: Final = Undefined()

NUMBERS: Final = frozenset({int, float})

_COMPARABLE: Final[dict[type, int]] = {type(None): 1, bool: 2, int: 3, float: 3, str: 4}
"""The types that `<` compares; two values are comparable if their numbers here are equal."""

_NUMBER_RANK: Final = 4
_RANKS: Final[dict[type, int]] = {Undefined: 0, type(None): 1, int: 4, float: 4, str: 5, list: 6, dict: 7}
"""The ranks of ORDER BY: undefined, null, false, true, numbers, strings, arrays, objects; false is 2 and true is 3."""


def is_same(left: Value, right: Value) -> bool:
    """Deep, strict equality of two defined values: 1 and 1.0 are the same, 1 and true are not."""
    kind = type(left)
    if kind is str:
        return type(right) is str and bool(left == right)
    if kind is int or kind is float:
        return type(right) in NUMBERS and bool(left == right)
    if kind is not type(right):
        return False
    if kind is list:
        return len(left) == len(right) and all(map(is_same, left, right))
    if kind is dict:
        return len(left) == len(right) and all(
            name in right and is_same(value, right[name]) for name, value in left.items()
        )
    return left is right


def is_comparable(left: Value, right: Value) -> bool:
    """True if `<` has a result: both null, both booleans, both numbers or both strings."""
    kind = _COMPARABLE.get(type(left))
    return kind is not None and kind == _COMPARABLE.get(type(right))


def order_key(value: Value) -> tuple[int, Any]:
    """Return a pair that sorts like ORDER BY ascending; pairs of any two values can be compared."""
    kind = type(value)
    if kind is bool:
        return (3, 0) if value else (2, 0)
    rank = _RANKS[kind]
    if rank == _NUMBER_RANK or kind is str:
        return rank, value
    if kind is list:
        return rank, tuple(map(order_key, value))
    if kind is dict:
        return rank, tuple((name, order_key(value[name])) for name in sorted(value))
    return rank, 0


class ReversedKey:
    """Reverses the order of a value, for a DESC key that cannot be negated."""

    __slots__ = ("held",)

    def __init__(self, held: Any) -> None:
        self.held = held

    def __lt__(self, other: ReversedKey) -> bool:
        return bool(other.held < self.held)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ReversedKey) and bool(self.held == other.held)

    __hash__ = None  # type: ignore[assignment]


def descending_key(value: Value) -> tuple[int, Any]:
    """Return a pair that sorts like ORDER BY descending."""
    rank, held = order_key(value)
    return -rank, (-held if rank <= _NUMBER_RANK else ReversedKey(held))


def group_key(*values: Value) -> bytes:
    """Return bytes that are equal exactly if the values are the same, as DISTINCT and GROUP BY understand it.

    The keys are bytes because Python salts the hash of bytes and not the hash of numbers: no client can choose values that
    collide.
    """
    out: list[bytes] = []
    for value in values:
        _write_key(value, out)
    return b"".join(out)


# One tag, then the value. Lengths come first, so the end of each value is known and keys can be joined:
#   u undefined   z null   t true   f false   n double   s length, UTF-8   i length, hexadecimal digits
#   a count, values   o count, then name (as s) and value of each property, sorted by name
_double = struct.Struct("<d").pack
_length = struct.Struct("<I").pack
_CONSTANT_KEYS: Final[dict[Any, bytes]] = {UNDEFINED: b"u", None: b"z", True: b"t", False: b"f"}


def _write_key(value: Value, out: list[bytes]) -> None:
    kind = type(value)
    if kind is str:
        _write_text(value, out)
    elif kind is int or kind is float:
        out.append(_number_key(value))
    elif kind is list:
        out.append(b"a" + _length(len(value)))
        for item in value:
            _write_key(item, out)
    elif kind is dict:
        out.append(b"o" + _length(len(value)))
        for name in sorted(value):
            _write_text(name, out)
            _write_key(value[name], out)
    else:
        out.append(_CONSTANT_KEYS[value])


def _write_text(text: str, out: list[bytes]) -> None:
    encoded = text.encode("utf-8", "surrogatepass")
    out.append(b"s" + _length(len(encoded)) + encoded)


def _number_key(number: float) -> bytes:
    try:
        as_double = float(number)
    except OverflowError:
        as_double = 0.0
    if as_double == number:
        # The sum makes 0.0 of -0.0.
        return b"n" + _double(as_double + 0.0)
    # An integer between two doubles equals no double. Hexadecimal is written in linear time, decimal is not.
    digits = b"%x" % int(number)
    return b"i" + _length(len(digits)) + digits
