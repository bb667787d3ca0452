"""`mayfly watch`, and the progress of requests that take long."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import click
import pytest
from azure.cosmos import PartitionKey
from click.testing import Result

from mayflydb.cli import long_requests, progress
from mayflydb.cli.admin import AdminClient, CommandFailed
from mayflydb.cli.long_requests import Report, post_with_progress, report_advance, report_purge
from mayflydb.cli.progress import ProgressLine
from mayflydb.cli.watch import describe, read_events
from mayflydb.embedded import serve
from terminal import Screen

if TYPE_CHECKING:
    from cli.conftest import AdminStub

Run = Callable[..., Result]

AT = "2030-01-01T00:00:00Z"
RECORD = {"at": AT, "target": "cosmos:shop/s", "id": "a\x1b", "pk": "u", "text": "item ttl 60 s after _ts"}
EVENTS: list[tuple[str, dict[str, Any], int | None, str]] = [
    ("expired", RECORD, 7, f"{AT}  expired  cosmos:shop/s  a\\x1b, u  item ttl 60 s after _ts"),
    ("write", RECORD | {"pk": None}, None, f"{AT}  write    cosmos:shop/s  a\\x1b  item ttl 60 s after _ts"),
    (
        "purged", {"at": AT, "target": "mongo:a.b", "purged": 1200, "first": 1, "last": 8, "lag_seconds": 0.5}, 8,
        f"{AT}  purged   mongo:a.b  1,200 records, 0.5 s after the oldest was due",
    ),
    ("clock", {"at": AT, "action": "advance", "mode": "virtual", "frozen": True}, None,
     f"{AT}  clock    advance  (virtual, frozen)"),
    ("reset", {"at": AT, "action": "everything", "mode": "real", "frozen": False}, None,
     f"{AT}  reset    everything  (real)"),
    ("lost", {"at": AT, "after": 3, "first": 9}, 8, f"{AT}  lost     events 4 to 8 are no longer kept"),
]  # fmt: skip


def stream() -> bytes:
    text = "retry: 2000\nid: 6\n\n: \n\n"
    for type, data, number, _ in EVENTS:
        text += (f"id: {number}\n" if number else "") + f"event: {type}\ndata: {json.dumps(data)}\n\n"
    return text.encode()


def test_json_lines_when_piped(run: Run, server: AdminStub) -> None:
    server.answers["GET", "/_mayfly/events"] = (200, stream())
    result = run("--url", server.url, "watch", "--types", "expired,clock", "--target", "cosmos:shop", "--after", "0")
    assert [json.loads(line) for line in result.stdout.splitlines()] == [
        {"type": type} | data for type, data, _, _ in EVENTS
    ]
    assert server.asked == [("GET", "/_mayfly/events?types=expired%2Cclock&target=cosmos%3Ashop&after=0", None)]
    # The stream has no end while the server runs.
    assert (result.exit_code, "mayfly watch --after 8" in result.stderr) == (3, True)


def test_lines_for_people(run: Run, server: AdminStub) -> None:
    server.answers["GET", "/_mayfly/events"] = (200, stream())
    result = run("--url", server.url, "watch", "-o", "table")
    assert result.stdout.splitlines() == [line for _, _, _, line in EVENTS]


def test_refusals(run: Run, server: AdminStub) -> None:
    problem = {"title": "Not found", "detail": "there is no cosmos:x", "hint": "mayfly ttl list names all targets"}
    server.answers["GET", "/_mayfly/events"] = (404, problem)
    result = run("--url", server.url, "watch", "--target", "cosmos:x")
    assert result.exit_code == 1 and "Try:   mayfly ttl list" in result.stderr
    result = run("--url", server.url, "watch", "--types", "expired,gone")
    assert result.exit_code == 2 and "'gone' is none of expired, purged" in result.stderr
    assert run("--url", "http://127.0.0.1:1", "watch").exit_code == 3


def test_the_events_of_a_server() -> None:
    with serve(memory=True, port=0, mongo_port=-1, ydb_port=-1, clock="virtual", clock_start=AT) as running:
        shop = running.cosmos.client().create_database("shop")
        sessions = shop.create_container("s", partition_key=PartitionKey("/u"), default_ttl=60)
        sessions.create_item({"id": "a", "u": "b"})
        running.clock.advance("2m")
        admin = AdminClient(running.admin_url)
        lines = admin.stream("events", {"types": None, "after": 0})
        events = read_events(lines)
        expired, purged = next(events), next(events)
        assert (expired.type, expired.data["id"], expired.number) == ("expired", "a", str(expired.data["seq"]))
        assert "defaultTtl 60 s after _ts" in describe(expired)
        assert (purged.type, purged.data["purged"]) == ("purged", 1)
        # What comes later is read without an end of the answer.
        running.clock.freeze()
        assert next(events).data["action"] == "freeze"
        lines.close()
        for query, hint in (({"target": "cosmos:no"}, "mayfly ttl list"), ({"target": "x"}, "cosmos:")):
            with pytest.raises(CommandFailed) as caught:
                next(admin.stream("events", query))
            assert hint in caught.value.hint and "GET " not in caught.value.hint


# --- progress -------------------------------------------------------------------------------------------------------------


class Slow:
    """A server whose answer comes when the screen has what is awaited. Of its counts, `None` is no answer in time."""

    def __init__(self, seen: threading.Event, fails: bool = False) -> None:
        self.looks: list[Mapping[str, Any] | None] = [self.counts(0), None, self.counts(1204)]
        self.seen = seen
        self.fails = fails

    @staticmethod
    def counts(purged: int) -> Mapping[str, Any]:
        rows = {"cosmos:a/b": {"due": 4310, "purged": purged + 5}, "cosmos:ab/c": {"due": 9, "purged": 0}}
        return {"now": AT, "targets": rows}

    def get(self, path: str) -> Any:
        assert path == "stats"
        found = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        if found is None:
            raise CommandFailed("timed out")
        return found

    def post(self, path: str, body: Mapping[str, object]) -> Any:
        assert self.seen.wait(20)
        if self.fails:
            raise CommandFailed("the disk is full")
        return {"purged": 1204, **body}


def post(monkeypatch: pytest.MonkeyPatch, report: Report, screen: Screen, *, fails: bool = False) -> Any:
    slow = Slow(screen.seen, fails)
    monkeypatch.setattr(progress, "PATIENCE", 0.001)
    monkeypatch.setattr(progress, "INTERVAL", 0.01)
    monkeypatch.setattr(long_requests, "PATIENCE", 0.001)
    monkeypatch.setattr(long_requests, "POLL_SECONDS", 0.02)
    monkeypatch.setattr(long_requests, "ProgressLine", lambda what: ProgressLine(what, out=screen))
    monkeypatch.setattr(long_requests, "admin_client", lambda ctx, timeout=None, silent=False: slow)
    return post_with_progress(click.Context(click.Command("x")), "purge", "purge", {"target": "x"}, report)


@pytest.mark.parametrize(
    ("report", "shown"),
    [
        (report_purge("cosmos:a"), "1,204 of 4,310 records"),
        (report_purge(None), "1,204 of 4,319 records"),
        (report_advance, f"at {AT}, 1,204 records purged"),
    ],
)
def test_a_long_request_shows_how_far_it_is(monkeypatch: pytest.MonkeyPatch, report: Report, shown: str) -> None:
    screen = Screen(shown)
    assert post(monkeypatch, report, screen) == {"purged": 1204, "target": "x"}
    assert screen.seen.is_set() and screen.getvalue().endswith("\r")


def test_a_long_request_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen("purge  ")
    with pytest.raises(CommandFailed, match="disk is full"):
        post(monkeypatch, report_purge(None), screen, fails=True)
    assert screen.getvalue().endswith("\r")


def test_no_counts_are_asked_for_where_no_terminal_shows_them(run: Run, server: AdminStub) -> None:
    server.answers["POST", "/_mayfly/purge"] = (200, {"purged": 0})
    assert run("--url", server.url, "ttl", "purge").exit_code == 0
    assert server.asked == [("POST", "/_mayfly/purge", {})]


# --- secrets --------------------------------------------------------------------------------------------------------------


def test_no_setting_shows_what_the_variables_of_emulators_hold(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (
        ("AZURE_COSMOS_EMULATOR_KEY", "Y2FuYXJ5" * 11),
        ("MONGO_INITDB_ROOT_USERNAME", "root"),
        ("MONGO_INITDB_ROOT_PASSWORD", "canary-password"),
        ("MAYFLY_STORAGE_URL", "postgresql://u:canary-secret@127.0.0.1/d"),
        ("MAYFLY_SERVER_DROP_IN", "true"),
    ):
        monkeypatch.setenv(name, value)
    for form in ("json", "jsonl", "wide"):
        result = run("config", "show", "--origin", "-o", form)
        assert result.exit_code == 0 and "server.drop_in" in result.stdout
        assert "canary" not in result.output and "Y2FuYXJ5" not in result.output
