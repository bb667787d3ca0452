"""Queries as text."""

from __future__ import annotations

from itertools import chain

from mayflydb.query.yql.syntax import (
    Compound,
    From,
    GroupBy,
    Item,
    Join,
    Member,
    Name,
    Query,
    QuerySource,
    Select,
    Source,
    Star,
    TableRef,
    Values,
)
from query.yql.printing.expressions import WRITERS, call, commas, expression, item, order, query, window
from query.yql.printing.names import names, parameter, quote


def _values(node: Values) -> str:
    return "VALUES " + ", ".join(f"({commas(row)})" for row in node.rows)


def _compound(node: Compound) -> str:
    left, right = node.left, node.right
    parts = [query(left) if _may_lead(left, node.operator) else f"({query(left)})", node.operator]
    ordered = bool(node.order) or node.limit is not None
    parts.append(query(right) if _is_loose(right) or (ordered and isinstance(right, Compound)) else f"({query(right)})")
    return " ".join([*parts, *_tail(node)])


def _is_loose(node: Query) -> bool:
    if isinstance(node, QuerySource):
        return node.parameter is not None
    return isinstance(node, (Select, Values)) and not (
        isinstance(node, Select) and (node.order or node.limit is not None)
    )


def _may_lead(node: Query, operator: str) -> bool:
    """True if a left side needs no parentheses: operators of one precedence apply from left to right."""
    if not isinstance(node, Compound):
        return _is_loose(node)
    tight = operator.startswith("INTERSECT")
    return not node.order and node.limit is None and node.operator.startswith("INTERSECT") == tight


def _tail(node: Select | Compound) -> list[str]:
    parts = []
    if node.order:
        assumed = isinstance(node, Select) and node.assume_order
        parts.append("ASSUME " * assumed + order(node.order))
    if node.limit is not None:
        parts.append(f"LIMIT {expression(node.limit)}")
    if node.offset is not None:
        parts.append(f"OFFSET {expression(node.offset)}")
    return parts


def _select(node: Select) -> str:
    parts = ["SELECT DISTINCT" if node.distinct else "SELECT", items(node.items)]
    if node.without:
        parts.append("WITHOUT " + ", ".join(_column(each) for each in node.without))
    if node.source is not None:
        parts.append(_from(node.source))
    if node.where is not None:
        parts.append(f"WHERE {expression(node.where)}")
    if node.group is not None:
        parts.append(_group(node.group))
    if node.having is not None:
        parts.append(f"HAVING {expression(node.having)}")
    if node.windows:
        parts.append("WINDOW " + ", ".join(f"{quote(name)} AS {window(each)}" for name, each in node.windows))
    return " ".join([*parts, *_tail(node)])


def items(nodes: tuple[Item | Star, ...]) -> str:
    """Format the list behind SELECT or RETURNING."""
    return ", ".join(_star(each) if isinstance(each, Star) else item(each) for each in nodes)


def _star(node: Star) -> str:
    return "*" if node.source is None else f"{quote(node.source)}.*"


def _column(name: str) -> str:
    return ".".join(map(quote, name.split(".", 1)))


def _from(node: From) -> str:
    return " ".join([f"FROM {'ANY ' * node.any}{_source(node.first)}", *map(_join, node.joins)])


def _join(node: Join) -> str:
    written = f"{node.kind} JOIN {'ANY ' * node.any}{_source(node.right)}"
    if node.on is not None:
        return f"{written} ON {expression(node.on)}"
    return f"{written} USING ({names(node.using)})" if node.using else written


def _source(node: Source) -> str:
    parts = [table(node.of) if isinstance(node.of, TableRef) else _in_parentheses(node.of)]
    if node.alias is not None:
        parts.append(f"AS {quote(node.alias)}" + (f"({names(node.columns)})" if node.columns else ""))
    if node.flatten is not None:
        mode, by = node.flatten
        if mode == "COLUMNS":
            parts.append("FLATTEN COLUMNS")
        else:
            parts.append(f"FLATTEN {mode}{' ' * bool(mode)}BY ({', '.join(map(item, by))})")
    return " ".join(parts)


def _in_parentheses(node: QuerySource) -> str:
    return f"({query(node.query)})" if node.query is not None else _source_of(node)


def _source_of(node: QuerySource) -> str:
    if node.parameter is not None:
        return parameter(node.parameter)
    if node.rows is not None:
        return f"AS_TABLE({expression(node.rows)})"
    assert node.query is not None
    return query(node.query)


def table(node: TableRef) -> str:
    """``cluster.name VIEW index WITH (hints)``"""
    parts = [(f"{quote(node.cluster)}." if node.cluster is not None else "") + quote(node.name)]
    if node.view is not None:
        parts.append(f"VIEW {node.view if node.view == 'PRIMARY KEY' else quote(node.view)}")
    if node.hints:
        parts.append(f"WITH ({names(node.hints)})")
    return " ".join(parts)


def _may_be_in_sets(each: Item) -> bool:
    return each.name is not None or isinstance(each.value, Name | Member)


def _group(node: GroupBy) -> str:
    if node.sets is None:
        elements = list(map(item, node.items))
    else:
        # Grouping sets need names, so an expression without one stands beside them, and is in each of them.
        plain = {number for number, each in enumerate(node.items) if not _may_be_in_sets(each)}
        plain |= set(range(len(node.items))) - set(chain.from_iterable(node.sets))
        first = min(set(range(len(node.items))) - plain, default=0)
        grouped = [[item(node.items[number]) for number in each if number not in plain] for each in node.sets]
        texts = (f"({', '.join(each)})" for each in grouped)
        sets = f"GROUPING SETS ({', '.join(texts)})"
        before, after = (
            [item(node.items[n]) for n in sorted(plain) if (n < first) is early] for early in (True, False)
        )
        elements = [*before, sets, *after]
    if node.hop is not None:
        elements.append(call(node.hop))
    return f"GROUP {'COMPACT ' * node.compact}BY {', '.join(elements)}"


WRITERS.update({Select: _select, Values: _values, Compound: _compound, QuerySource: _source_of})
