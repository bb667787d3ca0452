"""Arguments of sessions, retryable writes and transactions: checked and converted."""

from __future__ import annotations

from typing import Any, Final

from bson import Int64

from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.options import Topology
from mayflydb.frontends.mongo.sessions.registry import LogicalSession
from mayflydb.query.mongo.faults import MqlError, type_mismatch
from mayflydb.query.mongo.values import type_name

ENDING_COMMANDS: Final = frozenset({"commitTransaction", "abortTransaction"})

TRANSACTION_COMMANDS: Final = frozenset(
    {
        "find",
        "getMore",
        "killCursors",
        "insert",
        "update",
        "delete",
        "findAndModify",
        "findandmodify",
        "aggregate",
        "distinct",
        "bulkWrite",
    }
)
"""Commands that may be part of a transaction."""

ANY_DATABASE_COMMANDS: Final = frozenset({"getMore", "killCursors", "bulkWrite"})
"""Commands of transactions that name other databases than the one they are sent to, or none."""

INTERNAL_DATABASES: Final = frozenset({"admin", "config", "local"})

READ_CONCERN_LEVELS: Final = (None, "local", "majority", "snapshot")


def get_session(call: Call) -> LogicalSession:
    """The session of a command whose transaction number was checked."""
    assert call.session is not None
    return call.session


def parse_write_number(call: Call, topology: Topology) -> int:
    """Parse `txnNumber`. Raise MqlError 72 and 14 for an invalid number, 20 on a standalone server."""
    number = call.body["txnNumber"]
    if type(number) not in (Int64, int):
        raise type_mismatch(f"{call.name}.txnNumber", type_name(number), "long")
    # A login that is still missing also leaves the session None: see `MongoApp._enter_session`.
    if call.session is None:
        raise MqlError(72, "Transaction number requires a session ID to also be specified")
    if number < 0:
        raise MqlError(72, "Transaction number cannot be negative")
    if topology == "standalone":
        # Drivers look for this code and text, and then report that retryable writes are not supported.
        raise MqlError(20, "Transaction numbers are only allowed on a replica set member or mongos")
    return int(number)


def parse_transaction_number(call: Call, topology: Topology) -> int:
    """Check the arguments of a transaction, and return its number. Raise MqlError 72, 14, 20, 125."""
    body = call.body
    if "autocommit" not in body:
        raise MqlError(72, "'startTransaction' field requires 'autocommit' field to also be specified")
    for field in ("autocommit", "startTransaction"):
        if field in body and type(body[field]) is not bool:
            raise type_mismatch(f"{call.name}.{field}", type_name(body[field]), "bool")
    if body["autocommit"]:
        raise MqlError(72, "Specifying autocommit=true is not allowed.")
    if body.get("startTransaction") is False:
        raise MqlError(72, "Specifying startTransaction=false is not allowed.")
    if "txnNumber" not in body:
        raise MqlError(72, "'autocommit' field requires a transaction number to also be specified")
    number = parse_write_number(call, topology)
    if call.name in ENDING_COMMANDS and "startTransaction" in body:
        raise MqlError(263, f"Cannot run '{call.name}' as the first command of a transaction")
    return number


def check_in_transaction(call: Call) -> None:
    """Raise MqlError 263 and 72 for a command that cannot be part of a transaction."""
    if call.name not in TRANSACTION_COMMANDS:
        raise MqlError(263, f"Cannot run '{call.name}' in a multi-document transaction.")
    if call.name not in ANY_DATABASE_COMMANDS:
        check_transaction_database(call.database)
    if "writeConcern" in call.body:
        raise MqlError(72, "writeConcern is not allowed within a multi-statement transaction")


def check_transaction_database(name: str) -> None:
    """Raise MqlError 263 for a database that transactions cannot use."""
    if name in INTERNAL_DATABASES:
        raise MqlError(263, f"Cannot run command against the '{name}' database in a transaction.")


def check_read_concern(call: Call) -> None:
    """Raise MqlError 14 and 72 for a read concern that cannot start a transaction."""
    concern: Any = call.body.get("readConcern", {})
    if not isinstance(concern, dict):
        raise type_mismatch(f"{call.name}.readConcern", type_name(concern), "object")
    if concern.get("level") not in READ_CONCERN_LEVELS:
        text = "The readConcern level must be either 'local' (default), 'majority' or 'snapshot' in order to run in a"
        raise MqlError(72, f"{text} transaction")
