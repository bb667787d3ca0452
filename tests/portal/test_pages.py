"""The pages themselves: where they are, what they show, and what they let nobody do."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from azure.cosmos import DatabaseProxy, PartitionKey

import mayflydb
from mayflydb.clock import SystemClock, wall_us
from mayflydb.connecting import FORMATS
from mayflydb.embedded import RunningServer, serve
from mayflydb.model.instant import DAY
from portal.visitor import Visitor
from served import Http, port_of

in_memory = pytest.mark.parametrize("store", ["memory"], indirect=True, scope="session")
"""Marks what no store has a part in: one of them is enough."""

HTML = "text/html,application/xhtml+xml"
ODD = 'a & <b> "c" %25 \'ü'
PROGRAM = "from mayflydb.cli.main import main; main()"
SAID = "notification-console/header-status"


@pytest.fixture
def http(server: RunningServer) -> Http:
    return Http(port_of(server))


@in_memory
@pytest.mark.parametrize("path", ["/", "/_explorer/", "/_explorer/index.html"])
def test_where_the_first_page_is(http: Http, path: str) -> None:
    answer = http("GET", path, accept=HTML)
    assert answer.status == 200
    assert answer.headers["content-type"] == "text/html; charset=utf-8"
    assert b'data-test="DataExplorerRoot"' in answer.body


@in_memory
def test_the_same_address_is_the_account_for_clients(server: RunningServer, http: Http) -> None:
    """The vendor's clients read it first; a probe that waits for an answer gets a line that costs nothing."""
    assert [each["id"] for each in server.cosmos.client().list_databases()] == []
    assert http("GET", "/", accept="application/json", x_ms_version="2018-12-31").status == 401
    for accept in ({}, {"accept": "*/*"}, {"accept": "application/json"}):
        answer = http("GET", "/", **accept)
        assert answer.status == 200 and b"Mayfly" in answer.body and b"DataExplorerRoot" not in answer.body


@in_memory
@pytest.mark.parametrize("path", ["/", "/_explorer/index.html"])
def test_a_strange_host_sees_no_data(http: Http, shop: DatabaseProxy, path: str) -> None:
    answer = http("GET", path, accept=HTML, host="evil.example")
    assert answer.status == 200 and b"shop" not in answer.body


@in_memory
@pytest.mark.parametrize(
    "path", ["/_explorer/", "/_explorer/cosmos/shop/sessions/settings", "/_explorer/static/shell.js"]
)
def test_a_strange_host_gets_no_page(http: Http, path: str) -> None:
    assert http("GET", path, accept=HTML, host="evil.example").status == 403


@in_memory
@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://127.0.0.1:1"])
def test_pages_of_others_change_nothing(shop: DatabaseProxy, visitor: Visitor, origin: str) -> None:
    container = shop.create_container("sessions", PartitionKey("/pk"))
    before = visitor.json("/_mayfly/clock")["now"]
    form = visitor.settings("shop", "sessions").fill(timeToLive="no-default")
    assert form.press("save", origin=origin).status == 403
    assert visitor.post("/_explorer/clock", {"by": "+1 h"}, origin=origin).status == 403
    assert "defaultTtl" not in container.read()
    assert visitor.json("/_mayfly/clock")["now"] == before


@in_memory
def test_every_page_says_what_it_may_load(http: Http, shop: DatabaseProxy) -> None:
    shop.create_container("sessions", PartitionKey("/pk"))
    here = "/_explorer/cosmos/shop/sessions"
    for path in ("/", f"{here}/items", f"{here}/settings", "/_explorer/nothing", "/_explorer/index.json"):
        headers = http("GET", path, accept=HTML).headers
        assert headers["content-security-policy"].startswith("default-src 'self'; ")
        assert "unsafe" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"


@in_memory
@pytest.mark.parametrize("name", ["portal.css", "shell.js", "settings.js", "mayfly.svg"])
def test_static_files_are_asked_for_once(http: Http, name: str) -> None:
    answer = http("GET", f"/_explorer/static/{name}")
    assert (answer.status, answer.headers["cache-control"]) == (200, "no-cache")
    again = http("GET", f"/_explorer/static/{name}", if_none_match=answer.headers["etag"])
    assert (again.status, again.body) == (304, b"")


@in_memory
@pytest.mark.parametrize(
    "path",
    ["..", "../shell.py", "..%2Fshell.py", "%2e%2e%2fshell.py", "..%5Cshell.py", "/etc/passwd", "%2Fetc%2Fpasswd", ""],
)
def test_static_files_are_no_file_system(http: Http, path: str) -> None:
    answer = http("GET", f"/_explorer/static/{path}")
    assert answer.status == 404 and b"import" not in answer.body and b"root:" not in answer.body


@in_memory
@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/_explorer/nothing", 404),
        ("/_explorer/cosmos/shop/missing/settings", 404),
        ("/_explorer/cosmos/missing/missing/items", 404),
        ("/_explorer/cosmos/shop/sessions/item?id=missing&pk=%22a%22", 404),
        ("/_explorer/cosmos/shop/sessions/item?id=missing&pk=a", 400),
        ("/_explorer/cosmos/shop/sessions/items?after=x", 400),
        ("/_explorer/mongo/shop/c/pass", 405),
    ],
)
def test_what_is_not_there(shop: DatabaseProxy, visitor: Visitor, path: str, status: int) -> None:
    shop.create_container("sessions", PartitionKey("/pk"))
    page = visitor.get(path)
    assert page.status == status and "DataExplorerRoot" in page.texts


@in_memory
def test_what_is_not_there_as_json(http: Http) -> None:
    answer = http("GET", "/_explorer/cosmos/shop/missing/settings.json")
    assert answer.status == 404 and answer.headers["content-type"] == "application/problem+json"
    assert answer.json["detail"] == "there is no cosmos:shop/missing"


def test_the_first_page(shop: DatabaseProxy, server: RunningServer, visitor: Visitor) -> None:
    container = shop.create_container("sessions", PartitionKey("/pk"), default_ttl=5400)
    shop.create_container("plain", PartitionKey("/pk"))
    container.create_item({"id": "1", "pk": "a"})
    container.create_item({"id": "2", "pk": "a", "ttl": 60})
    text = " ".join(visitor.get("/").text("DataExplorerRoot").split())
    assert "Live items 2 Expire in the next hour 1 Expired, not yet purged 0" in text
    assert "shop sessions On: 1 h 30 min 2 1 0 2030-01-01 00:01:00Z" in text
    assert "shop plain Off 0 0 0 none" in text
    twin = visitor.json("/_explorer/index.json")
    assert [row["target"] for row in twin["targets"]] == ["cosmos:shop/plain", "cosmos:shop/sessions"]


def test_items_and_when_they_go(shop: DatabaseProxy, server: RunningServer, visitor: Visitor) -> None:
    container = shop.create_container("sessions", PartitionKey("/pk"), default_ttl=5400)
    container.create_item({"id": "gone", "pk": "a", "ttl": 60})
    container.create_item({"id": "1", "pk": "a"})
    container.create_item({"id": "2", "pk": 5, "ttl": -1})
    server.clock.advance(seconds=61, sweep="none")
    rows = visitor.json("/_explorer/cosmos/shop/sessions/items.json")["items"]
    assert [(row["id"], row["pk"], row["expires_in"], row["text"]) for row in rows] == [
        ("1", '"a"', "1 h 28 min", "defaultTtl 5400 s after _ts"),
        ("2", "5", "never", "item ttl -1: lives for ever"),
    ]
    page = visitor.get("/_explorer/cosmos/shop/sessions/items")
    assert "gone" not in page.text("DocumentsTab/DocumentsPane")
    one = visitor.get("/_explorer/cosmos/shop/sessions/item?id=1&pk=%22a%22")
    text = " ".join(one.text("DataExplorerRoot").split())
    assert "Expires 2030-01-01 01:30:00Z because defaultTtl 5400 s after _ts." in text
    assert '"_etag"' in text
    twin = visitor.json("/_explorer/cosmos/shop/sessions/item.json?id=2&pk=5")
    assert twin["item"]["id"] == "2" and twin["explanation"]["reason"] == "never"


@pytest.mark.parametrize("id", ["a/b", "a?b=1&c", "a#b", "a\\b", "<\"&'>", "..", "a%2Fb +"])
def test_the_grid_leads_to_items_of_any_id(shop: DatabaseProxy, visitor: Visitor, id: str) -> None:
    container = shop.create_container("sessions", PartitionKey("/pk"))
    container.execute_item_batch([("create", ({"id": id, "pk": "a/?#"},))], "a/?#")
    page = visitor.get("/_explorer/cosmos/shop/sessions/items")
    (address,) = re.findall(r'<td><a href="([^"]*)">', page.source)
    one = visitor.get(unescape(address))
    assert one.status == 200 and id.split(maxsplit=1)[0] in one.text("DataExplorerRoot")
    twin = visitor.json(unescape(address).replace("/item?", "/item.json?"))
    assert twin["item"]["id"] == twin["explanation"]["id"] == id


def test_many_items_come_in_pages(shop: DatabaseProxy, visitor: Visitor) -> None:
    container = shop.create_container("sessions", PartitionKey("/pk"))
    operations: list[Any] = [("create", ({"id": f"{number}", "pk": "a"},)) for number in range(100)]
    container.execute_item_batch(operations, "a")
    here = "/_explorer/cosmos/shop/sessions/items.json"
    assert visitor.json(here)["after"] is None
    container.create_item({"id": "100", "pk": "a"})
    first = visitor.json(here)
    second = visitor.json(f"{here}?after={first['after']}")
    assert [row["id"] for row in first["items"] + second["items"]] == [str(number) for number in range(101)]
    assert second["after"] is None


@in_memory
def test_what_would_expire_is_shown(shop: DatabaseProxy, server: RunningServer, visitor: Visitor) -> None:
    container = shop.create_container("sessions", PartitionKey("/pk"))
    container.create_item({"id": "old", "pk": "a"})
    container.create_item({"id": "never", "pk": "a", "ttl": -1})
    container.create_item({"id": "own", "pk": "a", "ttl": 60})
    server.clock.advance(hours=1)
    container.create_item({"id": "new", "pk": "a"})
    form = visitor.settings("shop", "sessions").fill(timeToLive="on", timeToLiveSeconds="1800")
    assert "Show the 2" in form.press("preview").text("mf-ttl-preview")
    here = "/_explorer/cosmos/shop/sessions/items"
    assert f'href="{here}?would=1800"' in form.page.source
    rows = visitor.json(f"{here}.json?would=1800")["items"]
    assert {(row["id"], row["text"]) for row in rows} == {
        ("old", "defaultTtl 1800 s after _ts"),
        ("own", "item ttl 60 s after _ts"),
    }
    assert "2 items that would expire at once with Time to Live On: 30 min" in visitor.get(f"{here}?would=1800").source
    assert [row["id"] for row in visitor.json(f"{here}.json?would=-1")["items"]] == ["own"]
    assert visitor.json(f"{here}.json?would=off")["items"] == []
    assert [visitor.get(f"{here}?would={wrong}").status for wrong in ("0", "-2", "2147483648", "x")] == [400] * 4


@in_memory
def test_odd_names_are_shown_as_they_are(server: RunningServer, visitor: Visitor, clients: dict[str, Any]) -> None:
    clients.setdefault(server.cosmos.url, server.cosmos.client())
    database = clients[server.cosmos.url].create_database(ODD)
    container = database.create_container(ODD, PartitionKey(["/a", "/b"], kind="MultiHash"))
    container.create_item({"id": "<img src=x onerror=alert(1)>", "a": ODD, "b": None})
    page = visitor.get("/")
    assert "<b>" not in page.source and f"TreeNode:{ODD}/{ODD}" in page.texts
    form = visitor.settings(ODD, ODD)
    assert form.fill(timeToLive="no-default").press("save").text(SAID) == f"Successfully updated container {ODD}"
    address = form.address.removesuffix("/settings")
    row = visitor.json(f"{address}/items.json")["items"][0]
    page = visitor.get(f"{address}/items")
    assert "<img src=x" not in page.source and row["id"] in page.text("DocumentsTab/DocumentsPane")
    one = visitor.get(f"{address}/item?{urlencode({'id': row['id'], 'pk': row['pk']})}")
    assert one.status == 200 and "<img src=x" not in one.source


def test_the_clock_is_on_every_page(shop: DatabaseProxy, visitor: Visitor) -> None:
    container = shop.create_container("sessions", PartitionKey("/pk"), default_ttl=5400)
    container.create_item({"id": "1", "pk": "a"})
    here = "/_explorer/cosmos/shop/sessions/settings"
    assert visitor.get(here).text("mf-clock").startswith("virtual clock: 2030-01-01 00:00:00Z (+")

    def press(by: str, back: str = here) -> tuple[str, str]:
        page = visitor.post("/_explorer/clock", {"by": by, "back": back})
        return page.text("mf-clock").split(" ")[3], page.text(SAID)

    assert press("+1 min") == ("00:01:00Z", "Advanced 1 min: 0 expired, 0 purged")
    assert press("+1 h") == ("01:01:00Z", "Advanced 1 h: 0 expired, 0 purged")
    assert press("next") == ("01:30:00Z", "Advanced 29 min: 1 expired, 1 purged")
    assert press("next") == ("01:30:00Z", "Nothing is going to expire")
    assert press("+1 day", "https://evil.example/") == ("01:30:00Z", "Advanced 1 d: 0 expired, 0 purged")
    assert "ticking" in visitor.post("/_explorer/clock", {"by": "resume"}).text("mf-clock")
    assert "frozen" in visitor.post("/_explorer/clock", {"by": "freeze"}).text("mf-clock")
    assert visitor.post("/_explorer/clock", {"by": "+1 year"}).status == 400


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.getbasetemp() / "data"))
        with serve(memory=True, port=0, allow_time_travel=False) as running:
            yield running


def test_a_real_clock_has_no_hands(real: RunningServer) -> None:
    visitor = Visitor(port_of(real))
    page = visitor.get("/")
    assert page.text("mf-clock") == "real clock"
    assert not [hook for hook in page.texts if hook.startswith("mf-advance")]
    assert visitor.post("/_explorer/clock", {"by": "+1 h"}).status == 403


@pytest.mark.parametrize(("by", "time"), [("accept", "later"), ("reject", "earlier")])
def test_a_clock_that_jumped_waits_for_a_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str, time: str
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with serve(memory=True, port=0) as running:
        visitor = Visitor(port_of(running))
        assert visitor.get("/").text("mf-clock") == "real clock"
        clock = running._admin.engine.time.clock
        assert isinstance(clock, SystemClock)
        clock._wall = lambda: wall_us() + 40 * DAY
        page = visitor.get("/")
        assert page.text("mf-clock").startswith("the host's clock jumped: it says 2")
        assert "nothing follows it yet: Mayfly goes by 2" in page.text("mf-clock")
        assert page.text("mf-clock-accept").startswith("Accept: 2")
        page = visitor.post("/_explorer/clock", {"by": by})
        assert page.text(SAID).startswith(f"The {time} time holds: it is 2")
        assert page.text("mf-clock") == "real clock" + (", -40 d from the host's" if by == "reject" else "")


def test_who_asks_for_no_page_loads_no_templates() -> None:
    modules = "mayflydb.serving.process, mayflydb.serving.web_app"
    program = f"import sys, {modules}; sys.exit('jinja2' in sys.modules or 'mayflydb.portal' in sys.modules)"
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_the_wheel_has_all_files(tmp_path: Path) -> None:
    root = Path(mayflydb.__file__).parents[2]
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=root, check=True, timeout=60, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    pages = Path(mayflydb.__file__).parent / "portal"
    files = [path for kind in ("static", "templates") for path in (pages / kind).rglob("*.*")]
    assert files
    with zipfile.ZipFile(wheel) as opened:
        assert {f"mayflydb/portal/{path.relative_to(pages)}" for path in files} <= set(opened.namelist())


@in_memory
def test_the_overview_offers_what_is_served(visitor: Visitor) -> None:
    labels = ("New Container", "New Collection", "New Table")
    found = visitor.get("/").texts
    assert all(f"CommandBar/Button:{label}" in found for label in labels)
    with serve(memory=True, port=0, mongo_port=-1, ydb_port=-1) as bare:
        found = Visitor(port_of(bare)).get("/").texts
    assert [label for label in labels if f"CommandBar/Button:{label}" in found] == ["New Container"]


@in_memory
def test_hidden_records_have_no_ttl_of_their_own(
    http: Http, server: RunningServer, shop: DatabaseProxy, visitor: Visitor
) -> None:
    items = shop.create_container("sessions", PartitionKey("/pk"), default_ttl=7200)
    with server.mongo.client() as client:
        client.app.otps.create_index("_ts", expireAfterSeconds=7200)
        for ttl in (60, 90):
            client.app.otps.insert_one({"ttl": ttl})
            items.create_item({"id": str(ttl), "pk": "a", "ttl": ttl})
        http.post("ttl/pause")
        server.clock.advance(seconds=61)
        assert "<dt>With a ttl of their own</dt><dd>1</dd>" in visitor.get("/_explorer/mongo/app/otps/documents").source
        overview = visitor.get("/").source
        assert overview.count('<td class="n">1</td>\n    <td class="n">1</td>\n    <td class="n"><a href=') == 2
        assert overview.count('aria-label="1 not yet purged: undelete">1</a>') == 2
        http.post("ttl/resume")


@in_memory
def test_how_clients_connect(server: RunningServer, visitor: Visitor) -> None:
    page = visitor.get("/_explorer/connect")
    addresses = page.text("mf-addresses")
    for text in (server.cosmos.url, server.cosmos.key, server.mongo.uri, server.ydb.connection_string):
        assert text in addresses
    printed = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, "--url", server.admin_url, "connect", "--format", "python"],
        capture_output=True,
        check=True,
        text=True,
    ).stdout
    assert page.text("mf-snippet:python").startswith("Python Copy " + " ".join(printed.split()))
    told = visitor.json("/_explorer/connect.json")
    assert {each["form"] for each in told["snippets"]} == set(FORMATS) - {"json"}
    with serve(memory=True, port=0, mongo_port=-1, ydb_port=-1) as bare:
        found = Visitor(port_of(bare)).get("/_explorer/connect").texts
    assert [form for form in ("python", "mongosh", "ydb") if f"mf-snippet:{form}" in found] == ["python"]


def test_a_secret_is_told_by_its_file(tmp_path: Path) -> None:
    secret = tmp_path / "canary"
    secret.write_text("secret-password\n")
    files = {"mongo_password_file": str(secret), "ydb_password_file": str(secret)}
    with serve(memory=True, port=0, **files) as guarded:
        page = Visitor(port_of(guarded)).get("/_explorer/connect")
    assert "secret-password" not in page.source and page.source.count(str(secret)) > 4
