"""First stages of pipelines that read no documents: reports on collections, sessions and operations in progress."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from typing import Any, Final

from bson import DatetimeMS

from mayflydb.frontends.mongo import arguments
from mayflydb.frontends.mongo.accounts.needs import Need
from mayflydb.frontends.mongo.accounts.privileges import CLUSTER
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.collection_reports import build_coll_stats, list_catalog, list_index_uses, list_plans
from mayflydb.frontends.mongo.documents import binary_uuid, to_milliseconds
from mayflydb.frontends.mongo.idle import describe_idle_cursors, describe_idle_transactions
from mayflydb.frontends.mongo.services import Services
from mayflydb.query.mongo.faults import MqlError, type_mismatch
from mayflydb.query.mongo.stages.source import Batches
from mayflydb.query.mongo.values import Document, Value, type_name


async def run_report(services: Services, call: Call, name: str, spec: Value) -> Batches:
    """Return the documents of a stage. Raise MqlError 238 for a stage that is not supported."""
    build = _REPORTS.get(name)
    if build is None:
        raise MqlError(238, f"{name} is not supported")
    yield await build(services, call, spec)


async def _list_local_sessions(services: Services, call: Call, spec: Value) -> list[Document]:
    """Recently used sessions: the sender's, those of `{allUsers: true}`, or those of `{users: [{user, db}]}`."""
    if call.body[call.name] != 1:
        raise MqlError(73, "$listLocalSessions must be run against the database with {aggregate: 1}, not a collection")
    return _describe_sessions(services, call, spec, "$listLocalSessions")


async def _list_sessions(services: Services, call: Call, spec: Value) -> list[Document]:
    """The sessions of this server, under the name of the collection in which a cluster keeps those of all its servers."""
    if (call.database, call.body[call.name]) != ("config", "system.sessions"):
        raise MqlError(73, "$listSessions may only be run against config.system.sessions")
    return _describe_sessions(services, call, spec, "$listSessions")


def _describe_sessions(services: Services, call: Call, spec: Value, stage: str) -> list[Document]:
    for field in spec:
        if field not in ("allUsers", "users"):
            raise MqlError(40415, f"BSON field '{stage}.{field}' is an unknown field.")
    owners: list[str] | None = [call.owner]
    all_users, named = arguments.flag(spec, "allUsers", stage), _parse_users(spec, stage)
    if all_users and named:
        raise MqlError(72, f"{stage} may not specify {{allUsers:true}} and {{users:[...]}} at the same time")
    if all_users or named:
        services.require_right(call, "monitor", "admin", Need(CLUSTER, ("listSessions",)))
        owners = None if all_users else named
    return [
        {
            "_id": {"id": binary_uuid(session.id), "uid": sha256(session.owner.encode()).digest()},
            "lastUse": DatetimeMS(to_milliseconds(call.now - idle)),
        }
        for session, idle in services.sessions.list_with_idle_times(owners)
    ]


def _parse_users(spec: Document, stage: str) -> list[str]:
    """Parse `users: [{user, db}]`. Raise MqlError 14, 40414."""
    field = f"{stage}.users"
    users = arguments.array(spec, "users", stage) if spec.get("users") is not None else []
    for each in users:
        if type(each) is not dict:
            raise type_mismatch(field, type_name(each), "object")
        for name in each:
            if name not in ("user", "db"):
                raise MqlError(40415, f"BSON field '{field}.{name}' is an unknown field.")
    return [f"{arguments.text(each, 'db', field)}.{arguments.text(each, 'user', field)}" for each in users]


async def _list_operations(services: Services, call: Call, spec: Value) -> list[Document]:
    """Operations in progress: the sender's, or with `{allUsers: true}` all."""
    if call.body[call.name] != 1 or call.database != "admin":
        raise MqlError(73, "$currentOp must be run against the 'admin' database with {aggregate: 1}")
    for name, value in spec.items():
        if name not in _OPERATION_OPTIONS:
            raise MqlError(40415, f"BSON field '$currentOp.{name}' is an unknown field.")
        if type(value) is not bool:
            raise type_mismatch(f"$currentOp.{name}", type_name(value), "bool")
    if spec.get("idleConnections"):
        raise MqlError(238, "$currentOp with 'idleConnections' is not supported")
    everyone = spec.get("allUsers", False)
    if everyone:
        services.require_right(call, "monitor", "admin", Need(CLUSTER, ("inprog",)))
    found = services.operations.describe(
        [each for each in services.operations.current.values() if everyone or each.owner == call.owner]
    )
    owner = None if everyone else call.owner
    if spec.get("idleSessions", True):
        found += describe_idle_transactions(services, call, owner)
    if spec.get("idleCursors"):
        found += describe_idle_cursors(services, owner)
    return found


_OPERATION_OPTIONS: Final = frozenset(
    {"allUsers", "localOps", "truncateOps", "idleConnections", "idleCursors", "idleSessions", "targetAllNodes"}
)

_REPORTS: Final[Mapping[str, Callable[[Services, Call, Any], Awaitable[list[Document]]]]] = {
    "$collStats": build_coll_stats,
    "$currentOp": _list_operations,
    "$indexStats": list_index_uses,
    "$listCatalog": list_catalog,
    "$listLocalSessions": _list_local_sessions,
    "$listSessions": _list_sessions,
    "$planCacheStats": list_plans,
}
