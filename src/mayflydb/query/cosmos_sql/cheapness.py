"""Queries whose time for a document is linear, with a small factor, in the sizes of document and text."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from mayflydb.query.cosmos_sql.aggregates import AGGREGATES
from mayflydb.query.cosmos_sql.functions import FUNCTIONS, date, mathematical, types
from mayflydb.query.cosmos_sql.parser import MAX_CACHED_CHARACTERS, parse
from mayflydb.query.cosmos_sql.syntax import FunctionCall, Name, ParsedQuery, Select, Subquery, SyntaxNode, children

_CHEAP_TEXT_FUNCTIONS: Final = (
    "CONCAT", "CONTAINS", "ENDSWITH", "INDEX_OF", "LEFT", "LENGTH", "LOWER", "LTRIM", "RIGHT", "RTRIM", "STARTSWITH",
    "STRINGEQUALS", "SUBSTRING", "TOSTRING", "TRIM", "UPPER",
)  # fmt: skip
"""Functions of texts that never give a text longer than their arguments together. Others may grow, or try many places."""

_CHEAP_ARRAY_FUNCTIONS: Final = ("ARRAY_CONTAINS", "ARRAY_LENGTH", "ARRAY_SLICE", "ARRAY_SUM", "ARRAY_AVG", "CHOOSE")

_CHEAP_AGGREGATES: Final = frozenset({"COUNT", "SUM", "AVG", "MIN", "MAX"}) & AGGREGATES.keys()

CHEAP_FUNCTIONS: Final = frozenset(
    [
        *(function.name for family in (mathematical, types, date) for function in family.FUNCTIONS),
        *(FUNCTIONS[name].name for name in (*_CHEAP_TEXT_FUNCTIONS, *_CHEAP_ARRAY_FUNCTIONS)),
        *_CHEAP_AGGREGATES,
    ]
)


MAX_NAMES: Final = 64
"""The maximum number of names in a cheap query: each may put a document into a row or a text once more."""

MAX_COPIES: Final = 8
"""The maximum number of names in a query whose rows need not be measured."""


def has_small_rows(statement: ParsedQuery, lenient: bool) -> bool:
    """Return True if a cheap query cannot put a part of a document into a row more than MAX_COPIES times."""
    is_short = len(statement.text) <= MAX_CACHED_CHARACTERS
    return is_short and _has_small_rows_cached(statement.text, lenient)


@lru_cache(maxsize=512)
def _has_small_rows_cached(text: str, lenient: bool) -> bool:
    return _count_names(parse(text, lenient).select) <= MAX_COPIES


def _count_names(select: Select) -> int:
    nodes: list[SyntaxNode] = [select]
    names = 0
    while nodes:
        node = nodes.pop()
        names += isinstance(node, Name)
        nodes += children(node)
    return names


def is_cheap(statement: ParsedQuery, lenient: bool) -> bool:
    """Return True if a document gives at most one row, and no part of the query iterates over more than its own operands."""
    is_short = len(statement.text) <= MAX_CACHED_CHARACTERS
    return is_short and _is_cheap_cached(statement.text, lenient)


@lru_cache(maxsize=512)
def _is_cheap_cached(text: str, lenient: bool) -> bool:
    return _is_cheap_select(parse(text, lenient).select)


def _is_cheap_select(select: Select) -> bool:
    # A second source of FROM gives a row for each pair.
    if len(select.sources) > 1 or any(source.unnest for source in select.sources):
        return False
    if _count_names(select) > MAX_NAMES:
        return False
    nodes: list[SyntaxNode] = [*children(select)]
    while nodes:
        node = nodes.pop()
        if isinstance(node, Subquery):
            return False
        if isinstance(node, FunctionCall) and (node.udf or node.name.upper() not in CHEAP_FUNCTIONS):
            return False
        nodes += children(node)
    return True
