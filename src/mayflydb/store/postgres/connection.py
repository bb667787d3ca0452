"""Connections to PostgreSQL, and the meaning of its errors."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any, Final

import asyncpg

from mayflydb.model.errors import Corrupt, MayflyError, OutOfSpace, Unavailable

log = logging.getLogger(__name__)

DEADLINE = 5.0
"""Seconds to wait for a connection."""

STATEMENT_TIMEOUT_MS = 30_000
IDLE_TIMEOUT_MS = 4_000
"""Milliseconds after which the server ends a transaction whose node says nothing: it may be paused, and others wait for its
locks. Less than the lease of a node."""

OLDEST_SERVER = 150_000
DURABILITY_SETTINGS = ("fsync", "full_page_writes", "synchronous_commit")
"""Settings that must be on: without them a commit may be lost, or half of it kept."""


class StaleRead(Exception):
    """A record is not as it was when the transaction read it."""


class LockTaken(Exception):
    """Another transaction has a lock for which this one may not wait, since it has locks that come later in the order.

    `locks`: those that the transaction has or wants. It takes them all at its beginning when it runs again.
    """

    def __init__(self, locks: frozenset[int]) -> None:
        super().__init__("another transaction has a lock that comes earlier in the order")
        self.locks = locks


class StaleGuess(Exception):
    """A row of the catalogue is not as this node has left it."""


RETRYABLE = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError, asyncpg.UniqueViolationError, StaleRead)
"""Errors after which nothing of the transaction happened and a second attempt may well succeed."""

CONNECTION_LOST = (
    OSError,
    asyncio.TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.AdminShutdownError,
    asyncpg.IdleInTransactionSessionTimeoutError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
)
"""Errors of a database that is away, or has closed this connection."""

DATABASE_ERRORS = (*CONNECTION_LOST, StaleRead, StaleGuess, LockTaken, asyncpg.PostgresError)
"""Every error that a statement may raise."""


OPTIONS: Final[dict[str, Any]] = {"timeout": DEADLINE, "command_timeout": STATEMENT_TIMEOUT_MS / 1000 + DEADLINE}
"""The driver's options for each connection."""

# Set by statements: poolers refuse most settings of a new connection, or drop them without a word.
_SETTINGS: Final = (
    f"SET statement_timeout = {STATEMENT_TIMEOUT_MS}; SET idle_in_transaction_session_timeout = {IDLE_TIMEOUT_MS};"
    # All joins are of a list of keys with an index. Other kinds of joins would read whole tables.
    " SET jit = off; SET enable_hashjoin = off; SET enable_mergejoin = off"
)


def name_sessions(url: str, name: str) -> str:
    """The URL for connections that the database shows under this name (letters, digits, hyphens)."""
    return f"{url}{'&' if '?' in url else '?'}application_name={name}"


async def dial(url: str) -> asyncpg.Connection:
    """Open a connection; errors as the driver raises them (DATABASE_ERRORS)."""
    connection = await asyncpg.connect(url, **OPTIONS)
    try:
        await set_up(connection)
    except BaseException:
        connection.terminate()
        raise
    return connection


async def set_up(connection: asyncpg.Connection) -> None:
    """Make the settings of a new connection."""
    await connection.execute(_SETTINGS)


async def connect(url: str) -> asyncpg.Connection:
    """Open a connection, as `dial`. Unavailable when that fails."""
    try:
        return await dial(url)
    except DATABASE_ERRORS as error:
        raise translate_error(error) from error


def retry_delay(attempt: int) -> float:
    """Seconds to wait after so many attempts (1, 2, ...): a server that restarts is back within a second or two."""
    return 0.05 * float(2**attempt)


async def pause(seconds: float) -> None:
    """Wait before the database is asked again."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await asyncio.get_running_loop().create_future()


async def check(connection: asyncpg.Connection) -> None:
    """Raise Unavailable for a server that is too old, or that may lose what it has committed."""
    version = int(await connection.fetchval("SHOW server_version_num"))
    if version < OLDEST_SERVER:
        raise Unavailable(f"the server is PostgreSQL {version // 10_000}; Mayfly needs 15 or later")
    if await connection.fetchval("SELECT rolsuper FROM pg_roles WHERE rolname = current_user"):
        log.warning("the database is used as a superuser: give Mayfly a role of its own, which owns its database")
    for name in DURABILITY_SETTINGS:
        value = await connection.fetchval("SELECT current_setting($1)", name)
        if value not in ("on", "remote_write", "remote_apply"):
            raise Unavailable(f"the server has {name} = {value}: it would lose what it has committed")


def translate_error(error: BaseException) -> MayflyError:
    """The error for a client when a statement raised this one."""
    if isinstance(error, (asyncpg.DataCorruptedError, asyncpg.IndexCorruptedError)):
        return Corrupt(f"the database is damaged: {error}")
    if isinstance(error, asyncpg.DiskFullError):
        return OutOfSpace("the database's disk is full")
    text = str(error) or type(error).__name__
    return Unavailable(
        f"the database does not answer: {text}" if isinstance(error, CONNECTION_LOST) else f"the database: {text}"
    )
