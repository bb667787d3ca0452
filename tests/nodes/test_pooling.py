"""Behind PgBouncer: a node works by session pooling, and refuses the other modes by name. Needs the program `pgbouncer`."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from mayflydb.engine import selftest
from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.model.errors import Unavailable
from mayflydb.store.postgres import PostgresStore
from mayflydb.store.postgres.connection import IDLE_TIMEOUT_MS
from nodes.crew import Member, container, crew, until
from postgres_cluster import PASSWORD, ROLE, Cluster, _account, _free_port

PROGRAM = shutil.which("pgbouncer", path=os.environ.get("PATH", os.defpath) + ":/usr/sbin")
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="pgbouncer is not installed")

SETTINGS = """
[databases]
{name} = host=127.0.0.1 port={there}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = plain
auth_file = {directory}/users
pool_mode = {mode}
default_pool_size = 40
"""


@contextmanager
def pooled(url: str, mode: str, directory: Path) -> Iterator[str]:
    """The URL by which PgBouncer reaches the database of that URL."""
    assert PROGRAM is not None
    parts, port = urlsplit(url), _free_port()
    for place in (directory, *list(directory.parents)[:3]):
        place.chmod(0o755)
    (directory / "users").write_text(f'"{ROLE}" "{PASSWORD}"\n', encoding="ascii")
    name = parts.path.removeprefix("/")
    settings = SETTINGS.format(name=name, there=parts.port, port=port, directory=directory, mode=mode)
    (directory / "pgbouncer.ini").write_text(settings, encoding="ascii")
    program = subprocess.Popen(
        [PROGRAM, "-q", str(directory / "pgbouncer.ini")], stderr=subprocess.DEVNULL, cwd="/", **_account()
    )
    try:
        yield f"postgresql://{ROLE}:{PASSWORD}@127.0.0.1:{port}/{name}"
    finally:
        program.kill()
        program.wait()


async def opened(url: str) -> PostgresStore:
    """Open a store as soon as PgBouncer listens."""

    async def attempt() -> PostgresStore | None:
        try:
            return await PostgresStore.open(url)
        except Unavailable as error:
            if "Connect" in str(error) or "refused" in str(error):
                return None
            raise

    store = await until(attempt)
    assert store is not None
    return store


@pytest.mark.parametrize("mode", ["transaction", "statement"])
def test_pooling_by_less_than_sessions_is_refused(mode: str, postgres: Cluster, tmp_path: Path) -> None:
    async def check() -> None:
        url = postgres.fresh()
        with pooled(url, mode, tmp_path) as through:
            with pytest.raises(Unavailable, match="pooled by transactions or statements"):
                await opened(through)
            locks = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"
            assert postgres.sql(locks) == "0"
            # The next node does not find a connection on which something was left.
            await (await PostgresStore.open(url)).close()

    asyncio.run(check())


def test_pooling_by_sessions_is_as_without(postgres: Cluster, tmp_path: Path) -> None:
    async def check() -> None:
        url = postgres.fresh()
        with pooled(url, "session", tmp_path) as through:
            await (await opened(through)).close()
            async with crew(through, 2) as (first, second):
                await selftest.prove(first.engine)
                id = await container(first)
                await first.engine.write(id, Command(Mode.CREATE, b"p", b"k", Draft(b"v")), 0)
                assert await second.get(id, b"p", b"k") is not None
                assert await idle_timeout(first) == f"{IDLE_TIMEOUT_MS // 1000}s"
            assert postgres.sql("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == "0"

    asyncio.run(check())


async def idle_timeout(member: Member) -> str:
    async with member.store._pool.acquire() as connection:
        return str(await connection.fetchval("SHOW idle_in_transaction_session_timeout"))
