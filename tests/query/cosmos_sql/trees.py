"""Syntax trees as tests compare them."""

from __future__ import annotations

from typing import Any

from msgspec.structs import fields, replace

from mayflydb.query.cosmos_sql.syntax import SyntaxNode


def without_places(node: SyntaxNode) -> SyntaxNode:
    """The same tree, wherever it was read."""
    changed: dict[str, Any] = {"start": 0, "end": 0}
    for field in fields(node):
        held = getattr(node, field.name)
        if isinstance(held, SyntaxNode):
            changed[field.name] = without_places(held)
        elif isinstance(held, tuple):
            changed[field.name] = tuple(without_places(each) for each in held)
    return replace(node, **changed)
