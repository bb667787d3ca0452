"""Services that commands use: one set for the whole server, handed to each handler beside the call."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping
from random import Random  # noqa: TID251 - the type; what draws comes in from outside
from typing import Any, Final, TypeAlias
from uuid import UUID

import msgspec

from mayflydb.engine.engine import Engine
from mayflydb.evaluation.stops import StopReason
from mayflydb.frontends.mongo.accounts.needs import Need, need_of
from mayflydb.frontends.mongo.accounts.privileges import allows, resource_of
from mayflydb.frontends.mongo.accounts.roles import Right, User
from mayflydb.frontends.mongo.accounts.users import Accounts
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.collections import Collections
from mayflydb.frontends.mongo.contracts import Contracts
from mayflydb.frontends.mongo.counters import ServerCounters
from mayflydb.frontends.mongo.cursors import CursorLimits, Cursors, ReadTime
from mayflydb.frontends.mongo.documents import ObjectIdGenerator
from mayflydb.frontends.mongo.evaluation import Evaluation
from mayflydb.frontends.mongo.failpoints import FailPoints
from mayflydb.frontends.mongo.indexing import Indexing
from mayflydb.frontends.mongo.operations import Operations
from mayflydb.frontends.mongo.options import Options
from mayflydb.frontends.mongo.sessions.registry import Sessions
from mayflydb.frontends.mongo.sessions.session_documents import SessionDocuments
from mayflydb.frontends.mongo.sessions.snapshot_reads import SnapshotReads
from mayflydb.frontends.mongo.sessions.transactions import Transactions
from mayflydb.model.errors import MayflyError
from mayflydb.model.instant import Instant
from mayflydb.query.mongo.values import Document
from mayflydb.sockets.guesses import Guesses
from mayflydb.sockets.in_flight import BytesInFlight

MAX_HASHES_AT_ONCE: Final = 2
"""Derivations of stored passwords at once: each takes a thread for some milliseconds."""


class Services:
    """All services of one server.

    `handlers`: the commands by name. `started`: the instant of the start, by the engine's clock. `started_monotonic`: the
    same by `monotonic`, in microseconds.
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
        in_flight: BytesInFlight | None = None,
    ) -> None:
        """`users`: those of the settings. `chance`: an unguessable source of ids and salts. `monotonic`: returns the host's
        microseconds, which do not follow a virtual clock. `in_flight`: the account of the process.
        """
        self.in_flight = in_flight or BytesInFlight()
        self.engine = engine
        self.options = options
        self.chance = chance
        self.monotonic = monotonic
        self.handlers = handlers
        self.started = started
        self.started_monotonic = monotonic()
        self.accounts = Accounts(engine, options.auth, users, lambda user: self.sessions.end_all_of([user]))
        self.guesses = Guesses(monotonic)
        self.hashing = asyncio.Semaphore(MAX_HASHES_AT_ONCE)
        self.sessions = Sessions(monotonic, engine.quotas.get("mongo_sessions", options.max_sessions))
        self.contracts = Contracts(options)
        self.collections = Collections(
            engine, self.contracts, lambda: chance.randbytes(16), options.change_stream_retention
        )
        self.collections.usage.begin(started)
        self.indexing = Indexing(engine, self.collections)
        # 63 random bits: a cursor id is a positive int64 that others cannot guess.
        quotas = engine.quotas
        self.cursors = Cursors(
            lambda: chance.getrandbits(63),
            monotonic,
            CursorLimits(
                quotas.get("mongo_cursors", options.max_cursors),
                quotas.get("mongo_cursor_bytes", options.cursor_bytes),
                options.max_cursors_per_session,
            ),
        )
        self.transactions = Transactions(engine, self.collections, self.cursors, monotonic)
        self.snapshot_reads = SnapshotReads(engine, monotonic)
        self.session_documents = SessionDocuments(engine, self.collections, monotonic)
        self.ids = ObjectIdGenerator(chance.randbytes(5), chance.getrandbits(24))
        self.failpoints = FailPoints(chance)
        self.counters = ServerCounters()
        self.operations = Operations(monotonic)

    def require_right(self, call: Call, right: Right, database: str | None = None, need: Need | None = None) -> None:
        """Raise MqlError 13 unless the sender has a right on a database, by default the command's own.

        `need`: what roles that commands created must give instead; by default what the command asks for.
        """
        where, user, accounts = call.database if database is None else database, call.connection.user, self.accounts
        if accounts.has_right(user, right, where):
            return
        if user is not None and user.grants:
            asked = need_of(call.name, where, call.body, call.sequences) if need is None else need
            if asked is not None and allows(user.grants, asked.actions, asked.resource):
                return
        raise accounts.refusal(user, where, call.name, call.body)

    def may_read(self, call: Call, database: str, collection: str) -> bool:
        """Return True if the sender may read a collection."""
        user = call.connection.user
        if self.accounts.has_right(user, "read", database):
            return True
        return user is not None and allows(user.grants, ("find",), resource_of(database, collection))

    def evaluation_of(self, call: Call) -> Evaluation:
        """The evaluation of a command. Its time counts from here."""
        if call.evaluation is None:
            call.evaluation = self.begin_evaluation(call.connection.id, call.is_cheap)
            if call.connection.left:
                call.evaluation.stop(StopReason.ABANDONED)
        return call.evaluation

    def begin_evaluation(self, client: int, cheap: bool = False) -> Evaluation:
        """Return an evaluation that begins now. `client`: the number of its connection."""
        evaluators = self.engine.evaluators
        return Evaluation(evaluators, client, evaluators.deadline(), cheap, self.in_flight)

    def continue_evaluation(self, call: Call, evaluation: Evaluation) -> None:
        """Make a cursor's evaluation that of a command which reads on. Its time counts from here."""
        evaluation.client, evaluation.deadline = call.connection.id, self.engine.evaluators.deadline()
        call.evaluation = evaluation

    def read_time_of(self, call: Call) -> ReadTime:
        """The instant and the evaluation of a command's reads."""
        if call.snapshot is not None:
            # Later batches are of the snapshot's instant as well.
            return ReadTime(call.now, self.evaluation_of(call), call.now, True)
        return ReadTime(call.now, self.evaluation_of(call), call.as_of, call.is_past)

    def new_uuid(self) -> UUID:
        """A random UUID."""
        return UUID(int=self.chance.getrandbits(128), version=4)

    def new_activity_id(self) -> str:
        """A random id, by which Cosmos DB's error texts name one failed request."""
        return str(self.new_uuid())

    async def close_ended_sessions(self, now: Instant, caller: int) -> None:
        """End the operations, cursors and transactions of sessions that have ended, and remove their stored documents.

        `caller`: the number of the connection whose command asks for it, which goes on.
        """
        # Taken before the first await: another command that arrives meanwhile must not close the same sessions.
        ended, self.sessions.ended = self.sessions.ended, []
        for session in ended:
            self.operations.interrupt_session(session, caller)
            await self.transactions.end_session(session)
            await self.cursors.end_session(session.id)
        # A failed removal is harmless: the sweep later finds these documents unchanged for too long.
        with contextlib.suppress(MayflyError):
            await self.session_documents.remove_ended(ended, now)


Handler: TypeAlias = Callable[[Services, Call], Coroutine[Any, Any, "Document | bytes"]]
"""Returns a document, to which `ok` is added if it is missing, or a complete answer as bytes."""


class CommandEntry(msgspec.Struct, frozen=True, gc=False):
    """A command, its handler and the right that its sender needs. Handlers check further rights that depend on arguments.

    `admin_only`: only on the database `admin`. `test_only`: only where test commands are on. `handles_time_limit`: the
    handler interprets `maxTimeMS` itself (getMore). `help`: for `listCommands`.
    """

    handler: Handler
    right: Right
    admin_only: bool = False
    test_only: bool = False
    handles_time_limit: bool = False
    help: str = ""
