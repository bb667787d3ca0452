"""After a restore, what was read before it is refused in the protocol's own words: nothing is left out in silence."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from azure.cosmos import ContainerProxy, PartitionKey
from azure.cosmos.exceptions import CosmosHttpResponseError
from pymongo import MongoClient
from pymongo.errors import CursorNotFound, OperationFailure

from mayflydb.embedded import RunningServer, serve
from served import START, Http, port_of


@pytest.fixture
def restore(http: Http) -> Iterator[Callable[[], None]]:
    yield lambda: http.post("snapshots/feeds/restore") and None
    http("DELETE", "/_mayfly/snapshots/feeds")


@pytest.fixture
def mongo(server: RunningServer, http: Http) -> Iterator[MongoClient[dict[str, Any]]]:
    with server.mongo.client() as client:
        yield client


def read_feed(container: ContainerProxy, **options: Any) -> tuple[list[str], str]:
    pages = container.query_items_change_feed(**options)
    return [item["id"] for item in pages], container.client_connection.last_response_headers["etag"]


def item(id: str) -> dict[str, Any]:
    return {"id": id, "userId": "u1"}


def test_a_change_feed_of_before_is_refused(sessions: ContainerProxy, http: Http, restore: Callable[[], None]) -> None:
    _, first = read_feed(sessions, start_time="Beginning")
    http("PUT", "/_mayfly/snapshots/feeds")
    sessions.create_item(item("undone"))
    found, undone = read_feed(sessions, continuation=first)
    assert found == ["undone"]
    for _ in range(2):
        restore()
        sessions.upsert_item(item("new"))
        for old in (first, undone):
            with pytest.raises(CosmosHttpResponseError) as refused:
                read_feed(sessions, continuation=old)
            assert (refused.value.status_code, "restored" in refused.value.message) == (400, True)
        # A feed that begins anew goes on, in pages of which each has an etag of old changes.
        everything, _ = read_feed(sessions, start_time="Beginning", max_item_count=1)
        assert "new" in everything and "undone" not in everything and len(everything) > 2
        # So does one of the first restore, until the second.
        first = undone = read_feed(sessions, start_time="Beginning")[1]
        sessions.upsert_item(item("newer"))
        assert read_feed(sessions, continuation=first)[0] == ["newer"]


def test_a_query_of_before_is_refused(sessions: ContainerProxy, http: Http, restore: Callable[[], None]) -> None:
    http("PUT", "/_mayfly/snapshots/feeds")

    def ask(token: str | None = None) -> Any:
        pages: Any = sessions.query_items("SELECT * FROM c", partition_key="u1", max_item_count=1).by_page(token)
        return list(next(pages)), pages.continuation_token

    _, token = ask()
    assert ask(token)[0]
    restore()
    with pytest.raises(CosmosHttpResponseError) as refused:
        ask(token)
    assert refused.value.status_code == 400
    _, token = ask()
    assert ask(token)[0]


def test_a_change_stream_of_before_is_lost(
    mongo: MongoClient[dict[str, Any]], http: Http, restore: Callable[[], None]
) -> None:
    things = mongo.app.things
    things.insert_one({"_id": 0})
    with things.watch() as early:
        things.insert_one({"_id": 1})
        kept = next(early)["_id"]
        http("PUT", "/_mayfly/snapshots/feeds")
        things.insert_one({"_id": "undone"})
        undone = next(early)["_id"]
        restore()
        things.insert_one({"_id": 2})
        with pytest.raises(OperationFailure) as lost:
            next(early)
    assert lost.value.code == 286
    for token in (kept, undone):
        with pytest.raises(OperationFailure) as lost, things.watch(resume_after=token) as stream:
            next(stream)
        assert (lost.value.code, lost.value.has_error_label("NonResumableChangeStreamError")) == (286, True)
    # A token of another collection's stream is another mistake.
    with pytest.raises(OperationFailure) as lost, mongo.app.others.watch(resume_after=kept) as stream:
        next(stream)
    assert lost.value.code == 260
    with things.watch() as fresh:
        things.insert_one({"_id": 3})
        token = next(fresh)["_id"]
    things.insert_one({"_id": 4})
    with things.watch(resume_after=token) as again:
        assert next(again)["documentKey"] == {"_id": 4}


def test_a_cursor_of_before_is_gone(
    mongo: MongoClient[dict[str, Any]], http: Http, restore: Callable[[], None]
) -> None:
    things = mongo.app.things
    things.insert_many([{"_id": number} for number in range(10)])
    http("PUT", "/_mayfly/snapshots/feeds")
    with things.find(batch_size=2) as cursor:
        assert next(cursor) == {"_id": 0}
        restore()
        with pytest.raises(CursorNotFound):
            list(cursor)
    assert len(list(things.find(batch_size=2))) == 10


def test_the_number_of_restores_outlives_the_process(file: Any) -> None:
    given: dict[str, Any] = {"port": 0, "mongo_port": -1, "ydb_port": -1, "ydb_tls_port": -1}
    etags: list[str] = []
    for _ in range(2):
        with serve(file, clock="virtual", clock_start=START, **given) as server:
            container = (
                server.cosmos.client()
                .create_database_if_not_exists("shop")
                .create_container_if_not_exists(
                    "c",
                    partition_key=PartitionKey("/userId"),
                )
            )
            http = Http(port_of(server))
            container.upsert_item(item("a"))
            if not etags:
                http("PUT", "/_mayfly/snapshots/feeds")
                http.post("snapshots/feeds/restore")
                etags.append(read_feed(container, start_time="Beginning")[1])
                container.upsert_item(item("b"))
            else:
                assert read_feed(container, continuation=etags[0])[0]
                http.post("snapshots/feeds/restore")
                with pytest.raises(CosmosHttpResponseError):
                    read_feed(container, continuation=etags[0])
