"""Clients connect, find the one endpoint, and have sessions."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest

from mayflydb.announcement import StartFailed
from mayflydb.embedded import RunningServer, serve
from mayflydb.frontends.ydb.commands.discovery import HostAddress, reachable_address
from ydb_raw import connected

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
            await driver.wait(timeout=30, fail_fast=True)
            async with ydb.aio.QuerySessionPool(driver, size=2) as pool, pool.checkout() as session:
                assert session.session_id

    asyncio.run(run())


@pytest.mark.parametrize("database", ["/local", "/Root", "/local/"])
def test_databases_that_there_are(ydb_server: RunningServer, database: str) -> None:
    with ydb.Driver(endpoint=ydb_server.ydb.endpoint, database=database) as driver:
        driver.wait(timeout=30, fail_fast=True)


def test_the_port_with_tls_shows_a_certificate_for_every_name(ydb_server: RunningServer) -> None:
    authority = ydb_server.cosmos.ca_file.read_bytes()
    endpoint = ydb_server.ydb.tls_endpoint
    assert endpoint.startswith("grpcs://127.0.0.1:")
    for host in ("127.0.0.1", "localhost"):
        config = ydb.DriverConfig(endpoint.replace("127.0.0.1", host), "/local", root_certificates=authority)
        with ydb.Driver(config) as driver:
            driver.wait(timeout=30, fail_fast=True)
            [found] = ydb.DiscoveryEndpointsResolver(config).resolve().endpoints
            assert (found.ssl, found.port) == (True, int(endpoint.rpartition(":")[2]))


@pytest.mark.parametrize(
    ("peer", "place"),
    [
        ("ipv4:127.0.0.1:5", HostAddress("127.0.0.1")),
        ("ipv4:127.8.0.1:5", HostAddress("127.0.0.1")),
        ("ipv6:%5B::1%5D:5", HostAddress("localhost", "::1")),
        ("ipv6:[::ffff:127.0.0.1]:5", HostAddress("127.0.0.1")),
        ("unix:", HostAddress("127.0.0.1")),
        ("", HostAddress("127.0.0.1")),
    ],
)
def test_a_peer_is_told_an_address_that_it_can_reach(peer: str, place: HostAddress) -> None:
    assert reachable_address(peer) == place


def test_an_advertised_address_goes_before_all() -> None:
    with serve(memory=True, port=0, mongo_port=-1, ydb_advertise="db.test:9") as server:
        config = ydb.DriverConfig(server.ydb.endpoint, database="/local")
        [found] = ydb.DiscoveryEndpointsResolver(config).resolve().endpoints
        assert found.endpoint == "db.test:9"


def test_an_unknown_database_is_not_found(ydb_server: RunningServer) -> None:
    with connected(ydb_server.ydb.endpoint) as raw:
        operation = raw.ask("Ydb.Discovery.V1.DiscoveryService/ListEndpoints", database="/nowhere").operation
    assert (operation.status, operation.issues[0].message) == (400140, "Requested database not exists")


def test_a_port_that_is_taken_is_refused(ydb_server: RunningServer) -> None:
    port = int(ydb_server.ydb.endpoint.rpartition(":")[2])
    with (
        pytest.raises(StartFailed, match="is taken") as raised,
        serve(memory=True, port=0, mongo_port=-1, ydb_port=port),
    ):
        pass
    assert raised.value.setting == "ydb.port"
    # And whoever has it goes on.
    with ydb_server.ydb.driver():
        pass


def test_a_server_without_ydb_loads_nothing_of_it() -> None:
    program = (
        "import sys, mayflydb\n"
        "with mayflydb.serve(memory=True, port=0, mongo_port=-1, ydb_port=-1) as server:\n"
        "    assert server.ydb.endpoint == ''\n"
        "    assert server.announcement.ydb_endpoint is None\n"
        "assert not [name for name in sys.modules if name.partition('.')[0] in ('grpc', 'google')]\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
