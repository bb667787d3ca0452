"""The commands collStats, dbStats and replSetGetStatus. Figures that are not counted are left out."""

from __future__ import annotations

from typing import Final

from bson import DatetimeMS, Int64

from mayflydb.frontends.mongo import arguments
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.documents import to_milliseconds
from mayflydb.frontends.mongo.reports import storage_stats
from mayflydb.frontends.mongo.services import CommandEntry, Services
from mayflydb.model.instant import SECOND
from mayflydb.query.mongo.faults import MqlError, bad_value
from mayflydb.query.mongo.values import Document

SIZES: Final = ("size", "storageSize", "freeStorageSize", "maxSize")


async def coll_stats(services: Services, call: Call) -> Document:
    """Return the sizes of a collection, in units of `scale` bytes. A missing collection counts as empty."""
    call.check_fields({"scale"})
    scale = _parse_scale(call)
    name = arguments.collection_name(call.body, call.name)
    collection = await services.collections.find(call.database, name)
    if collection is None:
        nothing: Document = {"size": Int64(0), "count": 0, "storageSize": Int64(0), "nindexes": 0, "scaleFactor": scale}
        return {"ns": f"{call.database}.{name}", **nothing}
    if collection.view_on is not None:
        raise MqlError(166, f"Namespace {collection.namespace} is a view, not a collection")
    found = await storage_stats(services, call, collection)
    scaled: Document = {size: found[size] // scale for size in SIZES if size in found}
    return {"ns": collection.namespace, **found, **scaled, "scaleFactor": scale}


async def db_stats(services: Services, call: Call) -> Document:
    """Return the sizes of a database: the sums over its collections."""
    call.check_fields({"scale", "freeStorage"})
    scale = _parse_scale(call)
    every = await services.collections.list_collections(call.database)
    counted = [await storage_stats(services, call, each) for each in every if each.view_on is None]
    size, objects = sum(each["size"] for each in counted), sum(map(_count_objects, counted))
    return {
        "db": call.database,
        "collections": Int64(len(counted)),
        "views": Int64(len(every) - len(counted)),
        "objects": Int64(objects),
        "avgObjSize": size / objects if objects else 0.0,
        "dataSize": size / scale,
        "storageSize": size / scale,
        "indexes": Int64(sum(each["nindexes"] for each in counted)),
        "scaleFactor": Int64(scale),
    }


def _count_objects(stats: Document) -> int:
    # The objects of a time series are its buckets.
    return int(stats["timeseries"]["bucketCount"] if "timeseries" in stats else stats["count"])


def _parse_scale(call: Call) -> int:
    scale = arguments.whole_number(call.body, "scale", call.name, 1)
    if not scale:
        raise bad_value("scale has to be a number greater than 0")
    return scale


async def replica_set_status(services: Services, call: Call) -> Document:
    """Return the only member of the replica set. Raise MqlError 76 in other topologies."""
    call.check_fields({"initialSync"})
    if services.options.topology != "replicaset":
        raise MqlError(76, "not running with --replSet")
    up = (services.monotonic() - services.started_monotonic) // SECOND
    member = {
        "_id": 0,
        "name": services.options.advertise,
        "health": 1.0,
        "state": 1,
        "stateStr": "PRIMARY",
        "uptime": up,
    }
    return {
        "set": services.options.replica_set,
        "date": DatetimeMS(to_milliseconds(call.now)),
        "myState": 1,
        "members": [{**member, "configVersion": 1, "self": True}],
    }


HANDLERS = {
    "collStats": CommandEntry(coll_stats, "read", help="counts documents and bytes of a collection"),
    "collstats": CommandEntry(coll_stats, "read", help="counts documents and bytes of a collection"),
    "dbStats": CommandEntry(db_stats, "read", help="counts documents and bytes of a database"),
    "dbstats": CommandEntry(db_stats, "read", help="counts documents and bytes of a database"),
    "replSetGetStatus": CommandEntry(
        replica_set_status, "server", admin_only=True, help="tells the state of a replica set"
    ),
}
