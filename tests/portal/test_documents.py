"""The page of a collection of MongoDB: its TTL indexes, its documents, and those whose own ttl does not count."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pymongo import MongoClient

from mayflydb.embedded import RunningServer
from portal.visitor import Page
from served import Http, port_of

pytestmark = pytest.mark.parametrize("store", ["memory"], indirect=True, scope="session")

HTML = "text/html,application/xhtml+xml"
BASE = "/_explorer/mongo/app/otps"


@pytest.fixture
def http(server: RunningServer) -> Http:
    return Http(port_of(server))


@pytest.fixture
def client(server: RunningServer) -> Iterator[MongoClient[dict[str, Any]]]:
    with server.mongo.client() as client:
        yield client


@pytest.fixture
def otps(client: MongoClient[dict[str, Any]], server: RunningServer) -> Any:
    otps = client.app.otps
    otps.create_index("_ts", expireAfterSeconds=30)
    otps.create_index("at", expireAfterSeconds=5400)
    otps.insert_many(
        [
            {"_id": "<one>"},
            {"_id": 2, "ttl": 20.5},
            {"_id": "dated", "ttl": -1, "at": server.clock.now()},
        ]
    )
    return otps


def page(http: Http, address: str = f"{BASE}/documents") -> Page:
    return Page(http("GET", address, accept=HTML))


def test_what_the_page_shows(http: Http, otps: Any) -> None:
    shown = page(http)
    assert shown.status == 200
    assert shown.text("mf-ttl-indexes") == "_ts_1: 30 s after the last write at_1: 1 h 30 min after a date"
    assert shown.text("mf-ignored-ttl").endswith("2 20.5 20.5 is no whole number; the index's 30 s count")
    assert "&lt;one&gt;" in shown.source and "<one>" not in shown.source
    grid = shown.text("DocumentsTab/DocumentsPane")
    assert '2030-01-01T00:00:00Z"} 1 h 30 min 2030-01-01 01:30:00Z index at_1 (5400 s)' in grid
    assert "20.5 is no whole number; the index's 30 s count" in grid
    assert "Next pass: 2030-01-01 00:01:00Z" in shown.source


def test_its_twin(http: Http, otps: Any) -> None:
    twin = json.loads(http("GET", f"{BASE}/documents.json").body)
    assert twin["collection"] == http.get("ttl")["targets"][0]
    assert [(row["id"], row["expires_in"]) for row in twin["documents"]] == [
        ("<one>", "30 s"),
        ("2", "30 s"),
        ("dated", "1 h 30 min"),
    ]
    assert [row["id"] for row in twin["ignored"]] == ["2"] and twin["all_read"]


def test_where_it_is_found(http: Http, otps: Any) -> None:
    shown = page(http, "/_explorer/")
    assert shown.text("TreeNode:app/otps/Documents") == "Documents"
    assert shown.source.count(f'href="{BASE}/documents"') == 3
    assert "_ts_1: 30 s after the last write, at_1: 1 h 30 min after a date" in shown.source
    assert page(http, "/_explorer/mongo/app/none/documents").status == 404


def test_a_pass_at_once(http: Http, server: RunningServer, otps: Any) -> None:
    """What has died between two passes, and is shown until then, goes."""
    otps.insert_one({"_id": "late", "ttl": -1, "at": server.clock.now()})
    server.clock.advance(seconds=5400, sweep="none")
    assert [each["_id"] for each in otps.find()] == ["dated", "late"]
    answer = http("POST", f"{BASE}/pass", b"", content_type="application/x-www-form-urlencoded")
    assert (answer.status, answer.headers["location"]) == (303, f"{BASE}/documents")
    assert "4%20purged" in answer.headers["set-cookie"]
    assert list(otps.find()) == []


def test_pages_of_a_hundred(http: Http, client: MongoClient[dict[str, Any]]) -> None:
    client.app.many.insert_many([{"_id": n} for n in range(101)])
    address = "/_explorer/mongo/app/many/documents"
    first = json.loads(http("GET", f"{address}.json").body)
    assert len(first["documents"]) == 100 and first["documents"][0]["expires_in"] == "TTL off"
    (last,) = json.loads(http("GET", f"{address}.json?after={first['after']}").body)["documents"]
    assert last["id"] == "100"
    assert "Load more" in page(http, address).source
    assert "nothing expires here" in page(http, address).source
