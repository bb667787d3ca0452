"""Filters of legal holds on containers: conditions of SQL over the item `c`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mayflydb.engine.catalog import Node
from mayflydb.frontends.cosmos.views import ContainerView
from mayflydb.model.errors import BadRequest, Unsupported
from mayflydb.query.cosmos_sql import Context, compile_query, parse
from mayflydb.query.cosmos_sql.functions import FUNCTIONS
from mayflydb.query.cosmos_sql.syntax import FunctionCall, QueryParameter, Select, Subquery, SyntaxNode, children

HINT: Final = "a hold without a filter preserves every item"

_OF_THE_REQUEST: Final = frozenset(name for name in FUNCTIONS if name.startswith("GETCURRENT") or name == "RAND")


def item_reader(node: Node) -> Callable[[Any], dict[str, Any]]:
    """Return the function that decodes a stored item with its system properties."""
    return ContainerView(node, "").document


def compile_condition(node: Node, text: str) -> Callable[[Any], bool]:
    """Compile a condition. BadRequest; Unsupported for what no filter of a hold has."""
    whole = "SELECT * FROM c WHERE " + text  # noqa: S608 -- it is parsed here, and holds one condition
    select = parse(whole).select
    if select.group_by or select.order_by or select.offset is not None or select.limit is not None:
        raise BadRequest("the filter is one condition on c, without further clauses")
    _check_parts(select)
    query = compile_query(whole, {}, ContainerView(node, "").declared)
    if not query.is_cheap:
        raise Unsupported("the filter may take longer than reading its item", hint=HINT)
    context = Context(0)
    return lambda document: query.matches(document, context)


def _check_parts(select: Select) -> None:
    nodes: list[SyntaxNode] = [select]
    while nodes:
        node = nodes.pop()
        if isinstance(node, Subquery):
            raise Unsupported("the filter of a hold has no subquery", hint=HINT)
        if isinstance(node, QueryParameter):
            raise Unsupported(f"the filter of a hold has no parameter {node.name}", hint="write the value itself")
        if isinstance(node, FunctionCall):
            if node.udf:
                raise Unsupported(f"the filter of a hold calls no user-defined function {node.name}", hint=HINT)
            if node.name.upper() in _OF_THE_REQUEST:
                raise Unsupported(f"the filter of a hold has no {node.name}: it means the same at all times")
        nodes += children(node)
