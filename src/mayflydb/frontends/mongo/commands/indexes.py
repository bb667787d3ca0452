"""createIndexes, listIndexes, dropIndexes, collMod.

Replies that concern a TTL index on `_ts` have the shape that Cosmos DB's API for MongoDB gives them:
https://learn.microsoft.com/azure/cosmos-db/mongodb/time-to-live
"""

from __future__ import annotations

from typing import Final

from mayflydb.frontends.mongo import arguments
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.collection_options import check_validator, parse_images, parse_max, parse_size
from mayflydb.frontends.mongo.collections import Collection
from mayflydb.frontends.mongo.commands.catalog import list_reply
from mayflydb.frontends.mongo.contracts import Contract
from mayflydb.frontends.mongo.indexing import index_count
from mayflydb.frontends.mongo.resolving import find_collection
from mayflydb.frontends.mongo.services import CommandEntry, Services
from mayflydb.frontends.mongo.time_series.changes import modify_series
from mayflydb.frontends.mongo.time_series.options import change_expire_after
from mayflydb.frontends.mongo.views import check_view
from mayflydb.query.mongo.faults import MqlError, bad_value, type_mismatch
from mayflydb.query.mongo.indexes.specs import IndexSpec
from mayflydb.query.mongo.values import Document, type_name

UNCHANGED_NOTE: Final = "all indexes already exist"
NEVER_EXPIRES_NOTE: Final = "hashed and text indexes find no dates: 'expireAfterSeconds' lets nothing expire there"


def has_cosmos_shape(contract: Contract, concerns_ts: bool) -> bool:
    """Return True if a reply has Cosmos DB's shape.

    Profile `cosmos`: always. Profile `both`: where a TTL index on `_ts` is concerned.
    """
    return contract.is_cosmos or (contract.profile == "both" and concerns_ts)


async def create_indexes(services: Services, call: Call) -> Document:
    """Create indexes, all of them or none, and the collection if it is missing."""
    call.check_fields({"indexes", "ignoreUnknownIndexOptions", "commitQuorum"})
    documents = arguments.array(call.body, "indexes", call.name)
    if not documents:
        raise bad_value("Must specify at least one index to create")
    for each in documents:
        if type(each) is not dict:
            raise type_mismatch(f"{call.name}.indexes", type_name(each), "object")
    collection = await find_collection(services, call)
    created = collection is None
    if collection is None:
        # An invalid specification must not leave a new, empty collection behind.
        contract = services.contracts.of(call.database, call.body[call.name])
        if any(each.get("clustered") for each in documents):
            text = "Cannot implicitly create a new collection with createIndex 'clustered' option"
            raise MqlError(6100900, text)
        services.indexing.check_specs(contract, documents)
        collection = await services.collections.ensure(call.database, call.body[call.name], call.now)
    specs = services.indexing.parse(collection, documents)
    done = await services.indexing.create(collection, specs, call.now)
    if done.created:
        new = [spec.to_document() for spec in done.after.specs if spec not in done.before.specs]
        await services.collections.record_event(done.after, "createIndexes", {"indexes": new}, call.now)
    cosmos_shape = has_cosmos_shape(collection.contract, done.concerns_ts)
    counts = {
        "numIndexesBefore": index_count(done.before, cosmos_shape),
        "numIndexesAfter": index_count(done.after, cosmos_shape),
    }
    if cosmos_shape:
        answer = {"_t": "CreateIndexesResponse", "ok": 1.0, "createdCollectionAutomatically": created, **counts}
    else:
        answer = {**counts, "createdCollectionAutomatically": created}
    if not done.created:
        answer["note"] = UNCHANGED_NOTE
    elif any(each.expire_after is not None and each.kind in ("hashed", "text") for each in specs):
        answer["note"] = NEVER_EXPIRES_NOTE
    answer.setdefault("ok", 1.0)
    return answer


async def list_indexes(services: Services, call: Call) -> bytes:
    """Return the indexes of a collection."""
    call.check_fields({"cursor", "includeBuildUUIDs", "includeIndexBuildInfo"})
    name = arguments.collection_name(call.body, call.name)
    collection = await services.collections.get(call.database, name)
    if collection.view_on is not None:
        raise MqlError(166, f"Namespace {collection.namespace} is a view, not a collection")
    found = [_index_document(collection, spec) for spec in collection.listed_specs]
    return await list_reply(services, call, found, collection.namespace)


def _index_document(collection: Collection, spec: IndexSpec) -> Document:
    cosmos_shape = has_cosmos_shape(collection.contract, spec is collection.ts_index)
    return spec.to_document(collection.namespace if cosmos_shape else None)


async def drop_indexes(services: Services, call: Call) -> Document:
    """Drop indexes: by name, by key, by a list of names, or all but that of `_id`."""
    call.check_fields({"index"})
    collection = await services.collections.get(call.database, arguments.collection_name(call.body, call.name))
    if collection.view_on is not None:
        raise MqlError(166, f"Namespace {collection.namespace} is a view, not a collection")
    if "index" not in call.body:
        raise arguments.missing_argument("index", call.name)
    which = call.body["index"]
    dropped = await services.indexing.drop(collection, which, call.now)
    left = await services.collections.find(collection.database, collection.name)
    gone = [] if left is None else [spec.to_document() for spec in collection.specs if spec not in left.specs]
    await services.collections.record_event(collection, "dropIndexes", {"indexes": gone}, call.now)
    cosmos_shape = has_cosmos_shape(collection.contract, dropped.concerns_ts)
    answer: Document = {"_t": "DropIndexesResponse", "ok": 1.0} if cosmos_shape else {}
    answer["nIndexesWas"] = index_count(dropped.before, cosmos_shape)
    if which == "*":
        answer["msg"] = "non-_id indexes dropped for collection"
    answer.setdefault("ok", 1.0)
    return answer


COLL_MOD_FIELDS: Final = frozenset(
    {
        "index",
        "dryRun",
        "validator",
        "validationLevel",
        "validationAction",
        "cappedSize",
        "cappedMax",
        "viewOn",
        "pipeline",
        "changeStreamPreAndPostImages",
    }
)


async def coll_mod(services: Services, call: Call) -> Document:
    """Change an index, a validator or a view, by a change of one catalogue row."""
    call.check_fields({*COLL_MOD_FIELDS, "expireAfterSeconds", "timeseries"})
    if services.contracts.of(call.database).is_cosmos:
        raise MqlError(115, "Command collMod not supported")
    name = arguments.collection_name(call.body, call.name)
    if name.startswith("system.") and call.body.get("validator"):
        raise MqlError(72, f"Document validators not allowed on system collection {call.database}.{name}")
    collection = await services.collections.get(call.database, name)
    if collection.series is not None:
        return await modify_series(services, call, collection)
    _check_ordinary(call, collection)
    answer: Document = {}
    change = arguments.document(call.body, "index", call.name)
    if change is not None:
        dry_run = arguments.flag(call.body, "dryRun", call.name)
        answer = await services.indexing.modify(collection, change, call.now, dry_run)
    fields = COLL_MOD_FIELDS - {"index", "dryRun"}
    options = {field: call.body[field] for field in fields if call.body.get(field) is not None}
    if call.body.get("expireAfterSeconds") is not None:
        await _change_expire_after(services, call, collection)
        options["expireAfterSeconds"] = call.body["expireAfterSeconds"]
    if options.keys() - {"expireAfterSeconds"}:
        given = {field: value for field, value in options.items() if field != "expireAfterSeconds"}
        changed = await _changed_options(services, call, await services.collections.get(call.database, name), given)
        if collection.view_on is not None:
            await check_view(services, call, collection.name, changed)
        await services.collections.replace_options(collection, changed, call.now)
    description = {**options, **({} if change is None else {"index": change})}
    if not call.body.get("dryRun"):
        await services.collections.record_event(collection, "modify", description, call.now)
    return {**answer, "ok": 1.0}


def _check_ordinary(call: Call, collection: Collection) -> None:
    """Raise MqlError 72 for options of other kinds of collections."""
    change = arguments.document(call.body, "index", call.name)
    if "timeseries" in call.body:
        raise MqlError(72, "'timeseries' is only supported on time-series collections")
    if "expireAfterSeconds" in call.body and collection.clustered is None:
        raise MqlError(72, "'expireAfterSeconds' option is only supported on collections clustered by _id")
    if arguments.flag(call.body, "dryRun", call.name) and not (change and change.get("unique")):
        raise MqlError(72, "dryRun mode is only allowed for unique index conversion")
    if change is not None and collection.view_on is not None:
        raise MqlError(72, "option not supported on a view: index")


async def _change_expire_after(services: Services, call: Call, collection: Collection) -> None:
    """Change `expireAfterSeconds` of a clustered collection. Raise MqlError 14, 72."""
    value = call.body["expireAfterSeconds"]
    changed = change_expire_after(collection.options, value, call.now)
    if not arguments.flag(call.body, "dryRun", call.name) and changed != collection.options:
        await services.indexing.change_options(
            collection, lambda options: change_expire_after(options, value, call.now), call.now
        )


async def _changed_options(services: Services, call: Call, collection: Collection, given: Document) -> Document:
    """The options of a collection after collMod. Raise MqlError 72 and 2 for a change that is not allowed."""
    view = collection.view_on is not None
    for field in given:
        of_views = field in ("viewOn", "pipeline")
        if of_views != view:
            text = "'viewOn' requires a view" if of_views else "option not supported on a view"
            raise MqlError(72, f"{text}: {field}")
    await check_validator(services, call, collection.name, given)
    if "changeStreamPreAndPostImages" in given:
        given = {**given, "changeStreamPreAndPostImages": parse_images(call, given)}
    renamed = {"cappedSize": "size", "cappedMax": "max"}
    for field, parse in (("cappedSize", parse_size), ("cappedMax", parse_max)):
        if field in given:
            given = {**given, field: parse(given[field], field, call.name)}
    if ("cappedSize" in given or "cappedMax" in given) and not collection.capped:
        raise MqlError(72, "changing the size of a collection requires that it is capped")
    return {**collection.options, **{renamed.get(field, field): value for field, value in given.items()}}


async def refuse_search_indexes(services: Services, call: Call) -> Document:
    """Refuse commands of search indexes by name."""
    raise MqlError(31082, f"{call.name} is not supported by Mayfly: search indexes are a part of Atlas")


HANDLERS = {
    "createSearchIndexes": CommandEntry(
        refuse_search_indexes, "schema", help="refused: search indexes are a part of Atlas"
    ),
    "updateSearchIndex": CommandEntry(
        refuse_search_indexes, "schema", help="refused: search indexes are a part of Atlas"
    ),
    "dropSearchIndex": CommandEntry(
        refuse_search_indexes, "schema", help="refused: search indexes are a part of Atlas"
    ),
    "createIndexes": CommandEntry(create_indexes, "schema", help="makes indexes"),
    "listIndexes": CommandEntry(list_indexes, "read", help="gives the indexes of a collection"),
    "dropIndexes": CommandEntry(drop_indexes, "schema", help="removes indexes"),
    "deleteIndexes": CommandEntry(drop_indexes, "schema", help="removes indexes"),
    "collMod": CommandEntry(coll_mod, "schema", help="changes an index, a validator or a view"),
}
