"""Texts of YQL read into trees: a lexer, recursive descent for statements, precedence climbing for expressions.

Each module reads one subject and is a class above those that it needs: `cursor`, `type_names`, `operands`, `expressions`,
`grouping`, `queries`, `writes`, `settings`, `tables`, `access`, `statements`.
"""

from __future__ import annotations

from mayflydb.query.yql.lexer import END, tokens
from mayflydb.query.yql.parser.statements import Statements
from mayflydb.query.yql.statements import Script
from mayflydb.query.yql.syntax import TypeName


def parse(text: str) -> Script:
    """A whole text. Faults: it cannot be read, or has what Mayfly has not."""
    cursor = Statements(tokens(text))
    try:
        return cursor.script()
    except RecursionError:  # Whoever asks stands deep in the stack already.
        raise cursor.too_deep() from None


def read_type(text: str) -> TypeName:
    """A type alone: `List<Struct<a: Utf8?>>`. Faults: it cannot be read."""
    cursor = Statements(tokens(text))
    found = cursor.type_name()
    if cursor.kind != END:
        cursor.fail(END)
    return found
