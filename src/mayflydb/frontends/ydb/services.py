"""The parts of a server that answer calls, and the shape of the functions that do so."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from random import Random  # noqa: TID251 - the type; what draws comes in from outside
from typing import Any, TypeAlias

from mayflydb.engine.engine import Engine
from mayflydb.frontends.ydb.accounts import Accounts
from mayflydb.frontends.ydb.calls import Call
from mayflydb.frontends.ydb.environment import Environment
from mayflydb.frontends.ydb.executor import Executor
from mayflydb.frontends.ydb.operations import Operations
from mayflydb.frontends.ydb.options import Options
from mayflydb.frontends.ydb.schemes.catalog import Schemes
from mayflydb.frontends.ydb.sessions import Sessions


class Services:
    """One set per server. Calls are data; handlers are given these beside them."""

    def __init__(self, engine: Engine, options: Options, chance: Random) -> None:
        """`chance`: where ids come from, unguessable."""
        self.engine = engine
        self.options = options
        self.sessions = Sessions(chance, options.session_idle, options.max_sessions)
        self.accounts = Accounts(engine, chance, options.auth, options.secret, options.password)
        self.schemes = Schemes(engine, options)
        self.environment = Environment(engine, self.schemes, chance)
        self.executor = Executor(self.environment, self.accounts)
        self.operations = Operations(chance)

    async def resume(self) -> None:
        """Go on with what a process before this one has left half done."""
        await self.schemes.resume(await self.engine.now())

    async def close(self) -> None:
        """End all work in the background."""
        await self.operations.close()
        await self.schemes.close()


Unary: TypeAlias = Callable[[Services, Call, Any], Awaitable[bytes]]
"""From a request, parsed, to the bytes of its response (`wire` makes them)."""

Streaming: TypeAlias = Callable[[Services, Call, Any], AsyncIterator[bytes]]
"""From a request to the messages of its stream."""
