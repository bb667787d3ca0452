"""Statements as text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mayflydb.query.yql.definitions import ShowCreate
from mayflydb.query.yql.statements import (
    Action,
    Commit,
    Declare,
    Delete,
    Discard,
    Do,
    EvaluateFor,
    EvaluateIf,
    Pragma,
    Statement,
    Update,
    Write,
)
from mayflydb.query.yql.syntax import Binding, Compound, Item, Query, QuerySource, Select, Star, Values
from query.yql.printing.definitions import WRITERS as DEFINITIONS
from query.yql.printing.expressions import binding, commas, expression, query
from query.yql.printing.names import names, parameter, quote, text
from query.yql.printing.queries import items, table
from query.yql.printing.type_names import type_name


def statement(node: Statement) -> str:
    """Format a statement without the semicolon."""
    if isinstance(node, (Select, Values, Compound, QuerySource)):
        return _standing_alone(node)
    written: str = _WRITERS[node.__class__](node)
    return written


def _standing_alone(node: Query) -> str:
    """Format a query that is a statement: a parameter at its beginning would begin `$a = value`."""
    text = query(node)
    return f"({text})" if text.startswith("$") else text


def _pragma(node: Pragma) -> str:
    name = ".".join(map(quote, node.name.split(".", 1)))
    if len(node.values) == 1:
        return f"PRAGMA {name} = {text(node.values[0])}"
    return f"PRAGMA {name}({', '.join(map(text, node.values))})" if node.values else f"PRAGMA {name}"


def _rows(columns: tuple[str, ...] | None, source: Query) -> str:
    listed = f"({names(columns)}) " if columns is not None else ""
    return listed + query(source)


def _returning(nodes: tuple[Item | Star, ...] | None) -> str:
    return f" RETURNING {items(nodes)}" if nodes is not None else ""


def _write(node: Write) -> str:
    verb = f"{node.verb} OR {node.or_}" if node.or_ is not None else node.verb
    rows = _rows(node.columns, node.source)
    return " ".join((verb, "INTO", table(node.table), rows)) + _returning(node.returning)


def _where(node: Update | Delete) -> str:
    written = f" ON {_rows(*node.on)}" if node.on is not None else ""
    if node.where is not None:
        written += f" WHERE {expression(node.where)}"
    return written + _returning(node.returning)


def _update(node: Update) -> str:
    sets = ", ".join(f"{quote(name)} = {expression(value)}" for name, value in node.sets)
    change = f" SET {sets}" if sets else ""
    return "BATCH " * node.batch + "UPDATE " + table(node.table) + change + _where(node)


def _delete(node: Delete) -> str:
    return " ".join(("BATCH " * node.batch + "DELETE", "FROM", table(node.table))) + _where(node)


def _body(statements: tuple[Statement, ...]) -> str:
    return "".join(f" {statement(each)};" for each in statements)


def _action(node: Action) -> str:
    first_optional = len(node.parameters) - node.optional
    inside = ", ".join(f"{parameter(name)}{'?' * (i >= first_optional)}" for i, name in enumerate(node.parameters))
    return f"DEFINE ACTION {parameter(node.name)}({inside}) AS{_body(node.body)} END DEFINE"


def _do(node: Do) -> str:
    if node.action is None:
        return f"DO BEGIN{_body(node.body)} END DO"
    return f"DO {parameter(node.action)}({commas(node.arguments)})"


def _otherwise(node: Do | None) -> str:
    return f" ELSE {_do(node)}" if node is not None else ""


def _if(node: EvaluateIf) -> str:
    return f"EVALUATE IF {expression(node.condition)} {_do(node.then)}{_otherwise(node.otherwise)}"


def _for(node: EvaluateFor) -> str:
    head = f"EVALUATE FOR {parameter(node.name)} IN {expression(node.items)}"
    return f"{head} {_do(node.body)}{_otherwise(node.otherwise)}"


_WRITERS: Final[dict[type[Any], Callable[[Any], str]]] = {
    **DEFINITIONS,
    Binding: binding,
    Declare: lambda node: f"DECLARE {parameter(node.name)} AS {type_name(node.type)}",
    Pragma: _pragma,
    Write: _write,
    Update: _update,
    Delete: _delete,
    Commit: lambda node: "ROLLBACK" if node.rollback else "COMMIT",
    Discard: lambda node: f"DISCARD {_standing_alone(node.query)}",
    Action: _action,
    Do: _do,
    EvaluateIf: _if,
    EvaluateFor: _for,
    ShowCreate: lambda node: f"SHOW CREATE {node.kind} {quote(node.name)}",
}
