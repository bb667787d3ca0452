"""Byte equality of values, by which an update that changes nothing is recognized."""

from __future__ import annotations

from bson import Int64, ObjectId

from mayflydb.query.mongo.values import MISSING, Value, encode

# Types whose equality in Python is that of their bytes. Not double: 0.0 equals -0.0, and NaN does not equal itself.
_PLAIN = (str, int, bool, type(None), Int64, ObjectId)


def identical(one: Value, other: Value) -> bool:
    """Return whether two values have the same bytes. Unlike in `values.equal`, 1 and 1.0 differ, and so do 0.0 and -0.0."""
    if one is other:
        return True
    kind = type(one)
    if kind is not type(other) or one is MISSING:
        return False
    if kind in _PLAIN:
        return bool(one == other)
    if kind in (dict, list) and len(one) != len(other):
        return False
    return encode({"": one}) == encode({"": other})
