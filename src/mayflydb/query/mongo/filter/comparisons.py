"""Tests of one value against another: equality, order within a class of types, membership."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from bson import DatetimeMS, Decimal128, Int64, MaxKey, MinKey, ObjectId

from mayflydb.query.mongo.collation import Collation
from mayflydb.query.mongo.filter.nodes import Test, always, disjunction, never
from mayflydb.query.mongo.values import MISSING, Value, order_key, type_class

PYTHON_NUMBERS: Final = frozenset((int, Int64, float))
"""The number types whose values Python compares exactly."""

_ORDERS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "$lt": operator.lt,
    "$lte": operator.le,
    "$gt": operator.gt,
    "$gte": operator.ge,
}


def is_null(value: Value) -> bool:
    """Return whether `{a: null}` matches a value: null or MISSING."""
    return value is None or value is MISSING


def equality(wanted: Value, collation: Collation) -> Test:
    """Return the test that a value equals `wanted`."""
    kind = type(wanted)
    if wanted is None or wanted is MISSING:
        return is_null
    if kind is bool:
        return lambda value: value is wanted
    if kind is str and collation.is_simple:
        return lambda value: value == wanted and type(value) is str
    # NaN equals NaN in MongoDB and not in Python: it is compared by its key.
    if kind in PYTHON_NUMBERS and wanted == wanted:
        return _number_equality(wanted)
    if kind is ObjectId:
        return lambda value: type(value) is ObjectId and value == wanted
    if kind is DatetimeMS:
        moment = int(wanted)
        return lambda value: type(value) is DatetimeMS and int(value) == moment
    key, group, key_of = collation.order_key(wanted), type_class(wanted), collation.order_key
    return lambda value: type_class(value) == group and key_of(value) == key


def _number_equality(wanted: Any) -> Test:
    key = order_key(wanted)

    def test(value: Value) -> bool:
        if type(value) in PYTHON_NUMBERS:
            return bool(value == wanted)
        return type(value) is Decimal128 and order_key(value) == key

    return test


def ordering(name: str, wanted: Value, collation: Collation) -> Test:
    """Return the test of `$lt`, `$lte`, `$gt` or `$gte`: a value of the same class of types stands in that order to
    `wanted`.
    """
    compare, kind = _ORDERS[name], type(wanted)
    inclusive = name in ("$lte", "$gte")
    if wanted is None:
        return is_null if inclusive else never
    if kind in (MinKey, MaxKey):
        return _extreme_ordering(name, kind, inclusive)
    if kind is str and collation.is_simple:
        return lambda value: type(value) is str and compare(value, wanted)
    if kind in PYTHON_NUMBERS or kind is Decimal128:
        return _number_ordering(compare, wanted, inclusive)
    if kind is DatetimeMS:
        moment = int(wanted)
        return lambda value: type(value) is DatetimeMS and compare(int(value), moment)
    key, group, key_of = collation.order_key(wanted), type_class(wanted), collation.order_key
    return lambda value: type_class(value) == group and compare(key_of(value), key)


def _extreme_ordering(name: str, kind: type, inclusive: bool) -> Test:
    """Return the test against MinKey or MaxKey, which compare with values of every type and with missing fields."""
    if (kind is MinKey) == (name in ("$gt", "$gte")):
        return always if inclusive else lambda value: type(value) is not kind
    return (lambda value: type(value) is kind) if inclusive else never


def _number_ordering(compare: Callable[[Any, Any], bool], wanted: Any, inclusive: bool) -> Test:
    key = order_key(wanted)
    nan = order_key(float("nan"))
    # `$lt` and `$gt` of NaN match nothing, `$lte` and `$gte` match NaN.
    if key == nan:
        return equality(wanted, Collation()) if inclusive else never

    def by_key(value: Value) -> bool:
        found = order_key(value)
        # NaN has the smallest key, but no range of numbers contains it.
        return found != nan and compare(found, key)

    if type(wanted) is Decimal128:
        return lambda value: (type(value) in PYTHON_NUMBERS or type(value) is Decimal128) and by_key(value)

    def test(value: Value) -> bool:
        if type(value) in PYTHON_NUMBERS:
            # Every comparison with a double NaN is false, as it has to be here.
            return compare(value, wanted)
        return type(value) is Decimal128 and by_key(value)

    return test


def membership(wanted: Sequence[Value], patterns: Sequence[Test], collation: Collation) -> Test:
    """Return the test that a value equals one of `wanted` or matches one of the patterns."""
    tests = [] if not wanted else [_value_membership(wanted, collation)]
    return disjunction([*tests, *patterns])


def _value_membership(wanted: Sequence[Value], collation: Collation) -> Test:
    if len(wanted) == 1:
        return equality(wanted[0], collation)
    kinds = {type(each) for each in wanted}
    if kinds in ({str}, {ObjectId}) and collation.is_simple:
        (kind,) = kinds
        known = frozenset(wanted)
        return lambda value: type(value) is kind and value in known
    key_of = collation.order_key
    keys = frozenset(map(key_of, wanted))
    classes = frozenset(map(type_class, wanted))
    null = None in wanted

    def test(value: Value) -> bool:
        if value is MISSING:
            return null
        # Keys of documents and arrays are long: they are built only if a document or an array is wanted.
        return type_class(value) in classes and key_of(value) in keys

    return test
