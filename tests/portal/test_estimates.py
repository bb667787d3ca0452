"""Pages over counts that are estimates: each figure that comes from one says "about"."""

from __future__ import annotations

import json
import re
from datetime import timedelta

import pytest
from azure.cosmos import DatabaseProxy, PartitionKey

from mayflydb.embedded import RunningServer
from mayflydb.engine.count_budget import Allowance
from portal.visitor import Page, Visitor

pytestmark = pytest.mark.parametrize("store", ["memory"], indirect=True, scope="session")

FIGURE = re.compile(r"(about )?(?<![\w-])\d[\d,]*(?! s\b| min| h\b)", re.IGNORECASE)


@pytest.fixture
def small_budget(server: RunningServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is counted exactly, and samples have 20 records."""
    monkeypatch.setattr(Allowance, "take", lambda self, records, by_record: False)
    monkeypatch.setattr(Allowance, "take_sample", lambda self: 20)


def all_say_about(text: str) -> bool:
    found = [match[1] for match in FIGURE.finditer(text)]
    return bool(found) and all(found)


def test_figures_without_words_are_found(store: RunningServer) -> None:
    assert all_say_about("about 7 items would expire now, of about 40; About 3 more")
    assert not all_say_about("about 7 items would expire now, of 40") and not all_say_about("none")


def settings(visitor: Visitor, action: str, **fields: str) -> Page:
    return visitor.settings("shop", "sessions").fill(**fields).press(action)


@pytest.mark.usefixtures("small_budget")
def test_cosmos(shop: DatabaseProxy, server: RunningServer, visitor: Visitor) -> None:
    container = shop.create_container("sessions", PartitionKey("/pk"))
    for number in range(40):
        container.create_item({"id": str(number), "pk": "a"} | ({"ttl": 4000} if number % 2 else {}))
    server.clock.advance(minutes=30)
    limit = {"timeToLive": "on", "timeToLiveSeconds": "1000"}
    for fields, said in ((limit, "more within the hour"), ({"timeToLive": "no-default"}, "with a ttl of their own")):
        text = settings(visitor, "preview", **fields).text("mf-ttl-preview")
        assert said in text and all_say_about(text), text
    asked = settings(visitor, "save", **limit)
    assert all_say_about(asked.text("CommandBar/Button:Save")) and "Saving expires about " in asked.source
    shop.replace_container("sessions", PartitionKey("/pk"), default_ttl=1000)
    for text in (
        visitor.settings("shop", "sessions").page.text("mf-ttl-preview"),
        settings(visitor, "preview", timeToLive="off").text("mf-ttl-preview"),
    ):
        assert all_say_about(text), text
    assert "would come back" in text


@pytest.mark.usefixtures("small_budget")
def test_mongo(server: RunningServer, visitor: Visitor) -> None:
    now = server.clock.now()
    with server.mongo.client() as client:
        client.app.otps.insert_many([{"at": now - timedelta(minutes=number)} for number in range(40)])
    address = "/_explorer/mongo/app/otps/indexes"
    sent = {"field": "at", "seconds": "600"}
    text = visitor.post(address, sent | {"action": "preview"}).text("mf-ttl-preview")
    counts = re.sub("Among them: .*? Saving", "Saving", text)
    assert all_say_about(counts), counts
    asked = visitor.post(address, sent | {"action": "save"})
    assert all_say_about(asked.text("mf-ttl-save")) and "By saving, about " in asked.source


@pytest.mark.usefixtures("small_budget")
def test_ydb(server: RunningServer, visitor: Visitor) -> None:
    form = {"name": "carts", "columns": "id Uint64 NOT NULL\nat Timestamp", "key": "id", "action": "create"}
    visitor.post("/_explorer/ydb/local/new-table", form)
    now = server.clock.now()
    rows = [{"id": n, "at": (now - timedelta(minutes=n)).isoformat().replace("+00:00", "Z")} for n in range(40)]
    visitor.post("/_explorer/ydb/local/carts/upload", {"records": "\n".join(map(json.dumps, rows))})
    sent = {"status": "enabled", "column": "at", "lifetime": "10m", "seen": ""}
    text = visitor.post("/_explorer/ydb/local/carts/rows", sent | {"action": "preview"}).text("mf-ttl-preview")
    counts = re.sub("Among them: .*? about", "about", text.partition("ALTER")[0])
    assert "more within the hour" in counts and all_say_about(counts), counts
    asked = visitor.post("/_explorer/ydb/local/carts/rows", sent | {"action": "save"})
    assert all_say_about(asked.text("mf-ttl-save")) and '<p class="warning">Saving expires about ' in asked.source


@pytest.mark.usefixtures("small_budget")
def test_overview_and_clock(shop: DatabaseProxy, visitor: Visitor) -> None:
    container = shop.create_container("sessions", PartitionKey("/pk"), default_ttl=600)
    for number in range(40):
        container.create_item({"id": str(number), "pk": "a"})
    shown = visitor.get("/_explorer/?horizon=1h")
    assert "About 40 records expire within the next hour; the peak is about 40 up to" in shown.source
    assert shown.source.count(">about 40<") >= 3
    assert "Advanced 1 h: about 40 expired, 40 purged" in visitor.post("/_explorer/clock", {"by": "+1 h"}).source
