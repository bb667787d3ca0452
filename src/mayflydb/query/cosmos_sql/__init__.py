"""The query language of Azure Cosmos DB for NoSQL: compilation of a text to closures over decoded JSON, and query plans."""

from __future__ import annotations

from mayflydb.query.cosmos_sql.bounds import Bounds
from mayflydb.query.cosmos_sql.cheapness import MAX_COPIES
from mayflydb.query.cosmos_sql.context import Caller, Context
from mayflydb.query.cosmos_sql.declarations import (
    NO_DECLARATIONS,
    ComputedProperty,
    Declarations,
    parse_computed_property,
)
from mayflydb.query.cosmos_sql.execute import RowPosition
from mayflydb.query.cosmos_sql.functions.vector import DATA_TYPES, DISTANCES, Embedding, Embeddings
from mayflydb.query.cosmos_sql.functions.words import LANGUAGE, LANGUAGES
from mayflydb.query.cosmos_sql.index_keys import Span, cursor_key, index_key
from mayflydb.query.cosmos_sql.parser import parse
from mayflydb.query.cosmos_sql.printer import print_select
from mayflydb.query.cosmos_sql.query import Accumulator, Query, SortedPage, compile_query, functions_in
from mayflydb.query.cosmos_sql.query_plan import check_blocking_source, plan
from mayflydb.query.cosmos_sql.search import Search, run
from mayflydb.query.cosmos_sql.syntax import ParsedQuery
from mayflydb.query.cosmos_sql.values import UNDEFINED

__all__ = [
    "DATA_TYPES",
    "DISTANCES",
    "LANGUAGE",
    "LANGUAGES",
    "MAX_COPIES",
    "NO_DECLARATIONS",
    "UNDEFINED",
    "Accumulator",
    "Bounds",
    "Caller",
    "ComputedProperty",
    "Context",
    "Declarations",
    "Embedding",
    "Embeddings",
    "ParsedQuery",
    "Query",
    "RowPosition",
    "Search",
    "SortedPage",
    "Span",
    "check_blocking_source",
    "compile_query",
    "cursor_key",
    "functions_in",
    "index_key",
    "parse",
    "parse_computed_property",
    "plan",
    "print_select",
    "run",
]
