"""The actions on a resource that a command asks for, where no built-in role gives its right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from mayflydb.frontends.mongo.accounts.privileges import CLUSTER, resource_of
from mayflydb.frontends.mongo.accounts.roles import Right
from mayflydb.query.mongo import raw
from mayflydb.query.mongo.values import Document, is_truthy

MAX_STATEMENTS_READ: Final = 500
"""The most statements of an update that are looked at for an upsert. A longer command needs the action of upserts in any case."""


class Need(NamedTuple):
    """Actions on a resource."""

    resource: str
    actions: tuple[str, ...]


_ON_COLLECTION: Final[Mapping[str, tuple[str, ...]]] = {
    "find": ("find",),
    "count": ("find",),
    "distinct": ("find",),
    "getMore": ("find",),
    # Whose cursors a user may close is checked by their owners.
    "killCursors": (),
    "insert": ("insert",),
    "update": ("update",),
    "delete": ("remove",),
    "create": ("createCollection",),
    "drop": ("dropCollection",),
    "createIndexes": ("createIndex",),
    "dropIndexes": ("dropIndex",),
    "deleteIndexes": ("dropIndex",),
    "listIndexes": ("listIndexes",),
    "collMod": ("collMod",),
    "collStats": ("collStats",),
    "collstats": ("collStats",),
    "reIndex": ("reIndex",),
    "compact": ("compact",),
    "validate": ("validate",),
    "convertToCapped": ("convertToCapped",),
    "planCacheClear": ("planCacheWrite",),
    "planCacheListFilters": ("planCacheRead",),
    "planCacheClearFilters": ("planCacheIndexFilter",),
    "planCacheSetFilter": ("planCacheIndexFilter",),
}

_ON_DATABASE: Final[Mapping[str, tuple[str, ...]]] = {
    "dropDatabase": ("dropDatabase",),
    "listCollections": ("listCollections",),
    "dbStats": ("dbStats",),
    "dbstats": ("dbStats",),
    "dbHash": ("dbHash",),
    "dbhash": ("dbHash",),
    "createUser": ("createUser", "grantRole"),
    "updateUser": ("changePassword", "changeCustomData", "grantRole", "revokeRole"),
    "dropUser": ("dropUser",),
    "dropAllUsersFromDatabase": ("dropUser",),
    "grantRolesToUser": ("grantRole",),
    "revokeRolesFromUser": ("revokeRole",),
    "usersInfo": ("viewUser",),
    "createRole": ("createRole", "grantRole"),
    "updateRole": ("grantRole", "revokeRole"),
    "dropRole": ("dropRole",),
    "dropAllRolesFromDatabase": ("dropRole",),
    "grantPrivilegesToRole": ("grantRole",),
    "revokePrivilegesFromRole": ("revokeRole",),
    "grantRolesToRole": ("grantRole",),
    "revokeRolesFromRole": ("revokeRole",),
    "rolesInfo": ("viewRole",),
    "renameCollection": ("renameCollectionSameDB",),
}

_ON_CLUSTER: Final[Mapping[str, tuple[str, ...]]] = {
    "serverStatus": ("serverStatus",),
    "lockInfo": ("serverStatus",),
    "getDiagnosticData": ("serverStatus",),
    "hostInfo": ("hostInfo",),
    "getCmdLineOpts": ("getCmdLineOpts",),
    "getLog": ("getLog",),
    "getParameter": ("getParameter",),
    "setParameter": ("setParameter",),
    "replSetGetStatus": ("replSetGetStatus",),
    "replSetGetConfig": ("replSetGetConfig",),
    "top": ("top",),
    "connPoolStats": ("connPoolStats",),
    "listShards": ("listShards",),
    "balancerStatus": ("listShards",),
    "currentOp": ("inprog",),
    "killOp": ("killop",),
    "killAllSessions": ("killAnySession",),
    "fsync": ("fsync",),
    "fsyncUnlock": ("unlock",),
    "getDefaultRWConcern": ("getDefaultRWConcern",),
    "setDefaultRWConcern": ("setDefaultRWConcern",),
    "setFeatureCompatibilityVersion": ("setFeatureCompatibilityVersion",),
}

_FIRST_STAGES: Final[Mapping[str, tuple[Right, tuple[str, ...]]]] = {
    "$collStats": ("stats", ("collStats",)),
    "$indexStats": ("stats", ("indexStats",)),
    "$planCacheStats": ("stats", ("planCacheRead",)),
    "$changeStream": ("read", ("find", "changeStream")),
    # What these show of others takes a right that they ask for themselves.
    "$currentOp": ("anyone", ()),
    "$listLocalSessions": ("anyone", ()),
    "$listSessions": ("anyone", ()),
}
"""First stages that read no documents of a collection: the right that they ask for, and the actions."""


def right_of(name: str, body: Document, right: Right) -> Right:
    """The right that a command asks for, which an aggregation's first stage may change. `right`: that of its name."""
    if name == "listCollections" and body.get("nameOnly") is True and body.get("authorizedCollections") is True:
        return "anyone"
    if name == "getMore" and body.get("collection") == "$cmd.listCollections":
        # What the cursor holds was chosen for its owner.
        return "anyone"
    if name != "aggregate":
        return right
    found = _FIRST_STAGES.get(_first_stage(body))
    return right if found is None else found[0]


def _first_stage(body: Document) -> str:
    pipeline = body.get("pipeline")
    stage = pipeline[0] if type(pipeline) is list and pipeline else None
    return next(iter(stage), "") if type(stage) is dict else ""


def need_of(name: str, database: str, body: Document, sequences: Mapping[str, Sequence[bytes]]) -> Need | None:
    """The need of a command; None: only a built-in role gives its right."""
    if name == "explain" and type(body.get(name)) is dict:
        inner: Document = body[name]
        return need_of(next(iter(inner), ""), database, inner, {})
    if name in _ON_CLUSTER:
        return Need(CLUSTER, _ON_CLUSTER[name])
    if name in _ON_DATABASE:
        return Need(resource_of(database), _ON_DATABASE[name])
    named = body.get("collection" if name == "getMore" else name)
    place = resource_of(database, named if type(named) is str else "")
    if name == "aggregate":
        return Need(place, _FIRST_STAGES.get(_first_stage(body), ("read", ("find",)))[1])
    if name in ("findAndModify", "findandmodify"):
        return Need(place, _need_of_change(body))
    actions = _ON_COLLECTION.get(name)
    if actions is None:
        return None
    if name == "update" and _may_insert(body, sequences.get("updates", ())):
        actions = (*actions, "insert")
    return Need(place, actions)


def _need_of_change(body: Document) -> tuple[str, ...]:
    if is_truthy(body.get("remove", False)):
        return ("find", "remove")
    return ("find", "update", "insert") if is_truthy(body.get("upsert", False)) else ("find", "update")


def _may_insert(body: Document, statements: Sequence[bytes]) -> bool:
    # Those of `explain` are decoded already.
    decoded = body.get("updates")
    if type(decoded) is list:
        return any(type(each) is dict and is_truthy(each.get("upsert", False)) for each in decoded)
    return len(statements) > MAX_STATEMENTS_READ or any(map(_is_upsert, statements))


def _is_upsert(statement: bytes) -> bool:
    return any(each.name == b"upsert" and any(statement[each.value : each.end]) for each in raw.elements(statement))


def need_of_read(database: str, collection: str) -> Need:
    """The need of a stage that reads another collection."""
    return Need(resource_of(database, collection), ("find",))


def need_of_writes(database: str, collection: str) -> Need:
    """The need of `$out`, `$merge` and bulkWrite on their target."""
    return Need(resource_of(database, collection), ("insert", "update", "remove"))
