"""What a WHERE clause says about partition keys."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod
from typing import Any, Final, TypeAlias

from mayflydb.query.cosmos_sql.scope import ROOT, Parameters
from mayflydb.query.cosmos_sql.syntax import (
    Binary,
    Expression,
    In,
    Literal,
    Logical,
    Name,
    Node,
    Parameter,
    Path,
    Select,
    Subquery,
    Unary,
    children,
)
from mayflydb.query.cosmos_sql.values import NUMBERS, UNDEFINED, Value, group_key

KeyPath: TypeAlias = tuple[str, ...]
"""The property names of a partition key path: `/a/b` is ("a", "b")."""

MOST_ALTERNATIVES: Final = 10_000
"""With more keys than this, a full scan is the simpler answer."""

_KEY_TYPES: Final = frozenset({str, int, float, bool, type(None)})


def fixed_keys(select: Select, parameters: Parameters, paths: Sequence[KeyPath]) -> list[tuple[Value, ...]] | None:
    """The keys WHERE admits, over the longest run of leading `paths` that it fixes; None if it does not fix the first."""
    alias = document_alias(select)
    if select.where is None or alias is None:
        return None
    finder = _Finder(alias, parameters)
    found: list[list[Value]] = []
    for path in paths:
        values = finder.admitted(select.where, path)
        if values is None:
            break
        found.append(values)
    if not found or prod(map(len, found)) > MOST_ALTERNATIVES:
        return None
    return list(product(*found))


def sort_paths(select: Select) -> tuple[tuple[KeyPath | None, bool], ...]:
    """ORDER BY as (path of the document, descending); the path is None where the key is anything else."""
    alias = document_alias(select)
    return tuple((path_names(order.expression, alias), order.descending) for order in select.order_by)


def filter_paths(select: Select) -> list[KeyPath]:
    """The paths of the document in WHERE, in the order of the text; subqueries have their own."""
    alias = document_alias(select)
    found: dict[KeyPath, None] = {}

    def collect(node: Node) -> None:
        path = path_names(node, alias)
        if path is not None:
            found[path] = None
        elif not isinstance(node, Subquery):
            for child in children(node):
                collect(child)

    if select.where is not None and alias is not None:
        collect(select.where)
    return list(found)


def document_alias(select: Select) -> str | None:
    """What the query calls the document; None if FROM does not start with the container itself."""
    if not select.sources or select.sources[0].unnest:
        return None
    source = select.sources[0]
    return (source.alias or source.expression.name) if isinstance(source.expression, Name) else None


def path_names(node: Node, alias: str | None) -> KeyPath | None:
    """The property names of a path of the document."""
    if not isinstance(node, Path) or not isinstance(node.base, Name):
        return None
    if node.base.name != alias and (alias is None or node.base.name.upper() != ROOT):
        return None
    names = [step.value for step in node.steps if isinstance(step, Literal) and type(step.value) is str]
    return tuple(names) if len(names) == len(node.steps) else None


class _Finder:
    """Looks for equalities between a path of the document and constants."""

    def __init__(self, alias: str, parameters: Parameters) -> None:
        self.alias = alias
        self.parameters = parameters

    def admitted(self, node: Expression, path: KeyPath) -> list[Value] | None:
        """A superset of the values `path` can have where `node` is true; None for any value."""
        if isinstance(node, Logical):
            parts = [self.admitted(operand, path) for operand in node.operands]
            known = [part for part in parts if part is not None]
            if node.operator == "AND":
                return min(known, key=len) if known else None
            return _distinct([value for part in known for value in part]) if len(known) == len(parts) else None
        if isinstance(node, Binary) and node.operator == "=":
            for one, other in ((node.left, node.right), (node.right, node.left)):
                if self._is_path(one, path):
                    return self._constants((other,))
        if isinstance(node, In) and not node.negated and self._is_path(node.operand, path):
            return self._constants(node.choices)
        return None

    def _is_path(self, node: Expression, path: KeyPath) -> bool:
        return path_names(node, self.alias) == path

    def _constants(self, nodes: Sequence[Expression]) -> list[Value] | None:
        """The values of constants, without undefined ones, which equal nothing; None if one is no constant or no key."""
        values: list[Value] = []
        for node in nodes:
            known, value = constant(node, self.parameters)
            if not known or (value is not UNDEFINED and type(value) not in _KEY_TYPES):
                return None
            if value is not UNDEFINED:
                values.append(value)
        return _distinct(values)


def constant(node: Expression, parameters: Parameters) -> tuple[bool, Any]:
    """Whether an expression is a literal or a parameter that was given, and its value."""
    if isinstance(node, Literal):
        return True, node.value
    if isinstance(node, Parameter):
        return node.name in parameters, parameters.get(node.name)
    if isinstance(node, Unary) and node.operator == "-" and isinstance(node.operand, Literal):
        value = node.operand.value
        return type(value) in NUMBERS, -value if type(value) in NUMBERS else None
    return False, None


def _distinct(values: list[Value]) -> list[Value]:
    return list({group_key(value): value for value in values}.values())
