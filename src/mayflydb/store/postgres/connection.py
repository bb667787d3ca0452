"""Connections to PostgreSQL, and the meaning of its errors."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import Any

import asyncpg

from mayflydb.model.errors import Corrupt, MayflyError, Unavailable

log = logging.getLogger(__name__)

DEADLINE = 5.0
"""Seconds to wait for a connection."""

STATEMENT_TIMEOUT_MS = 30_000
OLDEST_SERVER = 150_000
DURABILITY_SETTINGS = ("fsync", "full_page_writes", "synchronous_commit")
"""Settings that must be on: without them a commit may be lost, or half of it kept."""


class StaleRead(Exception):
    """A record is not as it was when the transaction read it."""


RETRYABLE = (asyncpg.SerializationError, asyncpg.DeadlockDetectedError, asyncpg.UniqueViolationError, StaleRead)
"""Errors after which nothing of the transaction happened and a second attempt may well succeed."""

CONNECTION_LOST = (
    OSError,
    asyncio.TimeoutError,
    asyncpg.PostgresConnectionError,
    asyncpg.InterfaceError,
    asyncpg.InternalClientError,
    asyncpg.AdminShutdownError,
    asyncpg.CrashShutdownError,
    asyncpg.CannotConnectNowError,
    asyncpg.TooManyConnectionsError,
)
"""Errors of a database that is away, or has closed this connection."""

DATABASE_ERRORS = (*CONNECTION_LOST, StaleRead, asyncpg.PostgresError)
"""Every error that a statement may raise."""


def options() -> dict[str, Any]:
    """The settings of each connection."""
    settings = {
        "application_name": "mayfly",
        "statement_timeout": str(STATEMENT_TIMEOUT_MS),
        # A node that hangs must not keep its row locks: other nodes wait for them.
        "idle_in_transaction_session_timeout": str(STATEMENT_TIMEOUT_MS),
        "jit": "off",
        # All joins are of a list of keys with an index. Other kinds of joins would read whole tables.
        "enable_hashjoin": "off",
        "enable_mergejoin": "off",
    }
    return {"timeout": DEADLINE, "command_timeout": STATEMENT_TIMEOUT_MS / 1000 + DEADLINE, "server_settings": settings}


async def dial(url: str) -> asyncpg.Connection:
    """Open a connection; errors as the driver raises them (DATABASE_ERRORS)."""
    return await asyncpg.connect(url, **options())


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
        return Unavailable("the database's disk is full")
    text = str(error) or type(error).__name__
    return Unavailable(
        f"the database does not answer: {text}" if isinstance(error, CONNECTION_LOST) else f"the database: {text}"
    )
