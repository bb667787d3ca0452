"""The page of a YDB table's secondary indexes: what the forms do, the vendor's client sees."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import ydb

from mayflydb.embedded import RunningServer
from portal.visitor import Visitor

HERE = "/_explorer/ydb/local/shop/books/indexes"
SAID = "notification-console/header-status"


@pytest.fixture
def pool(server: RunningServer) -> Iterator[Any]:
    with server.ydb.driver() as driver, ydb.QuerySessionPool(driver) as pool:
        pool.execute_with_retries(
            "CREATE TABLE `shop/books` (id Uint64 NOT NULL, title Utf8, author Utf8, year Uint64, notes Json, "
            "PRIMARY KEY (id), INDEX by_title GLOBAL UNIQUE ON (title))"
        )
        pool.execute_with_retries("UPSERT INTO `shop/books` (id, author, year) VALUES (1, 'Ada', 1843)")
        yield pool


def test_indexes_are_listed_made_and_dropped(pool: Any, visitor: Visitor) -> None:
    assert visitor.json(f"{HERE}.json")["indexes"] == [
        {"name": "by_title", "kind": "unique", "columns": ["title"], "cover": []}
    ]
    form = {"name": "by author", "columns": "author, year", "cover": "title", "kind": "sync"}
    text = "ALTER TABLE `shop/books` ADD INDEX `by author` GLOBAL SYNC ON (`author`, `year`) COVER (`title`);"
    shown = visitor.post(HERE, form | {"action": "preview"})
    assert shown.text("mf-yql") == text and shown.fields["name"] == "by author"
    made = visitor.post(HERE, form | {"action": "create"})
    assert made.text(SAID) == "Index by author was created"
    assert visitor.json(f"{HERE}.json")["indexes"][1:] == [
        {"name": "by author", "kind": "sync", "columns": ["author", "year"], "cover": ["title"]}
    ]
    found = pool.execute_with_retries("SELECT id FROM `shop/books` VIEW `by author` WHERE author = 'Ada'")
    assert [dict(row) for row in found[0].rows] == [{"id": 1}]
    assert visitor.post(HERE, {"index": "by author", "action": "drop"}).text(SAID) == "Index by author was dropped"
    assert [each["name"] for each in visitor.json(f"{HERE}.json")["indexes"]] == ["by_title"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"name": " "}, "Name: an index needs one."),
        ({"columns": " , "}, "Columns: name at least one."),
        ({"kind": "unique"}, "Kind is sync or async."),
        ({"columns": "nothing"}, "Index column with name: nothing is not present in table columns"),
        ({"columns": "notes"}, "Column 'notes' has wrong key type Json for being key"),
        ({"name": "by_title"}, "by_title"),
    ],
)
@pytest.mark.parametrize("store", ["memory"], indirect=True, scope="session")
def test_indexes_that_are_refused(pool: Any, visitor: Visitor, fields: dict[str, str], message: str) -> None:
    wanted = {"name": "x", "columns": "year", "cover": "", "kind": "sync", "action": "create"} | fields
    page = visitor.post(HERE, wanted)
    assert page.status == 400 and message in page.text("alert")
    assert page.fields["columns"] == wanted["columns"], "what was typed is not lost"
    assert len(visitor.json(f"{HERE}.json")["indexes"]) == 1


@pytest.mark.parametrize("store", ["memory"], indirect=True, scope="session")
def test_an_index_that_is_not_there(pool: Any, visitor: Visitor) -> None:
    page = visitor.post(HERE, {"index": "nothing", "action": "drop"})
    assert page.status == 400 and "nothing" in page.text("alert")


@pytest.mark.parametrize("store", ["memory"], indirect=True, scope="session")
def test_a_name_ends_no_statement(pool: Any, visitor: Visitor) -> None:
    name = "a` ON (id); DROP TABLE `shop/books"
    visitor.post(HERE, {"name": name, "columns": "year", "kind": "async", "action": "create"})
    assert [each["name"] for each in visitor.json(f"{HERE}.json")["indexes"]] == ["by_title", name]
    visitor.post(HERE, {"index": name, "action": "drop"})
    assert len(visitor.json(f"{HERE}.json")["indexes"]) == 1
