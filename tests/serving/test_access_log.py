"""The access log: a line for each request of each protocol, without keys and contents, bounded, in a file that may be rotated."""

from __future__ import annotations

import errno
import itertools
import json
import os
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import ydb
from click.testing import CliRunner
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from frontends.cosmos.service import Raw
from mayflydb.announcement import StartFailed
from mayflydb.cli import logs
from mayflydb.cli.main import mayfly
from mayflydb.embedded import serve
from mayflydb.engine import access_log
from mayflydb.engine.access_log import AccessLine, AccessLog, EndedRequest
from mayflydb.serving.access_log import AccessFile, AccessWriter, json_line, text_line
from served import Http, port_of

SECRET = "topsecretvalue"


def accesses() -> AccessLog:
    ticks = itertools.count()
    return AccessLog(lambda: 1_000_000, lambda: next(ticks))


def note(log: AccessLog, target: str = "shop.carts") -> None:
    log.note(EndedRequest("mongo", "1:2", "find", target, "ok", 1.0, 0, "127.0.0.1"))


def test_a_line_for_each_request_of_each_protocol(tmp_path: Path) -> None:
    place = tmp_path / "access.log"
    with serve(memory=True, port=0, access_log=str(place)) as server:
        raw = Raw(server.cosmos.url)
        raw("POST", "/dbs", {"id": "shop"})
        raw("POST", "/dbs/shop/colls", {"id": "carts", "partitionKey": {"paths": ["/pk"], "kind": "Hash"}})
        raw("POST", "/dbs/shop/colls/carts/docs", {"id": SECRET, "pk": SECRET}, pk=SECRET)
        answer = raw("GET", f"/dbs/shop/colls/carts/docs/{SECRET}", pk=SECRET)
        raw.close()
        with MongoClient[dict[str, Any]](server.mongo.uri) as client:
            client["app"]["otps"].insert_one({"_id": SECRET, "code": SECRET})
            list(client["app"]["otps"].find({"code": SECRET}))
            with pytest.raises(OperationFailure):
                list(client["app"]["otps"].aggregate([{"$bad": SECRET}]))
        with ydb.Driver(endpoint=server.ydb.endpoint, database="/local") as driver:
            driver.wait(10, fail_fast=True)
            with ydb.QuerySessionPool(driver) as pool:
                pool.execute_with_retries(f"SELECT '{SECRET}'")
                pool.execute_with_retries("CREATE TABLE carts (id Utf8, PRIMARY KEY (id))")
                pool.execute_with_retries(f"UPSERT INTO carts (id) VALUES ('{SECRET}')")
            driver.scheme_client.describe_path("/local/carts")
        found = Http(port_of(server))("GET", "/_explorer/cosmos/shop/carts/items?filter=" + SECRET, accept="text/html")
        assert found.status == 200
        assert Http(port_of(server)).get("info")["access_log"] == str(place)
        url = f"http://127.0.0.1:{port_of(server)}"
        printed = CliRunner().invoke(mayfly, ["--url", url, "logs", "-n", "1000"])
        assert printed.exit_code == 0
    text = place.read_text(encoding="utf-8")
    assert SECRET not in text and text.startswith(printed.output)
    assert place.stat().st_mode & 0o777 == 0o600
    entries = [json.loads(line) for line in text.splitlines()]
    (read,) = [each for each in entries if each.get("activity_id") == answer.headers["x-ms-activity-id"]]
    assert read.pop("ts").endswith("Z") and read.pop("duration_ms") > 0
    assert read.pop("client") in ("127.0.0.1", "::1")
    assert read == {
        "level": "info",
        "logger": "access",
        "protocol": "cosmos",
        "activity_id": answer.headers["x-ms-activity-id"],
        "operation": "read",
        "target": "dbs/shop/colls/carts",
        "status": 200,
        "ru": float(answer.headers["x-ms-request-charge"]),
    }
    (found,) = [each for each in entries if each["operation"] == "find"]
    assert (found["protocol"], found["target"], found["status"]) == ("mongo", "app.otps", "ok") and found["ru"] > 0
    queries = [each for each in entries if each["operation"] == "Ydb.Query.V1.QueryService/ExecuteQuery"]
    places = [("ydb", place, "SUCCESS") for place in ("/local", "/local/carts")]
    assert {(each["protocol"], each["target"], each["status"]) for each in queries} == set(places)
    (described,) = [each for each in entries if each["operation"] == "Ydb.Scheme.V1.SchemeService/DescribePath"]
    assert described["target"] == "/local/carts"
    (refused,) = [each for each in entries if each["operation"] == "aggregate"]
    assert refused["status"] == "Location40324"
    (info, *_), (page,) = ([each for each in entries if each["protocol"] == name] for name in ("admin", "portal"))
    assert (info["operation"], info["target"], info["status"]) == ("GET", "/_mayfly/info", 200)
    assert (page["target"], page["status"]) == ("/_explorer/cosmos/shop/carts/items", 200)
    assert not any(each.get("target") == "/_mayfly/ready" for each in entries)
    assert {each["client"] for each in queries} <= {"127.0.0.1", "::1"}


def test_the_number_of_waiting_requests_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_log, "MAX_WAITING", 2)
    log = accesses()
    for _ in range(5):
        note(log, "x" * 1000)
    assert log.dropped == 3
    assert [len(each.target) for each in log.take(10)] == [access_log.MAX_TEXT] * 2 and log.take(10) == []


def test_a_rotated_file_is_opened_anew(tmp_path: Path) -> None:
    place = tmp_path / "access.log"
    file = AccessFile(place)
    file.write("one\n")
    place.rename(tmp_path / "access.log.1")
    file.write("two\n")
    file.close()
    assert (tmp_path / "access.log.1").read_text() == "one\n" and place.read_text() == "two\n"


def test_what_cannot_be_written_is_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(descriptor: int, data: bytes) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    log = accesses()
    writer = AccessWriter(log, tmp_path / "access.log")
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", fail)
        note(log)
        writer.close()
    assert log.dropped == 1 and log.take(1) == []


def test_a_file_that_cannot_be_opened_ends_the_start(tmp_path: Path) -> None:
    with (
        pytest.raises(StartFailed, match=r"the access log .* cannot be opened: Is a directory") as caught,
        serve(memory=True, port=0, access_log=str(tmp_path)),
    ):
        pass
    assert caught.value.setting == "server.access_log"


def test_clients_make_no_lines_of_their_own() -> None:
    access = AccessLine(0, "mongo", "1:2", ("a", "b"), 'x\n2030 status=ok "\ud800', "error", None, 1500, "")
    line = text_line(access)
    assert line == (
        "1970-01-01T00:00:00Z info    access: protocol=mongo activity_id=1:2 operation=a/b"
        r' target="x\n2030 status=ok \"\\ud800" status=error duration_ms=1.5'
    )
    assert "activity_id" not in json_line(access._replace(id=""))
    assert json.loads(json_line(access))["target"] == 'x\n2030 status=ok "\\ud800'


@pytest.mark.parametrize(("setting", "said"), [("off", "writes no access log"), ("text", "to stderr")])
def test_logs_without_a_file(setting: str, said: str, capfd: pytest.CaptureFixture[str]) -> None:
    with serve(memory=True, port=0, access_log=setting) as server:
        raw = Raw(server.cosmos.url)
        raw("GET", "/dbs")
        raw.close()
        printed = CliRunner().invoke(mayfly, ["--url", f"http://127.0.0.1:{port_of(server)}", "logs"])
    assert printed.exit_code == 1 and said in str(printed.exception or "") + printed.output
    assert ("access: protocol=cosmos" in capfd.readouterr().err) == (setting == "text")


def test_a_word_is_no_path() -> None:
    with pytest.raises(StartFailed, match="the path of a file, with a / or a dot"), serve(access_log="jsn"):
        pass


def _append(place: Path, data: bytes) -> None:
    with place.open("ab") as file:
        file.write(data)


def _take_step(steps: Iterator[Callable[[], object]]) -> None:
    next(steps)()


@pytest.mark.parametrize("block", [3, 1 << 16])
def test_the_last_lines_and_those_that_follow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    monkeypatch.setattr(logs, "BLOCK", block)
    place = tmp_path / "access.log"
    place.write_bytes(b"one\ntwo\nthree\nfo")
    steps: Iterator[Callable[[], object]] = iter(
        [
            lambda: _append(place, b"ur\nfive\n"),
            lambda: place.rename(tmp_path / "old"),
            lambda: place.write_bytes(b"six\n"),
        ]
    )
    with place.open("rb") as file:
        assert logs.read_last(file, 2) == [b"two", b"three"]
        with closing(logs.read_following(place, file, partial(_take_step, steps))) as found:
            assert list(itertools.islice(found, 3)) == [b"four", b"five", b"six"]
    with place.open("rb") as file:
        assert [logs.read_last(file, number) for number in (0, 1, 9)] == [[], [b"six"], [b"six"]]


def test_text_on_a_terminal(tmp_path: Path) -> None:
    place = tmp_path / "access.log"
    log = accesses()
    note(log)
    place.write_text(json_line(log.take(1)[0]) + "\nnot JSON\n")
    printed = CliRunner().invoke(mayfly, ["-o", "table", "logs", str(place)])
    first, second = printed.output.splitlines()
    assert first.startswith("1970-01-01T00:00:01Z protocol=mongo activity_id=1:2 ") and second == "not JSON"
