"""Every page for everybody: axe finds nothing in either colour scheme, and a narrow window needs no scrolling to the side."""

from __future__ import annotations

from typing import Any

import pytest
from azure.cosmos import DatabaseProxy, PartitionKey
from playwright.sync_api import expect

from mayflydb.embedded import RunningServer
from portal.browsing import Watched

ydb: Any = pytest.importorskip("ydb")

BASE = "/_explorer/cosmos/shop/sessions"
PAGES = {
    "overview": "/_explorer/",
    "items": f"{BASE}/items",
    "item": f"{BASE}/item?id=1&pk=%22a%22",
    "upload": f"{BASE}/upload",
    "query": f"{BASE}/query",
    "new-container": "/_explorer/new-container",
    "settings": f"{BASE}/settings",
    "documents": "/_explorer/mongo/app/otps/documents",
    "document": "/_explorer/mongo/app/otps/document?id=1",
    "new-collection": "/_explorer/new-collection",
    "indexes": "/_explorer/mongo/app/otps/indexes",
    "mongo query": "/_explorer/mongo/app/otps/query",
    "rows": "/_explorer/ydb/local/carts/rows",
    "snapshots": "/_explorer/snapshots",
    "error": f"{BASE}/items?after=x",
}
in_memory = pytest.mark.parametrize("store", ["memory"], indirect=True, scope="session")


@pytest.fixture
def filled(shop: DatabaseProxy, server: RunningServer) -> None:
    container = shop.create_container("sessions", PartitionKey("/pk"), default_ttl=7200, offer_throughput=400)
    container.create_item({"id": "1", "pk": "a"})
    container.create_item({"id": "an-id-without-any-place-to-break-it-" * 3, "pk": "a", "ttl": -1})
    with server.mongo.client() as client:
        client.app.otps.create_index("at", expireAfterSeconds=5)
        client.app.otps.create_index("_ts", expireAfterSeconds=7200)
        client.app.otps.insert_one({"_id": "an-id-without-any-place-to-break-it-" * 3, "ttl": "x"})
        client.app.otps.insert_one({"_id": 1})
    with server.ydb.driver() as driver, ydb.QuerySessionPool(driver) as pool:
        column = "a_column_without_any_place_to_break_it_" * 3
        pool.execute_with_retries("DROP TABLE IF EXISTS carts")
        pool.execute_with_retries(
            f"CREATE TABLE carts (id Utf8, {column} Uint32, PRIMARY KEY (id))"
            f" WITH (TTL = Interval('PT1H') ON {column} AS SECONDS)"
        )
        pool.execute_with_retries("UPSERT INTO carts (id) VALUES ('an-id')")
    server.clock.advance(hours=1)


@in_memory
def test_axe_finds_nothing(filled: None, watched: Watched, axe: str) -> None:
    watched.expected = "400 (Bad Request)"
    page = watched.page()
    found = {}
    for name, address in PAGES.items():
        page.goto(address)
        found[name] = faults(page, axe)
    page.goto(PAGES["settings"])
    page.get_by_test_id("ttl-input").fill("60")
    expect(page.get_by_test_id("mf-ttl-preview")).to_contain_text("1 item would expire now")
    page.get_by_test_id("CommandBar/Button:Save").click()
    expect(page.get_by_test_id("CommandBar/Button:Save")).to_have_text("Save and expire 1")
    found["asked"] = faults(page, axe)
    for tab in ("ScaleTab", "IndexingPolicyTab", "PartitionKeyTab", "ConflictResolutionTab"):
        page.get_by_test_id(f"settings-tab-header/{tab}").click()
        found[tab] = faults(page, axe)
    assert {name: what for name, what in found.items() if what} == {}


def faults(page: Any, axe: str) -> list[str]:
    """What axe says, with the element it says it of: everything, and in the dark again what is about colours."""
    # Run as the debugger does it, which the page's own rules for scripts do not concern.
    page.emulate_media(color_scheme="light")
    page.evaluate(axe)
    violations = page.evaluate("async () => (await axe.run()).violations")
    page.emulate_media(color_scheme="dark")
    # The editor takes the colours of the other scheme with the next frame.
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    violations += page.evaluate(
        "async () => (await axe.run({runOnly: ['color-contrast', 'link-in-text-block']})).violations"
    )
    return [f"{each['id']}: {node['html'][:120]}" for each in violations for node in each["nodes"]]


@in_memory
def test_a_narrow_window(filled: None, watched: Watched) -> None:
    watched.expected = "400 (Bad Request)"
    page = watched.page(viewport={"width": 320, "height": 640})
    widths = {}
    for name, address in PAGES.items():
        page.goto(address)
        widths[name] = page.evaluate("() => document.documentElement.scrollWidth")
    assert widths == dict.fromkeys(PAGES, 320)
    # The page begins with the page: the menu is closed, and opens.
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto("/_explorer/")
    node, menu = page.get_by_test_id("TreeNode:shop/sessions"), page.locator("summary", has_text="Menu")
    expect(node).to_be_hidden()
    expect(page.get_by_role("heading", name="Overview")).to_be_in_viewport()
    menu.press("Enter")
    expect(node).to_be_visible()
    page.set_viewport_size({"width": 1280, "height": 844})
    expect(menu).to_be_hidden()
    expect(node).to_be_visible()
    page.set_viewport_size({"width": 320, "height": 640})
    page.goto(PAGES["settings"])
    page.get_by_test_id("ttl-input").fill("3600")
    page.get_by_test_id("CommandBar/Button:Save").click()
    expect(page.get_by_test_id("CommandBar/Button:Save")).to_have_text("Save and expire 1")
    assert page.evaluate("() => document.documentElement.scrollWidth") == 320
