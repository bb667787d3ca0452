"""The properties of the document that a query reads; the others need not be decoded."""

from __future__ import annotations

from collections.abc import Container

from mayflydb.query.cosmos_sql.keys import document_of
from mayflydb.query.cosmos_sql.syntax import Literal, Name, Path, Select, SyntaxNode, children


def find_read_properties(select: Select, identity: bool, computed: Container[str]) -> frozenset[str] | None:
    """The names of the document's own properties that a query may read; None: any.

    `identity`: the rows are the documents themselves, which the caller need not decode. A name that another source hides
    counts as well.
    """
    document = document_of(select)
    if document is None or (select.star and not identity):
        return None
    found: set[str] = set()
    nodes: list[SyntaxNode] = [select.where] if identity and select.where is not None else []
    if not identity:
        # The first source is the document itself, and reads nothing of it.
        nodes = [child for child in children(select) if child is not select.sources[0]]
    while nodes:
        node = nodes.pop()
        if isinstance(node, Path) and isinstance(node.base, Name) and document.is_alias(node.base.name):
            first, *rest = node.steps
            if not isinstance(first, Literal) or type(first.value) is not str or first.value in computed:
                return None
            found.add(first.value)
            nodes += rest
        elif isinstance(node, Name):
            # The alias alone means the whole document.
            if document.is_alias(node.name):
                return None
        # The star of a subquery may stand for the document.
        elif isinstance(node, Select) and node.star:
            return None
        else:
            nodes += children(node)
    return frozenset(found)
