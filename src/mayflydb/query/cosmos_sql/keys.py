"""Partition keys that a WHERE clause admits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any, Final, TypeAlias

import msgspec

from mayflydb.query.cosmos_sql.scope import ROOT, Parameters
from mayflydb.query.cosmos_sql.syntax import (
    Binary,
    Expression,
    In,
    Literal,
    Logical,
    Name,
    Path,
    QueryParameter,
    Select,
    Subquery,
    SyntaxNode,
    Unary,
    children,
    output_name,
)
from mayflydb.query.cosmos_sql.values import NUMBERS, UNDEFINED, Value, group_key

KeyPath: TypeAlias = tuple[str, ...]
"""The property names of a partition key path: `/a/b` is ("a", "b")."""

MAX_ALTERNATIVES: Final = 10_000
"""With more keys than this the query scans all partitions instead."""

_KEY_TYPES: Final = frozenset({str, int, float, bool, type(None)})


def find_key_values(select: Select, parameters: Parameters, paths: Sequence[KeyPath]) -> list[tuple[Value, ...]] | None:
    """Return the partition keys that WHERE admits, as tuples over the leading `paths` that WHERE fixes.

    The keys are a superset. None: WHERE does not even fix the first path, or admits more than `MAX_ALTERNATIVES` keys.
    """
    document = document_of(select)
    if select.where is None or document is None:
        return None
    finder = _EqualityFinder(document, parameters)
    found: list[list[Value]] = []
    for path in paths:
        values = finder.find_values(select.where, path)
        # Values of a later path are of no use: a prefix of a key has no gap.
        if values is None:
            break
        found.append(values)
    if not found or prod(map(len, found)) > MAX_ALTERNATIVES:
        return None
    return list(product(*found))


def sort_paths(select: Select) -> tuple[tuple[KeyPath | None, bool], ...]:
    """ORDER BY as pairs (path of the document, descending); the path is None for any other sort key."""
    document = document_of(select)
    return tuple(
        (None if document is None else path_names(order.expression, document), order.descending)
        for order in select.order_by
    )


def filter_paths(select: Select) -> list[KeyPath]:
    """The paths of the document in WHERE, in the order of the text, without those in subqueries."""
    document = document_of(select)
    if select.where is None or document is None:
        return []
    return list(dict.fromkeys(_paths_in(select.where, document)))


def _paths_in(node: SyntaxNode, document: DocumentAlias) -> Iterator[KeyPath]:
    path = path_names(node, document)
    if path is not None:
        yield path
    elif not isinstance(node, Subquery):
        for child in children(node):
            yield from _paths_in(child, document)


class DocumentAlias(msgspec.Struct, frozen=True):
    """The names of the document in a query: its alias, and ROOT unless another source has that name."""

    alias: str
    root: bool

    def is_alias(self, name: str) -> bool:
        """True if `name` means the document."""
        return name == self.alias or (self.root and name.upper() == ROOT)


def document_of(select: Select) -> DocumentAlias | None:
    """The names of the document in a query; None if FROM does not start with the container itself."""
    if not select.sources or select.sources[0].unnest or not isinstance(select.sources[0].expression, Name):
        return None
    source, *others = select.sources
    assert isinstance(source.expression, Name)
    taken = {output_name(other.expression) if other.alias is None else other.alias for other in others}
    return DocumentAlias(
        source.alias or source.expression.name, all(name is None or name.upper() != ROOT for name in taken)
    )


def path_names(node: SyntaxNode, document: DocumentAlias) -> KeyPath | None:
    """The property names of a path of the document; None for any other node."""
    if not isinstance(node, Path) or not isinstance(node.base, Name) or not document.is_alias(node.base.name):
        return None
    names = [step.value for step in node.steps if isinstance(step, Literal) and type(step.value) is str]
    return tuple(names) if len(names) == len(node.steps) else None


class _EqualityFinder:
    """Finds equalities between a path of the document and constants."""

    def __init__(self, document: DocumentAlias, parameters: Parameters) -> None:
        self.document = document
        self.parameters = parameters

    def find_values(self, node: Expression, path: KeyPath) -> list[Value] | None:
        """Return a superset of the values that `path` has where `node` is true; None: any value."""
        if isinstance(node, Logical):
            parts = [self.find_values(operand, path) for operand in node.operands]
            known = [part for part in parts if part is not None]
            if node.operator == "AND":
                # Each part alone is a superset; the smallest is kept.
                return min(known, key=len) if known else None
            # An operand of OR that fixes no value admits every value.
            return _distinct([value for part in known for value in part]) if len(known) == len(parts) else None
        if isinstance(node, Binary) and node.operator == "=":
            for one, other in ((node.left, node.right), (node.right, node.left)):
                if self._is_path(one, path):
                    return self._constants((other,))
        if isinstance(node, In) and not node.negated and self._is_path(node.operand, path):
            return self._constants(node.choices)
        return None

    def _is_path(self, node: Expression, path: KeyPath) -> bool:
        return path_names(node, self.document) == path

    def _constants(self, nodes: Sequence[Expression]) -> list[Value] | None:
        """Return the values of constants without undefined, which equals nothing; None if a node is no constant or cannot be
        a key.
        """
        values: list[Value] = []
        for node in nodes:
            known, value = resolve_constant(node, self.parameters)
            if not known or (value is not UNDEFINED and type(value) not in _KEY_TYPES):
                return None
            if value is not UNDEFINED:
                values.append(value)
        return _distinct(values)


def resolve_constant(node: Expression, parameters: Parameters) -> tuple[bool, Any]:
    """Return (True, value) for a literal or a supplied parameter, else False and an arbitrary value."""
    if isinstance(node, Literal):
        return True, node.value
    if isinstance(node, QueryParameter):
        return node.name in parameters, parameters.get(node.name)
    if isinstance(node, Unary) and node.operator == "-" and isinstance(node.operand, Literal):
        value = node.operand.value
        return type(value) in NUMBERS, -value if type(value) in NUMBERS else None
    return False, None


def _distinct(values: list[Value]) -> list[Value]:
    return list({group_key(value): value for value in values}.values())
