"""Finds that are answered from stored bytes: by one `_id`, or by a range of an index that holds nothing but the matches.

A collection remembers the plans of its finds, by the shapes of their queries, and projections that name whole fields.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from bson import Binary

from mayflydb.engine import prices
from mayflydb.engine.catalog import Index
from mayflydb.evaluation.statement import CHEAP_BYTES
from mayflydb.frontends.mongo.calls import GENERIC_ARGUMENTS, Call
from mayflydb.frontends.mongo.collections import Collection, identity_of
from mayflydb.frontends.mongo.documents import cursor_reply
from mayflydb.frontends.mongo.reading import MAX_FEW, bytes_of, index_of, plan_query
from mayflydb.frontends.mongo.resolving import compile_selection
from mayflydb.frontends.mongo.services import Services
from mayflydb.frontends.mongo.spending import SpentUnits
from mayflydb.model.order import KeyRange
from mayflydb.model.record import Record
from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.indexes.exact import EXACT_TYPES, ExactPlan, Shape, exact_range, find_exact_plan, shape_of
from mayflydb.query.mongo.indexes.specs import IndexSpec
from mayflydb.query.mongo.projection import Projection, compile_projection
from mayflydb.query.mongo.values import Document

ARGUMENTS: Final = frozenset({"find", "filter", "limit", "singleBatch", "projection"}) | GENERIC_ARGUMENTS - frozenset(
    {"txnNumber", "autocommit", "startTransaction"}
)
"""The arguments of a find that may be answered here."""

_ID_TYPES: Final = EXACT_TYPES | {Binary, bytes}

MAX_REMEMBERED: Final = 256
"""Plans and projections that a collection remembers. More make it forget all of them."""

MAX_NAME_BYTES: Final = 1024
"""Characters of the names in a plan or a projection that is remembered."""


async def find_quickly(services: Services, call: Call) -> bytes | None:
    """Return the answer to a find by one `_id` or by the keys of an index; None: it is another one, or has large results.

    A command that is not valid is left to others, too.
    """
    body, name = call.body, call.body.get("find")
    if not body.keys() <= ARGUMENTS or type(name) is not str or call.size > CHEAP_BYTES:
        return None
    if call.snapshot is not None:
        return None
    collection = services.collections.find_cached(call.database, name)
    if collection is None or collection.view_on is not None or services.engine.budgets is not None:
        return None
    return await _answer(services, call, collection)


async def _answer(services: Services, call: Call, collection: Collection) -> bytes | None:
    body = call.body
    query, limit, wanted = body.get("filter"), body.get("limit", 0), body.get("projection")
    if type(query) is not dict or not query or type(limit) is not int or limit < 0:
        return None
    if type(body.get("singleBatch", False)) is not bool or not collection.collation.is_simple:
        return None
    projection = None
    if wanted:
        projection = _find_projection(collection, wanted)
        if projection is None:
            return None
    key = query.get("_id")
    if type(key) in _ID_TYPES and len(query) == 1:
        if collection.series is not None:
            return None
        identity = identity_of(key)
        collection.usage.accesses[collection.id_index.name] += 1
        record = await services.engine.get(collection.node, identity.partition, identity.key, call.now)
        records = [] if record is None else [record]
        price = prices.MISS if record is None else prices.point_read(len(record.value))
        if projection is not None and bytes_of(records) > CHEAP_BYTES:
            return None
    else:
        found = await _read_range(services, call, collection, query)
        size = 0 if found is None else bytes_of(found)
        if found is None or size > CHEAP_BYTES:
            return None
        price = prices.query(len(found), size, len(found))
        records = found[:limit] if limit else found
    call.spent = SpentUnits()
    call.spent.add(collection.id, price)
    if projection is None:
        values = [record.value for record in records]
    else:
        values = [projection.encode(record.value) for record in records]
    return cursor_reply(collection.namespace, 0, values, True)


async def _read_range(services: Services, call: Call, collection: Collection, query: Document) -> list[Record] | None:
    shaped = shape_of(query)
    chosen = None if shaped is None else _find_plan(collection, query, shaped[0])
    if shaped is None or chosen is None:
        return None
    index, plan = chosen
    bounds = exact_range(plan, shaped[1])
    if bounds is None:
        return None
    node = collection.node
    records = await services.engine.indexes.fetch_range(node, index, KeyRange(*bounds), call.now, MAX_FEW)
    # The index may have been dropped during the read, which is then not complete.
    if services.collections.find_cached(collection.database, collection.name) is not collection:
        return None
    if records is not None:
        collection.usage.accesses[plan.spec.name] += 1
    return records


def _find_plan(collection: Collection, query: Document, shape: Shape) -> tuple[Index, ExactPlan] | None:
    """Return the index and the plan of a query. Raise the errors of a query that is not valid."""
    remembered = collection.remembered
    try:
        known: tuple[Index, ExactPlan] | None = remembered[shape]
    except KeyError:
        pass
    else:
        return known
    plan = plan_query(collection, compile_selection(collection, Env(0), query))
    exact = find_exact_plan(plan, shape, collection.usable_specs)
    found = None if exact is None else (index_of(collection, plan), exact)
    # If these operands exclude each other, others of the same shape may not.
    if plan.kind != "none":
        _remember(collection, shape, [path for path, _, _ in shape], found)
    return found


def _find_projection(collection: Collection, spec: Any) -> Projection | None:
    """Return a projection that only names whole fields; None: it is another one. Raise the errors of projections."""
    if type(spec) is not dict:
        return None
    key = (_find_projection, *[(name, value) for name, value in spec.items() if type(value) in (int, bool)])
    try:
        known: Projection | None = collection.remembered[key]
    except KeyError:
        pass
    else:
        return known
    if len(key) <= len(spec) or any("." in name or "$" in name for name in spec):
        return None
    found: Projection | None = compile_projection(spec, Env(0))
    _remember(collection, key, list(spec), found)
    return found


def _remember(collection: Collection, key: Any, names: Sequence[str], found: object) -> None:
    if sum(map(len, names)) <= MAX_NAME_BYTES:
        if len(collection.remembered) >= MAX_REMEMBERED:
            collection.remembered.clear()
        collection.remembered[key] = found


def list_remembered_plans(collection: Collection) -> list[tuple[Shape, IndexSpec]]:
    """The shapes of queries whose plan a collection remembers, each with the index that answers them."""
    return [
        (shape, found[1].spec)
        for shape, found in collection.remembered.items()
        if type(found) is tuple and type(found[1]) is ExactPlan and isinstance(shape, tuple)
    ]


def forget_plans(collection: Collection) -> None:
    """Have plans made anew."""
    collection.remembered.clear()
