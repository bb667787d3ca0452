"""Conditions that a query puts on single paths, as far as an index can use them. What is left out only narrows later."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from bson import Regex

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
from mayflydb.query.mongo.paths import REFERENCE, index_of, split
from mayflydb.query.mongo.values import Document, Value, equal, truthy

_LOGICAL: Final = ("$and", "$or", "$nor")
_COMPARISONS: Final = ("$gt", "$gte", "$lt", "$lte")


class Condition(NamedTuple):
    """`{path: {operator: operand}}`. Those of one `group` hold for one and the same element of an array."""

    path: str
    operator: str
    operand: Any
    group: object = None


class Conjuncts(NamedTuple):
    """What all must hold: conditions, disjunctions, and what `$text` asks."""

    conditions: list[Condition]
    disjunctions: list[list[Document]]
    text: Value = None


def split_conjuncts(query: Document) -> Conjuncts:
    """A query taken apart. It is taken for one that compiles."""
    found = Conjuncts([], [])
    for field, value in query.items():
        branches: Sequence[Document] = value if field in _LOGICAL else ()
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


def is_operators(value: Value) -> bool:
    """Whether it is `{$gt: 1}` and not a value to be equal to."""
    first = next(iter(value), "") if type(value) is dict else ""
    return first.startswith("$") and first not in REFERENCE


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
            # A number means an element's own field or element here, not one of the array around it.
            continue
        # Only what stands right in the element is sure to be in the same row of an index as its neighbours.
        mine = group if "." not in each.path and each.group is None else each.group
        yield each._replace(path=f"{path}.{each.path}", group=mine)


def _has_array_index(path: str) -> bool:
    return any(index_of(part) is not None for part in split(path))


# --- what they leave -----------------------------------------------------------------------------------------------------


def intervals_of(condition: Condition, by: CollationMatch) -> Intervals | None:
    """Where the values are that a condition holds for; None: the index does not help, ALL: it holds only what matters."""
    found = _intervals(condition.operator, condition.operand, by)
    if found is not None and found != ALL and _has_array_index(condition.path) and contains(found, NULLS):
        # An element may lack what the array's own element has.
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
        return ALL if truthy(operand) else NULLS
    if operator == "$in":
        matching = [_equality_condition("", each) for each in operand]
        parts = [_intervals(each.operator, each.operand, by) for each in matching]
        return None if None in parts else unite(each for part in parts if part is not None for each in part)
    return _element_intervals(operand, by)


def _element_intervals(operand: Document, by: CollationMatch) -> Intervals | None:
    """Of an $elemMatch on values: one element meets them all. What it asks of arrays within the array bounds nothing."""
    found: Intervals | None = None
    plain = {name: value for name, value in operand.items() if name not in ("$elemMatch", "$all", "$exists")}
    for each in _field_conditions("", plain) if plain else ():
        part = _intervals(each.operator, each.operand, by)
        if part is not None:
            found = part if found is None else intersect(found, part)
    return found


def excludes_missing(condition: Condition, by: CollationMatch) -> bool:
    """Whether it holds for no document that lacks the path."""
    found = intervals_of(condition, by)
    return found is not None and (found == ALL or not any(each.lower <= NULLS[0].lower < each.upper for each in found))


# --- implication -----------------------------------------------------------------------------------------------------------


def implies(conditions: Sequence[Condition], wanted: Document, by: CollationMatch) -> bool:
    """Whether every document that meets the conditions is inside a partial filter."""
    for field, value in wanted.items():
        if field == "$and":
            if not all(implies(conditions, each, by) for each in value):
                return False
        elif field == "$or":
            if not any(implies(conditions, each, by) for each in value):
                return False
        elif is_operators(value):
            if not all(_implies(conditions, Condition(field, *each), by) for each in value.items()):
                return False
        elif not _implies(conditions, Condition(field, "$eq", value), by):
            return False
    return True


def _implies(conditions: Sequence[Condition], wanted: Condition, by: CollationMatch) -> bool:
    return any(each.path == wanted.path and _is_within(each, wanted, by) for each in conditions)


def _is_within(given: Condition, wanted: Condition, by: CollationMatch) -> bool:
    alike = by.alike or not has_text(wanted.operand)
    if given.operator == wanted.operator != "$regex" and alike and equal(given.operand, wanted.operand):
        return True
    if wanted.operator == "$exists":
        return excludes_missing(given, by)
    if wanted.operator == "$type" or _has_array(given) or _has_array(wanted):
        return False
    inner, outer = intervals_of(given, by), intervals_of(wanted, by._replace(alike=True))
    # Both null and missing are null to an index; whoever means one of them has said the same above.
    return inner is not None and outer is not None and not contains(inner, NULLS) and contains(outer, inner)


def _has_array(condition: Condition) -> bool:
    operand = condition.operand
    return any(type(each) is list for each in (operand if condition.operator == "$in" else [operand]))
