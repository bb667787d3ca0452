"""Commands about a replica set or a cluster, answered as the topology that `hello` claims has it: one member, and no shard.

Shapes: https://www.mongodb.com/docs/manual/reference/command/nav-replication/
"""

from __future__ import annotations

from typing import Final

from bson import DatetimeMS, Int64

from mayflydb.frontends.mongo import arguments
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.commands.handshake import VERSIONS, version_of
from mayflydb.frontends.mongo.documents import to_milliseconds
from mayflydb.frontends.mongo.services import CommandEntry, Services
from mayflydb.model.instant import SECOND
from mayflydb.query.mongo.faults import MqlError, type_mismatch
from mayflydb.query.mongo.values import Document, type_name


def _require_replica_set(services: Services) -> None:
    """Raise MqlError 76 in other topologies."""
    if services.options.topology != "replicaset":
        raise MqlError(76, "not running with --replSet")


async def replica_set_status(services: Services, call: Call) -> Document:
    """Return the only member of the replica set."""
    call.check_fields({"initialSync"})
    _require_replica_set(services)
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


async def replica_set_config(services: Services, call: Call) -> Document:
    """Return the configuration of the replica set."""
    call.check_fields({"commitmentStatus"})
    _require_replica_set(services)
    member: Document = {
        "_id": 0,
        "host": services.options.advertise,
        "arbiterOnly": False,
        "buildIndexes": True,
        "hidden": False,
        "priority": 1,
        "tags": {},
        "secondaryDelaySecs": Int64(0),
        "votes": 1,
    }
    config: Document = {"_id": services.options.replica_set, "version": 1, "term": 1, "members": [member]}
    config |= {"protocolVersion": Int64(1), "writeConcernMajorityJournalDefault": services.engine.durable}
    committed = {"commitmentStatus": True} if arguments.flag(call.body, "commitmentStatus", call.name) else {}
    return {"config": config, **committed}


def _require_router(services: Services, call: Call) -> None:
    """Raise MqlError 59 where `hello` names no router: a mongod does not have the command."""
    if services.options.topology != "mongos":
        raise MqlError(59, f"no such command: '{call.name}'")


async def list_shards(services: Services, call: Call) -> Document:
    """Return the shards: there are none."""
    call.check_fields({"filter"})
    _require_router(services, call)
    return {"shards": []}


async def balancer_status(services: Services, call: Call) -> Document:
    """Return the state of the balancer, which does nothing where there are no shards."""
    call.check_fields(())
    _require_router(services, call)
    return {"mode": "off", "inBalancerRound": False, "numBalancerRounds": Int64(0)}


async def get_default_concerns(services: Services, call: Call) -> Document:
    """Return the concerns that hold without a command's own: every write is answered when it is committed."""
    call.check_fields({"inMemory"})
    _refuse_standalone(services)
    in_memory = call.body.get("inMemory")
    if in_memory is not None and type(in_memory) is not bool:
        raise type_mismatch(f"{call.name}.inMemory", type_name(in_memory), "bool")
    return {
        "defaultReadConcern": {"level": "local"},
        "defaultWriteConcern": {"w": "majority", "wtimeout": 0},
        "defaultWriteConcernSource": "implicit",
        "defaultReadConcernSource": "implicit",
        "localUpdateWallClockTime": DatetimeMS(to_milliseconds(services.started)),
        **({"inMemory": True} if in_memory else {}),
    }


async def set_default_concerns(services: Services, call: Call) -> Document:
    """Refuse other defaults: there is one member, and its writes are always committed before their answer."""
    call.check_fields({"defaultReadConcern", "defaultWriteConcern"})
    _refuse_standalone(services)
    given = [arguments.document(call.body, name, call.name) for name in ("defaultReadConcern", "defaultWriteConcern")]
    if given == [None, None]:
        raise MqlError(2, "At least one of the 'defaultReadConcern' or 'defaultWriteConcern' fields must be present")
    raise MqlError(
        20, "setDefaultRWConcern is not supported: other defaults would change nothing on a server of one member"
    )


def _refuse_standalone(services: Services) -> None:
    if services.options.topology == "standalone":
        raise MqlError(51300, "'getDefaultRWConcern' and 'setDefaultRWConcern' are not supported on standalone nodes.")


async def set_compatibility_version(services: Services, call: Call) -> Document:
    """Confirm the present version. Another one is refused: it follows from the wire version."""
    call.check_fields({"confirm", "fromConfigServer"})
    version = arguments.text(call.body, call.name, call.name)
    current = "{}.{}".format(*version_of(services.options))
    known = {f"{major}.{minor}" for major, minor in VERSIONS.values()}
    if version not in known:
        raise MqlError(4926900, f"Invalid feature compatibility version value '{version}'; expected '{current}'")
    if not arguments.flag(call.body, "confirm", call.name):
        text = "to change the feature compatibility version, the command needs the parameter 'confirm: true'"
        raise MqlError(7369100, text)
    if version != current:
        raise MqlError(20, "the feature compatibility version follows from the setting 'mongo-wire-version'")
    return {}


HANDLERS: Final[dict[str, CommandEntry]] = {
    "replSetGetStatus": CommandEntry(
        replica_set_status, "monitor", admin_only=True, help="tells the state of a replica set"
    ),
    "replSetGetConfig": CommandEntry(
        replica_set_config, "monitor", admin_only=True, help="tells the members of a replica set"
    ),
    "listShards": CommandEntry(list_shards, "monitor", admin_only=True, help="lists the shards: none"),
    "balancerStatus": CommandEntry(balancer_status, "monitor", admin_only=True, help="tells that nothing is balanced"),
    "getDefaultRWConcern": CommandEntry(
        get_default_concerns, "monitor", admin_only=True, help="tells the default read and write concerns"
    ),
    "setDefaultRWConcern": CommandEntry(
        set_default_concerns, "server", admin_only=True, help="refused: the defaults are fixed"
    ),
    "setFeatureCompatibilityVersion": CommandEntry(
        set_compatibility_version, "server", admin_only=True, help="confirms the version that is spoken here"
    ),
}
