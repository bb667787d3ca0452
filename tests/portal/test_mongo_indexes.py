"""The indexes of a collection in the portal: what a preview counts is what the pass purges."""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from pymongo import MongoClient

from mayflydb.embedded import RunningServer
from portal.visitor import Visitor

pytestmark = pytest.mark.parametrize("store", ["memory"], indirect=True, scope="session")

BASE = "/_explorer/mongo/app/otps"


@pytest.fixture
def client(server: RunningServer) -> Iterator[MongoClient[dict[str, Any]]]:
    with server.mongo.client() as client:
        yield client


def test_what_a_preview_counts_is_purged(
    visitor: Visitor, server: RunningServer, client: MongoClient[dict[str, Any]]
) -> None:
    chance = random.Random(4)
    for number in range(6):
        otps = client.app[f"otps{number}"]
        now = server.clock.now()
        ages = [chance.randrange(-50, 200) for _ in range(chance.randrange(1, 40))]
        otps.insert_many([{"at": now - timedelta(seconds=age)} for age in ages] + [{"at": "no date"}])
        seconds = chance.randrange(0, 150)
        expected = sum(age >= seconds for age in ages)
        address = f"/_explorer/mongo/app/otps{number}/indexes"
        sent = {"field": "at", "seconds": str(seconds)}
        shown = visitor.post(address, {**sent, "action": "preview"})
        noun = "document" if expected == 1 else "documents"
        assert shown.text("mf-ttl-preview").startswith(f"{expected} {noun} would expire now, of {len(ages) + 1};")
        asked = visitor.post(address, {**sent, "action": "save"})
        if expected:
            assert asked.text("mf-ttl-save") == f"Save and expire {expected}" and len([*otps.list_indexes()]) == 1
            visitor.post(address, {**sent, "action": "save", "agreed": asked.fields["agreed"]})
        assert otps.index_information()["at_1"]["expireAfterSeconds"] == seconds
        visitor.post(f"/_explorer/mongo/app/otps{number}/pass", {})
        assert otps.count_documents({}) == len(ages) + 1 - expected


def test_a_mistyped_field_is_noted(
    visitor: Visitor, server: RunningServer, client: MongoClient[dict[str, Any]]
) -> None:
    client.app.otps.insert_one({"at": server.clock.now()})
    sent = {"seconds": "60", "action": "preview"}
    shown = visitor.post(f"{BASE}/indexes", {**sent, "field": "att"})
    assert shown.text("mf-ttl-note") == "Note: no document of mongo:app.otps has a date in att."
    assert "mf-ttl-note" not in visitor.post(f"{BASE}/indexes", {**sent, "field": "at"}).texts


def test_indexes_are_made_changed_and_dropped(visitor: Visitor, client: MongoClient[dict[str, Any]]) -> None:
    client.app.otps.insert_one({"_id": 1})
    address = f"{BASE}/indexes"
    visitor.post(address, {"action": "save", "field": "_ts", "seconds": "60"})
    shown = visitor.get(address)
    assert "collection TTL" in shown.text("mf-indexes") and shown.text("TreeNode:app/otps/Indexes") == "Indexes"
    filled = visitor.get(f"{address}?field=_ts&seconds=60")
    assert f'href="{address}?field=_ts&amp;seconds=60" aria-label="Change _ts_1"' in shown.source
    assert filled.text("mf-ttl-save") == "Change TTL"
    other = visitor.get(f"{address}?field=seen&seconds=60")
    assert "Saving creates the index seen_1 beside 1 other TTL index" in other.text("mf-ttl-preview")
    assert other.text("mf-ttl-save") == "Create TTL"
    visitor.post(address, {"action": "save", "field": "_ts", "seconds": "90"})
    keys = {"keys": "{a: 1, 'b.c': -1}", "unique": "on", "sparse": "on"}
    visitor.post(address, {"action": "create", **keys})
    visitor.post(address, {"action": "create", "keys": "{d: 1}", "partial": "{d: {$gt: NumberLong(5)}}"})
    found = client.app.otps.index_information()
    assert found["_ts_1"]["expireAfterSeconds"] == 90
    assert found["a_1_b.c_-1"]["key"] == [("a", 1), ("b.c", -1)]
    assert found["a_1_b.c_-1"]["unique"] and found["a_1_b.c_-1"]["sparse"]
    assert found["d_1"]["partialFilterExpression"] == {"d": {"$gt": 5}}
    assert [each["name"] for each in visitor.json(f"{address}.json")["indexes"]] == [*found]
    visitor.post(address, {"action": "drop", "index": "d_1"})
    assert "d_1" not in client.app.otps.index_information()


@pytest.mark.parametrize(
    ("sent", "sentence"),
    [
        ({"action": "save", "field": "at", "seconds": "x"}, "seconds: a whole number from 0 to 2147483647"),
        ({"action": "save", "field": "", "seconds": "5"}, "Field: name the field"),
        ({"action": "create", "keys": "{a: }"}, "Keys: line 1, column 5: a value is expected"),
        ({"action": "create", "keys": "{a: 5, a: 'x'}"}, ""),
        ({"action": "drop", "index": "none"}, "index not found"),
    ],
)
def test_refusals(visitor: Visitor, client: MongoClient[dict[str, Any]], sent: dict[str, str], sentence: str) -> None:
    client.app.otps.insert_one({"_id": 1})
    shown = visitor.post(f"{BASE}/indexes", sent)
    assert shown.status in (400, 404) and sentence in shown.alert + shown.text("alert")
    assert len(client.app.otps.index_information()) == 1
