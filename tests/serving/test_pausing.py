"""What is paused is not purged, or does not die at all, whatever the clock says; resuming says first what will follow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from azure.cosmos import ContainerProxy, PartitionKey
from click.testing import CliRunner, Result

from mayflydb.cli.main import mayfly
from mayflydb.config import file_url
from mayflydb.embedded import RunningServer, serve
from served import START, Http, port_of

SESSIONS, CARTS = "cosmos:shop/sessions", "cosmos:shop/carts"
LATER = "2031-01-01T00:00:00Z"


def filled(server: RunningServer) -> ContainerProxy:
    """Two containers with a default of 100 s: s60 dies after its own 60 s, s100 by the default, s-1 never."""
    database = server.cosmos.client().create_database("shop")
    for name in ("sessions", "carts"):
        container = database.create_container(name, partition_key=PartitionKey("/userId"), default_ttl=100)
        for id, ttl in (("s60", 60), ("s100", None), ("s-1", -1)):
            container.create_item({"id": id, "userId": "u1"} | ({} if ttl is None else {"ttl": ttl}))
    return database.get_container_client("sessions")


@pytest.fixture
def sessions(server: RunningServer, http: Http) -> ContainerProxy:
    return filled(server)


def ids(container: ContainerProxy) -> list[str]:
    return [item["id"] for item in container.read_all_items()]


def listed(http: Http, target: str) -> Any:
    return http.get(f"ttl?target={target}")["targets"][0]


def test_what_is_paused_is_hidden_and_stays(http: Http, sessions: ContainerProxy) -> None:
    assert http.post("ttl/pause", target=SESSIONS) == {
        "now": START,
        "targets": [{"target": SESSIONS, "paused": "purge", "due": 0, "exact": True}],
    }
    walk = http.post("clock/advance", by="1d")
    assert walk["by_target"] == {SESSIONS: {"expired": 2, "purged": 0}, CARTS: {"expired": 2, "purged": 2}}
    assert ids(sessions) == ["s-1"]
    assert http.post("purge") == {"now": walk["now"], "purged": 0, "by_target": {}, "paused": [SESSIONS]}
    row = listed(http, SESSIONS)
    assert (row["paused"], row["hidden"], row["due"], listed(http, CARTS)["paused"]) == ("purge", 2, 2, None)
    assert (
        http.get(f"ttl/explain?target={SESSIONS}&id=s60&pk=u1")["text"] == "item ttl 60 s after _ts; purging is paused"
    )


def test_to_resume_shows_first_and_then_lets_go(http: Http, sessions: ContainerProxy) -> None:
    http.post("ttl/pause")
    http.post("clock/advance", by="1d")
    ahead = http.post("ttl/resume", dry_run=True)
    rows = {"paused": "purge", "records": 1, "expire_now": 0, "purge_now": 2, "reappear_now": 0}
    assert ahead["targets"] == [{"target": CARTS, **rows}, {"target": SESSIONS, **rows}]
    assert http.post("purge")["purged"] == 0
    assert http.post("ttl/resume", target=SESSIONS)["targets"] == ahead["targets"][1:]
    assert http.post("purge")["by_target"] == {SESSIONS: 2}
    assert http.post("ttl/resume", target=SESSIONS)["targets"] == []
    assert http.post("ttl/resume")["targets"] == ahead["targets"][:1]


def test_it_is_no_change_of_the_container(http: Http, sessions: ContainerProxy, server: RunningServer) -> None:
    """Clients see neither another etag nor another time; what they change does not resume it."""
    before = sessions.read()
    http.post("ttl/pause")
    assert sessions.read() == before
    database = server.cosmos.client().get_database_client("shop")
    database.replace_container("sessions", PartitionKey("/userId"), default_ttl=10)
    assert listed(http, SESSIONS)["paused"] == "purge"
    http.post("clock/advance", seconds=11)
    assert ids(sessions) == ["s60", "s-1"]
    assert http.post("purge")["purged"] == 0


def test_a_notice_lets_nobody_die_before_its_end(http: Http, sessions: ContainerProxy, server: RunningServer) -> None:
    http.post("ttl/pause")
    http.post("clock/advance", by="1d")
    answer = http.post("ttl/resume", target=SESSIONS, notice="7d")
    assert answer["not_before"] == "2030-01-09T00:00:00Z"
    assert [(row["purge_now"], row["reappear_now"]) for row in answer["targets"]] == [(0, 2)]
    assert ids(sessions) == ["s60", "s100", "s-1"]
    # Another policy for the same rule leaves the notice as it is.
    database = server.cosmos.client().get_database_client("shop")
    paths = {"indexingMode": "consistent", "includedPaths": [{"path": "/*"}], "excludedPaths": [{"path": "/x/*"}]}
    database.replace_container("sessions", PartitionKey("/userId"), default_ttl=100, indexing_policy=paths)
    http.post("clock/set", to="2030-01-08T23:59:59Z")
    assert len(ids(sessions)) == 3
    assert http.post("clock/advance", seconds=1)["by_target"] == {SESSIONS: {"expired": 2, "purged": 2}}
    assert ids(sessions) == ["s-1"]


def test_it_is_kept_across_restarts(file: Path) -> None:
    with serve(file, port=0, clock="virtual", clock_start=START) as server:
        filled(server)
        Http(port_of(server)).post("ttl/pause", target=SESSIONS)
    with serve(file, port=0, clock="virtual", clock_start=LATER) as server:
        http = Http(port_of(server))
        assert http.post("purge")["by_target"] == {CARTS: 2}
        assert listed(http, SESSIONS)["paused"] == "purge"


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("ttl/pause", {"target": "cosmos:shop/missing"}, 404),
        ("ttl/pause", {"tarjet": SESSIONS}, 400),
        ("ttl/resume", {"target": "cosmos:shop/missing"}, 404),
        ("ttl/resume", {"notice": "soon"}, 400),
        ("ttl/resume", {"notice": 7}, 400),
        ("ttl/resume", {"yes": True}, 400),
    ],
)
def test_refused(http: Http, sessions: ContainerProxy, path: str, body: Any, status: int) -> None:
    assert http("POST", f"/_mayfly/{path}", body).status == status


def test_a_database_is_paused_as_a_whole(http: Http, sessions: ContainerProxy) -> None:
    paused = http.post("ttl/pause", target="cosmos:shop")["targets"]
    assert [row["target"] for row in paused] == [CARTS, SESSIONS]


# --- the command line ----------------------------------------------------------------------------------------------------


def run(server: RunningServer, *arguments: str) -> Result:
    url = f"http://127.0.0.1:{port_of(server)}"
    return CliRunner().invoke(mayfly, ["--url", url, "-o", "json", *arguments], catch_exceptions=False)


def done(server: RunningServer, *arguments: str) -> Any:
    result = run(server, *arguments)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_commands(server: RunningServer, http: Http, sessions: ContainerProxy) -> None:
    assert [row["paused"] for row in done(server, "ttl", "pause")["targets"]] == ["purge", "purge"]
    http.post("clock/advance", by="1d")
    assert [row["due"] for row in done(server, "ttl", "list", SESSIONS)["targets"]] == [2]
    # What cannot be undone is not done unasked.
    refused = run(server, "ttl", "resume")
    assert refused.exit_code == 4
    assert f"Remove 4 expired records for ever, of {CARTS} (2), {SESSIONS} (2)?" in refused.stderr
    assert [row["purge_now"] for row in done(server, "ttl", "resume", "--dry-run")["targets"]] == [2, 2]
    assert listed(http, SESSIONS)["paused"] == "purge"
    # After a notice nobody goes at once.
    assert done(server, "ttl", "resume", SESSIONS, "--notice", "1h")["not_before"] == "2030-01-02T01:00:00Z"
    assert [row["target"] for row in done(server, "ttl", "resume", "-y")["targets"]] == [CARTS]
    assert http.post("purge")["by_target"] == {CARTS: 2}


# --- restored ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def backup(file: Path) -> Path:
    """An export from the year before."""
    with serve(file, port=0, clock="virtual", clock_start=START) as server:
        filled(server)
    exported = file.with_name("backup.mayfly")
    result = CliRunner().invoke(mayfly, ["data", "export", str(exported), "--storage", file_url(file)])
    assert result.exit_code == 0, result.output
    return exported


@pytest.mark.parametrize("paused", [True, False])
def test_what_is_restored_paused_lives_until_it_is_resumed(backup: Path, paused: bool) -> None:
    new = backup.with_name("new.db")
    command = ["data", "import", str(backup), "--storage", file_url(new), *(["--paused"] if paused else [])]
    for _ in range(2):  # The second time it is there already.
        result = CliRunner().invoke(mayfly, command)
        assert result.exit_code == 0, result.output
    with serve(new, port=0, clock="virtual", clock_start=LATER) as server:
        http = Http(port_of(server))
        sessions = server.cosmos.client().get_database_client("shop").get_container_client("sessions")
        if not paused:
            assert ids(sessions) == ["s-1"]
            return
        assert ids(sessions) == ["s60", "s100", "s-1"]
        assert http.post("clock/advance", by="30d")["by_target"] == {}
        assert http.post("purge")["purged"] == 0
        assert sessions.read()["defaultTtl"] == 100
        why = http.get(f"ttl/explain?target={SESSIONS}&id=s60&pk=u1")
        assert (why["state"], why["deadline"], why["reason"]) == ("alive", None, "paused")
        assert why["text"] == "expiry is paused: no record expires until it is resumed"
        # A pause of purging does not make it less.
        assert http.post("ttl/pause", target=SESSIONS)["targets"][0]["paused"] == "expiry"
        ahead = http.post("ttl/resume", dry_run=True)["targets"]
        assert [(row["target"], row["paused"], row["expire_now"]) for row in ahead] == [
            (CARTS, "expiry", 2),
            (SESSIONS, "expiry", 2),
        ]
        http.post("ttl/resume", target=SESSIONS, notice="7d")
        assert http.post("ttl/resume", target=CARTS)["targets"][0]["purge_now"] == 2
        assert http.post("purge")["by_target"] == {CARTS: 2}
        assert len(ids(sessions)) == 3
        assert http.post("clock/advance", by="7d")["by_target"] == {SESSIONS: {"expired": 2, "purged": 2}}
