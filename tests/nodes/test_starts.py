"""Nodes that start: at the same time, on an empty database, after one that was killed while it started."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch
from urllib.parse import urlsplit

import pytest

from mayflydb.engine import selftest
from mayflydb.engine.catalog import ROOT
from mayflydb.engine.purge_decision import purge_due
from mayflydb.expiry.sweep import PurgeRequest
from mayflydb.store import postgres_urls
from mayflydb.store.interface import ChildRows
from mayflydb.store.postgres import membership
from nodes.crew import Member, container, crew, together
from nodes.test_processes import OnPostgres
from postgres_cluster import PASSWORD, ROLE, Cluster

NODES, TURNS = 3, 5


def test_an_empty_database_is_prepared_once(postgres: Cluster) -> None:
    async def check() -> None:
        url = postgres.fresh()
        members = await asyncio.gather(*(Member.open(url) for _ in range(NODES)))
        assert len({member.number for member in members}) == NODES
        id = await container(members[0])
        for member in members:
            assert (await member.node(id)).name == "c"
            await member.close()

    asyncio.run(check())


def test_nodes_prove_their_store_at_the_same_time(postgres: Cluster) -> None:
    """Each finds that it can write, read and purge, and leaves nothing behind; the reapers of all of them are at work."""

    async def check() -> None:
        async with crew(postgres.fresh(), NODES) as members:
            for member in members:
                member.reap()
            for _ in range(TURNS):
                await together(*(selftest.prove(member.engine) for member in members))
            assert await members[0].store.read(ChildRows(ROOT)) == []

    asyncio.run(check())


def test_another_node_may_purge_first(postgres: Cluster) -> None:
    """What the proof writes is purged by another node's reaper before its own purge."""

    async def check() -> None:
        async with crew(postgres.fresh(), 2) as (first, second):
            purged: list[int] = []

            async def purge_before() -> None:
                (space,) = await second.store.read(ChildRows(ROOT))
                (here,) = await second.store.read(ChildRows(space.id))
                now = await second.engine.now()
                request = PurgeRequest(now, now, "sweep")
                done = await second.store.write(
                    lambda: purge_due(second.engine.nodes, here.id, 9, request, shared=True), "sweep"
                )
                purged.append(sum(each.records for each in done.purged))

            get = first.engine.get

            async def late(*arguments: Any) -> Any:
                found = await get(*arguments)
                if found is None:
                    await purge_before()
                return found

            with patch.object(first.engine, "get", late):
                await selftest.prove(first.engine)
            assert purged == [1]

    asyncio.run(check())


def test_a_node_that_was_killed_in_its_proof_is_in_nobody_s_way(postgres: Cluster) -> None:
    class Killed(BaseException):
        """Nothing that comes after it is done."""

    async def check() -> None:
        async with crew(postgres.fresh(), 2) as (first, second):

            def killed(*_: object) -> Coroutine[Any, Any, None]:
                raise Killed

            engine = first.engine
            with (
                patch.object(engine, "get", killed),
                patch.object(engine.definitions, "drop", killed),
                pytest.raises(Killed),
            ):
                await selftest.prove(engine)
            await first.die()
            with patch.object(membership, "LEASE", 1):
                await selftest.prove(second.engine)
            assert await second.store.read(ChildRows(ROOT)) == []

    asyncio.run(check())


def test_urls_of_libpq_reach_the_database(postgres: Cluster) -> None:
    """Directories of sockets, and lists of hosts of which the first does not answer."""

    async def check() -> None:
        parts = urlsplit(postgres.fresh())
        login, database = f"{ROLE}:{PASSWORD}", parts.path
        for url in (
            f"postgresql://{login}@{database}?host={postgres.directory}&port={parts.port}",
            f"postgresql://{login}@127.0.0.1:1,127.0.0.1:{parts.port}{database}",
            f"postgresql://{login}@{database}?host=127.0.0.1,{postgres.directory}&port=1,{parts.port}",
            f"postgresql://{login}@127.0.0.1:{parts.port}{database}?target_session_attrs=read-write",
        ):
            member = await Member.open(postgres_urls.parse(url).for_driver)
            await selftest.prove(member.engine)
            await member.close()

    asyncio.run(check())


def test_servers_start_at_the_same_time(postgres: Cluster, tmp_path: Path) -> None:
    url = postgres.fresh()
    with ExitStack() as stack, ThreadPoolExecutor(NODES) as threads:
        servers = [stack.enter_context(OnPostgres(tmp_path / str(n), url)) for n in range(NODES)]
        for started in [threads.submit(server.start) for server in servers]:
            started.result()
        assert len({server.port for server in servers}) == NODES
