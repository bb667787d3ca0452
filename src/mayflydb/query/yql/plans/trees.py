"""Traversal of syntax trees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from mayflydb.query.yql.syntax import (
    Binary,
    Expression,
    FunctionCall,
    Join,
    Member,
    Name,
    NamedMember,
    Select,
    Star,
    Syntax,
)


def nodes(tree: Any) -> Iterator[Syntax]:
    """Yield all nodes of `tree`, which is a node or a tuple of nodes."""
    if isinstance(tree, Syntax):
        yield tree
        for field in tree.__struct_fields__:
            if field != "at":
                yield from nodes(getattr(tree, field))
    elif isinstance(tree, tuple):
        for part in tree:
            yield from nodes(part)


_WHOLE_ROWS = frozenset(("tablerow", "jointablerow", "sessionwindow"))
"""The functions that read all columns; lambdas of SessionWindow do."""


def required_names(tree: Select) -> frozenset[str] | None:
    """The names of columns that a SELECT may read from its sources; None: all columns."""
    # A superset is enough: aliases and names in subqueries only make the read wider.
    found: set[str] = set()
    for node in nodes(tree):
        if isinstance(node, (Star, NamedMember)) or (
            isinstance(node, FunctionCall) and node.name.replace("_", "").lower() in _WHOLE_ROWS
        ):
            return None
        if isinstance(node, Name):
            found.add(node.name)
        elif isinstance(node, Member) and isinstance(node.name, str):
            found.add(node.name)
        elif isinstance(node, Join):
            found.update(node.using)
    return frozenset(found)


def conjuncts(tree: Expression | None) -> list[Expression]:
    """The conditions whose conjunction is `tree`."""
    if tree is None:
        return []
    found: list[Expression] = []
    left = [tree]
    while left:
        node = left.pop()
        if isinstance(node, Binary) and node.operator == "AND":
            left.extend((node.right, node.left))
        else:
            found.append(node)
    return found


def named_columns(tree: Syntax) -> set[str]:
    """Every name in `tree` that may be a column."""
    return {node.name for node in nodes(tree) if isinstance(node, (Name, Member)) and isinstance(node.name, str)}
