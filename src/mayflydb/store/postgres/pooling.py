"""Poolers such as PgBouncer between a node and its database.

A node needs sessions: settings, advisory locks and LISTEN belong to one. With PgBouncer in session mode each connection of a node
is a session. In its other modes several connections share one, transaction by transaction, and a node would break other
applications as well as itself.

https://www.pgbouncer.org/features.html
"""

from __future__ import annotations

from typing import Final

import asyncpg

from mayflydb.model.errors import Unavailable
from mayflydb.store.postgres.connection import DATABASE_ERRORS, OPTIONS, translate_error

_TRIES: Final = 3
"""Other clients of a pooler may take what this check would notice."""

_PROCESS: Final = "SELECT pg_backend_pid()"
_SHARED: Final = (
    "the connection is pooled by transactions or statements: connect to PostgreSQL itself, or by session pooling"
)


async def check_sessions(url: str) -> None:
    """Raise Unavailable where connections do not keep their session, or the database does not answer."""
    try:
        # Without names for statements, which belong to sessions too.
        first = await asyncpg.connect(url, statement_cache_size=0, **OPTIONS)
        try:
            second = await asyncpg.connect(url, statement_cache_size=0, **OPTIONS)
            try:
                shared = [await _is_shared(first, second) for _ in range(_TRIES)]
            finally:
                second.terminate()
        finally:
            first.terminate()
    except (asyncpg.InvalidSQLStatementNameError, asyncpg.DuplicatePreparedStatementError) as error:
        raise Unavailable(_SHARED) from error
    except DATABASE_ERRORS as error:
        if "pooling mode" in str(error):
            # PgBouncer's own words where BEGIN meets its pooling of statements.
            raise Unavailable(_SHARED) from error
        raise translate_error(error) from error
    if any(shared):
        raise Unavailable(_SHARED)


async def _is_shared(first: asyncpg.Connection, second: asyncpg.Connection) -> bool:
    """True if the two were seen with one process, or one of them with two."""
    before = await first.fetchval(_PROCESS)
    async with second.transaction():
        other = await second.fetchval(_PROCESS)
        after = await first.fetchval(_PROCESS)
    return bool(other == before or after != before)
