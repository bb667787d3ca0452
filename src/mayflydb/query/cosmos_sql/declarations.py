"""What a container declares that its queries go by: how vectors are measured, and properties that are computed."""

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
    """A computed property: an expression over the document, which it calls `alias`."""

    alias: str
    value: Expression


class Declarations(msgspec.Struct, frozen=True):
    """`embeddings` and `languages` of texts by path of the document, `computed` by name of the property.

    `flat`: its shapes lie on a plane. `language`: of all other texts. `functions`: names of user-defined functions, which the
    Context of an execution can call; None: they cannot be used.
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
    """The property of this query: `SELECT VALUE expression FROM alias`. BadRequest, naming the property, for any other.

    The expression is of the document alone: no parameters, aggregates, subqueries, user-defined functions, nor anything that
    another moment answers differently.
    """
    try:
        select = parse(query, lenient=True).select
    except BadQuery as error:
        raise BadRequest(f"The query of the computed property '{name}' is not valid: {error}") from error
    found = _find_property(select)
    if found is None:
        raise BadRequest(f"The computed property '{name}' must have a query of the form {_FORM}.")
    _check(name, found.value)
    return found


def _find_property(select: Select) -> ComputedProperty | None:
    """What is selected by a query that consists of nothing else; None for any other."""
    if select.value is None or len(select.sources) != 1:
        return None
    (source,) = select.sources
    nothing_else = Select(value=select.value, sources=select.sources, start=select.start, end=select.end)
    if select != nothing_else or source.unnest or not isinstance(source.expression, Name):
        return None
    return ComputedProperty(source.alias or source.expression.name, select.value)


def _check(name: str, node: SyntaxNode) -> None:
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
        _check(name, child)
