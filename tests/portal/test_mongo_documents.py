"""Documents and collections of MongoDB are seen, made, edited, deleted, uploaded and exported, with and without a browser."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, urlencode

import bson
import pytest
from bson import Binary, Decimal128, Int64, MinKey, ObjectId, Regex, Timestamp
from bson.raw_bson import RawBSONDocument
from playwright.sync_api import expect
from pymongo import MongoClient

from mayflydb.embedded import RunningServer
from portal.browsing import Watched
from portal.visitor import Page, Visitor

pytestmark = pytest.mark.parametrize("store", ["memory"], indirect=True, scope="session")

SAID = "notification-console/header-status"
BASE = "/_explorer/mongo/app/a%2Fb"
PANE = "DocumentsTab/DocumentsPane"
IDS = [5, 5.5, "é", '"quoted"', ObjectId(b"0" * 12), Binary(b"0" * 16, 4), {"a": Int64(1)}, Decimal128("1.50"), True,
       datetime(2030, 1, 1, tzinfo=UTC), Timestamp(1, 2), MinKey(), None, Int64(2**60)]  # fmt: skip


@pytest.fixture
def client(server: RunningServer) -> Iterator[MongoClient[dict[str, Any]]]:
    """The collection's name has a slash."""
    with server.mongo.client() as client:
        client.app.create_collection("a/b")
        yield client


def place(id: str) -> str:
    return f"{BASE}/document?id={quote(id)}"


def find(visitor: Visitor, **asked: str) -> Page:
    return visitor.get(f"{BASE}/documents?{urlencode(asked)}")


def test_a_document_is_made_edited_and_deleted(visitor: Visitor, client: MongoClient[dict[str, Any]]) -> None:
    many = client.app["a/b"]
    many.create_index("_ts", expireAfterSeconds=7200)
    for text, reason in (("{", "line 1"), ("[]", "no document"), ('{"$set": {"a": 1}}', "operator"), ("", "line 1")):
        page = visitor.post(f"{BASE}/new-document", {"document": text})
        assert page.status == 400 and reason in page.text("alert"), page.source
    page = visitor.post(f"{BASE}/new-document", {"document": '{"ttl": 60}'})
    made = many.find_one({})
    assert made is not None and page.text(SAID) == f"Created document {made['_id']}"
    page = visitor.post(f"{BASE}/new-document", {"document": '{_id: "x", n: NumberLong(5), ttl: 60}'})
    assert page.text(SAID) == "Created document x" and "item ttl 60 s after _ts" in page.text("mf-why")
    assert visitor.post(f"{BASE}/new-document", {"document": '{_id: "x"}'}).status == 400
    loaded = {name: page.fields[name] for name in ("id", "seen", "document")}
    text = page.fields["document"].replace("60", "90")
    page = visitor.post(f"{BASE}/document", loaded | {"document": text, "action": "save"})
    assert page.text(SAID) == "Saved document x" and "item ttl 90" in page.text("mf-why"), page.source
    assert type(many.find_one({"_id": "x"})["n"]) is Int64  # type: ignore[index]
    for action in ("save", "delete-for-good"):
        stale = visitor.post(f"{BASE}/document", loaded | {"document": "{a: 1}", "action": action})
        assert stale.status == 412 and "changed after this page was loaded" in stale.text("alert")
    fresh = loaded | {"seen": page.fields["seen"]}
    for text, reason in (('{_id: "y"}', "_id"), ("{$set: {a: 1}}", "operator")):
        page = visitor.post(f"{BASE}/document", fresh | {"document": text, "action": "save"})
        assert page.status == 400 and reason in page.text("alert")
    page = visitor.post(f"{BASE}/document", fresh | {"action": "delete"})
    assert page.text("CommandBar/Button:Delete") == "Delete for good" and many.count_documents({}) == 2
    page = visitor.post(f"{BASE}/document", fresh | {"action": "delete-for-good"})
    assert page.text(SAID) == "Deleted document x" and many.count_documents({}) == 1
    assert visitor.get(place('"x"')).status == 404 and visitor.get(place("{")).status == 400


def test_measurements_with_one_id_are_told_apart(visitor: Visitor, client: MongoClient[dict[str, Any]]) -> None:
    series = client.app.create_collection("w", timeseries={"timeField": "t", "metaField": "m"}, expireAfterSeconds=60)
    hours = [datetime(2030, 1, 1, hour, tzinfo=UTC) for hour in range(3)]
    series.insert_many([{"_id": 1, "t": hour, "n": hour.hour} for hour in hours])
    page = visitor.get(f"/_explorer/mongo/app/w/documents?{urlencode({'filter': '{_id: 1}', 'sort': '-n'})}")
    for hour in hours:
        assert page.source.count(f"2030-01-01 {hour.hour + 1:02}:01:00Z") == 1, page.source


def test_a_line_says_which_date_is_missing(visitor: Visitor, client: MongoClient[dict[str, Any]]) -> None:
    client.app["a/b"].create_index("at", expireAfterSeconds=60)
    client.app["a/b"].insert_many([{"_id": 1, "at": "soon"}, {"_id": 2}])
    lines = find(visitor).source
    assert "at is of type string, which is no date" in lines
    assert "the document has no at" in lines


def test_every_type_survives_the_editor(visitor: Visitor, client: MongoClient[dict[str, Any]]) -> None:
    many: Any = client.app.get_collection("a/b", codec_options=bson.CodecOptions(document_class=RawBSONDocument))
    rest = {"r": Regex("a/", "i"), "b": Binary(b"\0", 128), "n": [5, 5.0, Int64(5), float("inf")], "d": {"": None}}
    many.insert_many([{"_id": each, **rest} for each in IDS])
    # A filter that matches all goes the way of finds.
    page = find(visitor, filter="{r: {$exists: true}}", sort="_id")
    links = [each.partition('"')[0].replace("&amp;", "&") for each in page.source.split(f'href="{BASE}/document?')[1:]]
    assert len(links) == len(IDS)
    before = {each.raw for each in many.find({})}
    for link in links:
        page = visitor.get(f"{BASE}/document?{link}")
        assert "mf-why" in page.texts and not page.texts.get("alert"), link
        page = visitor.post(f"{BASE}/document", page.fields | {"action": "save"})
        assert page.text(SAID).startswith("Saved document"), page.source
    assert {each.raw for each in many.find({})} == before
    many.insert_one(RawBSONDocument(bson.encode({"_id": "odd", "a": {"$numberInt": "1"}})))
    page = visitor.get(place('"odd"'))
    assert " readonly" in page.source and "no text gives back" in page.text("alert")
    page = visitor.post(f"{BASE}/document", page.fields | {"action": "save"})
    assert page.status == 400 and "no text gives back" in page.text("alert")


def test_files_end_with_their_time(
    visitor: Visitor, client: MongoClient[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    client.app["a/b"].insert_one({"_id": 1})
    monkeypatch.setattr("mayflydb.portal.mongo.document_changes.FILE_SECONDS", 0)
    page = visitor.post(f"{BASE}/upload", {"records": '{"_id": 2}'})
    assert page.status == 503 and page.text("alert") == "The upload took longer than 0 s and was ended."
    page = visitor.get(f"{BASE}/export?form=jsonl")
    assert page.status == 503 and "The export took longer than 0 s" in page.source


def test_files_filters_and_picked_documents(visitor: Visitor, client: MongoClient[dict[str, Any]]) -> None:
    many = client.app["a/b"]
    lines = "\n".join(json.dumps({"_id": n, "n": {"$numberLong": str(n)}}) for n in range(230))
    page = visitor.post(f"{BASE}/upload", {"records": lines})
    assert page.text("mf-upload-outcome") == "230 documents stored" and type(many.find_one()["n"]) is Int64  # type: ignore[index]
    page = visitor.post(f"{BASE}/upload", {"records": '[{"_id": 0, "n": 7}, {"$set": {}}, {"n": "free"}]'})
    assert page.text("mf-upload-outcome") == "1 document stored, 2 documents refused"
    assert "duplicate key" in page.source and "Record 2 begins with an operator" in page.source
    page = visitor.post(f"{BASE}/upload", {"records": '[{"_id": 0, "n": 7}, {"_id": 1000}]', "replace": "on"})
    assert page.text("mf-upload-outcome") == "2 documents stored" and many.find_one({"_id": 0}) == {"_id": 0, "n": 7}
    page = find(visitor, filter="{_id: {$gte: 10}, n: {$type: 'long'}}", sort="-n", columns="n", at="100")
    assert "Page 2" in page.source and page.text(PANE).count("never") + page.text(PANE).count("TTL off") == 100
    assert "Load more" in page.source and "Back" in page.source
    page = find(visitor)
    assert "Load more" in page.source and "_id n Expires in" in page.text(PANE)
    page = find(visitor, filter="{_id: {$nothing: 1}}")
    assert page.status == 400 and "$nothing" in page.text("alert")
    page = find(visitor, filter="{_id")
    assert page.status == 400 and page.text("alert").startswith("Filter: line 1")
    exported = visitor.get(f"{BASE}/export?{urlencode({'form': 'csv', 'filter': '{_id: {$lt: 2}}', 'sort': '-_id'})}")
    assert exported.source.split() == ["_id,n", '1,"{""$numberLong"":""1""}"', "0,7"]
    lines = visitor.get(f"{BASE}/export?form=jsonl").source
    assert len(lines.splitlines()) == many.count_documents({}) == 232
    pick = {"pick": json.dumps({"$numberInt": "3"})}
    page = visitor.post(f"{BASE}/documents", pick | {"action": "delete"})
    assert "Nothing is deleted yet" in page.source and many.count_documents({"_id": 3}) == 1
    page = visitor.post(f"{BASE}/documents", pick | {"action": "delete-for-good"})
    assert page.text(SAID) == "Deleted 1 document" and many.count_documents({"_id": 3}) == 0
    assert visitor.post(f"{BASE}/documents", {"action": "delete"}).status == 400


def test_collections_and_databases(visitor: Visitor, client: MongoClient[dict[str, Any]]) -> None:
    assert visitor.get("/_explorer/new-collection?database=app").fields["database"] == "app"
    assert visitor.post("/_explorer/new-collection", {"database": "made", "collection": ""}).status == 400
    page = visitor.post("/_explorer/new-collection", {"database": "made", "collection": "c/d"})
    assert page.text(SAID) == "Successfully created collection c/d" and "TreeNode:made/c/d/Indexes" in page.texts
    page = visitor.post("/_explorer/new-collection", {"database": "a.b", "collection": "c"})
    assert page.status == 400 and "a.b" in page.text("alert") and page.fields["collection"] == "c"
    client.made.other.insert_one({})
    assert visitor.post("/_explorer/mongo/made/c%2Fd/drop", {"confirm": "c"}).status == 400
    page = visitor.post("/_explorer/mongo/made/c%2Fd/drop", {"confirm": "c/d"})
    assert page.text(SAID) == "Successfully deleted collection c/d"
    assert client.made.list_collection_names() == ["other"]
    assert visitor.post("/_explorer/mongo/made/drop-database", {"confirm": "other"}).status == 400
    page = visitor.post("/_explorer/mongo/made/drop-database", {"confirm": "made"})
    assert page.text(SAID) == "Successfully deleted database made" and "made" not in client.list_database_names()
    assert visitor.get("/_explorer/mongo/made/drop-database").status == 404


def test_in_a_browser(client: MongoClient[dict[str, Any]], watched: Watched) -> None:
    page = watched.page(viewport={"width": 390, "height": 800})
    page.goto(f"{BASE}/new-document")
    page.get_by_test_id("EditorReact/Host/Loaded").evaluate(
        """(host) => window._monaco_setEditorContentForElement(host, '{"_id": "one", "kind": "a", "ttl": 20.5}')"""
    )
    page.get_by_test_id("CommandBar/Button:Save").click()
    expect(page.get_by_test_id(SAID)).to_have_text("Created document one")
    assert page.evaluate("() => document.documentElement.scrollWidth") == 390
    client.app["a/b"].create_index("_ts", expireAfterSeconds=30)
    page.goto(f"{BASE}/documents")
    expect(page.get_by_role("button", name="Delete", exact=True)).to_be_disabled()
    assert page.evaluate("() => document.documentElement.scrollWidth") == 390
    page.set_viewport_size({"width": 1280, "height": 800})
    expect(page.get_by_test_id(PANE)).to_contain_text("20.5 is no whole number")
    expect(page.get_by_test_id("mf-expires-in")).to_contain_text("s")
    page.get_by_role("link", name="kind").click()
    expect(page.locator("th[aria-sort=ascending]")).to_have_text("kind")
    page.get_by_test_id("DocumentsTab/FilterInput").fill("{kind: 'a'}")
    page.get_by_test_id("DocumentsTab/ApplyFilter").click()
    page.get_by_role("checkbox", name="Pick one").check()
    page.get_by_role("button", name="Delete", exact=True).click()
    page.get_by_test_id("DialogButton:Delete").click()
    expect(page.get_by_test_id(SAID)).to_have_text("Deleted 1 document")
    assert client.app["a/b"].count_documents({}) == 0
