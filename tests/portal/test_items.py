"""Items, containers and databases are made, seen, changed, queried and deleted by forms, with and without a browser."""

from __future__ import annotations

import json
from typing import Any

import pytest
from azure.cosmos import ContainerProxy, DatabaseProxy, PartitionKey
from playwright.sync_api import expect

from portal.browsing import Watched
from portal.visitor import Page, Visitor

SAID = "notification-console/header-status"
BASE = "/_explorer/cosmos/shop/sessions"
RESULTS = "QueryTab/ResultsPane/ResultsView"
in_memory = pytest.mark.parametrize("store", ["memory"], indirect=True, scope="session")


@pytest.fixture
def sessions(shop: DatabaseProxy) -> ContainerProxy:
    return shop.create_container("sessions", PartitionKey("/pk"), default_ttl=7200)


def ids(container: ContainerProxy) -> set[str]:
    return {item["id"] for item in container.query_items("SELECT c.id FROM c", enable_cross_partition_query=True)}


def pick(id: str, key: Any = "a") -> dict[str, str]:
    return {"pick": json.dumps([id, key])}


@in_memory
def test_an_item_is_made_edited_and_deleted(sessions: ContainerProxy, visitor: Visitor) -> None:
    page = visitor.post(f"{BASE}/new-item", {"document": '{"id":"1","pk":"a","ttl":0}'})
    assert page.status == 400 and "ttl" in page.text("alert") and ids(sessions) == set()
    page = visitor.post(f"{BASE}/new-item", {"document": '{"id":"1","pk":"a","ttl":60}'})
    assert page.text(SAID) == "Created item 1" and "item ttl 60 s after _ts" in page.text("mf-why")
    stale = page.fields["etag"]
    changed = json.loads(page.fields["document"]) | {"ttl": 90}
    form = {name: page.fields[name] for name in ("id", "pk", "etag")}
    page = visitor.post(f"{BASE}/item", form | {"document": json.dumps(changed), "action": "save"})
    assert page.text(SAID) == "Saved item 1" and sessions.read_item("1", "a")["ttl"] == 90
    page = visitor.post(f"{BASE}/item", form | {"document": json.dumps(changed), "etag": stale})
    assert page.status == 412 and "changed after this page was loaded" in page.text("alert")
    fresh = visitor.get(f"{BASE}/item?id=1&pk=%22a%22").fields["etag"]
    page = visitor.post(f"{BASE}/item", form | {"document": "{}", "etag": fresh, "action": "delete"})
    assert page.text("CommandBar/Button:Delete") == "Delete for good" and ids(sessions) == {"1"}
    page = visitor.post(f"{BASE}/item", form | {"etag": fresh, "action": "delete-for-good"})
    assert page.text(SAID) == "Deleted item 1" and ids(sessions) == set()


@in_memory
def test_an_upload_ends_with_its_time(
    sessions: ContainerProxy, visitor: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mayflydb.portal.cosmos.item_changes.FILE_SECONDS", 0)
    page = visitor.post(f"{BASE}/upload", {"records": '{"id": "7", "pk": "a"}'})
    assert page.status == 503 and "The upload took longer than 0 s" in page.source


@in_memory
def test_files_filters_and_picked_items(sessions: ContainerProxy, visitor: Visitor) -> None:
    lines = "\n".join(json.dumps({"id": str(n), "pk": "a", "n": n}) for n in range(3))
    page = visitor.post(f"{BASE}/upload", {"records": lines})
    assert page.text("mf-upload-outcome") == "3 items stored" and ids(sessions) == {"0", "1", "2"}
    page = visitor.post(f"{BASE}/upload", {"records": lines})
    assert page.text("mf-upload-outcome") == "0 items stored, 3 items refused"
    page = visitor.get(f"{BASE}/items?filter=WHERE+c.n+%3E+0&sort=-n&column=n")
    shown = page.text("DocumentsTab/DocumentsPane")
    assert shown.index('2 "a" 2 2 h') < shown.index('1 "a" 1 2 h') and '0 "a"' not in shown
    assert "export?form=csv&amp;filter=WHERE+c.n+%3E+0&amp;sort=-n" in page.source
    exported = visitor.get(f"{BASE}/export?form=jsonl&filter=WHERE+c.n+%3E+0&sort=-n").source.splitlines()
    assert [json.loads(line)["n"] for line in exported] == [2, 1]
    assert len(visitor.get(f"{BASE}/export?form=csv").source.splitlines()) == 4
    assert visitor.get(f"{BASE}/export?form=xml").status == 400
    page = visitor.get(f"{BASE}/items?filter=WHERE+c.n+%3E%3E")
    assert page.status == 400 and "Syntax error" in page.text("alert")
    page = visitor.post(f"{BASE}/items", pick("0") | {"action": "patch"})
    operations = json.dumps([{"op": "set", "path": "/ttl", "value": 30}])
    page = visitor.post(f"{BASE}/items", pick("0") | {"action": "patch-now", "operations": operations})
    assert page.text(SAID) == "Patched 1 item" and sessions.read_item("0", "a")["ttl"] == 30
    visitor.post(f"{BASE}/items", pick("1") | {"action": "delete"})
    assert ids(sessions) == {"0", "1", "2"}
    page = visitor.post(f"{BASE}/items", pick("1") | {"action": "delete-for-good"})
    assert page.text(SAID) == "Deleted 1 item" and ids(sessions) == {"0", "2"}


def turn(page: Page) -> str:
    """The value of the button to the next page."""
    before = page.source.partition('data-test="QueryTab/ResultsPane/LoadMore"')[0].rpartition('name="turn" value="')[2]
    return before.partition('"')[0].replace("&#34;", '"')


@in_memory
def test_a_query_by_form(sessions: ContainerProxy, visitor: Visitor) -> None:
    for n in range(30):
        sessions.create_item({"id": f"{n:02}", "pk": "a", "n": n})
    sent = {"query": "SELECT c.id, c.n FROM c", "limit": "25", "plan": "on"}
    page = visitor.post(f"{BASE}/query", sent)
    assert page.text(f"{RESULTS}/QueryStatsList").startswith("Metric Value Request Charge")
    assert page.text("Row:Output document count/Column:value") == "25" and "queryInfo" in page.source
    page = visitor.post(f"{BASE}/query", {**sent, "ran": page.fields["ran"], "turn": turn(page)})
    assert "Page 2: 5 rows" in page.text(RESULTS)
    answer = visitor._send(
        "POST", f"{BASE}/query", f"query=x&action=export-csv&ran={page.fields['ran']}".encode(),
        {"origin": visitor.origin, "content_type": "application/x-www-form-urlencoded"},
    )  # fmt: skip
    assert answer.body.decode().splitlines()[::30] == ["id,n", "29,29"]
    page = visitor.post(f"{BASE}/query", {"query": "SELECT *\r\nFROM c WHERE ="})
    assert page.status == 400 and page.text("Row:0/Column:location").startswith("line 2, column ")
    assert visitor.post(f"{BASE}/query", {"query": "SELECT VALUE COUNT(1) FROM c"}).text(RESULTS).count("30") >= 1


@in_memory
def test_a_query_over_several_ranges(shop: DatabaseProxy, visitor: Visitor) -> None:
    sessions = shop.create_container("sessions", PartitionKey("/pk"), offer_throughput=12_000)
    for n in range(30):
        sessions.create_item({"id": f"{n:02}", "pk": "ab"[n % 2]})
    counted = visitor.post(f"{BASE}/query", {"query": "SELECT VALUE COUNT(1) FROM c WHERE c.pk = 'a'"})
    assert "15" in counted.text(RESULTS)
    page = visitor.post(f"{BASE}/query", {"query": "SELECT VALUE COUNT(1) FROM c"})
    assert page.status == 400 and "can not be directly served" in page.source


@in_memory
def test_containers_and_databases(shop: DatabaseProxy, visitor: Visitor) -> None:
    wanted = {"databaseMode": "new", "database": "made", "container": "c", "partitionKey": "/tenant, user"}
    page = visitor.post("/_explorer/new-container", wanted | {"timeToLive": "on", "timeToLiveSeconds": "0"})
    assert page.status == 400 and page.text("alert").startswith("Successfully created database made. ")
    wanted = {"databaseMode": "existing", "existing": "made", "container": "c", "partitionKey": "/tenant, user"}
    page = visitor.post("/_explorer/new-container", wanted | {"throughput": "500", "throughputMode": "manual"})
    assert page.text(SAID) == "Successfully created container c"
    assert visitor.post("/_explorer/cosmos/made/c/delete", {"confirm": "made"}).status == 400
    page = visitor.post("/_explorer/cosmos/made/c/delete", {"confirm": "c"})
    assert page.text(SAID) == "Successfully deleted container c"
    page = visitor.post("/_explorer/cosmos/made/delete-database", {"confirm": "made"})
    assert page.text(SAID) == "Successfully deleted database made" and "TreeNode:made" not in page.texts


@in_memory
def test_in_a_browser(sessions: ContainerProxy, watched: Watched) -> None:
    page = watched.page(viewport={"width": 390, "height": 800})
    page.goto(f"{BASE}/new-item")
    page.get_by_test_id("EditorReact/Host/Loaded").evaluate(
        """(host) => window._monaco_setEditorContentForElement(host, '{"id":"1","pk":"a"}')"""
    )
    page.get_by_test_id("CommandBar/Button:Save").click()
    expect(page.get_by_test_id(SAID)).to_have_text("Created item 1")
    page.goto(f"{BASE}/items")
    expect(page.get_by_role("button", name="Delete")).to_be_disabled()
    page.get_by_role("checkbox", name="Pick 1").check()
    expect(page.get_by_role("button", name="Delete")).to_be_enabled()
    page.goto(f"{BASE}/query")
    page.get_by_test_id("CommandBar/Button:Execute Query").press("Enter")
    page.get_by_test_id(f"{RESULTS}/QueryStatsTab").click()
    expect(page.get_by_test_id("Row:Output document count/Column:value")).to_have_text("1")
    page.get_by_label("History").select_option(index=1)
    assert page.evaluate("() => document.documentElement.scrollWidth") == 390
