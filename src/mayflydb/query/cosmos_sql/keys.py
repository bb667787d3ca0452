"""Paths of the document in a query, and constants."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeAlias

import msgspec

from mayflydb.query.cosmos_sql.scope import ROOT, Parameters
from mayflydb.query.cosmos_sql.syntax import (
    Expression,
    Literal,
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
from mayflydb.query.cosmos_sql.values import NUMBERS

KeyPath: TypeAlias = tuple[str, ...]
"""The property names of a partition key path: `/a/b` is ("a", "b")."""


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
