"""Expressions as text, with the parentheses that precedence needs."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from mayflydb.query.yql.parser import expressions as powers
from mayflydb.query.yql.parser.type_names import COMPOSITE
from mayflydb.query.yql.syntax import (
    Apply,
    Argument,
    Between,
    Binary,
    Binding,
    Case,
    Cast,
    Compound,
    DictLiteral,
    Expression,
    Frame,
    FunctionCall,
    In,
    Item,
    Json,
    Lambda,
    Like,
    ListLiteral,
    Literal_,
    Member,
    Name,
    NamedMember,
    OrderItem,
    Parameter,
    Query,
    QuerySource,
    Select,
    StructLiteral,
    Subquery,
    Subscript,
    TupleLiteral,
    TypeArgument,
    Unary,
    Values,
    Window,
)
from query.yql.printing.names import backtick, function, literal, parameter, quote
from query.yql.printing.type_names import type_name

_ANY: Final = powers.OR
_EQUALITY: Final = powers.CONDITION + 0.5
_COALESCE: Final = powers.BITS - 0.5
_ATOM: Final = powers.OPERAND + 1

_LAST_NAME: Final = re.compile(r"(?<![\w$.:])\w+$")
"""An unquoted name at the end of an expression: no parameter, member or part of a module's name."""

_EQUALITIES: Final = frozenset({"==", "!=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"})
_POWERS: Final[dict[str, float]] = {
    **powers.BINDING_POWERS,
    **dict.fromkeys(_EQUALITIES, _EQUALITY),
    **dict.fromkeys((">>", ">>|"), powers.BITS),
    "??": _COALESCE,
}


def expression(node: Expression, least: float = _ANY) -> str:
    """Format an expression, in parentheses if its operator binds less tightly than `least`."""
    written = WRITERS[node.__class__](node)
    return f"({written})" if _power(node) < least else written


def _power(node: Expression) -> float:
    match node:
        case Binary(operator=operator):
            return _POWERS[operator]
        case Unary(operator=operator):
            return powers.CONDITION if operator.startswith("IS") else powers.OPERAND
        case Like() | Between() | In():
            return powers.CONDITION
        case Lambda():
            return _ANY
        case TypeArgument():
            return powers.OPERAND
        case Literal_(kind=kind):
            return powers.OPERAND if kind in ("integer", "float", "double") else _ATOM
        case _:
            return _ATOM


def commas(nodes: tuple[Expression, ...]) -> str:
    """Format expressions with commas between them."""
    return ", ".join(map(expression, nodes))


def _binary(node: Binary) -> str:
    power = _POWERS[node.operator]
    left, right = power, float(int(power) + 1)
    if node.operator == "??":
        left, right = powers.SUM, power
    first = expression(node.left, left)
    # `list < a > b` is read as the type List<a>.
    if node.operator == "<" and (name := _LAST_NAME.search(first)) is not None and name[0].upper() in COMPOSITE:
        first = f"({first})"
    return f"{first} {node.operator} {expression(node.right, right)}"


def _unary(node: Unary) -> str:
    if node.operator.startswith("IS"):
        return f"{expression(node.operand, powers.COMPARISON)} {node.operator}"
    blank = " " if node.operator == "NOT" else ""
    least = powers.OPERAND if isinstance(node.operand, Literal_) else _ATOM
    return f"{node.operator}{blank}{expression(node.operand, least)}"


def _like(node: Like) -> str:
    operator = f"NOT {node.operator}" if node.negated else node.operator
    escape = f" ESCAPE {expression(node.escape, powers.COMPARISON)}" if node.escape is not None else ""
    operand, pattern = expression(node.operand, powers.COMPARISON), expression(node.pattern, powers.COMPARISON)
    return f"{operand} {operator} {pattern}{escape}"


def _between(node: Between) -> str:
    operator = ("NOT BETWEEN" if node.negated else "BETWEEN") + (" SYMMETRIC" if node.symmetric else "")
    operand, low, high = (expression(each, powers.COMPARISON) for each in (node.operand, node.low, node.high))
    return f"{operand} {operator} {low} AND {high}"


def _in(node: In) -> str:
    operator = ("NOT IN" if node.negated else "IN") + (" COMPACT" if node.compact else "")
    within = node.collection
    if isinstance(within, ListLiteral) and not any(isinstance(each, Subquery) for each in within.items):
        written = f"({commas(within.items)})"
    else:
        written = expression(within, _ATOM)
    return f"{expression(node.operand, powers.COMPARISON)} {operator} {written}"


def _case(node: Case) -> str:
    parts = ["CASE"]
    if node.operand is not None:
        parts.append(expression(node.operand))
    for condition, value in node.branches:
        parts.append(f"WHEN {expression(condition)} THEN {expression(value)}")
    if node.otherwise is not None:
        parts.append(f"ELSE {expression(node.otherwise)}")
    return " ".join([*parts, "END"])


def _cast(node: Cast) -> str:
    return f"{'BITCAST' if node.bitwise else 'CAST'}({expression(node.operand)} AS {type_name(node.to)})"


def _argument(node: Argument) -> str:
    return f"{expression(node.value)}{alias(node.name)}"


def alias(name: str | None) -> str:
    """Format ` AS name`; "" for None."""
    return f" AS {quote(name)}" if name is not None else ""


def _arguments(nodes: tuple[Argument, ...]) -> str:
    return ", ".join(map(_argument, nodes))


def call(node: FunctionCall) -> str:
    inside = "*" if node.star else ("DISTINCT " if node.distinct else "") + _arguments(node.arguments)
    written = f"{function(node.name)}({inside})"
    if node.ignore_nulls is not None:
        written += " IGNORE NULLS" if node.ignore_nulls else " RESPECT NULLS"
    if node.over is None:
        return written
    return f"{written} OVER {quote(node.over) if isinstance(node.over, str) else window(node.over)}"


def _apply(node: Apply) -> str:
    callee = expression(node.callee, _ATOM)
    if isinstance(node.callee, Name):
        callee = f"({callee})"
    return f"{callee}({_arguments(node.arguments)})"


def _member(node: Member) -> str:
    of = expression(node.of, _ATOM)
    if isinstance(node.of, Member) and isinstance(node.of.name, int):
        of = f"({of})"
    return f"{of}.{node.name if isinstance(node.name, int) else quote(node.name)}"


def _named_member(node: NamedMember) -> str:
    return f"{expression(node.of, _ATOM)}.{parameter(node.name.name)}"


def _lambda(node: Lambda) -> str:
    first_optional = len(node.parameters) - node.optional
    inside = ", ".join(f"{parameter(name)}{'?' * (i >= first_optional)}" for i, name in enumerate(node.parameters))
    if not node.bindings:
        return f"({inside}) -> ({expression(node.body)})"
    return (
        f"({inside}) -> {{ {' '.join(f'{binding(each)};' for each in node.bindings)} RETURN {expression(node.body)}; }}"
    )


def binding(node: Binding) -> str:
    """Format `$a, $b = value`; a query gets parentheses."""
    names = ", ".join(parameter(each) for each in node.names)
    value = node.value
    if isinstance(value, (Select, Values, Compound, QuerySource)):
        return f"{names} = ({query(value)})"
    return f"{names} = {expression(value)}"


def query(node: Query) -> str:
    """Format a query without parentheses."""
    return WRITERS[node.__class__](node)


def _dict(node: DictLiteral) -> str:
    items = (expression(key) + (f": {expression(value)}" if value is not None else "") for key, value in node.items)
    return "{" + ", ".join(items) + "}"


def _tuple(node: TupleLiteral) -> str:
    return f"({commas(node.items)}{',' * (len(node.items) == 1)})"


def _struct(node: StructLiteral) -> str:
    items = (
        f"{quote(name) if isinstance(name, str) else f'({expression(name)})'}: {expression(value)}"
        for name, value in node.members
    )
    return "<|" + ", ".join(items) + "|>"


def _subquery(node: Subquery) -> str:
    return f"{'EXISTS ' * node.exists}({query(node.query)})"


def _json(node: Json) -> str:
    parts = [f"{expression(node.operand)}, {expression(node.path)}"]
    variables = [
        f"{expression(value)} AS {quote(phrase.removeprefix('PASSING '))}"
        for phrase, value, _ in node.clauses
        if phrase.startswith("PASSING ") and value is not None
    ]
    if variables:
        parts.append(f"PASSING {', '.join(variables)}")
    for phrase, value, kind in node.clauses:
        if kind is not None:
            parts.append(f"{phrase} {type_name(kind)}")
        elif phrase.startswith("DEFAULT ") and value is not None:
            parts.append(f"DEFAULT {expression(value)} {phrase.removeprefix('DEFAULT ')}")
        elif not phrase.startswith("PASSING "):
            parts.append(phrase)
    return f"{node.function}({' '.join(parts)})"


# --- windows ---------------------------------------------------------------------------------------------------------


def item(node: Item) -> str:
    """`value AS name`"""
    return f"{expression(node.value)}{alias(node.name)}"


def order(nodes: tuple[OrderItem, ...]) -> str:
    """`ORDER BY a, b DESC`"""
    return "ORDER BY " + ", ".join(expression(each.value) + " DESC" * each.descending for each in nodes)


def window(node: Window) -> str:
    """`(PARTITION BY a ORDER BY b ROWS ...)`"""
    parts = []
    if node.partition:
        parts.append("PARTITION BY " + ", ".join(map(item, node.partition)))
    if node.order:
        parts.append(order(node.order))
    if node.frame is not None:
        parts.append(_frame(node.frame))
    return f"({' '.join(parts)})"


def _frame(node: Frame) -> str:
    lower = _frame_end(node.lower, node.lower_by, "PRECEDING")
    return f"{node.kind} BETWEEN {lower} AND {_frame_end(node.upper, node.upper_by, 'FOLLOWING')}"


def _frame_end(bound: int | None, by: Expression | None, unbounded: str) -> str:
    if bound is None:
        return f"UNBOUNDED {unbounded}"
    if bound == 0:
        return "CURRENT ROW"
    distance = str(abs(bound)) if by is None else f"({expression(by)})"
    return f"{distance} {'PRECEDING' if bound < 0 else 'FOLLOWING'}"


WRITERS: Final[dict[type[Any], Callable[[Any], str]]] = {
    Literal_: literal,
    Name: lambda node: backtick(node.name) if node.quoted else function(node.name),
    Parameter: lambda node: parameter(node.name),
    Member: _member,
    NamedMember: _named_member,
    Subscript: lambda node: f"{expression(node.of, _ATOM)}[{expression(node.index)}]",
    Unary: _unary,
    Binary: _binary,
    Like: _like,
    Between: _between,
    In: _in,
    Case: _case,
    Cast: _cast,
    FunctionCall: call,
    Apply: _apply,
    TypeArgument: lambda node: type_name(node.type),
    Lambda: _lambda,
    ListLiteral: lambda node: f"[{commas(node.items)}]",
    TupleLiteral: _tuple,
    StructLiteral: _struct,
    DictLiteral: _dict,
    Subquery: _subquery,
    Json: _json,
}
"""The formatter of each class of node; `queries` adds those of queries."""
