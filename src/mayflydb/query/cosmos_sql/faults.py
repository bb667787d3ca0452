"""Errors of the language, with the service's codes and the place in the query text."""

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
    """A BadQuery whose detail names the characters [start, end) of the query text, and the code if the service has one."""
    if code is None:
        return BadQuery(message, start=start, end=end)
    return BadQuery(message, code=code, start=start, end=end)


def syntax_error(near: str, start: int, end: int) -> BadQuery:
    """SC1001. `near` is the text that was not understood, shortened; empty at the end of the query."""
    shown = near if len(near) <= 40 else near[:37] + "..."
    return bad_query(f"Syntax error, incorrect syntax near '{shown}'.", start, end, SYNTAX)


def unmapped_order() -> BadQuery:
    """2206, of an ORDER BY that no index of a path can give; the service names no place."""
    message = "Unsupported ORDER BY clause. ORDER BY item expression could not be mapped to a document path."
    return BadQuery(message, code=UNMAPPED_ORDER_BY)


def unsupported(feature: str, start: int, end: int) -> Unsupported:
    """The service knows this feature and Mayfly does not."""
    return Unsupported(f"{feature} is not supported by Mayfly.", start=start, end=end)
