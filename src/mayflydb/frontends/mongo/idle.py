"""Cursors between two batches, and transactions between two commands: both are open and wait for their client."""

from __future__ import annotations

from bson import DatetimeMS, Int64

from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.documents import binary_uuid, to_milliseconds
from mayflydb.frontends.mongo.services import Services
from mayflydb.query.mongo.values import Document

HOST = "mayfly"


def describe_idle_cursors(services: Services, owner: str | None) -> list[Document]:
    """Return the documents of `$currentOp` for idle cursors: an owner's, or all (None)."""
    found: list[Document] = []
    for cursor in services.cursors.list_idle():
        if owner is not None and cursor.owner != owner:
            continue
        shown: Document = {
            "cursorId": Int64(cursor.id),
            "noCursorTimeout": cursor.no_timeout,
            "tailable": cursor.awaits_data,
        }
        line: Document = {"type": "idleCursor", "host": HOST, "ns": cursor.namespace, "cursor": shown}
        if cursor.session is not None:
            line["lsid"] = {"id": binary_uuid(cursor.session)}
        found.append(line)
    return found


def describe_idle_transactions(services: Services, call: Call, owner: str | None) -> list[Document]:
    """Return the documents of `$currentOp` for open transactions that carry out no command: an owner's, or all (None)."""
    active = {each.session_id for each in services.operations.current.values()}
    now = services.monotonic()
    found: list[Document] = []
    for (holder, session), transaction in services.transactions.list_open():
        if session in active or (owner is not None and holder != owner):
            continue
        left = transaction.ends_at - now
        described: Document = {
            "parameters": {"txnNumber": Int64(transaction.number), "autocommit": False},
            "expiryTime": DatetimeMS(to_milliseconds(call.now + left)),
        }
        found.append(
            {
                "type": "idleSession",
                "host": HOST,
                "desc": "inactive transaction",
                "active": False,
                "lsid": {"id": binary_uuid(session)},
                "transaction": described,
            }
        )
    return found
