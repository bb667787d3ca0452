"""The page of the erasure log: its state, counts, the lines of a record, the file for an auditor, and a log that is off."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path
from urllib.parse import urlencode

import pytest
import ydb
from azure.cosmos import DatabaseProxy, PartitionKey
from click.testing import CliRunner

from mayflydb.cli.main import mayfly
from mayflydb.embedded import RunningServer, serve
from mayflydb.engine.lifecycle.erasure_log import ErasureLog, Segment
from mayflydb.portal import erasure
from portal.browsing import WIDE, Lent, Watched, faults
from portal.visitor import Visitor
from served import START, Http, port_of

PAGE = "/_explorer/erasure"


@pytest.fixture
def expired(shop: DatabaseProxy, server: RunningServer) -> None:
    """Two items of Cosmos DB, one of them by its own ttl, a document and a row have expired."""
    sessions = shop.create_container("sessions", PartitionKey("/userId"), default_ttl=60)
    sessions.create_item({"id": "s1", "userId": "u1"})
    sessions.create_item({"id": "s2", "userId": "u1", "ttl": 90})
    now = datetime.fromisoformat(START)
    with server.mongo.client() as client:
        client.app.otps.create_index("at", expireAfterSeconds=30)
        client.app.otps.insert_one({"_id": "o1", "at": now})
    with server.ydb.driver() as driver, ydb.QuerySessionPool(driver) as pool:
        pool.execute_with_retries("DROP TABLE IF EXISTS carts")
        pool.execute_with_retries(
            "CREATE TABLE carts (id Utf8, at Timestamp, PRIMARY KEY (id)) WITH (TTL = Interval('PT0S') ON at)"
        )
        at = now + timedelta(seconds=10)
        pool.execute_with_retries(f"UPSERT INTO carts (id, at) VALUES ('c1', Timestamp('{at:%Y-%m-%dT%H:%M:%SZ}'))")
    server.clock.advance(hours=2)


def test_the_state_and_the_last_lines(expired: None, visitor: Visitor, server: RunningServer) -> None:
    page, twin = visitor.get(PAGE), visitor.json(f"{PAGE}.json")
    state = Http(port_of(server)).get("erasure")
    assert (state["lines"], state["lag"], twin["state"]["head"]) == (5, 0, state["head"])
    assert page.text("mf-erasure-head") == f"Head: 5:{state['head']}"
    assert [line["n"] for line in twin["latest"]] == [1, 2, 3, 4, 5]
    assert {(line["kind"], line["where"], line["cause"]) for line in twin["latest"]} == {
        ("start", "", ""),
        ("erased", "cosmos/shop/sessions", "default"),
        ("erased", "cosmos/shop/sessions", "item"),
        ("erased", "mongo/app/otps", "index"),
        ("erased", "ydb//local/carts", "column"),
    }
    shown = page.text("mf-erasure-lines")
    assert shown.index("own ttl") < shown.index("default TTL") < shown.index("start")
    # The log is not walked unasked.
    assert "mf-erasure-report" not in page.texts and "report" not in twin


def test_counts_by_container_and_cause(expired: None, visitor: Visitor) -> None:
    page = visitor.get(f"{PAGE}?report=yes")
    assert page.text("mf-erasure-report").startswith("The chain holds: 4 records from 2030-01-01 00:01:00Z to ")
    report = visitor.json(f"{PAGE}.json?report=yes")["report"]
    assert [(row["container"], row["cause"], row["how"], row["records"]) for row in report["erased"]] == [
        ("cosmos/shop/sessions", "default", "sweep", 1),
        ("cosmos/shop/sessions", "item", "sweep", 1),
        ("mongo/app/otps", "index", "sweep", 1),
        ("ydb//local/carts", "column", "sweep", 1),
    ]
    assert page.texts["mf-erased"].count("sweep") == 4


@pytest.mark.parametrize(
    ("target", "id", "more"),
    [
        ("cosmos:shop/sessions", "s1", {"pk": "u1"}),
        ("mongo:app.otps", "o1", {}),
        ("ydb:/local/carts", "c1", {}),
    ],
)
def test_the_lines_of_one_record(expired: None, visitor: Visitor, target: str, id: str, more: dict[str, str]) -> None:
    asked = {"target": target, "id": id, **more}
    (line,) = visitor.json(f"{PAGE}.json?{urlencode(asked)}")["found"]
    assert line["kind"] == "erased" and line["where"].replace("//", "/").endswith(line["path"][-1])
    assert f"Lines of {id}" in visitor.get(f"{PAGE}?{urlencode(asked)}").text("mf-erasure-found")
    none = visitor.get(f"{PAGE}?{urlencode(asked | {'id': 'never'})}")
    assert none.text("mf-erasure-found") == f"No record never of {target} expired, according to the log."


def test_a_question_that_is_refused(expired: None, visitor: Visitor) -> None:
    page = visitor.get(f"{PAGE}?target=cosmos:shop/nothing&id=s1")
    assert (page.status, "there is no cosmos:shop/nothing" in page.alert_text) == (404, True)
    assert page.text("mf-erasure-head").startswith("Head: 5:")


def test_a_walk_that_takes_too_long_is_ended(expired: None, visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(erasure, "WALK_SECONDS", 0)
    page = visitor.get(f"{PAGE}?report=yes")
    assert page.status >= 400 and "took longer than 0 s" in page.alert_text
    assert "have no time limit" in page.alert_text


def test_the_file_is_verified_without_a_server(expired: None, server: RunningServer, tmp_path: Path) -> None:
    answer = Http(port_of(server))("GET", f"{PAGE}.jsonl")
    assert 'filename="erased.jsonl"' in answer.headers["content-disposition"]
    file = tmp_path / "erased.jsonl"
    file.write_bytes(answer.body)
    offline = ["--url", "http://127.0.0.1:9", "-o", "json", "erasure", "report", str(file)]
    found = CliRunner().invoke(mayfly, offline)
    assert found.exit_code == 0, found.output
    assert (json.loads(found.stdout)["records"], json.loads(found.stdout)["verified"]) == (4, True)


def test_a_log_that_was_tampered_with(expired: None, visitor: Visitor, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "mf-tampered" not in visitor.get(f"{PAGE}?report=yes").texts
    segments = ErasureLog.segments

    async def forge(log: ErasureLog, after: int) -> list[Segment]:
        found = await segments(log, after)
        return [
            Segment(each.place, tuple(line.replace(b'"default"', b'"index"') for line in each.lines)) for each in found
        ]

    monkeypatch.setattr(ErasureLog, "segments", forge)
    page = visitor.get(f"{PAGE}?report=yes")
    # The line behind the forged one does not continue it.
    assert "the line before it is not the one that it continues" in page.alert_text
    assert "The chain holds" not in page.source


@pytest.mark.parametrize("store", ["memory"], indirect=True, scope="session")
def test_a_log_that_is_off(
    store: RunningServer, lent: Lent, axe: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    with serve(memory=True, port=0, scheme="http", clock="virtual") as server:
        visitor = Visitor(port_of(server))
        page = visitor.get(f"{PAGE}?report=yes")
        assert "mayfly serve --erasure-log" in page.text("mf-erasure-off")
        assert "Verify and count" not in page.source and "The chain holds: 0 records" in page.text("mf-erasure-report")
        twin = visitor.json(f"{PAGE}.json?{urlencode({'report': 'yes'})}")
        assert (twin["state"]["on"], twin["latest"], twin["report"]["records"]) == (False, [], 0)
        with lent.borrowed() as browser:
            watched = Watched(browser, f"http://127.0.0.1:{port_of(server)}")
            shown = watched.page(viewport=WIDE)
            shown.goto(PAGE)
            assert faults(shown, axe) == []
            watched.close()
