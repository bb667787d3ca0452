"""The nodes of a filter: conditions on single values, conditions on paths, and their combinations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import msgspec

from mayflydb.query.mongo.paths import Parts, find_values, locate_values
from mayflydb.query.mongo.values import MISSING, Document, Value

Test: TypeAlias = Callable[[Value], bool]
"""A predicate on one value or MISSING."""

Match: TypeAlias = Callable[[Document], bool]

Locate: TypeAlias = Callable[[Document], int | None]
"""Returns the index of the element by which a document matches, in the outermost array on the path. The document must match."""


class Leaf(msgspec.Struct, frozen=True):
    """A test of a value. With `spread`, an array also satisfies it through any of its elements.

    `index`: for a test that an array satisfies through one element, returns the index of that element.
    `operator`: the operator of the query.
    """

    test: Test
    spread: bool = True
    index: Callable[[Value], int | None] | None = None
    operator: str = "$eq"


class Every(msgspec.Struct, frozen=True):
    """Conditions that must all hold. Different elements of an array may satisfy different conditions."""

    conditions: tuple[Condition, ...]


class Negated(msgspec.Struct, frozen=True):
    """The complement of a condition. Documents without the field satisfy it."""

    condition: Condition


Condition: TypeAlias = Leaf | Every | Negated


_CHECK_ORDER: Final = (
    *("$or", "$elemMatch", "$size", "$eq", "$lte", "$lt", "$gt", "$gte", "$regex", "$mod", "$exists", "$in"),
    *("$bitsAllSet", "$bitsAllClear", "$bitsAnySet", "$bitsAnyClear", "$type"),
)
"""The order in which the server checks conditions that hold together (`MatchExpression::MatchType` and `sortTree` of its
source). Conditions with one operator are checked in the order of their paths. The last condition determines `$`, wherever it
stands in the query.
"""
RANKS: Final = {name: rank for rank, name in enumerate(_CHECK_ORDER)}


class Locator(msgspec.Struct, frozen=True):
    """The locator of one condition. `order`: its rank among the conditions that hold together."""

    order: tuple[int, str]
    locate: Locate


class FilterNode(msgspec.Struct, frozen=True):
    """A predicate on documents. `locators`: in the order in which the server checks the conditions."""

    matches: Match
    locators: tuple[Locator, ...] = ()

    def locate(self, document: Document) -> int | None:
        """Return the index of the array element by which a matching document matches; None if there is none."""
        # On the server each condition overwrites the index of the one before, so the last one with an index counts.
        found = (locator.locate(document) for locator in reversed(self.locators))
        return next((index for index in found if index is not None), None)


def never(_: object) -> bool:
    """Return False: the test and the match that nothing satisfies."""
    return False


def always(_: object) -> bool:
    """Return True: the test and the match that everything satisfies."""
    return True


def value_test(condition: Condition) -> Test:
    """Return the test of a condition on one value. Arrays are not entered."""
    if isinstance(condition, Leaf):
        return condition.test
    if isinstance(condition, Negated):
        inner = value_test(condition.condition)
        return lambda value: not inner(value)
    return conjunction([value_test(each) for each in condition.conditions])


def path_node(condition: Condition, parts: Parts) -> FilterNode:
    """Return the node of a condition on the values at a path."""
    if isinstance(condition, Leaf):
        match = _field_match(parts[0], condition) if len(parts) == 1 else _dotted_match(parts, condition)
        order = RANKS[condition.operator], ".".join(parts)
        return FilterNode(match, (Locator(order, _path_locate(parts, condition)),))
    if isinstance(condition, Negated):
        # No locator: a document matches a negation by no element.
        inner = path_node(condition.condition, parts).matches
        return FilterNode(lambda document: not inner(document))
    return all_of([path_node(each, parts) for each in condition.conditions])


def _field_match(name: str, leaf: Leaf) -> Match:
    test = leaf.test
    if not leaf.spread:
        return lambda document: test(document.get(name, MISSING))

    def matches(document: Document) -> bool:
        value = document.get(name, MISSING)
        return test(value) or (type(value) is list and any(map(test, value)))

    return matches


def _dotted_match(parts: Parts, leaf: Leaf) -> Match:
    test, spread = leaf.test, leaf.spread
    *before, last = parts

    def matches(document: Document) -> bool:
        fields = document
        for part in before:
            value = fields.get(part, MISSING)
            if type(value) is dict:
                fields = value
                continue
            if type(value) is list:
                return any(map(test, find_values(document, parts, spread)))
            return test(MISSING)
        value = fields.get(last, MISSING)
        return test(value) or (spread and type(value) is list and any(map(test, value)))

    return matches


def _path_locate(parts: Parts, leaf: Leaf) -> Locate:
    test, spread = leaf.test, leaf.spread

    def locate(document: Document) -> int | None:
        for value, index in locate_values(document, parts, spread):
            if test(value):
                return leaf.index(value) if index is None and leaf.index is not None else index
        return None

    return locate


def conjunction(tests: Sequence[Callable[[Value], bool]]) -> Callable[[Value], bool]:
    """Return the conjunction of tests; `always` for no tests."""
    if not tests:
        return always
    if len(tests) == 1:
        return tests[0]
    if len(tests) == 2:
        one, other = tests
        return lambda value: one(value) and other(value)
    together = tuple(tests)

    def every(value: Value) -> bool:
        for test in together:  # noqa: SIM110 - a generator costs twice the time.
            if not test(value):
                return False
        return True

    return every


def disjunction(tests: Sequence[Callable[[Value], bool]]) -> Callable[[Value], bool]:
    """Return the disjunction of tests; `never` for no tests."""
    if not tests:
        return never
    if len(tests) == 1:
        return tests[0]
    together = tuple(tests)

    def some(value: Value) -> bool:
        for test in together:  # noqa: SIM110 - a generator costs twice the time.
            if test(value):
                return True
        return False

    return some


def all_of(nodes: Sequence[FilterNode]) -> FilterNode:
    """Return the conjunction of nodes."""
    if len(nodes) == 1:
        return nodes[0]
    locators = sorted((locator for node in nodes for locator in node.locators), key=lambda locator: locator.order)
    return FilterNode(conjunction([node.matches for node in nodes]), tuple(locators))


def any_of(nodes: Sequence[FilterNode]) -> FilterNode:
    """Return the disjunction of nodes. The first node that matches provides the index of the element."""

    def locate(document: Document) -> int | None:
        # Branches are asked in the order of the query.
        chosen = next((node for node in nodes if node.matches(document)), None)
        return chosen.locate(document) if chosen is not None else None

    return FilterNode(disjunction([node.matches for node in nodes]), (Locator((RANKS["$or"], ""), locate),))


def none_of(nodes: Sequence[FilterNode]) -> FilterNode:
    """Return the node that holds where none of the nodes holds."""
    inner = disjunction([node.matches for node in nodes])
    return FilterNode(lambda document: not inner(document))
