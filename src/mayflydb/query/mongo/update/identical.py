"""Whether two values are the same bytes: what decides that an update changed nothing."""

from __future__ import annotations

from bson import Int64, ObjectId

from mayflydb.query.mongo.values import MISSING, Value, encode

_PLAIN = (str, int, bool, type(None), Int64, ObjectId)


def identical(one: Value, other: Value) -> bool:
    """Stricter than `values.equal`: 1 and 1.0 differ, and so do 0.0 and -0.0."""
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
