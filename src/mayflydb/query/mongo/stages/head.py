"""The head of a pipeline: its first stages as a query with sort, skip and limit, which indexes can answer."""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec
from bson import Int64, Regex

from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.expressions import Constant, compile_expression
from mayflydb.query.mongo.stages.base import Stage
from mayflydb.query.mongo.stages.basic import LimitStage, MatchStage, SkipStage, SortStage
from mayflydb.query.mongo.values import MISSING, Document, Value


class Head(msgspec.Struct, frozen=True):
    """The part of a pipeline that the read of the collection performs: filter, sort, skip, limit (None: no limit)."""

    query: Document = {}
    sort: Document | None = None
    skip: int = 0
    limit: int | None = None


def head_of(stages: Sequence[Stage]) -> tuple[Head, int]:
    """Return the head of a pipeline, and the number of stages it replaces."""
    queries: list[Document] = []
    sort: Document | None = None
    at = 0
    for stage in stages:
        if isinstance(stage, MatchStage):
            # A `$match` behind the sort belongs to the query too: filtering keeps the order.
            queries.append(stage.query)
        elif isinstance(stage, SortStage) and sort is None:
            sort = stage.spec
        else:
            break
        at += 1
    skip, limit, more = _combine_skips_and_limits(stages[at:])
    return Head(join_queries(queries), sort, skip, limit), at + more


def _combine_skips_and_limits(stages: Sequence[Stage]) -> tuple[int, int | None, int]:
    """Return (skip, limit, number of stages) of the leading `$skip` and `$limit` stages, combined."""
    skip, limit, count = 0, None, 0
    for stage in stages:
        if isinstance(stage, SkipStage):
            skip += stage.count
            # A skip behind a limit takes its documents from it: limit 10, skip 3 is skip 3, limit 7.
            limit = None if limit is None else max(limit - stage.count, 0)
        elif isinstance(stage, LimitStage):
            limit = stage.count if limit is None else min(limit, stage.count)
        else:
            break
        count += 1
    return skip, limit, count


def limit_sorts(stages: Sequence[Stage]) -> None:
    """Set on each `$sort` the number of documents that the following `$skip` and `$limit` read."""
    for at, stage in enumerate(stages):
        if isinstance(stage, SortStage):
            skip, limit, _ = _combine_skips_and_limits(stages[at + 1 :])
            stage.max_count = None if limit is None else skip + limit


def join_queries(queries: Sequence[Document]) -> Document:
    """Return the conjunction of queries."""
    queries = [query for query in queries if query]
    if not queries:
        return {}
    return queries[0] if len(queries) == 1 else {"$and": list(queries)}


# --- what a read without variables can do ----------------------------------------------------------------------------


def strip_variables(query: Document, env: Env) -> tuple[Document, bool]:
    """Return a query without variables that matches every document that `query` matches, and whether the two are equivalent.

    Variables occur in `$expr` only. From an `$expr`, an `$eq` of a field and a constant becomes a condition that an index can
    answer.
    """
    conditions: list[Document] = []
    exact = True
    for name, value in query.items():
        if name == "$and" and type(value) is list:
            for each in value:
                inner, whole = strip_variables(each, env)
                exact = exact and whole
                conditions.append(inner)
        # Left to the pipeline, which draws a random number for each document once.
        elif name == "$sampleRate":
            exact = False
        elif name == "$expr":
            exact = False
            conditions += _index_conditions(value, env)
        elif _has_expression(value):
            exact = False
        else:
            conditions.append({name: value})
    return join_queries(conditions), exact


def _has_expression(value: Value) -> bool:
    if type(value) is dict:
        return any(name == "$expr" or _has_expression(each) for name, each in value.items())
    return type(value) is list and any(map(_has_expression, value))


def _index_conditions(spec: Value, env: Env) -> list[Document]:
    if type(spec) is not dict or len(spec) != 1:
        return []
    ((operator, operands),) = spec.items()
    if operator == "$and" and type(operands) is list:
        return [condition for each in operands for condition in _index_conditions(each, env)]
    if operator != "$eq" or type(operands) is not list or len(operands) != 2:
        return []
    one, other = operands
    for field, value in ((one, other), (other, one)):
        given = compile_expression(value, env) if _is_field(field) else None
        if isinstance(given, Constant):
            found = given.value
            # A missing value equals missing fields only, which a condition cannot express.
            if found is not MISSING and type(found) not in (Regex, re.Pattern):
                return [{field[1:]: {"$eq": found}}]
    return []


def _is_field(spec: Value) -> bool:
    """Return whether a path means the same in a query as in an expression. To a query, a number may be an index of an array."""
    return (
        type(spec) is str
        and len(spec) > 1
        and spec[0] == "$"
        and spec[1] != "$"
        and not any(part.isdecimal() for part in spec.split("."))
    )


def is_number_one(spec: Value) -> bool:
    """Return whether an operand is the number 1."""
    return type(spec) in (int, Int64, float) and spec == 1
