"""Scale & Settings in Chromium, with the vendor's client watching what the data does."""

from __future__ import annotations

import json
import re

import pytest
from azure.cosmos import ContainerProxy, DatabaseProxy, PartitionKey
from playwright.sync_api import Locator, Page, expect

from mayflydb.embedded import RunningServer
from portal.browsing import Watched, reach

HERE = "/_explorer/cosmos/shop/sessions/settings"
in_memory = pytest.mark.parametrize("store", ["memory"], indirect=True, scope="session")
"""Marks what a page does by itself: it is the same on every store."""

OFF, NO_DEFAULT, ON = "ttl-off-option", "ttl-on-no-default-option", "ttl-on-option"


@pytest.fixture
def sessions(shop: DatabaseProxy) -> ContainerProxy:
    return shop.create_container("sessions", PartitionKey("/pk"), offer_throughput=400)


def fill(container: ContainerProxy) -> None:
    container.create_item({"id": "default", "pk": "a"})
    container.create_item({"id": "never", "pk": "a", "ttl": -1})
    container.create_item({"id": "own", "pk": "a", "ttl": 60})


def alive(container: ContainerProxy) -> set[str]:
    return {item["id"] for item in container.query_items("SELECT c.id FROM c", enable_cross_partition_query=True)}


def option(page: Page, name: str) -> Locator:
    return page.get_by_role("radio", name=name, exact=True)


def save(page: Page) -> Locator:
    return page.get_by_test_id("CommandBar/Button:Save")


def discard(page: Page) -> Locator:
    return page.get_by_test_id("CommandBar/Button:Discard")


def said(page: Page) -> Locator:
    return page.get_by_test_id("notification-console/header-status")


def preview(page: Page) -> Locator:
    return page.get_by_test_id("mf-ttl-preview")


def open_settings(page: Page) -> None:
    """From the first page, by the tree."""
    page.goto("/")
    page.get_by_test_id("TreeNode:shop/sessions").click()
    page.get_by_test_id("TreeNode:shop/sessions/Scale & Settings").click()
    page.get_by_test_id("settings-tab-header/SubSettingsTab").click()


@in_memory
def test_off_to_on_and_the_data_obeys(server: RunningServer, sessions: ContainerProxy, page: Page) -> None:
    """On other stores, the same forms are followed without a browser: test_forms.py."""
    fill(sessions)
    server.clock.advance(seconds=30)
    open_settings(page)
    expect(option(page, OFF)).to_be_checked()
    expect(save(page)).to_be_disabled()

    option(page, NO_DEFAULT).click()
    save(page).click()
    expect(said(page)).to_contain_text("Successfully updated container sessions")
    expect(option(page, NO_DEFAULT)).to_be_checked()
    assert sessions.read()["defaultTtl"] == -1
    page.get_by_test_id("mf-advance:+1 min").click()
    expect(said(page)).to_contain_text("Advanced 1 min: 1 expired")
    assert alive(sessions) == {"default", "never"}

    option(page, ON).click()
    page.get_by_test_id("ttl-input").fill("30")
    expect(preview(page)).to_contain_text("1 item would expire now, of 2.")
    expect(page.get_by_test_id("mf-ttl-human")).to_have_text("= 30 s")
    expect(page.get_by_test_id("mf-truth-table")).to_contain_text("After save")
    expect(save(page)).to_have_text("Save")
    save(page).click()
    expect(save(page)).to_have_text("Save and expire 1")
    expect(save(page)).to_be_focused()
    assert sessions.read()["defaultTtl"] == -1 and alive(sessions) == {"default", "never"}
    # Another number is another question; the old one again is the old one.
    page.get_by_test_id("ttl-input").fill("1800")
    expect(save(page)).to_have_text("Save")
    page.get_by_test_id("ttl-input").fill("30")
    expect(save(page)).to_have_text("Save and expire 1")
    save(page).click()
    expect(said(page)).to_contain_text("Successfully updated container sessions")
    assert sessions.read()["defaultTtl"] == 30
    assert alive(sessions) == {"never"}

    page.get_by_test_id("ttl-input").fill("1800")
    save(page).click()
    expect(said(page)).to_contain_text("Successfully updated container sessions")
    sessions.create_item({"id": "later", "pk": "a"})
    server.clock.advance(seconds=1799)
    assert alive(sessions) == {"never", "later"}
    server.clock.advance(seconds=1)
    assert alive(sessions) == {"never"}


@in_memory
def test_the_field(sessions: ContainerProxy, page: Page) -> None:
    page.goto(HERE)
    seconds = page.get_by_test_id("ttl-input")
    expect(seconds).to_be_hidden()
    option(page, ON).click()
    expect(seconds).to_be_visible()
    expect(seconds).to_have_value("")
    expect(seconds).to_have_attribute("id", "timeToLiveSeconds")
    expect(seconds).to_have_accessible_name("Time to live in seconds")
    expect(save(page)).to_be_disabled()
    for typed, value, may in (("5", "5", True), ("0", "0", False), ("2147483648", "2147483647", True), ("", "", False)):
        seconds.fill(typed)
        expect(seconds).to_have_value(value)
        expect(save(page)).to_be_enabled(enabled=may)
    seconds.press_sequentially("-")
    expect(seconds).to_have_value("0")
    expect(save(page)).to_be_disabled()
    option(page, NO_DEFAULT).click()
    expect(seconds).to_be_hidden()
    expect(save(page)).to_be_enabled()
    option(page, OFF).click()
    expect(save(page)).to_be_disabled()
    expect(discard(page)).to_be_disabled()


@in_memory
def test_from_a_number_over_off_it_is_empty_again(shop: DatabaseProxy, page: Page) -> None:
    shop.create_container("sessions", PartitionKey("/pk"), default_ttl=3600)
    page.goto(HERE)
    seconds = page.get_by_test_id("ttl-input")
    expect(seconds).to_have_value("3600")
    expect(page.get_by_test_id("mf-ttl-human")).to_have_text("= 1 h")
    option(page, OFF).click()
    option(page, ON).click()
    expect(seconds).to_have_value("")
    expect(save(page)).to_be_disabled()
    seconds.fill("3600")
    expect(save(page)).to_be_disabled()


@in_memory
def test_discard(sessions: ContainerProxy, page: Page) -> None:
    page.goto(HERE)
    option(page, ON).click()
    page.get_by_test_id("ttl-input").fill("60")
    page.get_by_test_id("settings-tab-header/ScaleTab").click()
    page.get_by_test_id("manual-throughput-input").fill("500")
    expect(discard(page)).to_be_enabled()
    discard(page).click()
    expect(option(page, OFF)).to_be_checked()
    expect(save(page)).to_be_disabled()
    expect(page.get_by_test_id("manual-throughput-input")).to_have_value("400")
    assert "defaultTtl" not in sessions.read()


@in_memory
def test_all_tabs_are_saved_together(sessions: ContainerProxy, page: Page) -> None:
    page.goto(HERE)
    option(page, ON).click()
    page.get_by_test_id("ttl-input").fill("60")
    page.get_by_test_id("settings-tab-header/ScaleTab").click()
    page.get_by_test_id("manual-throughput-input").fill("500")
    page.get_by_test_id("settings-tab-header/IndexingPolicyTab").click()
    policy = page.locator(".settingsV2Editor textarea")
    policy.fill(json.dumps(json.loads(policy.input_value()) | {"excludedPaths": [{"path": "/big/*"}]}))
    save(page).click()
    expect(said(page)).to_have_text(
        "Successfully updated container sessions. Successfully updated offer for collection sessions"
    )
    body = sessions.read()
    assert body["defaultTtl"] == 60 and {"path": "/big/*"} in body["indexingPolicy"]["excludedPaths"]
    assert sessions.get_throughput().offer_throughput == 500


@in_memory
def test_no_index_no_time_to_live(sessions: ContainerProxy, page: Page) -> None:
    page.goto(HERE)
    option(page, NO_DEFAULT).click()
    page.get_by_test_id("settings-tab-header/IndexingPolicyTab").click()
    page.locator("#indexingPolicy").fill('{"indexingMode": "none", "automatic": false}')
    expect(page.locator("#refusals")).to_contain_text("Time to Live needs an index")
    expect(save(page)).to_be_disabled()
    page.get_by_test_id("settings-tab-header/SubSettingsTab").click()
    option(page, OFF).click()
    expect(page.locator("#refusals")).to_have_text("")
    expect(save(page)).to_be_enabled()


@in_memory
def test_what_somebody_else_has_saved_stays(
    sessions: ContainerProxy, shop: DatabaseProxy, watched: Watched, page: Page
) -> None:
    watched.expected = "412 (Precondition Failed)"
    page.goto(HERE)
    option(page, ON).click()
    page.get_by_test_id("ttl-input").fill("60")
    shop.replace_container(sessions, PartitionKey("/pk"), default_ttl=7200)
    save(page).click()
    expect(page.get_by_role("alert")).to_contain_text("This container was changed")
    expect(save(page)).to_be_disabled()
    assert sessions.read()["defaultTtl"] == 7200
    discard(page).click()
    expect(page.get_by_test_id("ttl-input")).to_have_value("7200")


@in_memory
def test_a_form_of_another_site(sessions: ContainerProxy, server: RunningServer, watched: Watched, page: Page) -> None:
    """It is sent from a page of another origin, with all that the browser adds of its own accord."""
    watched.expected = "403 (Forbidden)"
    target = f"{watched.base}{HERE}"
    form = f'<form method=post action="{target}"><input name=timeToLive value=no-default><button>Go</button></form>'
    page.route("http://evil.example/", lambda route: route.fulfill(body=form, content_type="text/html"))
    page.goto("http://evil.example/")
    watched.strangers.clear()
    page.get_by_role("button").click()
    expect(page.locator("body")).to_contain_text("may not change anything here")
    assert "defaultTtl" not in sessions.read()


@in_memory
def test_keyboard_alone(sessions: ContainerProxy, page: Page) -> None:
    """From the address bar to a saved setting, by Tab, arrows, space and Enter."""
    fill(sessions)
    page.goto("/")
    reach(page, '[role="treeitem"]')
    for key in ("ArrowDown", "ArrowRight", "ArrowDown", "ArrowDown", "ArrowDown", "Enter"):
        page.keyboard.press(key)
    expect(page).to_have_url(re.compile(r"/settings$"))
    reach(page, '[aria-label="ttl-off-option"]')
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(option(page, ON)).to_be_checked()
    page.keyboard.press("Tab")
    expect(page.get_by_test_id("ttl-input")).to_be_focused()
    page.keyboard.type("1800")
    page.keyboard.press("Enter")
    expect(said(page)).to_contain_text("Successfully updated container sessions")
    assert sessions.read()["defaultTtl"] == 1800
    reach(page, "#tab-settings")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#indexingPolicy")).to_be_visible()
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    expect(page.get_by_test_id("manual-throughput-input")).to_be_visible()


@in_memory
def test_throughput(sessions: ContainerProxy, page: Page) -> None:
    page.goto(HERE)
    page.get_by_test_id("settings-tab-header/ScaleTab").click()
    manual, autoscale = (
        page.get_by_test_id("manual-throughput-input"),
        page.get_by_test_id("autopilot-throughput-input"),
    )
    expect(autoscale).to_be_hidden()
    for typed, may in (("300", False), ("450", False), ("", False), ("500", True)):
        manual.fill(typed)
        expect(save(page)).to_be_enabled(enabled=may)
        expect(page.get_by_test_id("manual-throughput-input-error")).to_have_text("" if may else re.compile(".+"))
    page.get_by_role("radio", name="Autoscale").click()
    expect(manual).to_be_hidden()
    expect(save(page)).to_be_disabled()
    autoscale.fill("4000")
    save(page).click()
    expect(said(page)).to_have_text("Successfully updated offer for collection sessions")
    assert sessions.get_throughput().auto_scale_max_throughput == 4000


@in_memory
def test_messages_are_kept(sessions: ContainerProxy, page: Page) -> None:
    page.goto(HERE)
    expand = page.get_by_test_id("NotificationConsole/ExpandCollapseButton")
    contents = page.get_by_test_id("NotificationConsole/Contents")
    expect(expand).to_be_hidden()
    page.get_by_test_id("mf-advance:+1 h").click()
    page.get_by_test_id("mf-advance:next").click()
    expect(said(page)).to_have_text("Nothing is going to expire")
    expect(expand.get_by_alt_text("Expand icon")).to_be_visible()
    expect(contents).to_be_hidden()
    expand.click()
    expect(expand.get_by_alt_text("Collapse icon")).to_be_visible()
    expect(contents.get_by_role("listitem")).to_have_text(
        ["Nothing is going to expire", "Advanced 1 h: 0 expired, 0 purged"]
    )
    expand.click()
    expect(contents).to_be_hidden()


@in_memory
def test_a_clock_that_ticks(sessions: ContainerProxy, page: Page) -> None:
    page.goto(HERE)
    page.get_by_role("button", name="Resume ticking").click()
    expect(page.get_by_test_id("mf-clock")).to_contain_text("ticking")
    before = page.locator("[data-ticking]").text_content()
    expect(page.locator("[data-ticking]")).not_to_have_text(before or "")
    page.get_by_role("button", name="Freeze").click()
    expect(page.get_by_test_id("mf-clock")).to_contain_text("frozen")


@in_memory
def test_without_scripts(sessions: ContainerProxy, server: RunningServer, watched: Watched) -> None:
    fill(sessions)
    server.clock.advance(hours=1)
    page = watched.page(java_script_enabled=False)
    page.goto("/")
    reach(page, '[data-test="TreeNode:shop/sessions"]')
    page.keyboard.press("Enter")
    reach(page, '[data-test="TreeNode:shop/sessions/Scale & Settings"]')
    open_page = page.goto(HERE)
    assert open_page is not None and open_page.status == 200
    expect(page.locator("#indexingPolicy")).to_be_visible()
    option(page, ON).check()
    page.get_by_test_id("ttl-input").fill("1800")
    page.get_by_role("button", name="Preview").click()
    expect(preview(page)).to_contain_text("2 items would expire now, of 3.")
    save(page).click()
    expect(save(page)).to_have_text("Save and expire 2")
    save(page).click()
    expect(said(page)).to_contain_text("Successfully updated container sessions")
    assert alive(sessions) == {"never"}
