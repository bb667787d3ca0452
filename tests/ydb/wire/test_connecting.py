"""Clients connect, find the one endpoint, and have sessions."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from mayflydb.embedded import RunningServer

ydb: Any = pytest.importorskip("ydb")


def test_a_driver_finds_the_address_that_it_used(ydb_server: RunningServer) -> None:
    config = ydb.DriverConfig(ydb_server.ydb.endpoint, database="/local")
    found = ydb.DiscoveryEndpointsResolver(config).resolve()
    assert [endpoint.endpoint for endpoint in found.endpoints] == [ydb_server.ydb.endpoint.removeprefix("grpc://")]
    assert [endpoint.node_id for endpoint in found.endpoints] == [1]
    assert found.self_location == found.endpoints[0].location


def test_a_session_of_the_table_service_is_made_kept_alive_and_deleted(ydb_driver: Any) -> None:
    session = ydb_driver.table_client.session().create()
    assert session.session_id.startswith("ydb://session/3?node_id=1&id=")
    session.keep_alive()
    session.delete()


def test_a_session_of_the_query_service_is_attached_as_long_as_it_lives(query_pool: Any) -> None:
    with query_pool.checkout() as session:
        first = session.session_id
    with query_pool.checkout() as session:
        assert session.session_id == first


def test_the_asynchronous_client_connects_from_a_loop_of_its_own(ydb_server: RunningServer) -> None:
    async def run() -> None:
        async with ydb.aio.Driver(endpoint=ydb_server.ydb.endpoint, database="/local") as driver:
            await driver.wait(timeout=5, fail_fast=True)
            async with ydb.aio.QuerySessionPool(driver, size=2) as pool, pool.checkout() as session:
                assert session.session_id

    asyncio.run(run())


@pytest.mark.parametrize("database", ["/local", "/Root", "/local/"])
def test_databases_that_there_are(ydb_server: RunningServer, database: str) -> None:
    with ydb.Driver(endpoint=ydb_server.ydb.endpoint, database=database) as driver:
        driver.wait(timeout=5, fail_fast=True)
