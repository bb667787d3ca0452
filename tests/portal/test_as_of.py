"""Grids as of another instant: what will be left, in all three protocols, with nothing on the page that changes anything."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from urllib.parse import urlencode

import pytest
import ydb
from azure.cosmos import DatabaseProxy, PartitionKey

from mayflydb.embedded import RunningServer
from portal.browsing import WIDE, Watched
from portal.page_table import COSMOS, MONGO, YDB
from portal.visitor import Visitor
from served import START, Http, port_of

NOW = datetime.fromisoformat(START)
GRIDS = {"cosmos": f"{COSMOS}/items", "mongo": f"{MONGO}/documents", "ydb": f"{YDB}/rows"}
MEMBERS = {"cosmos": "items", "mongo": "documents", "ydb": "documents"}
FILTERS = {"cosmos": "WHERE c.n >= 2", "mongo": "{n: {$gte: 2}}", "ydb": "n >= 2"}
MANY = 103

protocols = pytest.mark.parametrize("protocol", list(GRIDS))
in_memory = pytest.mark.parametrize("store", ["memory"], indirect=True, scope="session")


def create(shop: DatabaseProxy, server: RunningServer, lives: dict[str, int]) -> None:
    """Write a record of each protocol for each life in seconds, numbered by `n`."""
    sessions = shop.create_container("sessions", PartitionKey("/pk"), default_ttl=-1)
    rows = []
    with server.mongo.client() as client:
        client.app.otps.create_index("at", expireAfterSeconds=0)
        for n, (id, life) in enumerate(lives.items()):
            at = NOW + timedelta(seconds=life)
            sessions.create_item({"id": id, "pk": "a", "n": n, "ttl": life})
            client.app.otps.insert_one({"_id": id, "n": n, "at": at})
            rows.append(f"('{id}', {n}, Timestamp('{at:%Y-%m-%dT%H:%M:%SZ}'))")
    with server.ydb.driver() as driver, ydb.QuerySessionPool(driver) as pool:
        pool.execute_with_retries("DROP TABLE IF EXISTS carts")
        pool.execute_with_retries(
            "CREATE TABLE carts (id Utf8, n Uint32, at Timestamp, PRIMARY KEY (id)) WITH (TTL = Interval('PT0S') ON at)"
        )
        pool.execute_with_retries(f"UPSERT INTO carts (id, n, at) VALUES {', '.join(rows)}")


@pytest.fixture
def records(shop: DatabaseProxy, server: RunningServer) -> None:
    """Lives of one minute, of one and two hours, and of a day."""
    create(shop, server, {"minute": 60, "hour": 3600, "hours": 7200, "day": 86400})


def read(visitor: Visitor, protocol: str, at: timedelta, **asked: str) -> list[str]:
    """The records of a grid as of an instant from START on: the same by the page and by its twin, in their order."""
    query = urlencode({"as_of": f"{NOW + at:%Y-%m-%dT%H:%M:%S}", **asked})
    listed = visitor.json(f"{GRIDS[protocol]}.json?{query}")[MEMBERS[protocol]]
    ids = [str(row["id"]).strip('[]"') for row in listed]
    shown = visitor.get(f"{GRIDS[protocol]}?{query}")
    assert shown.status == 200
    assert f"As of {NOW + at:%Y-%m-%d %H:%M:%S}Z." in shown.text("mf-as-of-banner")
    places = [shown.source.find(f"<td>{id}</td>") for id in ids]
    assert -1 not in places and places == sorted(places)
    assert shown.source.count('data-test="mf-expires-in"') == len(ids)
    return ids


@protocols
@pytest.mark.parametrize(
    ("seconds", "left"),
    [
        (0, {"minute", "hour", "hours", "day"}),
        (59, {"minute", "hour", "hours", "day"}),
        (60, {"hour", "hours", "day"}),
        (3599, {"hour", "hours", "day"}),
        (3600, {"hours", "day"}),
        (86399, {"day"}),
        (86400, set()),
    ],
)
def test_a_grid_shows_what_will_be_left(
    records: None, visitor: Visitor, protocol: str, seconds: int, left: set[str]
) -> None:
    assert set(read(visitor, protocol, timedelta(seconds=seconds))) == left


@protocols
def test_the_lives_are_those_of_then(records: None, visitor: Visitor, protocol: str) -> None:
    address = f"{GRIDS[protocol]}.json?{urlencode({'as_of': '2030-01-01T00:30:00'})}"
    found = {str(row["id"]).strip('[]"'): row for row in visitor.json(address)[MEMBERS[protocol]]}
    assert {id: row["expires_in"] for id, row in found.items()} == {
        "hour": "30 min", "hours": "1 h 30 min", "day": "23 h 30 min",
    }  # fmt: skip
    assert found["hour"]["deadline"] == "2030-01-01T01:00:00Z"


@protocols
def test_a_grid_as_of_an_instant_is_filtered_and_sorted(records: None, visitor: Visitor, protocol: str) -> None:
    assert read(visitor, protocol, timedelta(hours=1), sort="-n") == ["day", "hours"]
    assert read(visitor, protocol, timedelta(minutes=1), sort="n") == ["hour", "hours", "day"]
    assert set(read(visitor, protocol, timedelta(minutes=1), filter=FILTERS[protocol])) == {"hours", "day"}


@protocols
def test_nothing_can_be_changed_there(records: None, visitor: Visitor, protocol: str) -> None:
    present = visitor.get(GRIDS[protocol])
    assert 'name="pick"' in present.source and 'method="post"' in present.source.partition("<main")[2]
    shown = visitor.get(f"{GRIDS[protocol]}?as_of=2030-01-01T00:30:00&sort=n")
    main = shown.source.partition("<main")[2]
    assert 'method="post"' not in main and 'name="pick"' not in main
    # No link leads to an editor, and each form and link of the grid keeps the instant.
    for page in ("item?", "document?", "row?", "new", "upload", "drop", "delete"):
        assert f"{GRIDS[protocol].rpartition('/')[0]}/{page}" not in main
    assert main.count('name="as_of" value="2030-01-01T00:30:00"') >= 1
    assert f'href="{GRIDS[protocol]}?sort=n"' in main  # Back to the present.


@protocols
def test_what_is_refused_is_said_by_the_engine(
    records: None, visitor: Visitor, server: RunningServer, protocol: str
) -> None:
    past = visitor.get(f"{GRIDS[protocol]}?as_of=2029-12-31T23:59:59")
    assert past.status == 400
    assert "No states before now are kept" in past.alert_text
    assert 'data-test="mf-expires-in"' not in past.source
    none = visitor.get(f"{GRIDS[protocol]}?as_of=tomorrow")
    assert (none.status, "is not a time" in none.alert_text) == (400, True)
    wrong = visitor.get(f"{GRIDS[protocol]}?{urlencode({'as_of': '2030-01-01T00:30:00', 'filter': '('})}")
    assert wrong.status == 400 and wrong.alert_text
    for asked in ("2029-12-31T23:59:59", "tomorrow"):
        answer = Http(port_of(server))("GET", f"{GRIDS[protocol]}.json?as_of={asked}")
        assert (answer.status, answer.headers["content-type"]) == (400, "application/problem+json")


@protocols
@pytest.mark.parametrize("form", ["jsonl", "csv"])
def test_files_have_what_will_be_left(records: None, server: RunningServer, protocol: str, form: str) -> None:
    place = GRIDS[protocol].rpartition("/")[0]
    answer = Http(port_of(server))("GET", f"{place}/export?form={form}&as_of=2030-01-01T01:00:00")
    lines = answer.body.decode().splitlines()
    ids = [line.partition(",")[0] for line in lines[1:]] if form == "csv" else [json.loads(line) for line in lines]
    found = {id if isinstance(id, str) else id.get("id", id.get("_id")) for id in ids}
    assert (answer.status, found) == (200, {"hours", "day"})
    answer = Http(port_of(server))("GET", f"{place}/export?form={form}&as_of=2029-12-31T23:59:59")
    assert answer.status == 400


@protocols
@in_memory
def test_a_grid_as_of_an_instant_has_pages(
    shop: DatabaseProxy, server: RunningServer, visitor: Visitor, protocol: str
) -> None:
    create(shop, server, {f"{n:03}": 60 if n % 2 else 7200 for n in range(2 * MANY)})
    ids, address, pages = [], f"{GRIDS[protocol]}.json?as_of=2030-01-01T01:00:00", 0
    after = None
    while pages == 0 or after is not None:
        page = visitor.json(address + ("" if after is None else f"&{urlencode({'after': after})}"))
        ids += [str(row["id"]).strip('[]"') for row in page[MEMBERS[protocol]]]
        after, pages = page["after"], pages + 1
    assert sorted(ids) == [f"{n:03}" for n in range(0, 2 * MANY, 2)] and pages == 2
    first = visitor.get(f"{GRIDS[protocol]}?as_of=2030-01-01T01:00:00")
    assert first.source.count('data-test="mf-expires-in"') == 100
    assert "as_of=2030-01-01T01%3A00%3A00&amp;at=" in first.source


@in_memory
def test_the_field_beside_the_clock(records: None, watched: Watched) -> None:
    page = watched.page(viewport=WIDE)
    for protocol, address in GRIDS.items():
        page.goto(address)
        form = page.get_by_test_id("mf-as-of")
        assert form.locator("[name=as_of]").input_value() == "2030-01-01T00:00", protocol
        form.locator("[name=as_of]").fill("2030-01-01T02:00:00")
        form.get_by_role("button", name="Show").press("Enter")
        page.get_by_test_id("mf-as-of-banner").wait_for()
        assert page.get_by_test_id("mf-expires-in").all_inner_texts() == ["22 h"], protocol
        page.get_by_role("link", name="Back to the present").click()
        page.wait_for_url(f"**{address}")
