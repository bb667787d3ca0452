"""Queries that the keys of an index decide exactly: a range of keys holds all matches and nothing else.

Such a query has only equalities and comparisons with simple values. Its plan depends on its shape alone, which is made of its
paths, its operators and the types of its operands. So one plan serves all queries of a shape, and its documents are not decoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from bson import DatetimeMS, Int64, ObjectId

from mayflydb.query.mongo.indexes.bounds import Range, type_interval
from mayflydb.query.mongo.indexes.key_bytes import encode_descending, encode_value, prefix_end
from mayflydb.query.mongo.indexes.keys import KEY_PREFIX_SIZE
from mayflydb.query.mongo.indexes.planner import Plan
from mayflydb.query.mongo.indexes.specs import IndexSpec
from mayflydb.query.mongo.paths import array_index, split_path
from mayflydb.query.mongo.values import Document, Value

EXACT_TYPES: Final = frozenset({int, Int64, float, str, ObjectId, bool, DatetimeMS})
"""Types of operands whose keys have the same order and the same equalities as the values that a query compares them with."""

_COMPARISONS: Final = frozenset({"$gt", "$gte", "$lt", "$lte"})

MAX_CONDITIONS: Final = 8

Shape: TypeAlias = tuple[tuple[str, str, type], ...]
"""(path, operator, type of the operand) of each condition. An equality has no operator."""


class ExactPlan(NamedTuple):
    """The index that decides the queries of a shape.

    `points`: for each leading field of the index with an equality, the position of its operand, and whether the field descends.
    `bounds`: (operator, position of its operand) for the comparisons of the next field.
    """

    spec: IndexSpec
    points: tuple[tuple[int, bool], ...]
    bounds: tuple[tuple[str, int], ...]


def shape_of(query: Document) -> tuple[Shape, list[Value]] | None:
    """Return the shape of a query and its operands; None: it has other conditions, or one on `_id`."""
    shape: list[tuple[str, str, type]] = []
    operands: list[Value] = []
    if len(query) > MAX_CONDITIONS:
        return None
    for path, value in query.items():
        if path[:1] == "$" or path == "_id":
            return None
        conditions = value.items() if type(value) is dict else (("", value),)
        for operator, operand in conditions:
            kind = type(operand)
            # NaN equals itself in a filter, and compares with nothing.
            if kind not in EXACT_TYPES or operand != operand:
                return None
            if operator == "$eq" and len(conditions) == 1:
                operator = ""
            elif operator and operator not in _COMPARISONS:
                return None
            shape.append((path, operator, kind))
            operands.append(operand)
        if not conditions:
            return None
    return tuple(shape), operands


def find_exact_plan(plan: Plan, shape: Shape, specs: Sequence[IndexSpec]) -> ExactPlan | None:
    """Return the exact plan of a shape, given the plan of one query; None: the keys do not decide it.

    `specs`: the indexes from which the plan was chosen.
    """
    spec = plan.index
    # Another query of this shape may lie within a partial index.
    if plan.kind not in ("seek", "walk") or spec is None or any(each.partial is not None for each in specs):
        return None
    if spec.kind != "ordered" or not spec.collator.is_simple or plan.multikey:
        return None
    # A number in a path may be a field or a position, which have separate keys.
    if any(array_index(part) is not None for path, _, _ in shape for part in split_path(path)):
        return None
    points: list[tuple[int, bool]] = []
    bounds: tuple[tuple[str, int], ...] = ()
    for path, direction in spec.key:
        own = [(operator, at) for at, (named, operator, _) in enumerate(shape) if named == path]
        if not own or direction not in (1, -1):
            break
        if own[0][0]:
            bounds = tuple(own) if direction == 1 else ()
            break
        points.append((own[0][1], direction == -1))
    # What is left is a condition that the range of keys does not decide.
    return ExactPlan(spec, tuple(points), bounds) if len(points) + len(bounds) == len(shape) else None


def exact_range(plan: ExactPlan, operands: Sequence[Value]) -> Range | None:
    """Return the range of keys that the query of these operands matches; None: a bound is too long to be exact.

    It is empty if the conditions exclude each other.
    """
    start = b""
    for at, descends in plan.points:
        key = encode_value(operands[at])
        start += encode_descending(key) if descends else key
    lower, upper = start, prefix_end(start) if start else b""
    for operator, at in plan.bounds:
        key = encode_value(operands[at])
        kind = type_interval(key[:1])
        if operator in ("$gt", "$gte"):
            low, high = key if operator == "$gte" else prefix_end(key), kind.upper
        else:
            low, high = kind.lower, key if operator == "$lt" else prefix_end(key)
        lower = max(lower, start + low)
        upper = min(upper, start + high) if upper else start + high
    return (lower, upper) if len(lower) <= KEY_PREFIX_SIZE and len(upper) <= KEY_PREFIX_SIZE else None
