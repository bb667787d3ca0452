"""Forms of the portal by keyboard alone: Tab to a field, type, and Enter, as a person without a mouse does."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from azure.cosmos import DatabaseProxy
from playwright.sync_api import Page, expect

from mayflydb.embedded import RunningServer
from mayflydb.portal import querying
from mayflydb.portal.presence import ClientLeft, run_while_present
from portal.browsing import WIDE, Watched, reach
from portal.page_table import COSMOS, MONGO, YDB, fill
from served import Http, port_of

pytestmark = pytest.mark.parametrize("store", ["memory"], indirect=True, scope="session")
SNAPSHOTS = "/_explorer/snapshots"


@pytest.fixture
def page(shop: DatabaseProxy, server: RunningServer, watched: Watched) -> Page:
    fill(shop, server)
    return watched.page(viewport=WIDE)


def open_page(page: Page, address: str) -> None:
    """Go there, and over the skip link to the content."""
    page.goto(address)
    reach(page, ".skip")
    page.keyboard.press("Enter")


def choose_file(page: Page, path: Path) -> None:
    """Press Enter in the field of a file, and choose one in the dialog."""
    # The browser hands dialogs over from the first listener on, about which it is told without an answer: under load Enter was
    # faster, and the dialog was lost. The answer to another question comes after it.
    page.on("filechooser", lambda _: None)
    page.title()
    with page.expect_file_chooser() as chooser:
        page.keyboard.press("Enter")
    chooser.value.set_files(path)


def enter(page: Page, selector: str, text: str) -> None:
    """Replace the text of a field."""
    reach(page, selector)
    page.keyboard.press("Control+A")
    page.keyboard.type(text)


def press(page: Page, selector: str) -> None:
    reach(page, selector)
    page.keyboard.press("Enter")


def expect_said(page: Page, text: str) -> None:
    expect(page.get_by_test_id("notification-console/header-status")).to_contain_text(text)


def test_a_container_is_found(page: Page) -> None:
    page.goto("/_explorer/")
    enter(page, "[type=search]", "otp")
    page.keyboard.press("Enter")
    page.wait_for_url("**/find?q=otp")
    reach(page, ".skip")
    page.keyboard.press("Enter")
    press(page, "main td a")
    page.wait_for_url("**/mongo/app/otps/documents")


def test_a_table_and_its_index_are_made(page: Page) -> None:
    open_page(page, "/_explorer/ydb/local/new-table")
    enter(page, "#name", "notes")
    enter(page, "#columns", "id Uint64 NOT NULL\nauthor Utf8\nat Timestamp")
    enter(page, "#column", "at")
    enter(page, "#lifetime", "1h")
    press(page, "[name=action][value=create]")
    expect_said(page, "Table notes created")
    open_page(page, "/_explorer/ydb/local/notes/indexes")
    enter(page, "#index-name", "by_author")
    enter(page, "#index-columns", "author")
    reach(page, "#index-kind")
    page.keyboard.press("ArrowDown")
    press(page, "[value=create]")
    expect_said(page, "Index by_author was created")
    press(page, "[aria-label='Drop by_author']")
    expect_said(page, "Index by_author was dropped")
    open_page(page, "/_explorer/ydb/local/notes/rows")
    enter(page, "#ttl-lifetime", "2h")
    page.keyboard.press("Enter")
    expect_said(page, "TTL settings saved")
    open_page(page, "/_explorer/ydb/local/notes/drop")
    enter(page, "#confirm", "notes")
    page.keyboard.press("Enter")
    expect_said(page, "Table notes dropped")


def test_a_ttl_index_is_changed(page: Page, server: RunningServer) -> None:
    open_page(page, f"{MONGO}/indexes")
    press(page, "[aria-label='Change at_1']")
    page.wait_for_url("**/indexes?field=at&seconds=5")
    enter(page, "#ttl-seconds", "60")
    page.keyboard.press("Enter")
    expect_said(page, "The TTL index on at has 60 s")
    with server.mongo.client() as client:
        assert client.app.otps.index_information()["at_1"]["expireAfterSeconds"] == 60
    # One second after the last write has passed for both: the question takes a second Enter.
    server.clock.advance(hours=1)
    open_page(page, f"{MONGO}/indexes?field=_ts&seconds=1")
    press(page, "[value=save]")
    press(page, "[value=save]")
    expect_said(page, "The TTL index on _ts has 1 s")


def test_a_snapshot_goes_there_and_back(page: Page, server: RunningServer, tmp_path: Path) -> None:
    http = Http(port_of(server))
    for row in http.get("snapshots")["snapshots"]:
        http("DELETE", f"/_mayfly/snapshots/{row['name']}")
    open_page(page, SNAPSHOTS)
    enter(page, "#name", "monday")
    page.keyboard.press("Enter")
    expect_said(page, "Saved snapshot monday")
    reach(page, "[aria-label='Download monday']")
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    file = tmp_path / "tuesday.snapshot"
    download.value.save_as(file)
    open_page(page, SNAPSHOTS)
    reach(page, "[name=file]")
    choose_file(page, file)
    press(page, "[enctype] button")
    expect_said(page, "Uploaded snapshot tuesday")
    press(page, "[aria-label='Restore tuesday']")
    # The question has the focus.
    expect(page.get_by_role("button", name="Restore tuesday").first).to_be_focused()
    page.keyboard.press("Enter")
    expect_said(page, "Restored snapshot tuesday")
    for name in ("monday", "tuesday"):
        http("DELETE", f"/_mayfly/snapshots/{name}")


@pytest.mark.parametrize(
    ("address", "record", "outcome"),
    [
        (COSMOS, '{"id": "typed", "pk": "a"}', "1 item stored"),
        (MONGO, '{"_id": "typed"}', "1 document stored"),
        (YDB, '{"id": "typed"}', "1 of 1 rows were stored"),
    ],
)
def test_an_upload(page: Page, address: str, record: str, outcome: str) -> None:
    open_page(page, f"{address}/upload")
    enter(page, "#records", record)
    press(page, "[data-test='Panel/OkButton']")
    expect(page.get_by_test_id("mf-upload-outcome")).to_contain_text(outcome)


@pytest.mark.parametrize(("address", "file"), [(f"{MONGO}/documents", "otps.csv"), (f"{YDB}/rows", "carts.csv")])
def test_an_export(page: Page, address: str, file: str) -> None:
    open_page(page, address)
    reach(page, "[href*='form=csv']")
    with page.expect_download() as download:
        page.keyboard.press("Enter")
    assert download.value.suggested_filename == file
    assert download.value.path().read_text(encoding="utf-8").splitlines()[0].startswith(("_id", "id"))


def test_a_query_is_cancelled(page: Page, shop: DatabaseProxy, monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []

    async def watch(*arguments: Any) -> Any:
        try:
            answer = await run_while_present(*arguments)
        except ClientLeft:
            ended.append("cancelled")
            raise
        ended.append("answered")
        return answer

    monkeypatch.setattr(querying, "run_while_present", watch)
    item = {"id": "many", "pk": "a", "l": list(range(200))}
    shop.get_container_client("sessions").create_item(item)
    joins = " ".join(f"JOIN {name} IN c.l" for name in ("v", "w", "x", "y", "z"))
    page.goto(f"{COSMOS}/query?query=SELECT VALUE COUNT(1) FROM c {joins}")
    page.locator("#cancel").wait_for()
    press(page, "#execute")
    expect(page.locator("#cancel")).to_be_enabled()
    press(page, "#cancel")
    expect_said(page, "The query was cancelled.")
    expect(page.locator("#execute")).to_be_enabled()
    page.goto(f"{COSMOS}/query?query=SELECT VALUE 7")
    page.locator("#cancel").wait_for()
    press(page, "#execute")
    expect_said(page, "1 row")
    assert ended == ["cancelled", "answered"]
