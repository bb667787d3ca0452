"""`mayfly erasure` on expiries of all three protocols, made by their clients."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
import ydb
from azure.cosmos import PartitionKey
from click.testing import CliRunner, Result

from mayflydb.cli.main import mayfly
from mayflydb.embedded import RunningServer, serve
from mayflydb.expiry.erasure_chain import Head, Line, chain
from served import START, Http, port_of

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    """A server in which a record of each protocol, and one more of Cosmos DB, has expired."""
    with serve(memory=True, port=0, clock="virtual", clock_start=START, erasure_log=True) as running:
        sessions = (
            running.cosmos.client()
            .create_database("shop")
            .create_container("sessions", PartitionKey("/userId"), default_ttl=60)
        )
        for id in ("s1", "s2"):
            sessions.create_item({"id": id, "userId": "u1", "secret": "mother's maiden name"})
        sessions.create_item({"id": "s3", "userId": "u1", "ttl": -1})
        with running.mongo.client() as client:
            otps = client["app"]["otps"]
            otps.create_index("at", expireAfterSeconds=30)
            otps.insert_one({"_id": "o1", "at": datetime(2030, 1, 1, tzinfo=UTC)})
        driver = running.ydb.driver()
        driver.wait(10)
        pool = ydb.QuerySessionPool(driver)
        pool.execute_with_retries(
            "CREATE TABLE carts (id Utf8, at Timestamp, PRIMARY KEY (id)) WITH (TTL = Interval('PT0S') ON at)"
        )
        pool.execute_with_retries("UPSERT INTO carts (id, at) VALUES ('c1'u, Timestamp('2030-01-01T00:00:10Z'))")
        pool.stop()
        driver.stop()
        running.clock.advance(hours=2)
        yield running


@pytest.fixture
def run(server: RunningServer) -> Run:
    def run(*arguments: object, code: int = 0) -> Any:
        result: Result = CliRunner().invoke(mayfly, ["--url", server.admin_url, "-o", "json", *map(str, arguments)])
        assert result.exit_code == code, result.output
        return json.loads(result.stdout) if code == 0 else result.stderr

    return run


def test_a_report_counts_what_expired(run: Run) -> None:
    found = run("erasure", "report")
    assert (found["verified"], found["records"], found["gaps"], found["lines"]) == (True, 4, 0, 5)
    assert (found["first"], found["last"], found["overwritten"]) == ("2030-01-01T00:01:00Z", "2030-01-01T00:01:00Z", 0)
    assert [(row["container"], row["cause"], row["how"], row["records"]) for row in found["erased"]] == [
        ("cosmos/shop/sessions", "default", "sweep", 2),
        ("mongo/app/otps", "index", "sweep", 1),
        ("ydb//local/carts", "column", "sweep", 1),
    ]


def test_a_report_counts_what_was_overwritten(run: Run, tmp_path: Path) -> None:
    record = Line(0, "erased", "t", 1, "", path=("a", "b"))
    lines, head = chain(
        Head(),
        [
            Line(0, "start", "t", 0, ""),
            *(msgspec.structs.replace(record, event=n) for n in (1, 2, 5)),
            Line(0, "scrubbed", "t", 2, ""),
            msgspec.structs.replace(record, event=6),
            Line(0, "start", "t", 0, ""),
            *(msgspec.structs.replace(record, event=n, path=(), container=7) for n in (1, 2)),
            Line(0, "scrubbed", "t", 1, ""),
            Line(0, "gap", "t", 9, "", after=2),
        ],
    )
    file = tmp_path / "log.jsonl"
    file.write_bytes(b"".join(line + b"\n" for line in [*lines, msgspec.json.encode({"head": head})]))
    found = run("erasure", "report", file)
    assert (found["records"], found["overwritten"], found["gaps"]) == (6, 3, 1)
    assert [row["container"] for row in found["erased"]] == ["a/b", "dropped container 7"]


def test_the_status_is_as_verified(run: Run, server: RunningServer) -> None:
    status, verified = run("erasure", "status"), run("erasure", "verify")
    assert (status["on"], status["lag"]) == (True, 0)
    assert (verified["lines"], verified["head"]) == (status["lines"], status["head"])
    head = f"{status['lines']}:{status['head']}"
    assert run("erasure", "verify", "--head", head)["verified"]
    assert "noted earlier" in run("erasure", "verify", "--head", "3:" + "0" * 64, code=5)
    assert "LINES:HASH" in run("erasure", "verify", "--head", "3", code=2)


@pytest.mark.parametrize(
    ("target", "id", "pk"),
    [
        ("cosmos:shop/sessions", "s1", "u1"),
        ("mongo:app.otps", "o1", None),
        ("ydb:/local/carts", "c1", None),
    ],
)
def test_a_record_is_found_by_its_key(run: Run, target: str, id: str, pk: str | None) -> None:
    more = () if pk is None else ("--pk", pk)
    found = run("erasure", "find", "--target", target, "--id", id, *more)
    assert [line["kind"] for line in found["lines"]] == ["erased"]
    assert "no record" in run("erasure", "find", "--target", target, "--id", "never", *more, code=1)


def test_a_living_record_has_no_line(run: Run) -> None:
    run("erasure", "find", "--target", "cosmos:shop/sessions", "--id", "s3", "--pk", "u1", code=1)


def test_an_exported_file_is_verified_without_a_server(run: Run, tmp_path: Path, seed: int) -> None:
    chance, file = random.Random(seed), tmp_path / "log.jsonl"
    run("erasure", "export", file)
    assert "exists" in run("erasure", "export", file, code=1)
    text = file.read_bytes()
    assert b"maiden" not in text and b"s1" not in text
    offline = ("--url", "http://127.0.0.1:9")
    assert run(*offline, "erasure", "verify", file)["lines"] == 5
    assert run(*offline, "erasure", "report", file)["records"] == 4
    for _ in range(20):
        changed = bytearray(text)
        changed[chance.randrange(len(changed) - 1)] ^= 1 << chance.randrange(8)
        file.write_bytes(changed)
        run(*offline, "erasure", "verify", file, code=5)
    for lines in (text.splitlines(keepends=True)[:n] for n in range(6)):
        file.write_bytes(b"".join(lines))
        run(*offline, "erasure", "verify", file, code=5)


def test_metrics_tell_how_far_the_log_is(server: RunningServer) -> None:
    text = Http(port_of(server))("GET", "/metrics").body.decode()
    assert "mayfly_erasure_lines 5" in text
    assert "mayfly_erasure_lag_events 0" in text


def test_a_server_that_erases_securely_says_how_far_it_is(tmp_path: Path) -> None:
    with serve(tmp_path / "mayfly.db", port=0, erase="secure", erasure_log=True) as running:
        status: dict[str, Any] = {}
        for _ in range(10_000):
            result = CliRunner().invoke(mayfly, ["--url", running.admin_url, "-o", "json", "erasure", "status"])
            status = json.loads(result.stdout)
            assert status["erase"] == "secure"
            if status["scrubbed"] is not None:
                break
        # The event of the self-test.
        assert status["scrubbed"] == status["event"] == 1
