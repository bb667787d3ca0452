"""First stages of pipelines that read no documents: statistics of a collection, and local sessions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from typing import Any, Final

from bson import DatetimeMS, Int64

from mayflydb.engine.scans import Scope
from mayflydb.frontends.mongo import arguments
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.collections import Collection
from mayflydb.frontends.mongo.documents import binary_uuid, to_milliseconds
from mayflydb.frontends.mongo.services import Services
from mayflydb.frontends.mongo.time_series.statistics import count_buckets, with_buckets
from mayflydb.query.mongo.faults import MqlError, type_mismatch
from mayflydb.query.mongo.stages.source import Batches
from mayflydb.query.mongo.values import Document, Value, type_name


async def run_report(services: Services, call: Call, name: str, spec: Value) -> Batches:
    """The documents of one run_report. Raise MqlError 238 for a run_report that is not supported, 26 for a missing collection."""
    build = _REPORTS.get(name)
    if build is None:
        raise MqlError(238, f"{name} is not supported")
    yield await build(services, call, spec)


async def _build_coll_stats(services: Services, call: Call, spec: Value) -> list[Document]:
    collection = await services.collections.get(call.database, call.body[call.name])
    found: Document = {"ns": collection.namespace, "host": "mayfly", "localTime": DatetimeMS(to_milliseconds(call.now))}
    if "count" in spec:
        # That of a time series is the number of its buckets.
        count = count_visible if collection.series is None else count_buckets
        found["count"] = await count(services, call, collection)
    if "storageStats" in spec:
        found["storageStats"] = await storage_stats(services, call, collection)
    for part in spec:
        if part not in ("count", "storageStats"):
            raise MqlError(238, f"$collStats with '{part}' is not supported")
    return [found]


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


async def storage_stats(services: Services, call: Call, collection: Collection) -> Document:
    """The sizes of a collection, as in `collStats`."""
    counted = await services.engine.expiry_counts.totals(collection.id, with_bytes=True)
    documents = await count_visible(services, call, collection)
    names = [spec.name for spec in collection.listed_specs]
    found: Document = {
        "size": Int64(counted.value_bytes),
        "count": documents,
        "storageSize": Int64(counted.value_bytes),
        "freeStorageSize": Int64(0),
        "nindexes": len(names),
        "capped": collection.capped,
        **(
            {"max": collection.options.get("max", 0), "maxSize": collection.options["size"]}
            if collection.capped
            else {}
        ),
        "scaleFactor": 1,
    }
    if collection.series is not None:
        return await with_buckets(services, call, collection, found)
    if counted.records:
        found["avgObjSize"] = counted.value_bytes // counted.records
    return found


async def _list_local_sessions(services: Services, call: Call, spec: Value) -> list[Document]:
    """Recently used sessions: the sender's, those of `{allUsers: true}`, or those of `{users: [{user, db}]}`."""
    if call.body[call.name] != 1:
        raise MqlError(73, "$listLocalSessions must be run against the database with {aggregate: 1}, not a collection")
    for field in spec:
        if field not in ("allUsers", "users"):
            raise MqlError(40415, f"BSON field '$listLocalSessions.{field}' is an unknown field.")
    owners: list[str] | None = [call.owner]
    all_users, named = arguments.flag(spec, "allUsers", "$listLocalSessions"), _parse_users(spec)
    if all_users or named:
        services.require_right(call, "server", "admin")
        owners = None if all_users else named
    return [
        {
            "_id": {"id": binary_uuid(session.id), "uid": sha256(session.owner.encode()).digest()},
            "lastUse": DatetimeMS(to_milliseconds(call.now - idle)),
        }
        for session, idle in services.sessions.list_with_idle_times(owners)
    ]


def _parse_users(spec: Document) -> list[str]:
    """Parse `users: [{user, db}]`. Raise MqlError 14, 40414."""
    field = "$listLocalSessions.users"
    users = arguments.array(spec, "users", "$listLocalSessions") if spec.get("users") is not None else []
    for each in users:
        if type(each) is not dict:
            raise type_mismatch(field, type_name(each), "object")
    return [f"{arguments.text(each, 'db', field)}.{arguments.text(each, 'user', field)}" for each in users]


async def _list_operations(services: Services, call: Call, spec: Value) -> list[Document]:
    """Operations in progress: the sender's, or with `{allUsers: true}` all."""
    if call.body[call.name] != 1 or call.database != "admin":
        raise MqlError(73, "$currentOp must be run against the 'admin' database with {aggregate: 1}")
    given = {name: arguments.flag(spec, name, "$currentOp") for name in spec}
    for name, value in given.items():
        if name not in _OPERATION_OPTIONS:
            raise MqlError(40415, f"BSON field '$currentOp.{name}' is an unknown field.")
        if value and name.startswith("idle"):
            raise MqlError(238, f"$currentOp with '{name}' is not supported")
    if given.get("allUsers"):
        services.require_right(call, "server", "admin")
    calls = services.operations.current.values()
    return services.operations.describe([each for each in calls if given.get("allUsers") or each.owner == call.owner])


_OPERATION_OPTIONS: Final = frozenset(
    {"allUsers", "localOps", "truncateOps", "idleConnections", "idleCursors", "idleSessions", "targetAllNodes"}
)

_REPORTS: Final[Mapping[str, Callable[[Services, Call, Any], Awaitable[list[Document]]]]] = {
    "$collStats": _build_coll_stats,
    "$currentOp": _list_operations,
    "$listLocalSessions": _list_local_sessions,
}
