"""What the walk over the pages does not meet: tabs, questions, the menu of a narrow window, and pages of sessions."""

from __future__ import annotations

import pytest
from azure.cosmos import DatabaseProxy
from playwright.sync_api import expect

from mayflydb.embedded import RunningServer
from portal.browsing import NARROW, WIDE, Watched, faults
from portal.page_table import COSMOS, fill

in_memory = pytest.mark.parametrize("store", ["memory"], indirect=True, scope="session")


@pytest.fixture
def filled(shop: DatabaseProxy, server: RunningServer) -> None:
    fill(shop, server)
    server.clock.advance(hours=1)


@in_memory
def test_the_tabs_of_a_container_and_its_question(filled: None, watched: Watched, axe: str) -> None:
    page = watched.page(viewport=WIDE)
    found = {}
    page.goto(f"{COSMOS}/settings")
    page.get_by_test_id("ttl-input").fill("60")
    expect(page.get_by_test_id("mf-ttl-preview")).to_contain_text("1 item would expire now")
    page.get_by_test_id("CommandBar/Button:Save").click()
    expect(page.get_by_test_id("CommandBar/Button:Save")).to_have_text("Save and expire 1")
    found["asked"] = faults(page, axe)
    for tab in page.get_by_role("tab").all():
        tab.click()
        found[tab.inner_text()] = faults(page, axe)
    assert {name: what for name, what in found.items() if what} == {} and len(found) > 5


@in_memory
def test_a_narrow_window(filled: None, watched: Watched) -> None:
    page = watched.page(viewport=NARROW)
    # The page begins with the page: the menu is closed, and opens.
    page.goto("/_explorer/")
    node, menu = page.get_by_test_id("TreeNode:shop/sessions"), page.locator("summary", has_text="Menu")
    expect(node).to_be_hidden()
    expect(page.get_by_role("heading", name="Overview")).to_be_in_viewport()
    menu.press("Enter")
    expect(node).to_be_visible()
    page.set_viewport_size({"width": 1280, "height": 844})
    expect(menu).to_be_hidden()
    expect(node).to_be_visible()
