"""A Citus that runs elsewhere. MAYFLY_TEST_CITUS_URL is the URL of its coordinator, for its superuser: tests make databases."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from types import MappingProxyType
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

T = TypeVar("T")
NOTHING: Final[Mapping[int, int]] = MappingProxyType({})
URL = "MAYFLY_TEST_CITUS_URL"
ROLE = "mayfly"
SHARDS = 4
"""For each table: enough to be on all workers, few enough to be made quickly."""


def named() -> str | None:
    """The URL, if there is one."""
    return os.environ.get(URL)


class Citus:
    """Makes databases on all nodes; leaving the `with` block removes them."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._names = (f"mayfly_test_{os.getpid()}_{n}" for n in count(1))
        self._made: list[str] = []

    def __enter__(self) -> Citus:
        return self

    def __exit__(self, *_: object) -> None:
        for name in self._made:
            _run(self._everywhere(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)"))

    def fresh(self, through: Mapping[int, int] = NOTHING) -> str:
        """The URL of a new, empty database with the extension, for its owner: ROLE, who is no superuser.

        `through`: a worker's port -> the port of 127.0.0.1 by which the others reach it.
        """
        name = next(self._names)
        self._made.append(name)
        _run(self._make(name, through))
        return _changed(self._url, database=name, user=ROLE)

    def watching(self, url: str) -> str:
        """The superuser's URL of a database that `fresh` made."""
        return _changed(self._url, database=urlsplit(url).path.removeprefix("/"))

    @property
    def workers(self) -> list[tuple[str, int]]:
        """Hosts and ports."""
        return _run(self._nodes())[1:]

    async def _make(self, name: str, through: Mapping[int, int]) -> None:
        # Other processes make theirs at the same time, which template databases do not like.
        turn = await _connect(self._url)
        try:
            await turn.execute("SELECT pg_advisory_lock(1)")
            await self._made_everywhere(name, through)
        finally:
            await turn.close()

    async def _made_everywhere(self, name: str, through: Mapping[int, int]) -> None:
        role = f"DO $$ BEGIN IF to_regrole('{ROLE}') IS NULL THEN CREATE ROLE {ROLE} LOGIN; END IF; END $$"
        await self._everywhere(role)
        await self._everywhere(f"CREATE DATABASE {name} OWNER {ROLE}")
        await self._everywhere("CREATE EXTENSION citus", name)
        coordinator, *workers = await self._nodes()
        connection = await _connect(_changed(self._url, database=name))
        try:
            await connection.execute("SELECT citus_set_coordinator_host($1, $2)", *coordinator)
            for host, port in workers:
                place = ("127.0.0.1", through[port]) if port in through else (host, port)
                await connection.execute("SELECT citus_add_node($1, $2)", *place)
            await connection.execute(f"GRANT EXECUTE ON FUNCTION recover_prepared_transactions() TO {ROLE}")
            await connection.execute(f"ALTER DATABASE {name} SET citus.shard_count = {SHARDS}")
        finally:
            await connection.close()

    async def _nodes(self) -> list[tuple[str, int]]:
        """The coordinator, then the workers."""
        connection = await _connect(self._url)
        try:
            rows = await connection.fetch("SELECT nodename, nodeport FROM pg_dist_node WHERE groupid <> 0 ORDER BY 2")
        finally:
            await connection.close()
        parts = urlsplit(self._url)
        return [(parts.hostname or "localhost", parts.port or 5432), *(tuple(row) for row in rows)]

    async def _everywhere(self, statement: str, database: str | None = None) -> None:
        for host, port in await self._nodes():
            connection = await _connect(_changed(self._url, database=database), host=host, port=port)
            try:
                await connection.execute(statement)
            finally:
                await connection.close()


async def _connect(url: str, **place: Any) -> Any:
    # Loaded by tests that have a Citus: every run imports this module, and pure tests need no driver.
    import asyncpg

    return await asyncpg.connect(url, **place)


def _run(work: Coroutine[Any, Any, T]) -> T:
    # The caller may be inside an event loop.
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, work).result()


def _changed(url: str, database: str | None = None, user: str | None = None) -> str:
    parts = urlsplit(url)
    changes: dict[str, Any] = {}
    if database is not None:
        changes["path"] = f"/{database}"
    if user is not None:
        _, _, place = parts.netloc.rpartition("@")
        changes["netloc"] = f"{user}@{place}"
    return parts._replace(**changes).geturl()
