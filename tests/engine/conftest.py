"""An engine on each kind of store, over a clock that stands where a test puts it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from citus import Citus
from engine.site import Site
from postgres_cluster import Cluster
from store_suite.conftest import STORES


@pytest.fixture(scope="session")
def engine_database(postgres: Cluster) -> str:
    """The url of a PostgreSQL database for one test after the other."""
    return postgres.fresh()


@pytest.fixture(scope="session")
def engine_distributed(citus_cluster: Citus) -> str:
    """The same, with Citus."""
    return citus_cluster.fresh()


@pytest.fixture(params=["contract-reference", "contract-sqlite", "sqlite-file", "contract-postgres", "citus"])
def store(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def site(store: str, request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    def place(kind: str) -> str:
        if kind == "file":
            return str(tmp_path / "store.db")
        return str(request.getfixturevalue("engine_database" if kind == "postgres" else "engine_distributed"))

    with asyncio.Runner() as runner:
        site = Site(runner, runner.run(STORES[store](place)))  # type: ignore[arg-type]
        yield site
        site.close()
