"""Services that commands use to answer: one set for the whole server, handed to each handler beside the call."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Coroutine, Mapping
from random import Random  # noqa: TID251 - the type; what draws comes in from outside
from typing import Any, TypeAlias
from uuid import UUID

import msgspec

from mayflydb.engine.engine import Engine
from mayflydb.frontends.mongo.accounts.roles import Right, User
from mayflydb.frontends.mongo.accounts.users import Accounts
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.collections import Collections
from mayflydb.frontends.mongo.contracts import Contracts
from mayflydb.frontends.mongo.counters import ServerCounters
from mayflydb.frontends.mongo.cursors import Cursors
from mayflydb.frontends.mongo.documents import ObjectIds
from mayflydb.frontends.mongo.failpoints import FailPoints
from mayflydb.frontends.mongo.indexing import Indexing
from mayflydb.frontends.mongo.options import Options
from mayflydb.frontends.mongo.sessions.records import SessionRecords
from mayflydb.frontends.mongo.sessions.registry import Sessions
from mayflydb.frontends.mongo.sessions.transactions import Transactions
from mayflydb.model.errors import MayflyError
from mayflydb.model.instant import Instant
from mayflydb.query.mongo.values import Document


class Services:
    """Collections, their indexes, cursors, sessions, transactions, accounts, and where ids come from.

    `handlers`: the commands, by name. `started`: when the server began, by the engine's clock; `began`: by `monotonic`.
    """

    def __init__(
        self,
        engine: Engine,
        options: Options,
        chance: Random,
        monotonic: Callable[[], int],
        users: tuple[User, ...],
        started: Instant,
        handlers: Mapping[str, CommandEntry],
    ) -> None:
        """`users`: those that are there whatever the store holds. `chance`: unguessable, for ids and salts.

        `monotonic`: the host's microseconds, which no moved clock touches.
        """
        self.engine = engine
        self.options = options
        self.chance = chance
        self.monotonic = monotonic
        self.handlers = handlers
        self.started = started
        self.began = monotonic()
        self.accounts = Accounts(engine, options.auth, users)
        self.sessions = Sessions(monotonic)
        self.contracts = Contracts(options)
        self.collections = Collections(
            engine, self.contracts, lambda: chance.randbytes(16), options.change_stream_retention
        )
        self.indexing = Indexing(engine, self.collections)
        self.cursors = Cursors(lambda: chance.getrandbits(63), monotonic)
        self.transactions = Transactions(engine, self.collections, self.cursors, monotonic)
        self.records = SessionRecords(engine, self.collections, monotonic)
        self.ids = ObjectIds(chance.randbytes(5), chance.getrandbits(24))
        self.failpoints = FailPoints(chance)
        self.counters = ServerCounters()

    def require(self, call: Call, right: Right, database: str | None = None) -> None:
        """MqlError 13 unless the sender of a command has a role for it on a database, by default the command's own."""
        where = call.database if database is None else database
        self.accounts.authorize(call.connection.user, right, where, call.name, call.body)

    def new_uuid(self) -> UUID:
        """A random UUID."""
        return UUID(int=self.chance.getrandbits(128), version=4)

    def new_activity_id(self) -> str:
        """An id by which people may ask about a failure."""
        return str(self.new_uuid())

    async def close_ended_sessions(self, now: Instant) -> None:
        """Close what sessions that have ended had open, and forget what is kept of them."""
        ended, self.sessions.ended = self.sessions.ended, []
        for session in ended:
            await self.transactions.end_session(session)
            await self.cursors.end_session(session.id)
        # What the store does not remove now is found to be stale later.
        with contextlib.suppress(MayflyError):
            await self.records.forget(ended, now)


Handler: TypeAlias = Callable[[Services, Call], Coroutine[Any, Any, "Document | bytes"]]
"""Answers with a document, to which `ok` is added if it has none, or with a whole answer as bytes, `ok` included."""


class CommandEntry(msgspec.Struct, frozen=True, gc=False):
    """A command that is known, and the function that answers it.

    `admin`: only on the database `admin`. `test`: only where commands for tests are on.

    `own_time`: what `maxTimeMS` means is the handler's to say (getMore). `help` is for `listCommands`.
    """

    handler: Handler
    right: Right = "read"
    admin: bool = False
    test: bool = False
    own_time: bool = False
    help: str = ""
