"""Commands that only Cosmos DB for MongoDB has: customAction, shardCollection, getLastRequestStatistics.

https://learn.microsoft.com/azure/cosmos-db/mongodb/custom-commands
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Final

from mayflydb.engine import throughput
from mayflydb.engine.throughput import STANDARD, Throughput
from mayflydb.frontends.mongo import arguments
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.collections import SHARD_KEY, Collection
from mayflydb.frontends.mongo.errors import code_of
from mayflydb.frontends.mongo.services import CommandEntry, Services
from mayflydb.model.errors import BadRequest
from mayflydb.model.instant import MILLISECOND
from mayflydb.query.mongo.faults import MqlError, bad_value, type_mismatch
from mayflydb.query.mongo.indexes.specs import ID
from mayflydb.query.mongo.values import Document, type_name

MAX_UNSHARDED_UNITS: Final = 10_000
"""The most RU/s of a collection without a shard key."""

OFFER_FIELDS: Final = frozenset({"offerThroughput", "autoScaleSettings"})


def _check_available(services: Services, call: Call) -> None:
    """Raise MqlError 59 where the database has the profile `native`."""
    if services.contracts.of(call.database).profile == "native":
        raise MqlError(59, f"no such command: '{call.name}'")


# --- customAction ----------------------------------------------------------------------------------------------------


async def custom_action(services: Services, call: Call) -> Document:
    """Manage throughput and indexes of databases and collections. Errors carry their message as `errMsg`, too."""
    _check_available(services, call)
    try:
        name = arguments.text(call.body, call.name, call.name)
        if name not in ACTIONS:
            known = "is not supported by Mayfly" if name == "GetChangeStreamTokens" else "is not known"
            raise MqlError(115, f"The custom action '{name}' {known}")
        fields, act = ACTIONS[name]
        call.check_fields(fields)
        return {**(await act(services, call)), "ok": 1.0}
    except (MqlError, BadRequest) as error:
        fields_shown, labels = (error.fields, error.labels) if isinstance(error, MqlError) else ({}, ())
        raise MqlError(code_of(error), error.message, labels, **{**fields_shown, "errMsg": error.message}) from None


def _parse_throughput(services: Services, call: Call) -> Throughput | None:
    """Parse the throughput; None: the arguments have none. Raise BadRequest, MqlError 14, 2."""
    units, settings = call.body.get("offerThroughput"), arguments.document(call.body, "autoScaleSettings", call.name)
    if units is None and settings is None:
        return None
    if services.options.serverless:
        raise bad_value("Setting offer throughput or autopilot is not supported for serverless accounts.")
    if settings is None:
        return throughput.manual(arguments.whole_number(call.body, "offerThroughput", call.name))
    if units is not None:
        raise bad_value("offerThroughput and autoScaleSettings exclude each other.")
    return throughput.autoscale(arguments.whole_number(settings, "maxThroughput", f"{call.name}.autoScaleSettings"))


def _resolve_throughput(services: Services, call: Call, before: Mapping[str, Any] | None) -> Throughput | None:
    """The throughput after an update: that of the arguments, otherwise the present one.

    Raise MqlError 2 for a switch between manual and autoscale throughput.
    """
    asked, known = _parse_throughput(services, call), None if before is None else throughput.decode_offer(before)
    if asked is None or known is None:
        return asked or known
    if (asked.autoscale_max is None) != (known.autoscale_max is None):
        raise bad_value("Switching between manual and autoscale throughput is not supported.")
    return asked


def _describe_offer(offer: Mapping[str, Any] | None) -> Document:
    if offer is None:
        return {}
    known = throughput.decode_offer(offer)
    shown: Document = {"provisionedThroughput": known.manual}
    if known.autoscale_max is not None:
        shown["autoScaleSettings"] = {"maxThroughput": known.autoscale_max}
    return shown


async def _create_database(services: Services, call: Call) -> Document:
    await services.collections.create_database(
        call.database, throughput.encode_offer(_parse_throughput(services, call)), call.now
    )
    return {}


async def _update_database(services: Services, call: Call) -> Document:
    node = await services.collections.find_database(call.database)
    if node is None:
        raise MqlError(26, f"ns does not exist: {call.database}")
    offer = throughput.encode_offer(_resolve_throughput(services, call, node.definition.offer))
    await services.collections.provision_database(node, offer, call.now)
    return {}


async def _get_database(services: Services, call: Call) -> Document:
    node = await services.collections.find_database(call.database)
    if node is None:
        raise MqlError(26, f"ns does not exist: {call.database}")
    return {"database": call.database, **_describe_offer(node.definition.offer)}


def _parse_shard_key(call: Call) -> str | None:
    return arguments.text(call.body, "shardKey", call.name) if call.body.get("shardKey") is not None else None


def _check_unsharded_limit(offer: Throughput | None, shard_key: str | None) -> None:
    if offer is not None and offer.ceiling > MAX_UNSHARDED_UNITS and shard_key is None:
        raise bad_value(f"A shard key is required for a throughput above {MAX_UNSHARDED_UNITS} RU/s.")


def _parse_indexes(services: Services, call: Call) -> list[Document] | None:
    """Parse the complete list of indexes, with the checks that need no collection; None: the arguments have no list."""
    if "indexes" not in call.body:
        return None
    documents = arguments.array(call.body, "indexes", call.name)
    for each in documents:
        if type(each) is not dict:
            raise type_mismatch(f"{call.name}.indexes", type_name(each), "object")
    if not any(each.get("key") == ID.pattern for each in documents):
        raise bad_value("The list of indexes must contain the index on '_id': { key: { _id: 1 }, name: \"_id_1\" }")
    name = arguments.text(call.body, "collection", call.name)
    services.indexing.check_specs(services.contracts.of(call.database, name), documents)
    return documents


async def _create_collection(services: Services, call: Call) -> Document:
    name, shard_key, indexes = (
        arguments.text(call.body, "collection", call.name),
        _parse_shard_key(call),
        _parse_indexes(services, call),
    )
    asked = _parse_throughput(services, call)
    database = await services.collections.find_database(call.database)
    if asked is None and (database is None or database.definition.offer is None) and not services.options.serverless:
        # Without throughput of its own or of its database, a collection gets the standard one, as in the service.
        asked = STANDARD
    _check_unsharded_limit(asked, shard_key)
    offer = throughput.encode_offer(asked)
    collection = await services.collections.create(call.database, name, {}, call.now, offer, shard_key)
    if indexes is not None:
        await services.indexing.replace(collection, indexes, call.now)
    return {}


async def _target_collection(services: Services, call: Call) -> Collection:
    collection = await services.collections.get(call.database, arguments.text(call.body, "collection", call.name))
    if collection.view_on is not None:
        raise MqlError(166, f"Namespace {collection.namespace} is a view, not a collection")
    return collection


async def _update_collection(services: Services, call: Call) -> Document:
    collection = await _target_collection(services, call)
    known, shard_key, indexes = (
        collection.node.body.get(SHARD_KEY),
        _parse_shard_key(call),
        _parse_indexes(services, call),
    )
    if shard_key is not None and shard_key != known:
        raise bad_value("The shard key of a collection cannot be changed.")
    changed = _resolve_throughput(services, call, collection.node.definition.offer)
    _check_unsharded_limit(changed, known)
    offer = throughput.encode_offer(changed)
    if offer != collection.node.definition.offer:
        await services.collections.provision(collection, known, offer, call.now)
    if indexes is not None:
        await services.indexing.replace(collection, indexes, call.now)
    return {}


async def _get_collection(services: Services, call: Call) -> Document:
    collection = await _target_collection(services, call)
    shown: Document = {"database": call.database, "collection": collection.name}
    shard_key = collection.node.body.get(SHARD_KEY)
    if shard_key is not None:
        shown["shardKeyDefinition"] = {shard_key: "hashed"}
    shown.update(_describe_offer(collection.node.definition.offer))
    if arguments.flag(call.body, "showIndexes", call.name):
        shown["indexes"] = [spec.to_document(collection.namespace) for spec in (ID, *collection.specs)]
        shown["requiresReIndex"] = False
    return shown


Action = Callable[[Services, Call], Coroutine[Any, Any, Document]]

_COLLECTION_FIELDS: Final = OFFER_FIELDS | {"collection", "shardKey", "indexes"}

ACTIONS: Final[Mapping[str, tuple[frozenset[str], Action]]] = {
    "CreateDatabase": (OFFER_FIELDS, _create_database),
    "UpdateDatabase": (OFFER_FIELDS, _update_database),
    "GetDatabase": (frozenset(), _get_database),
    "CreateCollection": (_COLLECTION_FIELDS, _create_collection),
    "UpdateCollection": (_COLLECTION_FIELDS, _update_collection),
    "GetCollection": (frozenset({"collection", "showIndexes"}), _get_collection),
}


# --- others ----------------------------------------------------------------------------------------------------------


async def shard_collection(services: Services, call: Call) -> Document:
    """Set the shard key of a collection, which is created if it is missing.

    Raise MqlError 115 in profiles other than `cosmos`.
    """
    call.check_fields({"key", "unique", "numInitialChunks"})
    namespace = arguments.text(call.body, call.name, call.name)
    database, dot, name = namespace.partition(".")
    if not dot:
        raise MqlError(73, f"Invalid namespace specified '{namespace}'")
    services.require_right(call, "schema", database)
    if not services.contracts.of(database).is_cosmos:
        raise MqlError(115, "shardCollection is not supported by Mayfly outside of the profile 'cosmos'")
    key = arguments.document(call.body, "key", call.name)
    if not key:
        raise arguments.missing_argument("key", call.name)
    if len(key) > 1:
        raise bad_value("A shard key is one field")
    collections = services.collections
    collection = await collections.ensure(database, name, call.now)
    before, after = collection.node.body.get(SHARD_KEY), next(iter(key))
    if before not in (None, after):
        raise MqlError(23, f"Collection {namespace} is sharded already, by '{before}'")
    if before is None:
        await collections.provision(collection, after, collection.node.definition.offer, call.now)
    return {"_t": "ShardCollectionResponse", "ok": 1.0, "collectionsharded": namespace}


async def last_request_statistics(services: Services, call: Call) -> Document:
    """The price of the last priced command of this connection, otherwise of this session."""
    call.check_fields(())
    _check_available(services, call)
    priced = call.connection.last_priced
    if priced is None and call.session is not None:
        priced = call.session.last_priced
    if priced is None:
        raise MqlError(26, "No command that has a price was sent by this connection or in this session")
    return {
        "_t": "GetRequestStatisticsResponse",
        "ok": 1.0,
        "CommandName": priced.name,
        "RequestCharge": round(priced.charge, 2),
        "RequestDurationInMilliSeconds": priced.duration / MILLISECOND,
    }


HANDLERS: Final = {
    "customAction": CommandEntry(custom_action, "schema", help="throughput and indexes, as Cosmos DB has them"),
    "shardCollection": CommandEntry(shard_collection, "anyone", admin_only=True, help="gives a collection a shard key"),
    "getLastRequestStatistics": CommandEntry(
        last_request_statistics, "anyone", help="tells what the last priced command has cost"
    ),
}
