"""Resolution of names in commands: collections, the settings that expressions are evaluated under, and queries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from mayflydb.frontends.mongo import arguments
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.collections import Collection
from mayflydb.frontends.mongo.documents import to_milliseconds
from mayflydb.frontends.mongo.reading import Selection, find_exact_id
from mayflydb.frontends.mongo.services import Services
from mayflydb.frontends.mongo.streams.options import cluster_time
from mayflydb.frontends.mongo.time_series.measurements import refuse_in_transaction
from mayflydb.query.mongo.collation import SIMPLE, Collation
from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.expressions import compile_expression, depends_on, frame_of
from mayflydb.query.mongo.expressions.core import check_variable
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.filter import compile_filter, has_text_search, text_search
from mayflydb.query.mongo.sort import compile_sort
from mayflydb.query.mongo.text import TextIndex
from mayflydb.query.mongo.values import Document


async def build_env(services: Services, call: Call, collection: Collection | None, given: Mapping[str, Any]) -> Env:
    """The environment of a statement: the instant, its own collation or its collection's, and variables, computed."""
    collation = arguments.document(given, "collation", call.name)
    # A collation of the statement replaces the collection's as a whole.
    chosen = SIMPLE if collection is None else collection.collation
    if collation is not None:
        chosen = Collation.parse(collation)
    time = None if services.options.topology == "standalone" else cluster_time(services.engine.committed_at)
    env = Env(to_milliseconds(call.now), {}, chosen, services.chance.random, cluster_time=time)
    variables = arguments.document(call.body, "let", call.name)
    if not variables:
        return env
    evaluation = services.evaluation_of(call)
    return msgspec.structs.replace(
        env, variables=await evaluation.compute(True, call.size, _evaluate_let, variables, env)
    )


def _evaluate_let(variables: Document, env: Env) -> Document:
    """Evaluate `let`, whose expressions see no document, but the variables before them.

    Raise MqlError 9 for a name that no variable may have, 4890500 for a field, and the errors of expressions.
    """
    for name in variables:
        check_variable(name)
    for expression in variables.values():
        if depends_on(expression) != frozenset():
            text = "Command let Expression tried to access a field, but this is not allowed because command let expressions"
            raise MqlError(4890500, f"{text} run before the query examines any documents.")
    known: Document = {}
    for name, expression in variables.items():
        so_far = msgspec.structs.replace(env, variables=known)
        known = {**known, name: compile_expression(expression, so_far)(frame_of({}, so_far))}
    return known


def compile_selection(
    collection: Collection | None,
    env: Env,
    query: Document,
    order: Document | None = None,
    hint: Any = None,
    skip: int = 0,
    limit: int = 0,
    by_identity: bool = False,
) -> Selection:
    """Compile a query. Errors: those of filters and sorts.

    `by_identity`: where the query is only an `_id`, the caller reads by identity, so no filter is compiled.
    """
    # A document as operand may hold operators that no filter accepts, so it is compiled to be checked.
    # Several measurements of a time series may have one `_id`.
    by_identity = by_identity and (collection is None or collection.series is None)
    filter_needless = by_identity and find_exact_id(query, env, hint) is not None and type(query["_id"]) is not dict
    text = find_text_index(collection) if has_text_search(query) else None
    search = text_search(query, text) if text is not None else None
    score = None if search is None else search.score
    by = None if order is None or "$natural" in order else order
    return Selection(
        query,
        env,
        compile_filter(query, env, text) if query and not filter_needless else None,
        compile_sort(by, env, score) if by else None,
        order or {},
        skip,
        limit,
        hint,
        score,
    )


def find_text_index(collection: Collection | None) -> TextIndex | None:
    """The text index that `$text` searches. A missing collection and a view have an empty one."""
    if collection is None or collection.view_on is not None:
        return TextIndex({})
    return collection.text_index


async def find_collection(services: Services, call: Call) -> Collection | None:
    """Find the collection that a command names. Raise MqlError 166 for a view."""
    return await find_collection_in(services, call, call.database, arguments.collection_name(call.body, call.name))


async def find_collection_in(services: Services, call: Call, database: str, name: str) -> Collection | None:
    """Find a collection by name, with the errors of `find_collection`."""
    found: Collection | None = await services.collections.find(database, name)
    if found is not None and found.view_on is not None:
        raise MqlError(166, f"Namespace {found.namespace} is a view, not a collection")
    if found is not None and found.series is not None and call.transaction is not None:
        raise refuse_in_transaction(found, "insert into" if call.name == "insert" else "write to")
    if found is not None and found.capped and call.transaction is not None:
        text = "is a capped collection. Writes in transactions are not allowed on capped collections."
        raise MqlError(263, f"Collection '{found.namespace}' {text}")
    return found


async def ensure_collection(services: Services, call: Call) -> Collection:
    """Find the collection that a command names, and create it if it is missing."""
    name = call.body[call.name]
    known = services.collections.find_cached(call.database, name) if type(name) is str else None
    if known is not None and known.view_on is None and not known.capped and known.series is None:
        return known
    return await ensure_collection_in(services, call, call.database, arguments.collection_name(call.body, call.name))


async def ensure_collection_in(services: Services, call: Call, database: str, name: str) -> Collection:
    """Find a collection by name, and create it if it is missing."""
    found = await find_collection_in(services, call, database, name)
    if found is not None:
        return found
    # Within a transaction too, the collection is created at once, empty, and remains if the transaction aborts.
    return await services.collections.ensure(database, name, call.now)
