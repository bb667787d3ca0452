"""The operations in progress: the present command of each connection. Clients can list and interrupt them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import Final

from bson import Int64

from mayflydb.evaluation.stops import StopReason
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.evaluation import stop_error
from mayflydb.frontends.mongo.sessions.registry import LogicalSession
from mayflydb.model.errors import MayflyError
from mayflydb.model.instant import SECOND
from mayflydb.query.mongo.values import Document

MAX_SHOWN_BYTES: Final = 1024
"""The most bytes of a command that is shown in full. Of a larger command, only the name is shown."""

_KINDS: Final = {"find": "query", "getMore": "getmore", "insert": "insert", "update": "update", "delete": "remove"}
_SECRETS: Final = ("saslStart", "saslContinue", "createUser", "updateUser")


class Operations:
    """The operations of one server, by connection: a connection has one operation at a time."""

    def __init__(self, monotonic: Callable[[], int]) -> None:
        """`monotonic`: the host's microseconds."""
        self._monotonic = monotonic
        self._last_id = 0
        self.current: dict[int, Call] = {}

    def find(self, id: int) -> Call | None:
        """Return the operation with this id, if it is in progress."""
        return next((call for call in self.current.values() if call.operation == id), None)

    def interrupt(self, call: Call) -> None:
        """End an operation with the error 11601 as soon as it waits, or computes on a thread."""
        if call.interruption is None:
            call.interruption = stop_error(StopReason.KILLED)
        if call.evaluation is not None:
            call.evaluation.stop(StopReason.KILLED)
        if call.connection.cancel is not None:
            call.connection.cancel()

    def take_interruption(self, connection: int) -> MayflyError | None:
        """Return the error of the cancelled command of a connection; None: it was cancelled for another reason."""
        call, task = self.current.get(connection), asyncio.current_task()
        if call is None or call.interruption is None or task is None:
            return None
        task.uncancel()
        return call.interruption

    def interrupt_session(self, session: LogicalSession, caller: int) -> None:
        """End the operations of a session, except that of the connection `caller`."""
        for connection, call in list(self.current.items()):
            if call.session is session and connection != caller:
                self.interrupt(call)

    def abandon(self, connection: int) -> None:
        """Stop the evaluation of a connection's command, since the client has left. Its writes so far stay."""
        call = self.current.get(connection)
        if call is not None:
            call.connection.left = True
            if call.evaluation is not None:
                call.evaluation.stop(StopReason.ABANDONED)

    def describe(self, calls: Iterable[Call]) -> list[Document]:
        """Return the documents of `currentOp` for operations. Each operation gets an id when it is first shown."""
        return [self._describe(call) for call in calls]

    def _describe(self, call: Call) -> Document:
        if not call.operation:
            self._last_id += 1
            call.operation = self._last_id
        connection, running = call.connection, self._monotonic() - call.started_monotonic
        shown: Document = call.body
        if call.size > MAX_SHOWN_BYTES or call.name in _SECRETS:
            shown = {"$truncated": call.name}
        found: Document = {
            "type": "op",
            "host": "mayfly",
            "desc": f"conn{connection.id}",
            "connectionId": connection.id,
            "client": connection.peer,
            "appName": connection.application,
            "active": True,
            "currentOpTime": datetime.fromtimestamp(call.now / SECOND, UTC).isoformat(timespec="milliseconds"),
            "opid": call.operation,
            "secs_running": Int64(running // SECOND),
            "microsecs_running": Int64(running),
            "op": _KINDS.get(call.name, "command"),
            "ns": f"{call.database}.{_collection_of(call)}",
            "command": shown,
            "killPending": call.interruption is not None,
        }
        user = connection.user
        if user is not None:
            found["effectiveUsers"] = [{"user": user.name, "db": user.db}]
        if "lsid" in call.body:
            found["lsid"] = call.body["lsid"]
        return found


def _collection_of(call: Call) -> str:
    named = call.body.get("collection" if call.name == "getMore" else call.name)
    return named if type(named) is str and named else "$cmd"
