"""YDB's pages: tables, rows and queries, made, seen, changed, and gone."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from mayflydb.embedded import RunningServer
from portal.browsing import Watched
from portal.visitor import Visitor

DATABASE = "/_explorer/ydb/local"
TABLE = f"{DATABASE}/shop/carts"
EVERY = {
    "id": 1,
    "a": "é",
    "b": {"base64": "/w=="},
    "c": "-1.5",
    "d": "2030-01-01T00:00:00Z",
    "e": '{"x": [1, null]}',
    "f": True,
    "g": 0.1,
    "h": "6e73b41c-4ede-4d08-9cfb-b7462d9e498b",
    "i": "P1D",
    "j": 2**63,
    "k": None,
}
TYPES = "Int64 NOT NULL, Utf8, String, Decimal(22,9), Timestamp, Json, Bool, Float, Uuid, Interval, Uint64, Date"


@pytest.fixture
def carts(visitor: Visitor) -> Visitor:
    """A table that was made by the form, with three rows that were uploaded."""
    form = {"name": "shop/carts", "columns": "id Uint64 NOT NULL\nnote Utf8\nat Timestamp", "key": "id"}
    made = visitor.post(f"{DATABASE}/new-table", form | {"column": "at", "lifetime": "1h", "action": "create"})
    assert made.status == 200
    assert "There are no rows." in made.source
    rows: list[Any] = [{"id": n, "note": f"cart {n}", "at": "2030-01-01T00:00:00Z"} for n in (1, 2)]
    text = "\n".join(map(json.dumps, [*rows, {"id": 3, "note": "<b>"}, {"id": "x"}]))
    stored = visitor.post(f"{TABLE}/upload", {"records": text})
    assert "3 of 4 rows were stored" in stored.source
    assert "is no Uint64" in stored.source
    return visitor


def row_address(key: str) -> str:
    return f"{TABLE}/row?key={quote(key)}"


def test_rows_are_seen_edited_and_deleted(carts: Visitor, server: RunningServer) -> None:
    grid = carts.get(f"{TABLE}/rows")
    assert "cart 2" in grid.source
    assert "&lt;b&gt;" in grid.source
    assert grid.text("mf-expires-in") == "1 h 1 h never"
    filtered = carts.get(f"{TABLE}/rows?filter={quote('id > 2 -- so')}&sort=-note&column=note")
    assert "cart 2" not in filtered.source
    assert "&lt;b&gt;" in filtered.source
    assert "cart" not in carts.get(f"{TABLE}/rows?filter=nothing").texts["DocumentsTab"]
    page = carts.get(row_address("[1]"))
    assert json.loads(page.fields["document"])["note"] == "cart 1"
    assert "because" in page.text("mf-why")
    sent = page.fields | {"action": "save", "document": json.dumps({"id": 1, "note": "new", "at": None})}
    assert "Row saved" in carts.post(f"{TABLE}/row", sent).source
    # What was changed meanwhile is not overwritten, and a key stays as it is.
    assert "changed after this page was loaded" in carts.post(f"{TABLE}/row", sent).source
    sent = carts.get(row_address("[1]")).fields | {"action": "save", "document": '{"id": 9}'}
    assert "stays as it is" in carts.post(f"{TABLE}/row", sent).source
    asked = carts.post(f"{TABLE}/row", sent | {"action": "delete"})
    assert "for good" in asked.source
    assert "1 row deleted" in carts.post(f"{TABLE}/row", sent | {"action": "delete-for-good"}).source
    assert "1 row deleted" in carts.post(f"{TABLE}/delete", {"pick": "[3]"}).source
    server.clock.advance(hours=1)
    assert carts.get(f"{TABLE}/rows").text("mf-expires-in") == "due"
    changed = carts.get(f"{TABLE}/rows").fields | {"status": "enabled", "column": "at", "lifetime": "30m"}
    preview = carts.post(f"{TABLE}/rows", changed | {"action": "preview"})
    assert preview.text("mf-ttl-sample") == "Among them: 2"
    server.clock.advance(hours=1)
    assert "There are no rows." in carts.get(f"{TABLE}/rows").source
    assert "as it is written above" in carts.post(f"{TABLE}/drop", {"confirm": "carts"}).source
    assert "Table shop/carts dropped" in carts.post(f"{TABLE}/drop", {"confirm": "shop/carts"}).source
    assert carts.get(f"{TABLE}/rows").status == 404


def test_the_last_run_and_the_rows_without_a_date(carts: Visitor, server: RunningServer) -> None:
    page = carts.get(f"{TABLE}/rows")
    assert "at is NULL" in page.texts["DocumentsTab"]
    assert "mf-last-run" not in page.texts
    assert 'href="/_explorer/ydb/local/shop/carts/rows#ttl"' in carts.get("/").source
    assert '<h2 id="ttl">' in page.source
    server.clock.advance(hours=3)
    page = carts.get(f"{TABLE}/rows")
    run = carts.json(f"{TABLE}/rows.json")["collection"]["last_run"].replace("T", " ")
    # The run that erased two rows was followed by one that found none.
    assert page.text("mf-last-run") == f"Last run: {run}, 0 rows erased."
    assert "cart" not in page.texts["DocumentsTab"]


def test_types_survive_the_editor(visitor: Visitor, server: RunningServer) -> None:
    columns = "\n".join(f"{name} {type}" for name, type in zip(EVERY, TYPES.split(", "), strict=True))
    form = {"name": "shop/carts", "columns": columns, "key": "id", "action": "create"}
    visitor.post(f"{DATABASE}/new-table", form)
    saved = visitor.post(f"{TABLE}/new", {"document": json.dumps(EVERY)})
    assert json.loads(saved.fields["document"]) == EVERY
    again = visitor.post(f"{TABLE}/row", saved.fields | {"action": "save"})
    assert json.loads(again.fields["document"]) == EVERY
    assert visitor.json(f"{TABLE}/row.json?key=[1]")["row"] == EVERY
    exported = visitor.get(f"{TABLE}/export?form=jsonl").source
    assert [json.loads(line) for line in exported.splitlines()] == [EVERY]


def test_files_end_with_their_time(carts: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mayflydb.portal.ydb.editing.FILE_SECONDS", 0)
    page = carts.post(f"{TABLE}/upload", {"records": '{"id": 7}'})
    assert page.status == 503 and "The upload took longer than 0 s" in page.source
    page = carts.get(f"{TABLE}/export?form=jsonl")
    assert page.status == 503 and "The export took longer than 0 s" in page.source


def test_pages_go_by_the_key(carts: Visitor) -> None:
    rows = "\n".join(json.dumps({"id": n}) for n in range(10, 215))
    carts.post(f"{TABLE}/upload", {"records": rows})
    page = carts.get(f"{TABLE}/rows?at=%5B109%5D")
    assert ">110<" in page.source
    assert ">109<" not in page.source
    assert "Back" in page.source


def test_queries(carts: Visitor) -> None:
    form = {"action": "execute", "limit": "25", "mode": "execute"}
    found = carts.post(f"{TABLE}/query", form | {"query": "SELECT id, note FROM `shop/carts`; SELECT 7 AS seven"})
    assert "cart 1" in found.source
    assert "Result 2" in found.source
    assert "3 read" in found.source
    assert "Plan" in found.source
    file = carts.post(f"{TABLE}/query", found.fields | {"action": "export-csv"})
    assert "id,note" in file.source
    wrong = carts.post(f"{TABLE}/query", form | {"query": "SELECT 1;\nSELECT FROM"})
    assert "line 2" in wrong.text("Row:0/Column:location")
    explained = carts.post(f"{TABLE}/query", form | {"query": "DELETE FROM `shop/carts`", "mode": "explain"})
    assert "Plan" in explained.source
    assert "cart 1" in carts.get(f"{TABLE}/rows").source
    ran = json.dumps({"text": "DELETE FROM `shop/carts`", "options": {"mode": "execute"}})
    refused = carts.post(f"{TABLE}/query", {"query": "", "ran": ran, "action": "export-jsonl"})
    assert "is not run again" in refused.source


@pytest.mark.parametrize("store", ["memory"], indirect=True, scope="session")
def test_a_browser(carts: Visitor, watched: Watched) -> None:
    page = watched.page()
    page.goto(f"{TABLE}/rows")
    page.get_by_label("Pick 1", exact=True).focus()
    page.keyboard.press("Space")
    page.get_by_test_id("CommandBar/Button:Delete").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_test_id("notification-console/header-status")).to_have_text("1 row deleted")
