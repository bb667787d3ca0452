"""The admin API over HTTP: documents, walks of the clock, refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from azure.cosmos import ContainerProxy, PartitionKey

from mayflydb.announcement import ydb_access
from mayflydb.embedded import RunningServer, serve
from served import START, Http, port_of

SESSIONS = "cosmos:shop/sessions"


def test_the_clock_document(http: Http, sessions: ContainerProxy) -> None:
    clock = http.get("clock")
    assert isinstance(clock.pop("offset_seconds"), int)
    assert clock == {
        "now": START,
        "mode": "virtual",
        "frozen": True,
        "jump": None,
        "next_expiry": "2030-01-01T00:01:00Z",
    }


@pytest.mark.parametrize(
    ("body", "now", "seconds", "gone"),
    [
        ({"seconds": 0}, "00:00:00", 0, 0),
        ({"seconds": 59}, "00:00:59", 59, 0),
        ({"seconds": 59.5}, "00:00:59.500000", 59.5, 0),
        ({"seconds": 60}, "00:01:00", 60, 1),
        ({"by": "1m"}, "00:01:00", 60, 1),
        ({"by": "PT1M40S"}, "00:01:40", 100, 2),
        ({"by": "1h30m"}, "01:30:00", 5400, 2),
        ({"to": "next-expiry"}, "00:01:00", 60, 1),
    ],
)
def test_advance(http: Http, sessions: ContainerProxy, body: Any, now: str, seconds: float, gone: int) -> None:
    counts = {"expired": gone, "purged": gone}
    assert http.post("clock/advance", **body) == {
        "now": f"2030-01-01T{now}Z",
        "mode": "virtual",
        "frozen": True,
        "advanced_seconds": seconds,
        **counts,
        "exact": True,
        "by_target": {SESSIONS: counts} if gone else {},
    }
    assert len(list(sessions.read_all_items())) == 3 - gone


@pytest.mark.parametrize(("sweep", "purged"), [("scheduled", 2), ("now", 2), ("none", 0)])
def test_what_an_advance_purges(http: Http, sessions: ContainerProxy, sweep: str, purged: int) -> None:
    walk = http.post("clock/advance", seconds=100, sweep=sweep)
    assert (walk["expired"], walk["purged"]) == (2, purged)
    assert [item["id"] for item in sessions.read_all_items()] == ["s-1"]
    row = http.get("stats")["targets"][SESSIONS]
    assert (row["records"], row["hidden"]) == (1, 2 - purged)
    left = 2 - purged
    assert http.post("purge") == {
        "now": "2030-01-01T00:01:40Z",
        "purged": left,
        "by_target": {SESSIONS: left} if left else {},
    }


def test_the_next_expiry_of_nothing_is_now(http: Http) -> None:
    assert http.post("clock/advance", to="next-expiry") == {
        "now": START,
        "mode": "virtual",
        "frozen": True,
        "advanced_seconds": 0,
        "expired": 0,
        "purged": 0,
        "exact": True,
        "by_target": {},
    }


def test_forward_a_set_is_a_walk(http: Http, sessions: ContainerProxy) -> None:
    walk = http.post("clock/set", to="2030-01-02T00:00:00Z")
    assert (walk["now"], walk["advanced_seconds"], walk["purged"]) == ("2030-01-02T00:00:00Z", 86400, 2)


def test_back_only_with_force_and_over_nothing_newer(http: Http, sessions: ContainerProxy) -> None:
    http.post("clock/advance", seconds=10)
    earlier, older = {"to": "2030-01-01T00:00:05Z"}, {"to": "2029-01-01T00:00:00Z", "force": True}
    for body, word in ((earlier, "force"), (older, "reset")):
        answer = http("POST", "/_mayfly/clock/set", body)
        assert (answer.status, answer.headers["content-type"]) == (409, "application/problem+json")
        assert word in answer.json["hint"]
    assert http.post("clock/set", **earlier, force=True)["now"] == "2030-01-01T00:00:05Z"
    sessions.create_item({"id": "later", "userId": "u1"})
    assert sessions.read_item("later", "u1")["_ts"] == 1893456005


def test_freeze_and_resume(http: Http) -> None:
    assert http.post("clock/resume")["frozen"] is False
    assert http.post("clock/freeze")["frozen"] is True
    assert http.get("clock")["now"] == http.get("clock")["now"]


def test_a_real_clock_that_is_moved_becomes_virtual_and_can_go_back() -> None:
    with serve(memory=True, port=0) as real:
        http = Http(port_of(real))
        assert http.get("clock")["mode"] == "real"
        assert http.get("ready")["clock"] == "real"
        walk = http.post("clock/advance", by="1d")
        assert walk["advanced_seconds"] == 86400
        clock = http.get("clock")
        assert (clock["mode"], clock["frozen"], clock["offset_seconds"]) == ("virtual", False, 86400)
        assert http.get("ready")["clock"] == "virtual"
        database = real.cosmos.client().create_database("shop")
        database.create_container("sessions", partition_key=PartitionKey("/userId"), default_ttl=100)
        answer = http("POST", "/_mayfly/clock/reset", {})
        assert answer.status == 409 and "GET /_mayfly/snapshots" in answer.json["hint"]
        http.post("reset", keep_clock=True)
        clock = http.post("clock/reset")
        assert (clock["mode"], clock["frozen"], clock["offset_seconds"]) == ("real", False, 0)
        assert [http("POST", f"/_mayfly/clock/{verdict}", {}).status for verdict in ("accept", "reject")] == [409, 409]


def test_reset_counts_what_goes_and_puts_the_clock_back(http: Http, sessions: ContainerProxy) -> None:
    http.post("clock/advance", seconds=10)
    assert http.post("reset") == {"now": START, "databases": 1, "containers": 1, "records": 3}
    assert http.post("reset") == {"now": START, "databases": 0, "containers": 0, "records": 0}
    assert http.get("stats")["targets"] == {}


def test_reset_of_one_target_leaves_the_clock_and_the_rest(
    server: RunningServer, http: Http, sessions: ContainerProxy
) -> None:
    server.cosmos.client().create_database("other")
    http.post("clock/advance", seconds=10)
    answer = http.post("reset", target="cosmos:shop")
    assert answer == {"now": "2030-01-01T00:00:10Z", "databases": 1, "containers": 1, "records": 3}
    assert http.get("stats")["databases"] == 1


def test_the_clock_may_stay_where_it_is(http: Http) -> None:
    http.post("clock/advance", seconds=10)
    assert http.post("reset", keep_clock=True)["now"] == "2030-01-01T00:00:10Z"


def test_preview_agrees_with_what_then_happens(http: Http, sessions: ContainerProxy) -> None:
    http.post("clock/advance", seconds=30)
    assert http.post("ttl/preview", target=SESSIONS, default_ttl=20) == {
        "now": "2030-01-01T00:00:30Z",
        "current": 100,
        "proposed": 20,
        "records": 3,
        "expire_now": 1,
        "expire_within": {"1h": 2, "1d": 2, "7d": 2},
        "own_ttl": 1,
        "never": 1,
        "reappear_now": 0,
        "exact": True,
        "sample": ["s100"],
        "notes": [],
    }
    assert len(list(sessions.read_all_items())) == 3
    assert http.post("ttl/preview", target=SESSIONS, default_ttl=None)["never"] == 3
    http.post("clock/advance", seconds=100, sweep="none")
    assert http.post("ttl/preview", target=SESSIONS, default_ttl=-1)["reappear_now"] == 1


def test_forecast(http: Http, sessions: ContainerProxy) -> None:
    forecast = http.get("ttl/forecast?horizon=2m&buckets=4&target=cosmos:shop")
    assert [bucket["count"] for bucket in forecast.pop("buckets")] == [0, 1, 0, 1]
    assert forecast == {
        "now": START,
        "bucket_seconds": 30,
        "due_now": 0,
        "in_horizon": 2,
        "later": 0,
        "never": 1,
        "exact": True,
    }


@pytest.mark.parametrize(
    ("id", "state", "deadline", "reason", "text"),
    [
        ("s60", "hidden", "2030-01-01T00:01:00Z", "item", "item ttl 60 s after _ts"),
        ("s100", "alive", "2030-01-01T00:01:40Z", "default", "defaultTtl 100 s after _ts"),
        ("s-1", "alive", None, "never", None),
    ],
)
def test_explain(
    http: Http, sessions: ContainerProxy, id: str, state: str, deadline: str | None, reason: str, text: str | None
) -> None:
    http.post("clock/advance", seconds=60, sweep="none")
    for pk in ("u1", '"u1"', '["u1"]'):
        answer = http.get(f"ttl/explain?target={SESSIONS}&id={id}&pk={pk}")
        assert answer["text"]
        assert text in (None, answer.pop("text"))
        answer.pop("text", None)
        assert answer == {
            "now": "2030-01-01T00:01:00Z",
            "target": SESSIONS,
            "id": id,
            "pk": "u1",
            "state": state,
            "written": START,
            "deadline": deadline,
            "purge_from": deadline,
            "reason": reason,
        }


def test_due_lists_by_deadline(http: Http, sessions: ContainerProxy) -> None:
    rows = http.get("ttl/due")["records"]
    assert [(row["id"], row["deadline"]) for row in rows] == [
        ("s60", "2030-01-01T00:01:00Z"),
        ("s100", "2030-01-01T00:01:40Z"),
    ]

    def ids(query: str) -> list[str]:
        return [row["id"] for row in http.get(f"ttl/due?{query}")["records"]]

    assert ids("limit=1") == ["s60"]
    assert ids("from=2030-01-01T00:00:59Z&to=2030-01-01T00:01:39Z") == ["s60"]
    assert ids("from=2030-01-01T00:01:00Z") == ["s100"]
    assert ids("to=2030-01-01T00:01:00Z") == ["s60"]
    assert ids("to=2030-01-01T00:00:59Z") == []


def test_expired_records_are_listed_page_by_page(server: RunningServer, http: Http, sessions: ContainerProxy) -> None:
    http.post("clock/advance", seconds=99)
    server.cosmos.client().create_database("gone").create_container("c", PartitionKey("/k"), default_ttl=1).create_item(
        {"id": "x", "k": 1}
    )
    http.post("clock/advance", seconds=1)
    first = http.get("events/expired?limit=1")
    (row,) = first["events"]
    seq = row.pop("seq")
    assert row == {
        "target": SESSIONS,
        "id": "s60",
        "pk": "u1",
        "due": "2030-01-01T00:01:00Z",
        "purged_at": "2030-01-01T00:01:00Z",
        "reason": "item",
    }
    assert first["last"] == seq
    rest = http.get(f"events/expired?after={seq}")
    assert sorted(row["id"] for row in rest["events"]) == ["s100", "x"]
    assert [row["id"] for row in http.get("events/expired?target=cosmos:gone")["events"]] == ["x"]
    server.cosmos.client().delete_database("gone")
    assert [row["id"] for row in http.get("events/expired")["events"]] == ["s60", "s100"]
    end = http.get(f"events/expired?after={rest['last']}")
    assert (end["events"], end["last"]) == ([], rest["last"])
    http.post("reset")
    assert http.get("events/expired")["events"] == []


def test_the_list_of_targets(http: Http, sessions: ContainerProxy) -> None:
    row = {
        "target": SESSIONS,
        "default_ttl": 100,
        "paused": None,
        "held": False,
        "records": 3,
        "hidden": 0,
        "due": 0,
        "own_ttl": 1,
        "ignored_ttl": 0,
        "exact": True,
        "next_expiry": "2030-01-01T00:01:00Z",
    }
    assert http.get("ttl") == {"now": START, "targets": [row]}


@pytest.mark.parametrize("name", ["a b", "100%", "é", "x:y", "dots.and-dashes"])
def test_odd_names_are_percent_encoded(server: RunningServer, http: Http, name: str) -> None:
    database = server.cosmos.client().create_database(name)
    database.create_container(name, partition_key=PartitionKey("/id"), default_ttl=60).create_item({"id": name})
    (target,) = http.get("stats")["targets"]
    assert " " not in target
    answer = http.post("ttl/preview", target=target, default_ttl=None)
    assert (answer["records"], answer["never"]) == (1, 1)
    server.clock.advance(seconds=60)
    assert [(event.target, event.id, event.pk) for event in server.events.expired] == [(target, name, name)]


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "clock/advance", {}, 400),
        ("POST", "clock/advance", {"seconds": 1, "by": "1s"}, 400),
        ("POST", "clock/advance", {"seconds": -1}, 400),
        ("POST", "clock/advance", {"seconds": "x"}, 400),
        ("POST", "clock/advance", {"seconds": True}, 400),
        ("POST", "clock/advance", {"seconds": 0.0000001}, 400),
        ("POST", "clock/advance", {"seconds": 1e300}, 400),
        ("POST", "clock/advance", {"by": "P1M"}, 400),
        ("POST", "clock/advance", {"by": "8000y"}, 400),
        ("POST", "clock/advance", {"by": "3000000d"}, 400),
        ("POST", "clock/advance", {"to": "tomorrow"}, 400),
        ("POST", "clock/advance", {"seconds": 1, "sweep": "all"}, 400),
        ("POST", "clock/advance", {"secondss": 1}, 400),
        ("POST", "clock/advance", b"{", 400),
        ("POST", "clock/advance", b"[]", 400),
        ("POST", "clock/advance", b'{"by":"' + b"x" * 65536 + b'"}', 413),
        ("POST", "clock/advance?seconds=1", {}, 400),
        ("GET", "clock/advance", None, 405),
        ("POST", "clock/set", {"to": "2030-01-01"}, 400),
        ("POST", "clock/set", {"to": "2030-01-01T00:00:00"}, 400),
        ("POST", "clock/set", {}, 400),
        ("POST", "clock/freeze", {"now": True}, 400),
        ("POST", "clock/accept", {}, 409),
        ("POST", "clock/reject", {}, 409),
        ("POST", "purge", {"target": "cosmos:nowhere"}, 404),
        ("POST", "purge", {"target": "cosmos:shop/nothing"}, 404),
        ("POST", "purge", {"target": "nosuch:shop"}, 400),
        ("POST", "purge", {"target": "shop"}, 400),
        ("POST", "purge", {"target": "cosmos:a/b/c"}, 400),
        ("POST", "reset", {"target": "cosmos:nowhere"}, 404),
        ("POST", "ttl/preview", {"target": SESSIONS}, 400),
        ("POST", "ttl/preview", {"target": SESSIONS, "default_ttl": 0}, 400),
        ("POST", "ttl/preview", {"target": SESSIONS, "default_ttl": 2147483648}, 400),
        ("POST", "ttl/preview", {"target": SESSIONS, "default_ttl": 1.5}, 400),
        ("POST", "ttl/preview", {"target": "cosmos:shop", "default_ttl": 5}, 400),
        ("POST", "ttl/preview", {"target": SESSIONS, "default_ttl": 5, "index": "x"}, 400),
        ("GET", "ttl/forecast?buckets=0", None, 400),
        ("GET", "ttl/forecast?horizon=soon", None, 400),
        ("GET", "ttl/forecast?days=1", None, 400),
        ("GET", "ttl/advise?target=cosmos:nowhere", None, 404),
        ("GET", "ttl/advise?target=shop", None, 400),
        ("GET", "ttl/advise?days=1", None, 400),
        ("GET", "ttl/explain?target=" + SESSIONS, None, 400),
        ("GET", "ttl/explain?id=s60&target=" + SESSIONS, None, 400),
        ("GET", "ttl/explain?id=none&pk=u1&target=" + SESSIONS, None, 404),
        ("GET", "ttl/due?limit=0", None, 400),
        ("GET", "ttl/due?from=yesterday", None, 400),
        ("GET", "events/expired?limit=0", None, 400),
        ("GET", "events/expired?limit=1001", None, 400),
        ("GET", "events/expired?after=-1", None, 400),
        ("GET", "events/expired?target=cosmos:nowhere", None, 404),
        ("GET", "info?verbose=1", None, 400),
        ("GET", "nosuch", None, 404),
    ],
)
def test_refusals_are_problem_documents(
    http: Http, sessions: ContainerProxy, method: str, path: str, body: Any, status: int
) -> None:
    answer = http(method, f"/_mayfly/{path}", body)
    assert (answer.status, answer.headers["content-type"]) == (status, "application/problem+json")
    assert answer.json["status"] == status
    assert answer.json["title"]
    assert answer.json["detail"]
    assert http.get("clock")["now"] == START


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("clock/advance", {"seconds": 1}),
        ("clock/set", {"to": "2099-01-01T00:00:00Z"}),
        ("clock/freeze", {}),
        ("clock/resume", {}),
        ("clock/reset", {}),
        ("reset", {}),
    ],
)
def test_time_travel_can_be_off(path: str, body: Any) -> None:
    with serve(memory=True, port=0, allow_time_travel=False) as server:
        http = Http(port_of(server))
        answer = http("POST", f"/_mayfly/{path}", body)
        assert answer.status == 403
        assert "--allow-time-travel" in answer.json["hint"]
        assert http.get("clock")["mode"] == "real"
        assert http.post("purge")["purged"] == 0


def test_info_names_the_address_that_was_used(server: RunningServer, http: Http) -> None:
    answer = http("GET", "/_mayfly/info", Host="db.test:99")
    info = answer.json
    assert info["cosmos"] == {
        "endpoint": "http://db.test:99/",
        "key": server.cosmos.key,
        "connection_string": f"AccountEndpoint=http://db.test:99/;AccountKey={server.cosmos.key};",
        "key_file": None,
    }
    mongo = urlsplit(server.mongo.uri).port
    assert (info["storage"], info["mongo"]) == ("memory", {"uri": server.mongo.uri, "password_file": None})
    assert info["ydb"] == ydb_access(server.ydb.endpoint, None, "/local", None)
    assert info["ports"] == {"http": http.port, "mongo": mongo, "ydb": urlsplit(server.ydb.endpoint).port}


def test_the_certificate_is_served_twice(http: Http, server: RunningServer) -> None:
    pem = http("GET", "/_mayfly/cert").body
    assert pem.startswith(b"-----BEGIN CERTIFICATE-----")
    assert http("GET", "/_explorer/emulator.pem").body == pem == server.cosmos.ca_file.read_bytes()


def test_a_file_goes_on_where_it_was(file: Path) -> None:
    with serve(file, port=0, clock="virtual", clock_start=START) as server:
        server.clock.advance(days=1)
    with serve(file, port=0, clock="virtual", clock_start="2030-01-03T00:00:00Z") as server:
        assert Http(port_of(server)).get("clock")["now"] == "2030-01-03T00:00:00Z"
