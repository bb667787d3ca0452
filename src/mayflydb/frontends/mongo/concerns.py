"""What every command may be told: of which version of the API it is, and how fresh what it reads is to be."""

from __future__ import annotations

from typing import Any, Final

from mayflydb.frontends.mongo.calls import Call
from mayflydb.query.mongo.faults import MqlError, bad_value, type_mismatch
from mayflydb.query.mongo.values import type_name

API_VERSION_1: Final = frozenset({
    "abortTransaction", "aggregate", "authenticate", "bulkWrite", "collMod", "commitTransaction", "count", "create",
    "createIndexes", "delete", "drop", "dropDatabase", "dropIndexes", "endSessions", "explain", "find", "findAndModify",
    "findandmodify", "getMore", "hello", "insert", "isMaster", "ismaster", "killCursors", "listCollections", "listDatabases",
    "listIndexes", "ping", "refreshSessions", "saslContinue", "saslStart", "update",
})  # fmt: skip
"""https://www.mongodb.com/docs/manual/reference/stable-api/"""

_STAGES_OUTSIDE: Final = frozenset(
    {"$currentOp", "$indexStats", "$listLocalSessions", "$listSessions", "$planCacheStats"}
)

_LEVELS: Final = ("local", "available", "majority", "linearizable", "snapshot")
_OF_SNAPSHOTS: Final = ("find", "aggregate", "distinct")


def check_version(call: Call) -> None:
    """MqlError 322 for a version of the API that is not spoken, 323 for what a strict client did not mean to use, 72."""
    body = call.body
    version = body.get("apiVersion")
    if version is None:
        if "apiStrict" in body or "apiDeprecationErrors" in body:
            raise MqlError(72, "Provided apiStrict and/or apiDeprecationErrors without passing apiVersion")
        return
    if version != "1":
        raise MqlError(322, f"API version must be \"1\", got '{version}'")
    if not body.get("apiStrict"):
        return
    if call.name not in API_VERSION_1:
        raise MqlError(323, f"Provided apiStrict:true, but the command {call.name} is not in API Version 1")
    for stage in body.get("pipeline") or ():
        name = next(iter(stage), "") if type(stage) is dict else ""
        if name in _STAGES_OUTSIDE or (name == "$collStats" and set(stage[name] or ()) - {"count"}):
            raise MqlError(323, f"stage {name} is not allowed with 'apiStrict: true' in API Version 1")


def check_read_concern(call: Call) -> None:
    """All levels read what is committed last. MqlError 2 for one nobody knows, 246 or 72 for a snapshot outside transactions."""
    concern: Any = call.body.get("readConcern")
    if concern is None:
        return
    if type(concern) is not dict:
        raise type_mismatch(f"{call.name}.readConcern", type_name(concern), "object")
    level = concern.get("level")
    if level is None:
        return
    if level not in _LEVELS:
        raise bad_value(f"Enumeration value '{level}' for field 'readConcern.level' is not a valid value.")
    if level == "snapshot" and "autocommit" not in call.body:
        if call.name in _OF_SNAPSHOTS:
            raise MqlError(246, "reads of a snapshot outside a transaction are not supported by Mayfly")
        raise MqlError(72, f"{call.name} does not support read concern level snapshot")


def is_linearizable(call: Call) -> bool:
    """Whether a read is to be linearizable, which no write may be told."""
    concern: Any = call.body.get("readConcern")
    return type(concern) is dict and concern.get("level") == "linearizable"
