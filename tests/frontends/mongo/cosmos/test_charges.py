"""Prices of commands, and refusals over a budget."""

from __future__ import annotations

import re
import socket
import struct
import urllib.request
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import bson
import pytest
from pymongo import InsertOne, MongoClient
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError, OperationFailure

from mayflydb.embedded import RunningServer
from mayflydb.engine import prices

Documents = Collection[dict[str, Any]]
Client = MongoClient[dict[str, Any]]

TEXT = re.compile(
    r"Error=16500, RetryAfterMs=(\d+), Details='Response status code does not indicate success: TooManyRequests \(429\); "
    r'Substatus: 3200; ActivityId: [0-9a-f-]{36}; Reason: \(\r\nErrors : \[\r\n  "Request rate is large\. More Request Units '
    r"may be needed, so no changes were made\. Please retry this request later\. Learn more: "
    r"http://aka\.ms/cosmosdb-error-429\"\r\n\]\r\n\)'"
)


def price(client: Client) -> tuple[str, float]:
    told = client["db"].command("getLastRequestStatistics")
    names = ["_t", "ok", "CommandName", "RequestCharge", "RequestDurationInMilliSeconds"]
    assert [name for name in told if name in names] == names
    assert told["_t"] == "GetRequestStatisticsResponse" and told["RequestDurationInMilliSeconds"] >= 0
    return told["CommandName"], told["RequestCharge"]


QUERY, MANY = prices.query(0, 0, 0), prices.query(3, 0, 3)


@pytest.mark.parametrize(("act", "name", "least", "most"), [
    (lambda c: c.find_one({"_id": 1}), "find", 1.0, 1.0),
    (lambda c: c.find_one({"_id": 99}), "find", 1.0, 1.0),
    (lambda c: list(c.find()), "find", MANY, MANY + 0.1),
    (lambda c: list(c.find({"n": 99})), "find", QUERY, MANY + 0.1),
    (lambda c: c.count_documents({}), "aggregate", MANY, MANY + 0.1),
    (lambda c: c.estimated_document_count(), "count", QUERY, QUERY),
    (lambda c: c.distinct("n"), "distinct", MANY, MANY + 0.1),
    (lambda c: list(c.aggregate([{"$match": {"n": 1}}])), "aggregate", QUERY, MANY + 0.1),
    (lambda c: c.insert_one({"_id": 4}), "insert", prices.create(10), prices.create(10)),
    (lambda c: c.insert_many([{"_id": 4}, {"_id": 5}]), "insert", 2 * prices.create(10), 2 * prices.create(10)),
    (lambda c: c.insert_one({"_id": 4, "t": "x" * 5000}), "insert", prices.create(5010), prices.create(5050)),
    (lambda c: c.update_one({"_id": 1}, {"$set": {"n": 7}}), "update", prices.replace(10), prices.replace(10)),
    (lambda c: c.update_one({"_id": 4}, {"$set": {"n": 7}}, upsert=True), "update", prices.create(9), prices.create(9)),
    (lambda c: c.update_one({"_id": 99}, {"$set": {"n": 7}}), "update", 1.0, 1.0),
    (lambda c: c.update_many({}, {"$set": {"n": 7}}), "update", 3 * prices.replace(9), 3 * prices.replace(9) + 3),
    (lambda c: c.delete_one({"_id": 1}), "delete", prices.DELETE, prices.DELETE),
    (lambda c: c.find_one_and_delete({"_id": 1}), "findAndModify", prices.DELETE, prices.DELETE),
    (lambda c: list(c.find(batch_size=2)), "getMore", 1.0, 2.0),
])  # fmt: skip
def test_what_commands_cost(
    client: Client, act: Callable[[Documents], Any], name: str, least: float, most: float
) -> None:
    coll = client["db"]["prices"]
    coll.drop()
    coll.insert_many([{"_id": n, "n": n} for n in (1, 2, 3)])
    act(coll)
    told, charge = price(client)
    assert told == name
    assert least - 0.01 <= charge <= most + 0.01


def test_commands_of_a_transaction_have_a_price(client: Client) -> None:
    coll = client["db"]["inside"]
    coll.insert_one({"_id": 0})
    with client.start_session() as session, session.start_transaction():
        coll.insert_one({"_id": 1}, session=session)
        assert price(client) == ("insert", round(prices.create(10), 2))
        assert coll.find_one({"_id": 1}, session=session) == {"_id": 1}
        assert price(client) == ("find", 1.0)


def test_prices_are_metered_by_collection_and_command(server: RunningServer, client: Client) -> None:
    coll = client["db"]["metered"]
    coll.insert_one({"_id": 1})
    coll.insert_one({"_id": 2})
    coll.find_one({"_id": 1})
    with urllib.request.urlopen(server.announcement.metrics or "") as answer:
        lines = answer.read().decode().splitlines()
    labels = 'protocol="mongo",db="db",container="metered"'
    assert f'mayfly_request_units_total{{{labels},operation="insert"}} {2 * prices.create(10)}' in lines
    assert f'mayfly_request_units_total{{{labels},operation="find"}} 1' in lines
    assert f"mayfly_throttled_requests_total{{{labels}}} 0" in lines


@pytest.fixture(scope="module")
def spent(client: Client) -> Documents:
    """A collection whose budget is used up by inserts."""
    client["shop"].command("customAction", "CreateCollection", collection="c", offerThroughput=400)
    coll = client["shop"]["c"]
    with pytest.raises(BulkWriteError) as refused:
        coll.bulk_write([InsertOne({"_id": n, "x": "x" * 20_000}) for n in range(200)])
    (error,) = refused.value.details["writeErrors"]
    assert error["code"] == 16500 and TEXT.fullmatch(error["errmsg"])
    assert error["index"] == refused.value.details["nInserted"] > 0
    assert "errorLabels" not in refused.value.details
    return coll


@pytest.mark.parametrize("act", [
    lambda c: c.find_one({"_id": 1}),
    lambda c: list(c.find()),
    lambda c: c.count_documents({}),
    lambda c: c.estimated_document_count(),
    lambda c: c.distinct("n"),
    lambda c: c.insert_one({"_id": "new"}),
    lambda c: c.insert_many([{"_id": "new"}, {"_id": "newer"}], ordered=False),
    lambda c: c.update_one({"_id": 0}, {"$set": {"n": 1}}),
    lambda c: c.delete_many({}),
    lambda c: c.find_one_and_update({"_id": 0}, {"$set": {"n": 1}}),
    lambda c: c.find_one_and_delete({"_id": 0}),
])  # fmt: skip
def test_a_collection_over_its_budget_refuses_commands(
    server: RunningServer, spent: Documents, act: Callable[[Documents], Any]
) -> None:
    with pytest.raises(OperationFailure) as refused:
        act(spent)
    error = refused.value
    lines = (error.details or {}).get("writeErrors") or [error.details]
    for line in lines:
        assert line["code"] == 16500 and (wait := TEXT.fullmatch(line["errmsg"])) and int(wait[1]) > 0
    assert not error.has_error_label("RetryableWriteError")
    budgets = server._admin.engine.budgets
    assert budgets is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(server._admin.engine, "budgets", None)
        assert (
            spent.count_documents({"n": {"$exists": True}}) == spent.count_documents({"_id": {"$type": "string"}}) == 0
        )
        assert spent.find_one({"_id": 0}) is not None


def test_a_budget_recovers(server: RunningServer, client: Client) -> None:
    client["shop"].command("customAction", "CreateCollection", collection="later", offerThroughput=400)
    coll, budgets = client["shop"]["later"], server._admin.engine.budgets
    assert budgets is not None
    with pytest.raises(BulkWriteError):
        coll.insert_many([{"x": "x" * 20_000} for n in range(200)])
    before = budgets.stopwatch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(budgets, "stopwatch", lambda: before + 10_000_000)
        coll.insert_one({"_id": 1})


def test_collections_that_share_have_one_budget(client: Client) -> None:
    client["shared"].command("customAction", "CreateDatabase", offerThroughput=400)
    one, other = client["shared"]["one"], client["shared"]["other"]
    with pytest.raises(BulkWriteError):
        one.insert_many([{"x": "x" * 20_000} for n in range(200)])
    with pytest.raises(OperationFailure, match="RetryAfterMs="):
        other.insert_one({"_id": 1})


def asked(server: RunningServer, *bodies: dict[str, Any]) -> dict[str, Any]:
    """Send commands by one new connection, and return the last answer."""
    answer: dict[str, Any] = {}
    address = urlsplit(server.mongo.uri)
    with socket.create_connection((address.hostname or "", address.port or 0), 10) as connection:
        for body in bodies:
            data = b"\x00\x00\x00\x00\x00" + bson.encode(body)
            connection.sendall(struct.pack("<iiii", 16 + len(data), 1, 0, 2013) + data)
            head = connection.recv(16, socket.MSG_WAITALL)
            rest = connection.recv(int.from_bytes(head[:4], "little") - 16, socket.MSG_WAITALL)
            answer = bson.decode(rest[5:])
    return answer


@pytest.mark.parametrize(("id", "told"), [(b"a" * 16, "insert"), (b"b" * 16, None)])
def test_another_connection_asks_for_its_session(server: RunningServer, id: bytes, told: str | None) -> None:
    lsid = {"id": bson.Binary(b"a" * 16, 4)}
    answer = asked(server, {"insert": "sessions", "$db": "db", "documents": [{"a": 1}], "lsid": lsid})
    assert answer["n"] == 1
    answer = asked(server, {"getLastRequestStatistics": 1, "$db": "db", "lsid": {"id": bson.Binary(id, 4)}})
    assert answer.get("CommandName") == told
