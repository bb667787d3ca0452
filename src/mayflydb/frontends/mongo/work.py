"""How a command reaches data: at once, as a numbered write that may be repeated, or inside a transaction."""

from __future__ import annotations

from typing import Any, Final, Protocol, TypeVar

from mayflydb.frontends.mongo import retries
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.data import Data
from mayflydb.frontends.mongo.reading import Committed, View
from mayflydb.frontends.mongo.retries import Attempt
from mayflydb.frontends.mongo.writing import Body
from mayflydb.model.instant import Instant
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.values import Document

T = TypeVar("T")

_KNOWN_MODES: Final = ("majority",)


class Work(Protocol):
    """`attempt`: the numbered write this is, if it is one. `aborts`: an error ends more than the statement that met it."""

    view: View
    attempt: Attempt | None
    aborts: bool

    async def perform(self, body: Body[T]) -> T:
        """Run a decision and return its reply once it holds."""


class Single:
    """Each decision is a transaction of its own."""

    aborts = False

    def __init__(self, data: Data, now: Instant, attempt: Attempt | None = None) -> None:
        self._engine = data.engine
        self._now = now
        self.attempt = attempt
        self.view: View = Committed(data.engine, data.indexing.want_ids)

    async def perform(self, body: Body[T]) -> T:
        return await self._engine.transact(body, self._now)


async def begin(call: Call) -> Work:
    """What the session arguments of a command ask for. MqlError 20, 72 and 251 as the protocol has them."""
    body, data = call.body, call.app.data
    number = body.get("txnNumber")
    if number is None:
        return Single(data, call.now)
    if "lsid" not in body:
        raise MqlError(72, "Transaction number requires a session ID to also be specified")
    if call.app.options.topology == "standalone":
        raise MqlError(20, "Transaction numbers are only allowed on a replica set member or mongos")
    sessions = await data.collections.ensure(retries.DATABASE, retries.NAME, call.now)
    return Single(data, call.now, Attempt(sessions, body["lsid"]["id"], int(number)))


def concern_error(call: Call) -> Document | None:
    """What a write concern that cannot be met makes of a write that was done. MqlError 79 for a mode nobody knows."""
    concern: Any = call.body.get("writeConcern")
    wanted = None if not isinstance(concern, dict) else concern.get("w")
    if isinstance(wanted, str) and wanted not in _KNOWN_MODES:
        return {
            "code": 79,
            "codeName": "UnknownReplWriteConcern",
            "errmsg": f"No write concern mode named '{wanted}' found in replica set configuration",
        }
    if isinstance(wanted, int) and wanted > 1:
        text = "Not enough data-bearing nodes"
        return {"code": 100, "codeName": "UnsatisfiableWriteConcern", "errmsg": text}
    return None
