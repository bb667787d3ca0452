"""Parses and compiles queries."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from mayflydb.evaluation.statement import CHEAP_BYTES, Computing, Statement
from mayflydb.frontends.cosmos.values import ItemLimits, parse_json
from mayflydb.model.errors import BadRequest
from mayflydb.model.keys import SortKeys
from mayflydb.query.cosmos_sql import NO_DECLARATIONS, Declarations, Query, compile_query

MAX_QUERY_BYTES = 1024 * 1024

COMPILE_WEIGHT: Final = 128
"""The time to compile a character of a text, in bytes of a document to which a query is applied."""

NO_COMPOSITE_INDEX = "The order by query does not have a corresponding composite index that it can be served from."

LONG_TEXT: Final = CHEAP_BYTES // COMPILE_WEIGHT
"""The characters of a text above which it is compiled on a thread."""


async def parse_body(computing: Computing, body: bytes, limits: ItemLimits) -> tuple[str, dict[str, Any]]:
    """Parse `{"query":"…","parameters":[{"name":"@x","value":…}]}` to the text and the parameters by name."""
    value, _ = await computing.call(len(body), parse_json, body, limits, MAX_QUERY_BYTES)
    text = value.get("query") if isinstance(value, dict) else value
    if not isinstance(text, str):
        raise BadRequest("The body of a query must be an object with the text in 'query'.")
    given = value.get("parameters") if isinstance(value, dict) else None
    if given is None:
        given = []
    if not isinstance(given, list):
        raise BadRequest("The property 'parameters' of a query must be an array.")
    return text, dict(_parse_parameter(each) for each in given)


async def compile_text(
    statement: Statement,
    text: str,
    parameters: dict[str, Any],
    declared: Declarations = NO_DECLARATIONS,
    *,
    lenient: bool,
) -> Query:
    """Compile a query, and note whether its steps are cheap. Errors as of `compile_query`."""

    def compile_all() -> Query:
        query = compile_query(text, parameters, declared, lenient=lenient)
        if len(text) > LONG_TEXT:
            # Asked for on the event loop later, where it takes no time any more.
            query.bounds()
        return query

    query = await statement.call(len(text) * COMPILE_WEIGHT, compile_all)
    statement.cheap = query.is_cheap
    return query


def _parse_parameter(given: object) -> tuple[str, Any]:
    name = given.get("name") if isinstance(given, Mapping) else None
    if not isinstance(name, str) or not name.startswith("@"):
        raise BadRequest("Each of the 'parameters' of a query must have a 'name' like '@x', and a 'value'.")
    assert isinstance(given, Mapping)
    return name, given.get("value")


def check_composite_order(query: Query, composite: Collection[SortKeys]) -> None:
    """Raise BadRequest for an ORDER BY of several paths without a composite index."""
    order = query.sort_paths()
    if len(order) > 1 and order not in composite:
        raise BadRequest(NO_COMPOSITE_INDEX)
