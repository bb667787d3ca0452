"""The sizes of collections, as collStats, dbStats and `$collStats` show them. What is not counted is left out."""

from __future__ import annotations

from bson import Decimal128, Int64

from mayflydb.engine.scans import Scope
from mayflydb.frontends.mongo import arguments
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.catalog_rows import parse_index
from mayflydb.frontends.mongo.collections import Collection
from mayflydb.frontends.mongo.services import Services
from mayflydb.frontends.mongo.time_series.statistics import with_buckets
from mayflydb.query.mongo.faults import bad_value, type_mismatch
from mayflydb.query.mongo.values import INT32_MAX, Document, is_number, type_name


def parse_scale(given: Document, command: str) -> int:
    """The bytes that are one unit of sizes. Raise MqlError 2 for less than one."""
    value = given.get("scale")
    if value is None:
        return 1
    if not is_number(value):
        raise type_mismatch(f"{command}.scale", type_name(value), *arguments.NUMERIC)
    if value in (float("inf"), Decimal128("Infinity")):
        return INT32_MAX
    scale = arguments.truncate_number(value)
    if scale is None or scale < 1:
        raise bad_value(f"BSON field 'scale' value must be >= 1, actual value '{value}'")
    return min(scale, INT32_MAX)


async def count_visible(services: Services, call: Call, collection: Collection) -> int:
    """The number of documents of a collection that are not hidden. Errors: those of `Evaluation.check`."""
    engine = services.engine
    if call.is_past:
        return await _count_each(services, call, collection)
    total = (await engine.expiry_counts.totals(collection.id)).records
    hiding = [rule for rule in collection.node.rules if rule.hides]
    if not hiding:
        return total
    # Counted by ranges of the due indexes. Under several date rules documents are read one by one, up to the command's deadline
    # and as long as its client is there.
    pause = services.evaluation_of(call).take_turn
    (due,) = await engine.expiry_counts.due_counts(collection.id, hiding, [call.now], pause)
    return total - due


async def _count_each(services: Services, call: Call, collection: Collection) -> int:
    """Count the documents that were visible at an earlier instant: no index tells their number."""
    count = 0
    async for batch in services.engine.scan(collection.node, Scope(), None, call.now):
        await services.evaluation_of(call).take_turn()
        count += len(batch.records)
    return count


async def storage_stats(services: Services, call: Call, collection: Collection, scale: int = 1) -> Document:
    """The sizes of a collection, as in `collStats`, in units of `scale` bytes."""
    counted = await services.engine.expiry_counts.totals(collection.id, with_bytes=True)
    documents = await count_visible(services, call, collection)
    by_index = await index_sizes(services, collection)
    size, of_indexes = counted.value_bytes, sum(by_index.values())
    found: Document = {
        "size": Int64(size // scale),
        "count": documents,
        "storageSize": Int64(size // scale),
        "freeStorageSize": Int64(0),
        "capped": collection.capped,
        "nindexes": len(by_index),
        "indexBuilds": [
            parse_index(index).spec.name for index in collection.node.definition.indexes if index.state == "building"
        ],
        "totalIndexSize": Int64(of_indexes // scale),
        "totalSize": Int64((size + of_indexes) // scale),
        "indexSizes": {name: Int64(each // scale) for name, each in by_index.items()},
        "scaleFactor": scale,
    }
    if collection.capped:
        most, max_size = collection.options.get("max", 0), collection.options["size"]
        found |= {"max": most, "maxSize": max_size // scale}
    if collection.series is not None:
        return await with_buckets(services, call, collection, found)
    if counted.records:
        found["avgObjSize"] = size // counted.records
    return found


async def index_sizes(services: Services, collection: Collection) -> dict[str, int]:
    """The bytes of the keys in each index, by its name.

    `_id_` has none before a query needs its order, and a TTL index on `_ts` never has any.
    """
    wanted = [(spec.name, collection.number_of(spec)) for spec in collection.usable_specs]
    by_number = {index.number: index for index in collection.node.definition.indexes}
    found = await services.engine.indexes.key_bytes(collection.id, [by_number[number] for _, number in wanted])
    sizes = {name: size for (name, _), size in zip(wanted, found, strict=True)}
    return {spec.name: sizes.get(spec.name, 0) for spec in collection.listed_specs}
