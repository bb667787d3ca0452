"""Arguments of every command: API version, time limit, read concern and write concern.

Tables say which command accepts which.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import ROUND_HALF_EVEN
from typing import Any, Final, TypeAlias

from bson import Decimal128, Timestamp

from mayflydb.frontends.mongo.arguments import NUMERIC, truncate_number
from mayflydb.frontends.mongo.calls import Call
from mayflydb.query.mongo.faults import MqlError, bad_value, failed_to_parse, type_mismatch
from mayflydb.query.mongo.values import Document, Value, is_number, type_name

API_VERSION_1: Final = frozenset({
    "abortTransaction", "aggregate", "authenticate", "bulkWrite", "collMod", "commitTransaction", "count", "create",
    "createIndexes", "delete", "drop", "dropDatabase", "dropIndexes", "endSessions", "explain", "find", "findAndModify",
    "findandmodify", "getMore", "hello", "insert", "isMaster", "ismaster", "killCursors", "listCollections", "listDatabases",
    "listIndexes", "ping", "refreshSessions", "saslContinue", "saslStart", "update",
})  # fmt: skip
"""https://www.mongodb.com/docs/manual/reference/stable-api/"""

_STAGES_OUTSIDE_V1: Final = frozenset(
    {"$currentOp", "$indexStats", "$listLocalSessions", "$listSessions", "$planCacheStats"}
)


def check_api_version(call: Call) -> None:
    """Raise MqlError 322 for another API version, 323 for what `apiStrict` excludes, 72 for a missing version."""
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
        name = find_stage_outside_v1(stage)
        if name is not None:
            raise MqlError(323, f"stage {name} is not allowed with 'apiStrict: true' in API Version 1")


def find_stage_outside_v1(stage: Value) -> str | None:
    """The name of a stage that API version 1 does not have; None for other stages."""
    name = next(iter(stage), "") if type(stage) is dict else ""
    outside = name in _STAGES_OUTSIDE_V1 or (name == "$collStats" and set(stage[name] or ()) - {"count"})
    return name if outside else None


# --- maxTimeMS -------------------------------------------------------------------------------------------------------

MAX_MILLISECONDS: Final = (1 << 31) - 1
"""Time limits are int32 on the wire."""


def parse_time_limit(call: Call) -> int:
    """`maxTimeMS`; 0: no limit. Raise MqlError 14, 9 for a fraction of a millisecond, 2 beyond 32 bits."""
    given = call.body.get("maxTimeMS")
    if given is None:
        return 0
    if not is_number(given):
        raise type_mismatch(f"{call.name}.maxTimeMS", type_name(given), *NUMERIC)
    whole = truncate_number(given)
    if whole is None or whole != (given.to_decimal() if type(given) is Decimal128 else given):
        raise failed_to_parse(f"Expected an integer for maxTimeMS, but got {given}")
    if not 0 <= whole <= MAX_MILLISECONDS:
        raise bad_value(f"{whole} value for maxTimeMS is out of range [0, {MAX_MILLISECONDS}]")
    return whole


# --- concerns --------------------------------------------------------------------------------------------------------

WRITE_CONCERN_COMMANDS: Final = frozenset({
    "abortTransaction", "aggregate", "bulkWrite", "cloneCollectionAsCapped", "collMod", "commitTransaction", "convertToCapped", "create",
    "createIndexes", "createSearchIndexes", "createUser", "customAction", "delete", "deleteIndexes", "drop",
    "dropAllUsersFromDatabase", "dropDatabase", "dropIndexes", "dropSearchIndex", "dropUser", "findAndModify",
    "findandmodify", "grantRolesToUser", "insert", "renameCollection", "revokeRolesFromUser", "shardCollection", "update",
    "updateSearchIndex", "updateUser",
})  # fmt: skip
"""Commands that accept a write concern. https://www.mongodb.com/docs/manual/reference/write-concern/"""

READ_CONCERN_COMMANDS: Final = frozenset({"aggregate", "count", "distinct", "explain", "find"})
"""Commands that accept a read concern. The others accept only `local`, outside of transactions.

https://www.mongodb.com/docs/manual/reference/read-concern/
"""

_LEVELS: Final = ("local", "available", "majority", "linearizable", "snapshot")
_SNAPSHOT_READS: Final = ("find", "aggregate", "distinct")
_PROVENANCES: Final = ("clientSupplied", "implicitDefault", "customDefault", "getLastErrorDefaults")
_MAX_MEMBERS: Final = 50
"""Maximum members of a replica set."""


def _check_choice(field: str, value: Value, allowed: Sequence[str]) -> None:
    if value is None:
        return
    if type(value) is not str:
        raise type_mismatch(field, type_name(value), "string")
    if value not in allowed:
        raise bad_value(f"Enumeration value '{value}' for field '{field}' is not a valid value.")


def _check_level_name(field: str, value: Value) -> None:
    _check_choice(field, value, _LEVELS)


def _check_provenance(field: str, value: Value) -> None:
    _check_choice(field, value, _PROVENANCES)


def _check_flag(field: str, value: Value) -> None:
    if value is not None and type(value) is not bool and not is_number(value):
        raise type_mismatch(field, type_name(value), "bool", *NUMERIC)


def _check_timestamp(field: str, value: Value) -> None:
    if type(value) is not Timestamp:
        raise type_mismatch(field, type_name(value), "timestamp")
    if not value.time:
        raise MqlError(72, f"{field} cannot be a null timestamp")


def _check_object(field: str, value: Value) -> None:
    if type(value) is not dict:
        raise type_mismatch(field, type_name(value), "object")


def _check_members(field: str, value: Value) -> None:
    """Check `w`: a number of members, the name of a mode, or numbers by tag. Null counts as a mode without a name."""
    if is_number(value):
        number = member_count(value)
        if number is None or not 0 <= number <= _MAX_MEMBERS:
            text = f"w has to be a non-negative number and not greater than {_MAX_MEMBERS}"
            raise failed_to_parse(f"{text}; found: {value}")
    elif type(value) is dict:
        if not value:
            raise failed_to_parse("tagged write concern requires tags")
        if not all(map(is_number, value.values())):
            raise failed_to_parse("tags must be a single level document with only numeric values")
    elif value is not None and type(value) is not str:
        raise failed_to_parse(f"{field}: w has to be a number, string, or object; found: {type_name(value)}")


def member_count(value: Value) -> int | None:
    """A number of members as a whole number. The server rounds Decimal128 half to even, and cuts the others towards zero."""
    if type(value) is Decimal128:
        number = value.to_decimal()
        return int(number.to_integral_value(ROUND_HALF_EVEN)) if number.is_finite() else None
    return truncate_number(value)


def _check_timeout(field: str, value: Value) -> None:
    """Check milliseconds. A value that is no number is ignored."""
    if not is_number(value):
        return
    number = float(value.to_decimal()) if type(value) is Decimal128 else float(value)
    if number > MAX_MILLISECONDS:
        raise failed_to_parse(f"{field} must be a 32-bit integer, found: {value}")


Check: TypeAlias = Callable[[str, Value], None]
"""Raises MqlError for an invalid value of the named field."""

WRITE_FIELDS: Final[Mapping[str, Check]] = {
    "w": _check_members,
    "j": _check_flag,
    "fsync": _check_flag,
    "wtimeout": _check_timeout,
    "provenance": _check_provenance,
}

READ_FIELDS: Final[Mapping[str, Check]] = {
    "level": _check_level_name,
    "afterClusterTime": _check_timestamp,
    "atClusterTime": _check_timestamp,
    "afterOpTime": _check_object,
    "provenance": _check_provenance,
}


def check_concerns(call: Call) -> None:
    """Raise MqlError 14, 9, 2, 40415 and 72 for an invalid or unaccepted writeConcern or readConcern.

    All levels read the last commit. Raise 246 for a snapshot outside of a transaction, and for one at a cluster time.
    """
    body = call.body
    if body.get("writeConcern") is not None:
        # Within a transaction only its last command accepts a write concern. An error here also ends the transaction.
        _check_fields(call, "writeConcern", WRITE_FIELDS, call.name in WRITE_CONCERN_COMMANDS or "autocommit" in body)
        if body["writeConcern"].get("j") and body["writeConcern"].get("fsync"):
            raise failed_to_parse("fsync and j options cannot be used together")
    if body.get("readConcern") is not None:
        _check_fields(call, "readConcern", READ_FIELDS, True)
        _check_level(call, body["readConcern"])


def _check_fields(call: Call, argument: str, fields: Mapping[str, Check], accepted: bool) -> None:
    given = call.body[argument]
    if type(given) is not dict:
        raise type_mismatch(f"{call.name}.{argument}", type_name(given), "object")
    if not accepted:
        raise MqlError(72, f"Command {call.name} does not support {argument}")
    for name, value in given.items():
        check = fields.get(name)
        if check is None:
            raise MqlError(40415, f"BSON field '{argument}.{name}' is an unknown field.")
        check(f"{argument}.{name}", value)


def _check_level(call: Call, concern: Document) -> None:
    level = concern.get("level")
    if "atClusterTime" in concern:
        if level != "snapshot":
            raise MqlError(72, "readConcern.atClusterTime can only be given with level 'snapshot'")
        raise MqlError(246, "reads of a snapshot at a cluster time are not supported by Mayfly")
    if "autocommit" in call.body or level in (None, "local"):
        return
    if call.name not in READ_CONCERN_COMMANDS:
        raise MqlError(72, f"Command {call.name} does not support readConcern level {level}")
    if level == "snapshot":
        if call.name in _SNAPSHOT_READS:
            raise MqlError(246, "reads of a snapshot outside a transaction are not supported by Mayfly")
        raise MqlError(72, f"{call.name} does not support read concern level snapshot")


def is_linearizable(call: Call) -> bool:
    """Return True for the read concern `linearizable`, which excludes writes."""
    concern: Any = call.body.get("readConcern")
    return type(concern) is dict and concern.get("level") == "linearizable"
