"""The query page of a collection: finds and pipelines, pages, files, and no cursor left behind."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import bson
import pytest
from pymongo import MongoClient

from mayflydb.embedded import RunningServer
from mayflydb.portal.mongo.query import CollectionRunner
from mayflydb.portal.querying import QueryRequest
from mayflydb.query.mongo.replies import Reply
from portal.visitor import Page, Visitor

pytestmark = pytest.mark.parametrize("store", ["memory"], indirect=True, scope="session")

ADDRESS = "/_explorer/mongo/app/many/query"
VIEW = "QueryTab/ResultsPane/ResultsView"


@pytest.fixture
def client(server: RunningServer) -> Iterator[MongoClient[dict[str, Any]]]:
    with server.mongo.client() as client:
        client.app.many.insert_many([{"_id": n, "kind": "ab"[n % 2], "price": 5.0} for n in range(60)])
        yield client


def run(visitor: Visitor, text: str, **fields: str) -> Page:
    return visitor.post(ADDRESS, {"query": text, "limit": "25", "action": "execute", **fields})


def test_pages_of_a_find_and_of_a_pipeline(visitor: Visitor, client: MongoClient[dict[str, Any]]) -> None:
    assert visitor.get(ADDRESS).text("TreeNode:app/many/Query") == "Query"
    for text in ("{filter: {_id: {$gte: 0}}, sort: {_id: 1}}", "[{$match: {_id: {$gte: 0}}}, {$sort: {_id: 1}}]"):
        first = run(visitor, text, explain="on")
        assert first.status == 200 and "Page 1: 25 rows" in first.text(VIEW), first.source
        assert "queryPlanner" in first.text(VIEW) and "Next page" in first.text(VIEW)
        turned = {"query": text, "ran": first.fields["ran"], "turn": '["25","50"]'}
        last = visitor.post(ADDRESS, turned)
        assert "Page 3: 10 rows" in last.text(VIEW) and "Next page" not in last.text(VIEW)
        assert "51 - 60" in last.text(VIEW)
    assert "Page 1: 1 rows" in run(visitor, "{_id: 7}").text(VIEW) or "Page 1: 1 row" in run(visitor, "{_id: 7}").text(
        VIEW
    )
    limited = run(visitor, "{limit: 3, skip: 2, projection: {_id: 1}}")
    assert "Page 1: 3 rows" in limited.text(VIEW) and "Next page" not in limited.text(VIEW)


def test_files(visitor: Visitor, client: MongoClient[dict[str, Any]]) -> None:
    shown = run(visitor, "{}")
    lines = visitor.post(ADDRESS, {"query": "{}", "ran": shown.fields["ran"], "action": "export-jsonl"}).source
    assert len(lines.splitlines()) == 60 and lines.startswith('{"_id":0,"kind":"a","price":5.0}')


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{filter: }", "line 1, column 10: a value is expected"),
        ("5", "A query is a document in braces"),
        ("{filters: {}, limit: 1}", "A find has no filters"),
        ("db.otps.find({})", "takes what stands in the parentheses"),
        ("{limit: -1}", "limit is a whole number"),
        ("{filter: {$nothing: 1}}", "unknown top level operator"),
        ("[{$changeStream: {}}]", "A change stream does not end"),
        ("[{$none: 1}]", "Unrecognized pipeline stage name"),
    ],
)
def test_refusals(visitor: Visitor, client: MongoClient[dict[str, Any]], text: str, sentence: str) -> None:
    shown = run(visitor, text)
    assert shown.status == 400 and sentence in shown.text("QueryTab/ResultsPane/ErrorList"), shown.source


def test_a_cursor_is_closed_with_its_page(store: RunningServer) -> None:
    class Answering:
        """Answers each command with a batch and an open cursor."""

        def __init__(self) -> None:
            self.commands: list[dict[str, Any]] = []

        async def __call__(self, database: str, command: dict[str, Any]) -> dict[str, Any]:
            raise AssertionError(command)

        async def send(self, database: str, command: bytes) -> Reply:
            self.commands.append(bson.decode(command))
            return Reply({}, [bson.encode({"_id": n}) for n in range(20)], 7, 2.5)

    wire = Answering()
    answer = asyncio.run(CollectionRunner(wire, "app", "many").run(QueryRequest("[]", limit=25)))
    assert [next(iter(each)) for each in wire.commands] == ["aggregate", "getMore", "killCursors"]
    assert wire.commands[-1]["cursors"] == [7]
    assert (len(answer.rows), answer.continuation, answer.stats[0]) == (25, "25", ("Request Charge", "5 RUs"))
