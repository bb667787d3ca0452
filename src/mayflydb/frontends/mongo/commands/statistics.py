"""What shells show of a database, a collection, a replica set: dbStats, collStats, replSetGetStatus.

Bytes are those of documents. What indexes take is not measured, and so is left out.
"""

from __future__ import annotations

from typing import Final

from bson import DatetimeMS, Int64

from mayflydb.frontends.mongo import arguments
from mayflydb.frontends.mongo.calls import Call, Command
from mayflydb.frontends.mongo.documents import milliseconds
from mayflydb.frontends.mongo.reports import storage
from mayflydb.model.instant import SECOND
from mayflydb.query.mongo.faults import MqlError, bad_value
from mayflydb.query.mongo.values import Document

EMPTY: Final[Document] = {"size": 0, "count": 0, "storageSize": 0, "freeStorageSize": 0, "nindexes": 0, "capped": False}
_SIZES: Final = ("size", "storageSize", "freeStorageSize")


def _scale(call: Call) -> int:
    """In how many bytes sizes are given. MqlError 2 for less than one."""
    scale = arguments.whole(call.body, "scale", call.name, 1)
    if not scale:
        raise bad_value(f"BSON field 'scale' value must be >= 1, actual value '{scale}'")
    return scale


async def db_stats(call: Call) -> Document:
    """Counts and sizes of a database, over all its collections."""
    call.fields({"scale", "freeStorage"})
    scale = _scale(call)
    found = await call.app.data.collections.of(call.database)
    stored = [await storage(call, each) for each in found if each.view_on is None]
    objects = sum(each["count"] for each in stored)
    size = sum(int(each["size"]) for each in stored)
    return {
        "db": call.database,
        "collections": Int64(len(stored)),
        "views": Int64(len(found) - len(stored)),
        "objects": Int64(objects),
        "avgObjSize": size / objects if objects else 0.0,
        "dataSize": size / scale,
        "storageSize": size / scale,
        "indexes": Int64(sum(each["nindexes"] for each in stored)),
        "scaleFactor": Int64(scale),
    }


async def coll_stats(call: Call) -> Document:
    """Count and sizes of a collection; zeros where there is none. MqlError 166 for a view."""
    call.fields({"scale"})
    scale = _scale(call)
    name = arguments.text(call.body, call.name, call.name)
    collection = await call.app.data.collections.find(call.database, name)
    if collection is not None and collection.view_on is not None:
        raise MqlError(166, f"Namespace {collection.namespace} is a view, not a collection")
    found = EMPTY if collection is None else await storage(call, collection)
    sizes = {field: Int64(int(found[field]) // scale) for field in _SIZES}
    return {"ns": f"{call.database}.{name}", **found, **sizes, "scaleFactor": scale}


async def replica_set_status(call: Call) -> Document:
    """The one member. MqlError 76 where drivers find no replica set."""
    call.fields({"initialSync"})
    app = call.app
    if app.options.topology != "replicaset":
        raise MqlError(76, "not running with --replSet")
    up = (app.monotonic() - app.began) // SECOND
    member = {"_id": 0, "name": app.options.advertise, "health": 1.0, "state": 1, "stateStr": "PRIMARY", "uptime": up}
    return {
        "set": app.options.replica_set,
        "date": DatetimeMS(milliseconds(call.now)),
        "myState": 1,
        "members": [{**member, "configVersion": 1, "self": True}],
    }


HANDLERS: Final[dict[str, Command]] = {
    "dbStats": Command(db_stats, "read", help="tells the size of a database"),
    "dbstats": Command(db_stats, "read", help="tells the size of a database"),
    "collStats": Command(coll_stats, "read", help="tells the size of a collection"),
    "collstats": Command(coll_stats, "read", help="tells the size of a collection"),
    "replSetGetStatus": Command(replica_set_status, "server", admin=True, help="tells the state of a replica set"),
}
