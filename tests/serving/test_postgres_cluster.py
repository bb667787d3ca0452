"""The PostgreSQL that tests run on: databases are apart, and what was committed outlives a crash."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest

from postgres_cluster import Cluster


@pytest.fixture(scope="module")
def own() -> Iterator[Cluster]:
    """One that may be killed without anybody else losing connections."""
    with Cluster() as cluster:
        yield cluster


def ask(url: str, *statements: str) -> list[Any]:
    """The first column of the last statement's rows."""

    async def main() -> list[Any]:
        connection = await asyncpg.connect(url, timeout=20)
        try:
            for statement in statements[:-1]:
                await connection.execute(statement)
            return [row[0] for row in await connection.fetch(statements[-1])]
        finally:
            await connection.close()

    return asyncio.run(main())


def test_a_fresh_database_is_empty_and_belongs_to_somebody_without_privileges(postgres: Cluster) -> None:
    url = postgres.fresh()
    assert ask(url, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'") == [0]
    assert ask(url, "SELECT current_user") == ["mayfly"]
    assert ask(url, "SELECT rolsuper OR rolcreatedb OR rolcreaterole FROM pg_roles WHERE rolname = current_user") == [
        False
    ]
    ask(url, "CREATE TABLE mine (a int)", "SELECT 1")


def test_two_fresh_databases_are_apart(postgres: Cluster) -> None:
    one, other = postgres.fresh(), postgres.fresh()
    assert ask(one, "CREATE TABLE t (a int)", "INSERT INTO t VALUES (1)", "SELECT a FROM t") == [1]
    with pytest.raises(asyncpg.UndefinedTableError):
        ask(other, "SELECT a FROM t")


def test_a_dropped_database_is_gone(postgres: Cluster) -> None:
    url = postgres.fresh()
    postgres.drop(url)
    with pytest.raises(asyncpg.InvalidCatalogNameError):
        ask(url, "SELECT 1")


def test_a_password_is_asked_for(postgres: Cluster) -> None:
    with pytest.raises(asyncpg.InvalidPasswordError):
        ask(postgres.fresh().replace("never-shown", "wrong"), "SELECT 1")


@pytest.mark.parametrize("setting", ["fsync", "full_page_writes", "synchronous_commit"])
def test_commits_reach_the_disk(postgres: Cluster, setting: str) -> None:
    assert ask(postgres.fresh(), f"SHOW {setting}") == ["on"]


@pytest.mark.parametrize("how", ["kill", "stop"])
def test_committed_rows_outlive_its_end(own: Cluster, how: str) -> None:
    url = own.fresh()
    ask(url, "CREATE TABLE t (a int)", "INSERT INTO t SELECT generate_series(1, 1000) RETURNING a")
    before = len(own.log())
    getattr(own, how)()
    with pytest.raises(ConnectionRefusedError):
        ask(url, "SELECT 1")
    own.start()
    assert ("automatic recovery in progress" in own.log()[before:]) is (how == "kill")
    assert ask(url, "SELECT count(*) FROM t") == [1000]


def test_nothing_is_left_of_a_closed_one() -> None:
    with Cluster() as cluster:
        url, directory = cluster.fresh(), cluster.directory
    assert not directory.exists()
    with pytest.raises(ConnectionRefusedError):
        ask(url, "SELECT 1")
