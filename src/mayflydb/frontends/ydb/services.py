"""The parts of a server that commands use, and the types of handlers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random  # noqa: TID251 - the type; what draws comes in from outside
from typing import Any, TypeAlias

from mayflydb.engine.engine import Engine
from mayflydb.frontends.ydb.accounts import Accounts
from mayflydb.frontends.ydb.calls import GrpcCall
from mayflydb.frontends.ydb.conversations import Requests
from mayflydb.frontends.ydb.environment import Environment
from mayflydb.frontends.ydb.executor import Executor
from mayflydb.frontends.ydb.operations import Operations
from mayflydb.frontends.ydb.options import Options
from mayflydb.frontends.ydb.schemes.catalog import Schemes
from mayflydb.frontends.ydb.sessions import Sessions
from mayflydb.frontends.ydb.topics.service import Topics


class Services:
    """The parts of one server. A call is data; handlers get the services beside it."""

    def __init__(self, engine: Engine, options: Options, chance: Random) -> None:
        """Build all parts. `chance`: an unguessable source of ids."""
        self.engine = engine
        self.options = options
        sessions = engine.quotas.get("ydb_sessions", options.max_sessions)
        self.sessions = Sessions(chance, options.session_idle, sessions)
        self.accounts = Accounts(engine, chance, options.auth, options.secret, options.password, options.max_users)
        self.schemes = Schemes(engine, options)
        self.environment = Environment(engine, self.schemes, chance)
        self.executor = Executor(self.environment, self.accounts, options.max_session_transactions)
        self.operations = Operations(chance)
        self.topics = Topics(engine, self.schemes, chance)

    async def resume(self) -> None:
        """Resume the work that an earlier process left unfinished."""
        await self.schemes.resume(await self.engine.now())

    async def close(self) -> None:
        """Stop all background work."""
        await self.topics.close()
        await self.operations.close()
        await self.schemes.close()


Unary: TypeAlias = Callable[[Services, GrpcCall, Any], Awaitable[bytes]]
"""Takes a parsed request and returns the bytes of its response, built by `wire`."""

Streaming: TypeAlias = Callable[[Services, GrpcCall, Any], AsyncIterator[bytes]]
"""Takes a parsed request and yields the messages of its stream."""

Conversing: TypeAlias = Callable[[Services, GrpcCall, Requests], AsyncIterator[bytes]]
"""Takes the requests of a stream as they arrive, and yields the messages that answer them."""

Handler: TypeAlias = Unary | Streaming | Conversing
"""Which of them a method has follows from its streams."""
