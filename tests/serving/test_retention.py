"""A reader from before what is kept gets the error of its protocol, over a server's limits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from azure.cosmos import PartitionKey
from azure.cosmos.exceptions import CosmosHttpResponseError
from pymongo.errors import OperationFailure

import mayflydb
from mayflydb.embedded import RunningServer
from mayflydb.model.errors import BadRequest
from served import START

KEPT = 3


@pytest.fixture
def server() -> Iterator[RunningServer]:
    # One event more, of the test that a server makes of its store when it starts.
    with mayflydb.serve(
        memory=True,
        port=0,
        mongo_port=0,
        ydb_port=-1,
        ydb_tls_port=-1,
        clock="virtual",
        clock_start=START,
        event_limit=KEPT + 1,
        history_limit=KEPT,
    ) as server:
        yield server


def tidy(server: RunningServer) -> None:
    async def once() -> None:
        engine = server._admin.engine
        housekeeping = engine.reaper._housekeeping
        housekeeping._forgotten_at = -(10**18)  # Otherwise it looks once a minute.
        while await housekeeping.forget_old(await engine.now()):
            pass

    server._home.call(once())


def test_expiry_events(server: RunningServer) -> None:
    container = (
        server.cosmos.client()
        .create_database("shop")
        .create_container("c", partition_key=PartitionKey("/id"), default_ttl=10)
    )
    for number in range(KEPT):
        container.create_item({"id": str(number)})
    server.clock.advance(seconds=10)
    assert [event.id for event in server.events.expired] == ["0", "1", "2"]
    # However far it is moved, a virtual clock takes no event away.
    server.clock.advance(days=400)
    assert len(server.events.expired) == KEPT
    container.create_item({"id": "3"})
    server.clock.advance(seconds=10)
    for _ in range(2):
        with pytest.raises(BadRequest, match="after number 0 are no longer kept"):
            _ = server.events.expired
        tidy(server)


def test_a_change_stream(server: RunningServer) -> None:
    with server.mongo.client() as client:
        documents = client["shop"]["c"]
        with documents.watch() as stream:
            documents.insert_one({"_id": 0})
            token = stream.next()["_id"]
        documents.insert_many([{"_id": number} for number in range(1, 3)])
        tidy(server)
        with documents.watch(resume_after=token) as stream:
            assert [stream.next()["documentKey"]["_id"] for _ in range(2)] == [1, 2]
        documents.insert_many([{"_id": number} for number in range(3, 9)])
        tidy(server)
        with pytest.raises(OperationFailure) as error, documents.watch(resume_after=token) as stream:
            stream.next()
        assert error.value.code == 286


def test_a_change_feed(server: RunningServer) -> None:
    options: dict[str, Any] = {"change_feed_policy": {"retentionDuration": 10}}
    database = server.cosmos.client().create_database("shop")
    container = database.create_container("c", PartitionKey("/id"), **options)
    feed: dict[str, Any] = {"mode": "AllVersionsAndDeletes"}
    list(container.query_items_change_feed(**feed))
    mark = container.client_connection.last_response_headers["etag"]
    for number in range(KEPT):
        container.create_item({"id": str(number)})
    tidy(server)
    assert len(list(container.query_items_change_feed(continuation=mark, **feed))) == KEPT
    container.create_item({"id": "3"})
    tidy(server)
    with pytest.raises(CosmosHttpResponseError) as error:
        list(container.query_items_change_feed(continuation=mark, **feed))
    assert error.value.status_code == 400
