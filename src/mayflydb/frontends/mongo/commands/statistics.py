"""The commands collStats and dbStats. Figures that are not counted are left out."""

from __future__ import annotations

from bson import Int64

from mayflydb.frontends.mongo import arguments
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.services import CommandEntry, Services
from mayflydb.frontends.mongo.sizes import parse_scale, storage_stats
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.values import Document


async def coll_stats(services: Services, call: Call) -> Document:
    """Return the sizes of a collection, in units of `scale` bytes. A missing collection counts as empty."""
    call.check_fields({"scale"})
    scale = parse_scale(call.body, call.name)
    name = arguments.collection_name(call.body, call.name)
    collection = await services.collections.find(call.database, name)
    if collection is None:
        empty: Document = {name: Int64(0) for name in ("size", "storageSize", "totalSize", "totalIndexSize")}
        counted: Document = {"count": 0, "nindexes": 0, "indexSizes": {}, "scaleFactor": scale}
        return {"ns": f"{call.database}.{name}", **empty, **counted}
    if collection.view_on is not None:
        raise MqlError(166, f"Namespace {collection.namespace} is a view, not a collection")
    return {"ns": collection.namespace, **await storage_stats(services, call, collection, scale)}


async def db_stats(services: Services, call: Call) -> Document:
    """Return the sizes of a database: the sums over its collections."""
    call.check_fields({"scale", "freeStorage"})
    arguments.flag(call.body, "freeStorage", call.name)
    scale = parse_scale(call.body, call.name)
    every = await services.collections.list_collections(call.database)
    counted = [await storage_stats(services, call, each) for each in every if each.view_on is None]
    size, objects = sum(each["size"] for each in counted), sum(map(_count_objects, counted))
    of_indexes = sum(each["totalIndexSize"] for each in counted)
    return {
        "db": call.database,
        "collections": Int64(len(counted)),
        "views": Int64(len(every) - len(counted)),
        "objects": Int64(objects),
        "avgObjSize": size / objects if objects else 0.0,
        "dataSize": size / scale,
        "storageSize": size / scale,
        "indexes": Int64(sum(each["nindexes"] for each in counted)),
        "indexSize": of_indexes / scale,
        "totalSize": (size + of_indexes) / scale,
        "scaleFactor": Int64(scale),
    }


def _count_objects(stats: Document) -> int:
    # The objects of a time series are its buckets.
    return int(stats["timeseries"]["bucketCount"] if "timeseries" in stats else stats["count"])


HANDLERS = {
    "collStats": CommandEntry(coll_stats, "stats", help="counts documents and bytes of a collection"),
    "collstats": CommandEntry(coll_stats, "stats", help="counts documents and bytes of a collection"),
    "dbStats": CommandEntry(db_stats, "stats", help="counts documents and bytes of a database"),
    "dbstats": CommandEntry(db_stats, "stats", help="counts documents and bytes of a database"),
}
