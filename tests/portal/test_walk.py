"""A walk over the route table: every page has a row in page_table.py, a JSON twin, no fault that axe finds, and a Tab stop
for everything that can be used.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from azure.cosmos import DatabaseProxy
from playwright.sync_api import Page, expect

from mayflydb.embedded import RunningServer
from portal.browsing import WIDE, Watched, faults
from portal.page_table import (
    ACTIONS,
    COSMOS,
    FILES,
    LONG,
    MONGO,
    OVERVIEW,
    OVERVIEW_TWIN,
    PAGES,
    YDB,
    fill,
    routes,
)
from served import Http, port_of

in_memory = pytest.mark.parametrize("store", ["memory"], indirect=True, scope="session")


@pytest.fixture
def filled(shop: DatabaseProxy, server: RunningServer) -> None:
    fill(shop, server)
    server.clock.advance(hours=1)


def test_every_route_has_its_row() -> None:
    twins = {OVERVIEW_TWIN if path in OVERVIEW else f"{path}.json" for path in PAGES}
    assert routes("GET") == PAGES.keys() | FILES.keys() | twins
    assert routes("POST") - PAGES.keys() == ACTIONS.keys()
    assert set(ACTIONS.values()) <= PAGES.keys()


@in_memory
def test_every_page_has_its_twin(filled: None, server: RunningServer) -> None:
    http = Http(port_of(server))
    for route, address in PAGES.items():
        page = http("GET", address, accept="text/html")
        path, _, query = address.partition("?")
        twin = OVERVIEW_TWIN if route in OVERVIEW else f"{path}.json"
        twin += f"?{query}" if query else ""
        named = twin.replace("&", "&amp;")
        assert page.status == 200 and f'type="application/json" href="{named}"' in page.body.decode(), route
        answer = http("GET", twin)
        assert (answer.status, answer.headers["content-type"]) == (200, "application/json"), route
        assert isinstance(answer.json, dict) and answer.json, route
    http("PUT", "/_mayfly/snapshots/monday")
    for route, address in FILES.items():
        answer = http("GET", address)
        assert answer.status == 200 and answer.body, route
    http("DELETE", "/_mayfly/snapshots/monday")


def pick(address: str, button: str) -> Callable[[Page], None]:
    def ask(page: Page) -> None:
        page.goto(address)
        page.locator("[name=pick]").first.check()
        page.get_by_role("button", name=button, exact=True).click()
        page.get_by_role("heading", level=1).wait_for()

    return ask


def press(address: str, button: str, **fields: str) -> Callable[[Page], None]:
    """Fill fields by their names, and press a button."""

    def submit(page: Page) -> None:
        page.goto(address)
        for name, text in fields.items():
            page.locator(f"main [name={name}]").first.fill(text)
        with page.expect_response(lambda answer: answer.request.method == "POST"):
            page.get_by_role("main").get_by_role("button", name=button, exact=True).first.click()

    return submit


def void(answer: object) -> None:
    assert answer is not None


def restore(page: Page) -> None:
    page.goto("/_explorer/snapshots")
    page.get_by_label("Save everything as").fill("monday")
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_role("button", name="Restore monday").click()
    page.get_by_test_id("mf-question").wait_for()


ROW = f"{YDB}/row?key=%5B%22an-id%22%5D"
STATES: dict[str, Callable[[Page], None]] = {
    "an error": lambda page: void(page.goto(f"{COSMOS}/items?after=x")),
    "items that are deleted": pick(f"{COSMOS}/items", "Delete"),
    "items that are patched": pick(f"{COSMOS}/items", "Patch…"),
    "documents that are deleted": pick(f"{MONGO}/documents", "Delete"),
    "an item that is deleted": press(PAGES["/_explorer/cosmos/{database}/{container}/item"], "Delete"),
    "a document that is deleted": press(f"{MONGO}/document?id=1", "Delete"),
    "a row that is deleted": press(ROW, "Delete"),
    "a container that is not named": press("/_explorer/new-container", "OK"),
    "a collection that was refused": press("/_explorer/new-collection", "OK", database="app", collection="otps"),
    "a table that is shown": press(
        PAGES["/_explorer/ydb/{database}/new-table"], "Show YQL", name="x", column="created_at", lifetime="1h"
    ),
    "an index that was refused": press(f"{YDB}/indexes", "Create index", name="x", columns="nothing"),
    "items that were refused": press(f"{COSMOS}/upload", "Upload", records=f'{{"id": "{LONG}{LONG}"}}\n{{"id": 5}}'),
    "documents that were refused": press(f"{MONGO}/upload", "Upload", records='{"_id": 1}\n{"_id": 2}'),
    "rows that were refused": press(f"{YDB}/upload", "Upload", records='{"id": "a"}\n{"nothing": 5}'),
    "a name that is wrong": press(f"{MONGO}/drop", "OK", confirm="x"),
    "results of SQL": press(f"{COSMOS}/query", "Execute Query"),
    "results of MQL": press(f"{MONGO}/query", "Execute Query"),
    "results of YQL": press(f"{YDB}/query", "Execute Query"),
    "a snapshot that is restored": restore,
    "items as of a later instant": lambda page: void(page.goto(f"{COSMOS}/items?as_of=2031-01-01T00:00")),
    "documents as of a later instant": lambda page: void(page.goto(f"{MONGO}/documents?as_of=2031-01-01T00:00")),
    "rows as of a later instant": lambda page: void(page.goto(f"{YDB}/rows?as_of=2031-01-01T00:00")),
    "an instant that is refused": lambda page: void(page.goto(f"{COSMOS}/items?as_of=2001-01-01T00:00")),
    "lifecycle settings that were refused": press(f"{MONGO}/lifecycle", "Save", grace="x"),
    "lifecycle settings that were saved": press(f"{YDB}/lifecycle", "Save", grace="7d", touch="5m"),
    "a webhook that was refused": press("/_explorer/webhooks", "Add webhook", name="a b", url="http://127.0.0.1:9/"),
    "a webhook that was added": press("/_explorer/webhooks", "Add webhook", name=LONG[:60], url=f"http://{LONG}/"),
    "a webhook that is removed": press("/_explorer/webhooks", f"Remove {LONG[:60]}"),
    "a record without lines": lambda page: void(
        page.goto(f"/_explorer/erasure?target=cosmos%3Ashop%2Fsessions&pk=a&id={LONG}")
    ),
    "a filter that is refused": lambda page: void(page.goto(f"{YDB}/rows?filter=%28")),
}
"""Pages that answer a form, and what leads to them."""


@in_memory
def test_every_answer_to_a_form_is_for_everybody(filled: None, watched: Watched, axe: str) -> None:
    watched.expected = "Failed to load resource"
    page = watched.page(viewport=WIDE)
    found = {}
    for name, lead in STATES.items():
        lead(page)
        found[name] = faults(page, axe)
    assert {name: what for name, what in found.items() if what} == {}


STOPS = """(part) => {
  document.getElementById(part)?.focus();
  const place = document.getElementById(part) ?? document;
  const shown = [...place.querySelectorAll("a[href], button, input, select, textarea, summary, [tabindex], [contenteditable]")]
    .filter((each) => each.type !== "hidden" && !each.disabled && each.checkVisibility({visibilityProperty: true}))
    .filter((each) => each.id !== "content" && !each.matches("fieldset:disabled *"));
  // One stop leads into a tree, a list of tabs, and a group of radio buttons: the arrows go on from there.
  const stop = (each) => each.closest("[role=tree], [role=tablist], .cm-editor")
    ?? (each.type === "radio" ? document.querySelector(`[type=radio][name="${each.name}"]`) : each);
  window.reached = new Set();
  window.hidden = new Set();
  addEventListener("focusin", (event) => {
    reached.add(stop(event.target));
    if (getComputedStyle(event.target).outlineStyle === "none" && !event.target.closest(".cm-editor")) hidden.add(event.target);
  });
  window.stops = new Set(shown.map(stop));
  return stops.size;
}"""
MISSED = "() => [...stops].filter((each) => !reached.has(each)).map((each) => each.outerHTML.slice(0, 160))"
UNSEEN = "() => [...hidden].map((each) => each.outerHTML.slice(0, 160))"


def missed_stops(page: Page, part: str) -> list[str]:
    """What Tab does not reach within a part of a page, or reaches without showing it."""
    # A field for a date has a stop for each of its parts.
    for _ in range(int(page.evaluate(STOPS, part)) + 8 * page.locator("[type=datetime-local]").count() + 2):
        page.keyboard.press("Tab")
    missed = [f"no stop: {each}" for each in page.evaluate(MISSED)]
    return missed + [f"focus is not seen: {each}" for each in page.evaluate(UNSEEN)]


@in_memory
def test_every_page_is_for_everybody(filled: None, watched: Watched, axe: str) -> None:
    page = watched.page(viewport=WIDE)
    found = {}
    for name, address in PAGES.items():
        answer = page.goto(address)
        assert answer is not None and answer.status == 200, name
        if page.locator("meta[name=mf-editor]").count() and page.locator("[data-language]").count():
            page.locator(".cm-editor").wait_for()
        # What all pages have is gone through once.
        found[name] = missed_stops(page, "" if name == "/" else "content") + faults(page, axe)
    assert {name: what for name, what in found.items() if what} == {}


@in_memory
def test_every_tree_goes_by_arrows(filled: None, watched: Watched) -> None:
    page = watched.page()
    page.goto("/_explorer/")
    for space, leaf in (("cosmos", "Items"), ("mongo", "Documents"), ("ydb", "Rows")):
        tree = page.get_by_test_id(f"Tree:{space}")
        first = tree.get_by_role("treeitem").first
        expect(first).to_have_attribute("tabindex", "0")
        first.focus()
        page.keyboard.press("ArrowDown")
        expect(tree.get_by_text(leaf, exact=True)).to_be_hidden()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowDown")
        expect(tree.get_by_text(leaf, exact=True)).to_be_focused()
