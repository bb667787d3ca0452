"""Nodes that are stopped or killed: others wait for no more than their lease, and where their end is certain, not at all."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from time import monotonic
from unittest.mock import patch

import pytest

from mayflydb.engine.commands import Command, Draft, Mode
from mayflydb.model.instant import SECOND
from mayflydb.store.postgres import PostgresStore, membership, processes
from mayflydb.store.postgres.connection import IDLE_TIMEOUT_MS
from nodes import paused_node
from nodes.crew import PATIENCE, admin, container, crew, since, until
from nodes.paused_node import COUNTER, PARTITION, Counting
from postgres_cluster import ROLE, Cluster


@asynccontextmanager
async def child(url: str, id: int, what: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A node that has joined; killed at the end."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(paused_node.__file__)),
        url,
        str(id),
        what,
        stdout=asyncio.subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    try:
        assert await process.stdout.readline() == b"joined\n"
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


def test_nobody_waits_for_a_paused_node_longer_than_its_lease(postgres: Cluster, figure: Callable[[str], None]) -> None:
    """It is stopped while it has a container locked. When it goes on, its write is made, once."""

    async def check() -> None:
        url = postgres.fresh()
        async with crew(url, 1) as (member,), admin(postgres, url) as watch:
            id = await container(member)
            await member.engine.write(id, Command(Mode.CREATE, PARTITION, COUNTER, Draft(b"0")), 0)
            async with child(url, id, "stop") as process:
                assert process.stdout is not None
                assert await process.stdout.readline() == b"locked\n"
                began = monotonic()
                assert (await member.store.write(Counting(id).decide)).reply == 1
                waited = since(began)
                session = await watch.value(f"SELECT session FROM mayfly.node WHERE id = {member.number}")
                theirs = (
                    f"SELECT (SELECT count(*) FROM mayfly.node WHERE id <> {member.number}) + (SELECT count(*)"
                    f" FROM pg_stat_activity WHERE usename = '{ROLE}' AND application_name <> '{session}'"
                    " AND datname = current_database())"
                )

                async def forgotten() -> bool:
                    return not await watch.value(theirs)

                await until(forgotten)
                process.send_signal(signal.SIGCONT)
                assert await process.stdout.readline() == b"2\n"
            assert 1 < waited < membership.LEASE / SECOND
            figure(f"a write waited {waited:.1f} s for a node that is stopped")

    assert IDLE_TIMEOUT_MS * 1_000 < membership.LEASE
    asyncio.run(asyncio.wait_for(check(), 2 * PATIENCE))


@pytest.mark.skipif(processes.own_process() is None, reason="the system does not say when a process started")
def test_a_node_whose_process_has_ended_keeps_nobody_waiting(postgres: Cluster) -> None:
    async def check() -> None:
        url = postgres.fresh()
        async with crew(url, 1) as (member,):
            id = await container(member)
        async with child(url, id, "wait") as process:
            process.kill()
            await process.wait()
        # Its row is fresh, and this node wants to be alone.
        await (await PostgresStore.open(url, alone=True)).close()

    with patch.object(membership, "LEASE", 1_000 * SECOND):
        asyncio.run(asyncio.wait_for(check(), PATIENCE))


@pytest.mark.skipif(processes.own_process() is None, reason="the system does not say when a process started")
def test_only_a_process_of_this_host_is_known_to_have_ended() -> None:
    own = processes.own_process()
    assert own is not None
    place, pid, started = own.rsplit(":", 2)
    rows = {
        own: False,
        f"{place}:{pid}:{int(started) + 1}": True,  # The id was given to another process.
        f"{place}:{2**22 + 1}:{started}": True,
        f"another-boot:1:{2**22 + 1}:{started}": False,
        f"{place}0:{2**22 + 1}:{started}": False,  # Another container on this host.
        f"{place}:x:{started}": False,
        "": False,
    }
    assert {name: processes.has_ended(name) for name in rows} == rows
