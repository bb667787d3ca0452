"""Privileges: actions on resources, as roles that commands created give them.

Actions and resources: https://www.mongodb.com/docs/manual/reference/privilege-actions/,
https://www.mongodb.com/docs/manual/reference/resource-document/
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

from mayflydb.frontends.mongo.accounts.roles import ALL_DATABASE_RIGHTS, RIGHTS, Role
from mayflydb.query.mongo.faults import MqlError, bad_value, failed_to_parse
from mayflydb.query.mongo.values import Document

ACTIONS_OF_RIGHTS: Final[Mapping[str, tuple[str, ...]]] = {
    "read": ("find", "listCollections", "listIndexes", "dbHash", "killCursors", "changeStream", "validate"),
    "stats": ("collStats", "dbStats", "indexStats", "planCacheRead"),
    "write": ("insert", "update", "remove"),
    "schema": (
        "createCollection", "dropCollection", "dropDatabase", "createIndex", "dropIndex", "collMod", "renameCollectionSameDB",
        "reIndex", "compact", "planCacheWrite", "planCacheIndexFilter", "enableProfiler", "convertToCapped",
    ),
    "users": (
        "createUser", "dropUser", "changePassword", "changeCustomData", "viewUser", "createRole", "dropRole", "grantRole",
        "revokeRole", "viewRole",
    ),
    "monitor": (
        "serverStatus", "hostInfo", "getCmdLineOpts", "getLog", "getParameter", "replSetGetStatus", "replSetGetConfig", "top",
        "connPoolStats", "inprog", "listSessions", "listShards", "listDatabases", "getDefaultRWConcern",
    ),
    "server": (
        "setParameter", "killop", "killAnySession", "killAnyCursor", "fsync", "unlock", "setDefaultRWConcern",
        "setFeatureCompatibilityVersion",
    ),
}  # fmt: skip
"""The actions that a right stands for. Those of `monitor` and `server` are on the cluster, the others on a database."""

OF_CLUSTER: Final = ("monitor", "server")

_OTHER_ACTIONS: Final = frozenset({
    "addShard", "analyzeShardKey", "anyAction", "appendOplogNote", "applicationMessage", "applyOps", "authSchemaUpgrade",
    "bypassDocumentValidation", "bypassWriteBlockingMode", "changeOwnCustomData", "changeOwnPassword", "cleanupOrphaned",
    "closeAllDatabases", "connPoolSync", "cpuProfiler", "dropConnections", "enableSharding", "flushRouterConfig", "forceUUID",
    "getClusterParameter", "getShardMap", "getShardVersion", "impersonate", "indexStats", "internal", "invalidateUserCache",
    "listCachedAndActiveUsers", "listClusterCatalog", "logRotate", "moveChunk", "netstat", "oidReset", "queryStatsRead",
    "querySettings", "refineCollectionShardKey", "removeShard", "replSetConfigure", "replSetHeartbeat", "replSetStateChange",
    "reshardCollection", "resync", "rotateCertificates", "setAuthenticationRestriction", "setClusterParameter",
    "setUserWriteBlockMode", "shardingState", "shutdown", "splitChunk", "splitVector", "storageDetails", "touch", "useUUID",
    "viewUser", "moveCollection", "unshardCollection", "analyze", "checkMetadataConsistency", "shardedDataDistribution",
})  # fmt: skip
"""Actions that a role may name, and that no command here asks for."""

ACTIONS: Final = frozenset(each for some in ACTIONS_OF_RIGHTS.values() for each in some) | _OTHER_ACTIONS

CLUSTER: Final = "cluster"
ANY_RESOURCE: Final = "anyResource"


class Privilege(msgspec.Struct, frozen=True):
    """Actions on a resource. `resource`: `cluster`, `anyResource`, or a database and a collection, a NUL between them.

    An empty database stands for every database, an empty collection for every one.
    """

    resource: str
    actions: tuple[str, ...]

    @property
    def database(self) -> str | None:
        """The database of the resource; None: it is no database, or all of them."""
        database, dot, _ = self.resource.partition("\0")
        return database if dot and database else None

    def describe(self) -> Document:
        """Return the document of a privilege."""
        if self.resource in (CLUSTER, ANY_RESOURCE):
            return {"resource": {self.resource: True}, "actions": list(self.actions)}
        database, _, collection = self.resource.partition("\0")
        return {"resource": {"db": database, "collection": collection}, "actions": list(self.actions)}


def resource_of(database: str, collection: str = "") -> str:
    """The resource of a collection, or of all collections of a database."""
    return f"{database}\0{collection}"


def parse_privilege(given: Any) -> Privilege:
    """Parse a privilege of a command. Raise MqlError 9 for an action that does not exist, 2."""
    if type(given) is not dict or not {"resource", "actions"} == given.keys():
        raise failed_to_parse("A privilege has a 'resource' and 'actions'")
    resource, actions = given["resource"], given["actions"]
    if type(actions) is not list or not actions or not all(type(each) is str for each in actions):
        raise failed_to_parse("The 'actions' of a privilege are an array of strings that is not empty")
    unknown = [each for each in actions if each not in ACTIONS]
    if unknown:
        raise failed_to_parse(f"Unrecognized action privilege strings: {','.join(unknown)}")
    return Privilege(_parse_resource(resource), tuple(dict.fromkeys(actions)))


def _parse_resource(given: Any) -> str:
    if type(given) is dict:
        if given.keys() == {"cluster"} and given["cluster"] is True:
            return CLUSTER
        if given.keys() == {"anyResource"} and given["anyResource"] is True:
            return ANY_RESOURCE
        texts = [given.get("db"), given.get("collection")]
        if given.keys() == {"db", "collection"} and all(type(each) is str and "\0" not in each for each in texts):
            return resource_of(given["db"], given["collection"])
    raise bad_value("A resource is {db, collection}, {cluster: true} or {anyResource: true}")


def merge(privileges: Iterable[Privilege]) -> tuple[Privilege, ...]:
    """Unite the actions on each resource."""
    found: dict[str, dict[str, None]] = {}
    for each in privileges:
        found.setdefault(each.resource, {}).update(dict.fromkeys(each.actions))
    return tuple(Privilege(resource, tuple(sorted(actions))) for resource, actions in found.items())


def subtract(privileges: Iterable[Privilege], gone: Iterable[Privilege]) -> tuple[Privilege, ...]:
    """Take actions away from the resources that name them."""
    taken = {each.resource: set(each.actions) for each in merge(gone)}
    left = [
        Privilege(each.resource, tuple(action for action in each.actions if action not in taken.get(each.resource, ())))
        for each in privileges
    ]
    return tuple(each for each in left if each.actions)


def privileges_of(role: Role) -> tuple[Privilege, ...]:
    """The privileges of a built-in role."""
    everywhere = role.db == "admin" and role.role in ALL_DATABASE_RIGHTS
    rights = ALL_DATABASE_RIGHTS[role.role] if everywhere else RIGHTS.get(role.role, frozenset())
    of_databases = [a for right in sorted(rights) if right not in OF_CLUSTER for a in ACTIONS_OF_RIGHTS[right]]
    of_cluster = [a for right in sorted(rights) if right in OF_CLUSTER for a in ACTIONS_OF_RIGHTS[right]]
    place = resource_of("" if everywhere else role.db)
    found = (Privilege(place, tuple(of_databases)), Privilege(CLUSTER, tuple(of_cluster)))
    return tuple(each for each in found if each.actions)


def grants_of(privileges: Iterable[Privilege]) -> dict[str, frozenset[str]]:
    """The actions by resource."""
    return {each.resource: frozenset(each.actions) for each in merge(privileges)}


def allows(grants: Mapping[str, frozenset[str]], actions: Iterable[str], resource: str) -> bool:
    """Return True if all actions are granted on a resource, or on one that includes it."""
    if resource == CLUSTER:
        places: tuple[str, ...] = (CLUSTER, ANY_RESOURCE)
    else:
        database, _, collection = resource.partition("\0")
        places = (resource, resource_of(database), resource_of("", collection), resource_of(""), ANY_RESOURCE)
    granted = [found for place in places if (found := grants.get(place)) is not None]
    return all(any(action in each or "anyAction" in each for each in granted) for action in actions)


def is_within(resource: str, database: str) -> bool:
    """Return True if a resource is, or includes, collections of a database."""
    named, dot, _ = resource.partition("\0")
    return resource == ANY_RESOURCE or (bool(dot) and named in ("", database))


def check_targets(role: Role, privileges: Iterable[Privilege]) -> None:
    """Raise MqlError 49 for a privilege outside of the role's database, which only roles of `admin` may have."""
    if role.db == "admin":
        return
    for each in privileges:
        if each.database != role.db:
            text = f"Roles on the '{role.db}' database cannot be granted privileges that target other databases"
            raise MqlError(49, f"{text} or the cluster")
