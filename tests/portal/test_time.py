"""The pages about time: the forecast and what the clock then does, the expiry stream."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from azure.cosmos import DatabaseProxy, PartitionKey
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from playwright.sync_api import expect

from mayflydb.embedded import RunningServer
from portal.browsing import Watched
from portal.visitor import Visitor
from served import START, Http, port_of

ydb: Any = pytest.importorskip("ydb")
pytestmark = pytest.mark.parametrize("store", ["memory"], indirect=True, scope="session")


@pytest.fixture
def three(shop: DatabaseProxy, server: RunningServer) -> None:
    """One container of each protocol, each with one record that expires after 40 minutes, and one after a day."""
    container = shop.create_container("sessions", PartitionKey("/pk"), default_ttl=-1)
    with server.mongo.client() as client:
        client.app.otps.create_index("at", expireAfterSeconds=0)
        for n, seconds in enumerate((2400, 86_400)):
            container.create_item({"id": f"item-{n}", "pk": "a", "ttl": seconds})
            client.app.otps.insert_one({"_id": f"otp-{n}", "at": server.clock.now() + timedelta(seconds=seconds)})
    with server.ydb.driver() as driver, ydb.QuerySessionPool(driver) as pool:
        pool.execute_with_retries(
            "CREATE TABLE carts (id Utf8, at Timestamp, PRIMARY KEY (id)) WITH (TTL = Interval('PT0S') ON at)"
        )
        pool.execute_with_retries("UPSERT INTO carts (id, at) VALUES ('cart-0', Timestamp('2030-01-01T00:40:00Z'))")


def test_the_forecast_as_a_page(three: None, server: RunningServer, visitor: Visitor) -> None:
    shown = visitor.get("/_explorer/")
    assert "3 records expire within the next hour; the peak is 3 up to 2030-01-01 00:40:00Z." in shown.source
    bar = "/_explorer/due?from=2030-01-01T00%3A39%3A00Z&amp;to=2030-01-01T00%3A40%3A00Z"
    assert shown.source.count(bar) == 2
    # The self-test of the start purges a record too.
    assert "mf-causes" not in shown.source
    due = visitor.get(bar.replace("&amp;", "&")).text("mf-due")
    assert all(name in due for name in ("item-0", "otp-0", "cart-0")) and "item-1" not in due
    assert "5 records expire within the next 7 days" in visitor.get("/_explorer/?horizon=7d").source
    assert visitor.get("/_explorer/?horizon=2d").status == 400
    assert sum(bucket["count"] for bucket in visitor.json("/_explorer/index.json")["forecast"]["buckets"]) == 3
    server.clock.advance("40m", sweep="none")
    shown = visitor.get("/_explorer/")
    assert "pending" in shown.text("mf-just-expired") and "No record expires within the next hour." in shown.source
    server.clock.advance("2m")
    server.purge()
    shown = visitor.get("/_explorer/")
    assert "cosmos:shop/sessions item-0 item ttl 2400 s" in shown.text("mf-just-expired")
    assert "own ttl 1" in shown.text("mf-causes") and "TTL index 1" in shown.text("mf-causes")


def test_the_stream_as_a_page(three: None, server: RunningServer, visitor: Visitor) -> None:
    server.clock.advance("2d")
    assert len(visitor.json("/_explorer/events.json")["events"]) == 5
    shown = visitor.get("/_explorer/events?target=mongo:app.otps").text("mf-stream")
    assert "otp-0" in shown and "otp-1" in shown and "item" not in shown
    assert visitor.get("/_explorer/events?target=mongo:app.none").status == 404
    answer = Http(port_of(server))("GET", "/_explorer/events.jsonl?target=cosmos:shop")
    lines = [json.loads(line) for line in answer.body.splitlines()]
    assert [line["id"] for line in lines] == ["item-0", "item-1"]


def test_the_stream_is_live(three: None, server: RunningServer, watched: Watched) -> None:
    page = watched.page()
    page.goto("/_explorer/events")
    expect(page.locator("#live")).to_have_text("Live")
    server.clock.advance("40m")
    expect(page.get_by_test_id("mf-stream")).to_contain_text("item-0")
    page.get_by_role("button", name="Pause").click()
    server.clock.advance("1d")
    expect(page.locator("#live")).to_have_text("Paused: 3 new")
    expect(page.get_by_test_id("mf-stream")).not_to_contain_text("item-1")
    page.get_by_role("button", name="Go on").click()
    expect(page.get_by_test_id("mf-stream")).to_contain_text("item-1")


@settings(max_examples=2, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ttls=st.lists(st.integers(1, 3600), min_size=1, max_size=3))
def test_the_clock_does_what_the_forecast_says(server: RunningServer, visitor: Visitor, ttls: list[int]) -> None:
    """Records of all protocols: at the end of each bar as many are due as the bars up to it say."""
    server.start_at(START)
    now = server.clock.now()
    container = server.cosmos.client().create_database("all").create_container("c", PartitionKey("/id"), default_ttl=-1)
    with server.mongo.client() as client:
        client.app.c.create_index("at", expireAfterSeconds=0)
        client.app.c.insert_many([{"at": now + timedelta(seconds=ttl)} for ttl in ttls])
    for n, ttl in enumerate(ttls):
        container.create_item({"id": str(n), "ttl": ttl})
    rows = ", ".join(f"({n}u, {int(now.timestamp()) + ttl}u)" for n, ttl in enumerate(ttls))
    with server.ydb.driver() as driver, ydb.QuerySessionPool(driver) as pool:
        pool.execute_with_retries(
            "CREATE TABLE t (id Uint32, at Uint32, PRIMARY KEY (id)) WITH (TTL = Interval('PT0S') ON at AS SECONDS)"
        )
        pool.execute_with_retries(f"UPSERT INTO t (id, at) VALUES {rows}")
    forecast = visitor.json("/_explorer/index.json")["forecast"]
    assert forecast["in_horizon"] == 3 * len(ttls)
    expired = 0
    for bucket in forecast["buckets"]:
        if bucket["count"]:
            server.clock.set(bucket["to"])
            server.purge()
            gone = len(visitor.json("/_explorer/events.json")["events"])
            assert gone == expired + bucket["count"]
            expired = gone
