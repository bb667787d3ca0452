"""The parser of YQL: a lexer, recursive descent for statements, precedence climbing for expressions.

Each module parses one subject in a class derived from those of the modules that it needs, in this order: `cursor`,
`type_names`, `operands`, `expressions`, `grouping`, `queries`, `writes`, `settings`, `tables`, `permissions`, `statements`.
A method that parses a rule of the grammar has the name of the rule: `select`, `argument`, `window_definition`.
"""

from __future__ import annotations

from mayflydb.query.yql.lexer import END, tokenize
from mayflydb.query.yql.parser.statements import Statements
from mayflydb.query.yql.statements import Script
from mayflydb.query.yql.syntax import Expression, TypeName


def parse(text: str) -> Script:
    """Parse a script. Faults: syntax errors, and syntax that Mayfly does not support."""
    cursor = Statements(tokenize(text))
    try:
        return cursor.script()
    except RecursionError:  # The caller's own stack was deep already.
        raise cursor.too_deep() from None


def parse_expression(text: str) -> Expression:
    """Parse an expression alone: `id > 5 AND name = "a"`. Faults: syntax errors."""
    cursor = Statements(tokenize(text))
    try:
        found = cursor.expression()
    except RecursionError:
        raise cursor.too_deep() from None
    if cursor.kind != END:
        cursor.fail(END)
    return found


def parse_type(text: str) -> TypeName:
    """Parse a type alone: `List<Struct<a: Utf8?>>`. Faults: syntax errors."""
    cursor = Statements(tokenize(text))
    found = cursor.type_name()
    if cursor.kind != END:
        cursor.fail(END)
    return found
