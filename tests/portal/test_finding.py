"""Containers are found by a part of their names: as a page, and in the tree while a person types."""

from __future__ import annotations

import pytest
from azure.cosmos import DatabaseProxy, PartitionKey
from playwright.sync_api import expect

from mayflydb.embedded import RunningServer
from mayflydb.portal import finding
from portal.browsing import Watched, faults
from portal.visitor import Visitor

pytestmark = pytest.mark.parametrize("store", ["memory"], indirect=True, scope="session")


@pytest.fixture
def named(shop: DatabaseProxy, server: RunningServer) -> None:
    for name in ("sessions", "Carts"):
        shop.create_container(name, PartitionKey("/pk"))
    with server.mongo.client() as client:
        client.app.create_collection("otps")
        client.app.create_collection("sessions-old")


def test_names_are_found(named: None, visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    def find(text: str) -> list[str]:
        rows = visitor.json(f"/_explorer/find.json?q={text}")["found"]
        return [f"{row['protocol']} {row['database']}/{row['name']}" for row in rows]

    assert find("SESS") == ["Cosmos NoSQL shop/sessions", "MongoDB app/sessions-old"]
    assert find("carts") == ["Cosmos NoSQL shop/Carts"]
    assert find("app") == ["MongoDB app/otps", "MongoDB app/sessions-old"]
    assert find("shop/c") == ["Cosmos NoSQL shop/Carts"]
    assert find("none") == [] and len(find("")) == 4
    shown = visitor.get("/_explorer/find?q=otp")
    assert 'href="/_explorer/mongo/app/otps/documents"' in shown.source and "1 found" in shown.text("mf-found")
    assert "has such a name" in visitor.get("/_explorer/find?q=<b>").source
    monkeypatch.setattr(finding, "MOST", 2)
    assert len(find("")) == 2 and "there may be more" in visitor.get("/_explorer/find?q=").text("mf-found")


def test_the_tree_follows_the_typing(named: None, watched: Watched, axe: str) -> None:
    page = watched.page()
    page.goto("/_explorer/")
    page.get_by_role("searchbox").fill("sess")
    expect(page.get_by_test_id("TreeNode:shop/sessions")).to_be_visible()
    expect(page.get_by_test_id("TreeNode:app/sessions-old")).to_be_visible()
    expect(page.get_by_test_id("TreeNode:shop/Carts")).to_be_hidden()
    assert faults(page, axe) == []
    page.get_by_role("searchbox").fill("otps")
    expect(page.get_by_test_id("TreeNode:shop")).to_be_hidden()
    page.keyboard.press("Enter")
    page.wait_for_url("**/_explorer/find?q=otps")
    assert faults(page, axe) == []
    page.keyboard.press("Tab")
    page.get_by_role("main").get_by_role("link", name="otps").click()
    page.wait_for_url("**/mongo/app/otps/documents")
