"""The conditions of a query on single paths, as far as an index can use them.

A condition that is not extracted makes a plan less selective, never wrong: the filter is applied to all documents found.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from bson import Regex

from mayflydb.query.mongo.filter import is_operators
from mayflydb.query.mongo.indexes.bounds import (
    ALL,
    NULLS,
    CollationMatch,
    Intervals,
    comparison_intervals,
    contains,
    equal_intervals,
    has_text,
    intersect,
    regex_intervals,
    unite,
)
from mayflydb.query.mongo.paths import REFERENCE, array_index, split_path
from mayflydb.query.mongo.values import Document, Value, equal, is_truthy

_LOGICAL: Final = ("$and", "$or", "$nor")
_COMPARISONS: Final = ("$gt", "$gte", "$lt", "$lte")


class Condition(NamedTuple):
    """`{path: {operator: operand}}`. Conditions of one `group` must hold for the same array element."""

    path: str
    operator: str
    operand: Any
    group: object = None


class Conjuncts(NamedTuple):
    """The parts of a query that must all hold: conditions, disjunctions, and the operand of `$text`."""

    conditions: list[Condition]
    disjunctions: list[list[Document]]
    text: Value = None


def split_conjuncts(query: Document) -> Conjuncts:
    """Split a query into its conjuncts. The query must be one that compiles."""
    found = Conjuncts([], [])
    for field, value in query.items():
        branches: Sequence[Document] = value if field in _LOGICAL else ()
        # An `$or` of one branch is a conjunct.
        if field == "$and" or (field == "$or" and len(branches) == 1):
            for branch in branches:
                inner = split_conjuncts(branch)
                found.conditions.extend(inner.conditions)
                found.disjunctions.extend(inner.disjunctions)
                found = found._replace(text=found.text or inner.text)
        elif field == "$or":
            found.disjunctions.append(list(branches))
        elif field == "$text":
            found = found._replace(text=value)
        elif not field.startswith("$"):
            found.conditions.extend(_field_conditions(field, value))
    return found


def _field_conditions(path: str, value: Value) -> Iterator[Condition]:
    if not is_operators(value):
        yield _equality_condition(path, value)
        return
    for operator, operand in value.items():
        if operator == "$regex":
            yield Condition(path, "$regex", _parse_regex(operand, value.get("$options", "")))
        elif operator == "$elemMatch":
            yield from _element_conditions(path, operand)
        elif operator == "$all":
            for each in operand:
                if is_operators(each) and "$elemMatch" in each:
                    yield from _element_conditions(path, each["$elemMatch"])
                else:
                    yield _equality_condition(path, each)
        elif operator in ("$eq", "$in", "$exists", *_COMPARISONS):
            yield Condition(path, operator, operand)


def _equality_condition(path: str, value: Value) -> Condition:
    if type(value) in (Regex, re.Pattern):
        return Condition(path, "$regex", _parse_regex(value, ""))
    return Condition(path, "$eq", value)


_FLAGS: Final = {"i": re.IGNORECASE, "m": re.MULTILINE, "s": re.DOTALL, "x": re.VERBOSE, "u": re.UNICODE}


def _parse_regex(value: Value, options: str) -> tuple[str, int]:
    pattern, flags = (value, 0) if type(value) is str else (value.pattern, int(value.flags))
    for letter in options:
        flags |= _FLAGS.get(letter, 0)
    return pattern, flags


def _element_conditions(path: str, operand: Document) -> Iterator[Condition]:
    first = next(iter(operand), "")
    if first.startswith("$") and first not in _LOGICAL and first not in REFERENCE:
        yield Condition(path, "$elemMatch", operand)
        return
    group = object()
    for each in split_conjuncts(operand).conditions:
        if _has_array_index(each.path):
            # A number here is a field or an index of the element itself, not an index of the array around it.
            continue
        # Only direct fields of the element are certain to share a row of an index with each other.
        mine = group if "." not in each.path and each.group is None else each.group
        yield each._replace(path=f"{path}.{each.path}", group=mine)


def _has_array_index(path: str) -> bool:
    return any(array_index(part) is not None for part in split_path(path))


# --- what they leave -----------------------------------------------------------------------------------------------------


def intervals_of(condition: Condition, by: CollationMatch) -> Intervals | None:
    """Return the intervals of values that satisfy a condition. None: the index cannot be used. ALL: no bounds."""
    found = _intervals(condition.operator, condition.operand, by)
    if found is not None and found != ALL and _has_array_index(condition.path) and contains(found, NULLS):
        # An element may lack the field that the array has at that index.
        return None
    return found


def _intervals(operator: str, operand: Any, by: CollationMatch) -> Intervals | None:
    if operator == "$eq":
        return equal_intervals(operand, by)
    if operator in _COMPARISONS:
        return comparison_intervals(operator, operand, by)
    if operator == "$regex":
        pattern, flags = operand
        return regex_intervals(pattern, flags, by)
    if operator == "$exists":
        return ALL if is_truthy(operand) else NULLS
    if operator == "$in":
        matching = [_equality_condition("", each) for each in operand]
        parts = [_intervals(each.operator, each.operand, by) for each in matching]
        return None if None in parts else unite(each for part in parts if part is not None for each in part)
    return _element_intervals(operand, by)


def _element_intervals(operand: Document, by: CollationMatch) -> Intervals | None:
    """Return the intervals of an `$elemMatch` on values, all of whose conditions one element satisfies.

    Conditions on arrays within the array do not narrow the bounds.
    """
    found: Intervals | None = None
    plain = {name: value for name, value in operand.items() if name not in ("$elemMatch", "$all", "$exists")}
    for each in _field_conditions("", plain) if plain else ():
        part = _intervals(each.operator, each.operand, by)
        if part is not None:
            found = part if found is None else intersect(found, part)
    return found


def excludes_missing(condition: Condition, by: CollationMatch) -> bool:
    """Return whether no document without the path satisfies the condition."""
    found = intervals_of(condition, by)
    return found is not None and (found == ALL or not any(each.lower <= NULLS[0].lower < each.upper for each in found))


# --- implication -----------------------------------------------------------------------------------------------------------


def implies(conditions: Sequence[Condition], wanted: Document, by: CollationMatch) -> bool:
    """Return whether every document that satisfies the conditions satisfies a partial filter."""
    for field, value in wanted.items():
        if field == "$and":
            if not all(implies(conditions, each, by) for each in value):
                return False
        elif field == "$or":
            if not any(implies(conditions, each, by) for each in value):
                return False
        elif is_operators(value):
            if not all(_any_implies(conditions, Condition(field, *each), by) for each in value.items()):
                return False
        elif not _any_implies(conditions, Condition(field, "$eq", value), by):
            return False
    return True


def _any_implies(conditions: Sequence[Condition], wanted: Condition, by: CollationMatch) -> bool:
    return any(each.path == wanted.path and _condition_implies(each, wanted, by) for each in conditions)


def _condition_implies(given: Condition, wanted: Condition, by: CollationMatch) -> bool:
    is_same = by.is_same or not has_text(wanted.operand)
    if given.operator == wanted.operator != "$regex" and is_same and equal(given.operand, wanted.operand):
        return True
    if wanted.operator == "$exists":
        return excludes_missing(given, by)
    if wanted.operator == "$type" or _has_array(given) or _has_array(wanted):
        return False
    # Under another collation, strings widen the given side and not the wanted side: in doubt the index is not used.
    inner, outer = intervals_of(given, by), intervals_of(wanted, by._replace(is_same=True))
    # An index stores null for both null and missing; a condition that means only one of them is decided above.
    return inner is not None and outer is not None and not contains(inner, NULLS) and contains(outer, inner)


def _has_array(condition: Condition) -> bool:
    operand = condition.operand
    return any(type(each) is list for each in (operand if condition.operator == "$in" else [operand]))
