"""The printer: a syntax tree to text. Parsing the text gives the same tree."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

from mayflydb.query.cosmos_sql.lexer import is_word
from mayflydb.query.cosmos_sql.parser import BINDING_POWERS
from mayflydb.query.cosmos_sql.syntax import (
    Array,
    Between,
    Binary,
    Conditional,
    Expression,
    FilterSlot,
    FromSource,
    FunctionCall,
    In,
    Like,
    Literal,
    Logical,
    Name,
    Object,
    Order,
    Path,
    QueryParameter,
    Select,
    SelectItem,
    StatisticPlaceholder,
    Subquery,
    SyntaxNode,
    Unary,
)  # fmt: skip
from mayflydb.query.cosmos_sql.values import NUMBERS, UNDEFINED
from mayflydb.query.cosmos_sql.vocabulary import is_reserved

FILTER_SLOT: Final = "{documentdb-formattableorderbyquery-filter}"
"""The placeholder in a rewritten query that clients replace by `true` or a resume condition."""

_PREFIX = 100
_PRIMARY = 200
_COMPARISON = BINDING_POWERS["="]


def print_select(select: Select) -> str:
    """Print a query, one clause a line."""
    lines = [_print_head(select)]
    if select.sources:
        lines.append("FROM " + "\nJOIN ".join(map(_print_source, select.sources)))
    if select.where is not None:
        lines.append("WHERE " + print_expression(select.where))
    if select.group_by:
        lines.append("GROUP BY " + ", ".join(map(print_expression, select.group_by)))
    if select.order_by:
        lines.append("ORDER BY " + ", ".join(map(_print_order, select.order_by)))
    if select.offset is not None and select.limit is not None:
        lines.append(f"OFFSET {print_expression(select.offset)} LIMIT {print_expression(select.limit)}")
    return "\n".join(lines)


def _print_head(select: Select) -> str:
    words = ["SELECT"]
    if select.distinct:
        words.append("DISTINCT")
    if select.top is not None:
        words.append("TOP " + print_expression(select.top))
    if select.star:
        words.append("*")
    elif select.value is not None:
        words.append("VALUE " + print_expression(select.value))
    else:
        words.append(", ".join(map(_print_item, select.items)))
    return " ".join(words)


def _print_item(item: SelectItem) -> str:
    text = print_expression(item.expression)
    if item.alias is None:
        return text
    return f"{text} AS {item.alias if _is_name(item.alias) else _print_string(item.alias)}"


def _is_name(word: str) -> bool:
    return is_word(word) and not is_reserved(word)


def _print_source(source: FromSource) -> str:
    text = print_expression(source.expression)
    if source.unnest:
        return f"{source.alias} IN {text}"
    return text if source.alias is None else f"{text} AS {source.alias}"


def _print_order(order: Order) -> str:
    text = print_expression(order.expression)
    return f"RANK {text}" if order.rank else f"{text} DESC" if order.descending else text


def print_expression(expression: Expression) -> str:
    """Print one expression, with the brackets that it needs."""
    return _print(expression)[0]


def _print_operand(expression: SyntaxNode, floor: int) -> str:
    """Print an operand, in brackets if it binds more loosely than `floor`."""
    text, power = _print(expression)
    return text if power >= floor else f"({text})"


def _print(node: SyntaxNode) -> tuple[str, int]:
    """The text and the binding power of its outermost operator."""
    return _PRINTERS[type(node)](node)


def _print_string(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _print_literal(node: Literal) -> tuple[str, int]:
    if node.value is UNDEFINED:
        return "undefined", _PRIMARY
    text = json.dumps(node.value, ensure_ascii=False)
    # A dot behind a number would be read as part of the number.
    return text, _PREFIX if type(node.value) in NUMBERS else _PRIMARY


def _print_path(node: Path) -> tuple[str, int]:
    parts = [_print_operand(node.base, _PRIMARY)]
    for step in node.steps:
        if isinstance(step, Literal) and type(step.value) is str and _is_name(step.value):
            parts.append("." + step.value)
        else:
            parts.append(f"[{print_expression(step)}]")
    return "".join(parts), _PRIMARY


def _print_unary(node: Unary) -> tuple[str, int]:
    operand = _print_operand(node.operand, _PREFIX)
    # Two minus signs without a blank between them would start a comment.
    blank = " " if node.operator == "NOT" or operand[0] in "+-" else ""
    return f"{node.operator}{blank}{operand}", _PREFIX


def _print_binary(node: Binary) -> tuple[str, int]:
    power = BINDING_POWERS[node.operator]
    return f"{_print_operand(node.left, power)} {node.operator} {_print_operand(node.right, power + 1)}", power


def _print_logical(node: Logical) -> tuple[str, int]:
    power = BINDING_POWERS[node.operator]
    return f" {node.operator} ".join(_print_operand(operand, power + 1) for operand in node.operands), power


def _print_between(node: Between) -> tuple[str, int]:
    low, high = _print_operand(node.low, _COMPARISON + 1), _print_operand(node.high, _COMPARISON + 1)
    return f"{_print_negatable(node)}BETWEEN {low} AND {high}", _COMPARISON


def _print_in(node: In) -> tuple[str, int]:
    return f"{_print_negatable(node)}IN ({', '.join(map(print_expression, node.choices))})", _COMPARISON


def _print_like(node: Like) -> tuple[str, int]:
    text = f"{_print_negatable(node)}LIKE {_print_operand(node.pattern, _COMPARISON + 1)}"
    return text if node.escape is None else f"{text} ESCAPE {_print_operand(node.escape, _PRIMARY)}", _COMPARISON


def _print_negatable(node: Between | In | Like) -> str:
    # A predicate needs brackets to be the operand of another predicate.
    floor = _COMPARISON + isinstance(node.operand, Between | In | Like)
    return f"{_print_operand(node.operand, floor)} {'NOT ' if node.negated else ''}"


def _print_conditional(node: Conditional) -> tuple[str, int]:
    power = BINDING_POWERS["?"]
    chosen, otherwise = print_expression(node.chosen), _print_operand(node.otherwise, power)
    return f"{_print_operand(node.test, power + 1)} ? {chosen} : {otherwise}", power


def _print_call(node: FunctionCall) -> tuple[str, int]:
    arguments = ", ".join(map(print_expression, node.arguments))
    return f"{'udf.' if node.udf else ''}{node.name}({arguments})", _PRIMARY


def _print_object(node: Object) -> tuple[str, int]:
    fields = ", ".join(f"{_print_string(field.name)}: {print_expression(field.value)}" for field in node.fields)
    return "{" + fields + "}", _PRIMARY


def _print_subquery(node: Subquery) -> tuple[str, int]:
    return f"{node.form}({print_select(node.select)})", _PRIMARY


def _print_filter_slot(node: FilterSlot) -> tuple[str, int]:
    if node.condition is None:
        return f"({FILTER_SLOT})", _PRIMARY
    return f"(({print_expression(node.condition)}) AND ({FILTER_SLOT}))", _PRIMARY


_PRINTERS: Final[dict[type, Callable[[Any], tuple[str, int]]]] = {
    Literal: _print_literal,
    QueryParameter: lambda node: (node.name, _PRIMARY),
    Name: lambda node: (node.name, _PRIMARY),
    Path: _print_path,
    Unary: _print_unary,
    Binary: _print_binary,
    Logical: _print_logical,
    Between: _print_between,
    In: _print_in,
    Like: _print_like,
    Conditional: _print_conditional,
    FunctionCall: _print_call,
    Array: lambda node: (f"[{', '.join(map(print_expression, node.items))}]", _PRIMARY),
    Object: _print_object,
    Subquery: _print_subquery,
    FilterSlot: _print_filter_slot,
    StatisticPlaceholder: lambda node: (f"{{{node.name}}}", _PRIMARY),
}
