"""Grace and undelete, as clients of all three protocols see them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest
from azure.cosmos import PartitionKey
from azure.cosmos.exceptions import CosmosHttpResponseError

from admin.three_protocols import NOW, TARGETS, Site
from mayflydb.embedded import serve
from mayflydb.engine.lifecycle.undeletes import Undeletes
from served import START, Http, port_of


def everywhere(value: object) -> dict[str, object]:
    return dict.fromkeys(TARGETS, value)


def test_expired_records_are_kept_unreadable_and_come_back_with_the_same_content(site: Site) -> None:
    site.keep("7d")
    before = site.sessions.read_item("0", "0")
    site.server.clock.advance(seconds=150)
    assert site.ids() == everywhere([2])
    site.server.clock.advance(days=3)
    assert site.ids() == everywhere([])
    assert site.undelete() == everywhere(3)
    assert site.ids() == everywhere([0, 1, 2])
    after = site.sessions.read_item("0", "0")
    assert after["_etag"] != before["_etag"] and after["_ts"] > before["_ts"]
    assert {**after, "_etag": "", "_ts": 0} == {**before, "_etag": "", "_ts": 0}
    # The date in the document is what it was; the life counts from the undelete.
    assert site.otps.find_one({"_id": 0}) == {"_id": 0, "at": NOW.replace(tzinfo=None)}
    assert site.query("SELECT until FROM carts WHERE id = 0")[0].rows[0].until == NOW.replace(tzinfo=None)
    site.server.clock.advance(seconds=120)
    assert site.ids() == {**everywhere([]), "cosmos": [2]}
    site.server.clock.advance(days=8)
    assert site.undelete() == everywhere(0)
    assert site.http.post("purge")["purged"] == 0


def test_a_selection_by_deadline_and_cause(site: Site) -> None:
    site.keep("1h")
    site.server.clock.advance(seconds=300)
    edge = (NOW + timedelta(seconds=150)).isoformat()
    assert site.undelete(to=edge, causes=["column"]) == {"cosmos": 0, "mongo": 0, "ydb": 2}
    assert site.undelete(**{"from": edge}) == everywhere(1)
    assert site.ids() == {"cosmos": [2], "mongo": [2], "ydb": [0, 1, 2]}


def test_one_record_by_its_id(site: Site) -> None:
    site.keep("1h")
    site.server.clock.advance(seconds=300)
    for target in TARGETS.values():
        assert site.http.post("undelete", target=target, id="1")["undeleted"] == 1
        status, problem = site.refuse("undelete", target=target, id="1")
        assert (status, "nothing to undelete" in problem) == (409, True), problem
        assert site.refuse("undelete", target=target, id="9")[0] == 404
    assert site.ids() == everywhere([1])


def test_without_grace_records_are_purged_as_ever(site: Site) -> None:
    site.server.clock.advance(hours=2)
    assert site.undelete() == everywhere(0)
    site.keep("1h")
    site.otps.insert_one({"_id": 7, "at": NOW})
    assert site.ids()["mongo"] == []
    site.keep("0s")
    # It is visible again until a pass purges it, as MongoDB has it.
    assert site.ids()["mongo"] == [7]
    site.server.clock.advance(minutes=2)
    assert site.ids()["mongo"] == []


def test_a_key_that_is_taken_again_is_not_undeleted(site: Site) -> None:
    site.keep("1h")
    site.server.clock.advance(seconds=150)
    site.sessions.create_item({"id": "0", "text": "new"})
    site.otps.insert_one({"_id": 0, "new": True})
    site.query("INSERT INTO carts (id) VALUES (0)")
    assert site.undelete() == everywhere(1)
    assert site.sessions.read_item("0", "0")["text"] == "new"
    assert site.otps.find_one({"_id": 0}) == {"_id": 0, "new": True}


def test_a_change_of_an_expired_record_does_not_find_it(site: Site) -> None:
    site.keep("1h")
    site.server.clock.advance(seconds=150)
    with pytest.raises(CosmosHttpResponseError):
        site.sessions.delete_item("0", "0")
    assert site.otps.update_one({"_id": 0}, {"$set": {"a": 1}}).matched_count == 0
    site.query("UPDATE carts SET until = NULL WHERE id = 0")
    assert site.ids() == everywhere([2])


REFUSED: list[tuple[str, dict[str, object], str]] = [
    ("lifecycle", {"grace": "1.5s"}, "whole number of seconds"),
    ("lifecycle", {"grace": "soon"}, "soon"),
    ("undelete", {"life": "1d"}, "as long as their ttl"),
    ("undelete", {"life": "0s"}, "at least a second"),
    ("undelete", {"id": "1", "to": START}, "by its id, or selected"),
    ("undelete", {"from": "yesterday"}, "is not a time"),
    ("undelete", {"causes": ["age"]}, "age"),
]


@pytest.mark.parametrize(("path", "body", "words"), REFUSED)
def test_refusals(site: Site, path: str, body: dict[str, object], words: str) -> None:
    status, problem = site.refuse(path, target=TARGETS["cosmos"], **body)
    assert (status, words in problem) == (400, True), problem


def test_a_date_without_a_span_needs_a_life(site: Site) -> None:
    site.otps.drop_indexes()
    site.otps.create_index("at", expireAfterSeconds=0)
    site.http.post("lifecycle", target=TARGETS["mongo"], grace="1h")
    site.server.clock.advance(seconds=150)
    status, problem = site.refuse("undelete", target=TARGETS["mongo"])
    assert (status, "how long they live" in problem) == (400, True)
    assert site.http.post("undelete", target=TARGETS["mongo"], life="1m")["undeleted"] == 3
    site.server.clock.advance(seconds=59)
    assert len(site.ids()["mongo"]) == 3
    site.server.clock.advance(seconds=1)
    assert site.ids()["mongo"] == []


def test_a_server_that_was_killed_goes_on_with_an_undelete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "mayfly.db"
    with (
        monkeypatch.context() as patch,
        serve(file, port=0, mongo_port=-1, ydb_port=-1, clock="virtual", clock_start=START) as server,
    ):
        # As if the process had ended right after the undelete was stored.
        patch.setattr(Undeletes, "_start", lambda *_: None)
        shop = server.cosmos.client().create_database("shop")
        sessions = shop.create_container("sessions", partition_key=PartitionKey("/id"), default_ttl=100)
        server.set_lifecycle("cosmos:shop/sessions", grace="1h")
        for n in range(5):
            sessions.create_item({"id": str(n)})
        server.clock.advance(seconds=200)
        answer = Http(port_of(server)).post("undelete", target="cosmos:shop/sessions")
        assert (answer["done"], answer["undeleted"]) == (False, 0)
        server.clock.advance(hours=2)
    with serve(file, port=0, mongo_port=-1, ydb_port=-1, clock="virtual") as server:
        while not Http(port_of(server)).get("undelete?target=cosmos:shop/sessions")["done"]:
            pass
        sessions = server.cosmos.client().get_database_client("shop").get_container_client("sessions")
        assert len(list(sessions.read_all_items())) == 5
        assert server.undelete("cosmos:shop/sessions") == 0
