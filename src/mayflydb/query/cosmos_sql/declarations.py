"""Declarations of a container that its queries use: vector embeddings, text languages, computed properties."""

from __future__ import annotations

from collections.abc import Mapping, Set
from types import MappingProxyType
from typing import Final

import msgspec

from mayflydb.model.errors import BadQuery, BadRequest
from mayflydb.query.cosmos_sql.functions import FUNCTIONS
from mayflydb.query.cosmos_sql.functions.fulltext import NO_LANGUAGES, Languages
from mayflydb.query.cosmos_sql.functions.vector import NO_EMBEDDINGS, Embeddings
from mayflydb.query.cosmos_sql.functions.words import LANGUAGE
from mayflydb.query.cosmos_sql.parser import parse
from mayflydb.query.cosmos_sql.scope import is_aggregate
from mayflydb.query.cosmos_sql.syntax import (
    Expression,
    FunctionCall,
    Name,
    QueryParameter,
    Select,
    Subquery,
    SyntaxNode,
    children,
)


class ComputedProperty(msgspec.Struct, frozen=True):
    """A computed property: an expression over the document, which the expression calls `alias`."""

    alias: str
    value: Expression


class Declarations(msgspec.Struct, frozen=True):
    """`embeddings` and `languages` by path of the document, `computed` by name of the property.

    `flat`: spatial values lie on a plane (Geometry). `language`: the language of texts at all other paths. `functions`: the
    names of the user-defined functions that an execution's Context can call; None: user-defined functions are refused.
    """

    embeddings: Embeddings = NO_EMBEDDINGS
    computed: Mapping[str, ComputedProperty] = MappingProxyType({})
    flat: bool = False
    languages: Languages = NO_LANGUAGES
    language: str = LANGUAGE
    functions: Set[str] | None = None


NO_DECLARATIONS: Final = Declarations()

_FORM: Final = "SELECT VALUE expression FROM alias"


def parse_computed_property(name: str, query: str) -> ComputedProperty:
    """Parse the query of a computed property: `SELECT VALUE expression FROM alias`. BadRequest, with the name, for any other
    query.

    The expression depends on the document alone: parameters, aggregates, subqueries, user-defined functions and functions of
    the present time are refused.
    """
    try:
        select = parse(query, lenient=True).select
    except BadQuery as error:
        raise BadRequest(f"The query of the computed property '{name}' is not valid: {error}") from error
    found = _find_property(select)
    if found is None:
        raise BadRequest(f"The computed property '{name}' must have a query of the form {_FORM}.")
    _check_allowed(name, found.value)
    return found


def _find_property(select: Select) -> ComputedProperty | None:
    """Return the selected expression if the query has no other clause; None otherwise."""
    if select.value is None or len(select.sources) != 1:
        return None
    (source,) = select.sources
    # Equal to this SELECT: there is no WHERE, JOIN, DISTINCT, TOP or any other clause.
    nothing_else = Select(value=select.value, sources=select.sources, start=select.start, end=select.end)
    if select != nothing_else or source.unnest or not isinstance(source.expression, Name):
        return None
    return ComputedProperty(source.alias or source.expression.name, select.value)


def _check_allowed(name: str, node: SyntaxNode) -> None:
    refused = None
    if isinstance(node, Subquery | QueryParameter):
        refused = "a subquery" if isinstance(node, Subquery) else "a parameter"
    elif is_aggregate(node):
        refused = "an aggregate"
    elif isinstance(node, FunctionCall):
        function = FUNCTIONS.get(node.name.upper())
        if node.udf or (function is not None and function.contextual):
            refused = f"the function {node.name}"
    if refused is not None:
        raise BadRequest(f"The query of the computed property '{name}' must not have {refused}.")
    for child in children(node):
        _check_allowed(name, child)
