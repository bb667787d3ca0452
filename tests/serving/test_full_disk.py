"""A server over a file whose disk is full: reads and deletes go on, other writes are refused in each protocol's words."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest
import ydb
from azure.cosmos import PartitionKey
from azure.cosmos.exceptions import CosmosHttpResponseError
from pymongo.errors import OperationFailure

import mayflydb
from mayflydb.embedded import RunningServer
from postgres_cluster import Cluster
from served import START, Http, port_of

FULL = "99999999GB"
"""A limit that no disk has free."""

TTL = 100
"""Seconds, of the items."""


def fill_shop(server: RunningServer, ttl: int) -> None:
    """Write two records of each protocol. `ttl`: of Cosmos DB's container."""
    database = server.cosmos.client().create_database("shop")
    container = database.create_container("c", partition_key=PartitionKey("/id"), default_ttl=ttl)
    with server.mongo.client() as client:
        for id in ("1", "2"):
            container.create_item({"id": id})
            client["shop"]["c"].insert_one({"_id": id})
    with server.ydb.driver() as driver, ydb.QuerySessionPool(driver) as pool:
        pool.execute_with_retries("CREATE TABLE c (id Utf8 NOT NULL, PRIMARY KEY (id))")
        pool.execute_with_retries("UPSERT INTO c (id) VALUES ('1'u), ('2'u)")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file with two records of each protocol."""
    path = tmp_path / "x.db"
    with mayflydb.serve(path, port=0, storage_reserve="1MiB", clock="virtual", clock_start=START) as server:
        fill_shop(server, TTL)
    return path


@pytest.fixture
def server(file: Path) -> Iterator[RunningServer]:
    with mayflydb.serve(file, port=0, storage_reserve="1MiB", storage_min_free=FULL, clock="virtual") as server:
        yield server


def refused(server: RunningServer) -> int:
    text = Http(port_of(server))("GET", "/metrics").body.decode()
    return int(text.rpartition("mayfly_disk_refused_writes_total ")[2].split()[0])


def test_cosmos(server: RunningServer) -> None:
    container = server.cosmos.client().get_database_client("shop").get_container_client("c")
    before = refused(server)
    for write in (container.create_item, container.upsert_item):
        with pytest.raises(CosmosHttpResponseError) as error:
            write({"id": "3"})
        assert (error.value.status_code, error.value.sub_status) == (403, 1014)
        assert "disk of the store is full" in str(error.value)
    # Each once: the client does not repeat it.
    assert refused(server) == before + 2
    container.delete_item("1", "1")
    assert [item["id"] for item in container.read_all_items()] == ["2"]
    ready = Http(port_of(server)).get("ready")
    assert ready["ready"] and ready["disk"].startswith("full: ")
    # What is due is purged, and hidden meanwhile.
    server.clock.advance(seconds=TTL)
    assert list(container.read_all_items()) == []
    assert [event.id for event in server.events.expired] == ["2"]


def test_a_shorter_life_makes_room(server: RunningServer) -> None:
    database = server.cosmos.client().get_database_client("shop")
    database.replace_container("c", PartitionKey("/id"), default_ttl=1)
    with pytest.raises(CosmosHttpResponseError) as error:
        database.create_container("d", PartitionKey("/id"))
    assert (error.value.status_code, error.value.sub_status) == (403, 1014)
    database.delete_container("c")
    assert list(database.list_containers()) == []


def test_mongo(server: RunningServer) -> None:
    before = refused(server)
    with server.mongo.client() as client:
        documents = client["shop"]["c"]
        writes: tuple[Any, ...] = (
            lambda: documents.insert_one({"_id": "3"}),
            lambda: documents.update_one({"_id": "1"}, {"$set": {"a": 1}}),
        )
        for write in writes:
            with pytest.raises(OperationFailure) as error:
                write()
            assert error.value.code == 14031
            assert not error.value.has_error_label("RetryableWriteError")
        assert refused(server) == before + 2
        # A retryable write, whose outcome is stored with it.
        assert documents.delete_one({"_id": "1"}).deleted_count == 1
        assert [document["_id"] for document in documents.find()] == ["2"]
        assert documents.delete_many({}).deleted_count == 1


def test_ydb(server: RunningServer) -> None:
    with server.ydb.driver() as driver, ydb.QuerySessionPool(driver) as pool:
        once = ydb.RetrySettings(max_retries=0)
        with pytest.raises(ydb.issues.Overloaded, match="disk of the store is full"):
            pool.execute_with_retries("UPSERT INTO c (id) VALUES ('3'u)", retry_settings=once)
        pool.execute_with_retries("DELETE FROM c WHERE id = '1'u")
        (result,) = pool.execute_with_retries("SELECT id FROM c")
        assert [row.id for row in result.rows] == ["2"]


def test_a_new_file_on_a_full_disk_is_served_without_writes(tmp_path: Path) -> None:
    with mayflydb.serve(tmp_path / "x.db", port=0, storage_reserve=0, storage_min_free=FULL) as server:
        client = server.cosmos.client()
        assert list(client.list_databases()) == []
        with pytest.raises(CosmosHttpResponseError) as error:
            client.create_database("shop")
        assert (error.value.status_code, error.value.sub_status) == (403, 1014)


# A statement finds the disk full, or COMMIT does.
FULL_AT = {
    "write": "CREATE TRIGGER filled BEFORE INSERT ON mayfly.record",
    "commit": "CREATE CONSTRAINT TRIGGER filled AFTER INSERT ON mayfly.record INITIALLY DEFERRED FOR EACH ROW",
}
FILL = """
CREATE OR REPLACE FUNCTION mayfly.fill() RETURNS trigger AS $$ BEGIN
  RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full';
END $$ LANGUAGE plpgsql;
"""


@contextmanager
def filled(url: str, moment: str) -> Iterator[None]:
    """The disk of a database is full."""

    async def run(statements: str) -> None:
        connection = await asyncpg.connect(url)
        await connection.execute(statements)
        await connection.close()

    asyncio.run(run(f"{FILL}{FULL_AT[moment]} EXECUTE FUNCTION mayfly.fill()"))
    try:
        yield
    finally:
        asyncio.run(run("DROP TRIGGER filled ON mayfly.record"))


@pytest.fixture(scope="module")
def shared(postgres: Cluster) -> Iterator[tuple[str, RunningServer]]:
    """A database and a server over it, with two records of each protocol."""
    url = postgres.fresh()
    with mayflydb.serve(storage=url, port=0) as server:
        fill_shop(server, -1)
        yield url, server


@pytest.mark.parametrize("moment", FULL_AT)
def test_cosmos_over_a_database(shared: tuple[str, RunningServer], moment: str) -> None:
    """An error of the database before its commit: nothing was done, and reads and deletes go on."""
    url, server = shared
    container = server.cosmos.client().get_database_client("shop").get_container_client("c")
    container.upsert_item({"id": "1"})
    with filled(url, moment):
        with pytest.raises(CosmosHttpResponseError) as error:
            container.create_item({"id": "3"})
        assert (error.value.status_code, error.value.sub_status) == (403, 1014)
        container.delete_item("1", "1")
        assert [item["id"] for item in container.read_all_items()] == ["2"]
    container.create_item({"id": "3"})
    container.delete_item("3", "3")


@pytest.mark.parametrize("moment", FULL_AT)
def test_mongo_over_a_database(shared: tuple[str, RunningServer], moment: str) -> None:
    url, server = shared
    with server.mongo.client() as client:
        documents = client["shop"]["c"]
        documents.update_one({"_id": "1"}, {"$set": {"a": 1}}, upsert=True)
        with filled(url, moment):
            with pytest.raises(OperationFailure) as error:
                documents.insert_one({"_id": "3"})
            assert error.value.code == 14031
            assert not error.value.has_error_label("RetryableWriteError")
            assert documents.delete_one({"_id": "1"}).deleted_count == 1
            assert [document["_id"] for document in documents.find()] == ["2"]
        documents.insert_one({"_id": "3"})
        documents.delete_one({"_id": "3"})


@pytest.mark.parametrize("moment", FULL_AT)
def test_ydb_over_a_database(shared: tuple[str, RunningServer], moment: str) -> None:
    url, server = shared
    with server.ydb.driver() as driver, ydb.QuerySessionPool(driver) as pool:
        pool.execute_with_retries("UPSERT INTO c (id) VALUES ('1'u)")
        with filled(url, moment):
            once = ydb.RetrySettings(max_retries=0)
            with pytest.raises(ydb.issues.Overloaded, match="disk is full"):
                pool.execute_with_retries("UPSERT INTO c (id) VALUES ('3'u)", retry_settings=once)
            pool.execute_with_retries("DELETE FROM c WHERE id = '1'u")
            (result,) = pool.execute_with_retries("SELECT id FROM c")
            assert [row.id for row in result.rows] == ["2"]
        pool.execute_with_retries("UPSERT INTO c (id) VALUES ('3'u)")
        pool.execute_with_retries("DELETE FROM c WHERE id = '3'u")
