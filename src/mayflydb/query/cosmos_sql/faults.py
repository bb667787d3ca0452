"""Errors of the language, with the service's codes and the position in the query text."""

from __future__ import annotations

from mayflydb.model.errors import BadQuery, Unsupported

SYNTAX = "SC1001"
UNRESOLVED = "SC2001"
UNKNOWN_FUNCTION = "SC2005"
STAR_WITH_GROUP_BY = "SC2041"
ARGUMENT_COUNT = "SC2050"
TOP_COUNT = "SC2060"
LIMIT_COUNT = "SC2061"
OFFSET_COUNT = "SC2062"
NESTED_AGGREGATES = "SC2101"
NOT_GROUPED = "SC2102"
ORDER_IN_SUBQUERY = "SC2202"
TOP_IN_SUBQUERY = "SC2203"
LIMIT_IN_SUBQUERY = "SC2204"
# The only code that is a number.
UNMAPPED_ORDER_BY = 2206
TUNING_RANGE = "SC2213"
NO_SCORE = "SC2221"
RANK_OF_ELEMENTS = "SC2223"
RANK_WITH_JOIN = "SC2224"
RANK_OF_SUBQUERY = "SC2225"
RANK_IN_SUBQUERY = "SC2228"
WEIGHTS = "SC2229"
SCORE_OUTSIDE_RANK = "SC2240"
MEMBER_INDEXER = "SC2990"

CARDINALITY = "The cardinality of a scalar subquery result set cannot be greater than one."


def bad_query(message: str, start: int, end: int, code: str | None = None) -> BadQuery:
    """Build a BadQuery. Its detail has the range [start, end) of characters in the query text, and the service's `code`."""
    if code is None:
        return BadQuery(message, start=start, end=end)
    return BadQuery(message, code=code, start=start, end=end)


def syntax_error(near: str, start: int, end: int) -> BadQuery:
    """Return the error SC1001. `near` is the text at the error, which is shortened; empty at the end of the query."""
    shown = near if len(near) <= 40 else near[:37] + "..."
    return bad_query(f"Syntax error, incorrect syntax near '{shown}'.", start, end, SYNTAX)


def unmapped_order() -> BadQuery:
    """Return the error 2206: no index of a path can give the ORDER BY. The service gives no position for it."""
    message = "Unsupported ORDER BY clause. ORDER BY item expression could not be mapped to a document path."
    return BadQuery(message, code=UNMAPPED_ORDER_BY)


def composed_aggregate() -> BadQuery:
    """Return the error of an aggregate inside another expression. The service gives no position for it."""
    return BadQuery("Compositions of aggregates and other expressions are not allowed.")


def unsupported(feature: str, start: int, end: int) -> Unsupported:
    """Return the refusal of a feature that the service has and Mayfly does not."""
    return Unsupported(f"{feature} is not supported by Mayfly.", start=start, end=end)
