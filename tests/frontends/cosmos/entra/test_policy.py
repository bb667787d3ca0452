"""The administrator's document: its forms, its faults, its changes, and keys at a URL."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from frontends.cosmos.issuer import AUDIENCE, NAME, key_set, sign
from mayflydb.announcement import StartFailed
from mayflydb.clock import wall_us
from mayflydb.embedded import serve
from mayflydb.frontends.cosmos.entra.key_sets import KeySetError, read_keys
from mayflydb.frontends.cosmos.entra.policy import PolicyError, PolicyFile, read_policy
from mayflydb.frontends.cosmos.entra.roles import DATA_READER, READ_ITEM
from mayflydb.model.instant import SECOND

ISSUER = {"issuer": NAME, "audiences": [AUDIENCE], "keys": "keys.json"}
TOML = f"""
[[issuers]]
issuer = "{NAME}"
audiences = ["{AUDIENCE}"]
keys = "keys.json"

[[roleAssignments]]
principalId = "alice"
roleDefinitionId = "{DATA_READER}"
scope = "/dbs/shop"
"""


class Ticking:
    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "keys.json").write_text(key_set("ec1"))
    return tmp_path


def write(place: Path, content: Any, name: str = "entra.json") -> Path:
    path = place / name
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def test_both_forms_say_the_same(place: Path) -> None:
    assignments = [{"principalId": "alice", "roleDefinitionId": DATA_READER, "scope": "/dbs/shop"}]
    said = {"issuers": [ISSUER], "roleAssignments": assignments}
    assert read_policy(write(place, said)) == read_policy(write(place, TOML, "entra.toml"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "entra"),
        ("[", "entra"),
        ("[" * 100_000, "entra"),
        ([], "object"),
        ({}, "issuers"),
        ({"issuers": []}, "no issuer"),
        ({"issuers": [{**ISSUER, "audiences": []}]}, "no audiences"),
        ({"issuers": [{**ISSUER, "audience": "x"}]}, "audience"),
        ({"issuers": [{**ISSUER, "keys": "nosuch.json"}]}, r"nosuch\.json"),
        ({"issuers": [{**ISSUER, "keys": "file:///etc/passwd"}]}, "http or https"),
        ({"issuers": [{**ISSUER, "keys": "ftp://x/y"}]}, "http or https"),
        ({"issuers": [ISSUER], "roles": []}, "roles"),
        ({"issuers": [ISSUER], "roleAssignments": [{"principalId": "a"}]}, "roleDefinitionId"),
        (" " * ((1 << 20) + 1), "1 MiB"),
    ],
)
def test_a_start_refuses_a_document_with_a_fault(place: Path, content: Any, said: str) -> None:
    path = write(place, content)
    with pytest.raises(PolicyError, match=said) as refused:
        read_policy(path)
    assert str(path) in str(refused.value)


@pytest.mark.parametrize("content", [None, "{", {"issuers": [ISSUER], "roleAssignments": [
    {"principalId": "a", "roleDefinitionId": "nosuch"}]}])  # fmt: skip
def test_a_server_does_not_start_without_its_policy(place: Path, content: Any) -> None:
    path = place / "entra.json" if content is None else write(place, content)
    with pytest.raises(StartFailed, match=r"entra\.json"), serve(memory=True, port=0, entra_file=str(path)):
        pass


def test_a_server_without_the_library_says_what_to_install(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jwt", None)
    path = write(place, {"issuers": [ISSUER]})
    with pytest.raises(StartFailed) as refused, serve(memory=True, port=0, entra_file=str(path)):
        pass
    assert (refused.value.hint, refused.value.setting) == ('pip install "mayflydb[entra]"', "cosmos.entra_file")


def test_a_change_of_the_file_takes_effect(place: Path, caplog: pytest.LogCaptureFixture) -> None:
    path, ticking = write(place, {"issuers": [ISSUER]}), Ticking()
    policy = PolicyFile(path, ticking)

    def permits() -> bool:
        ticking.now += SECOND
        return asyncio.run(policy.access()).roles.permits(["alice"], READ_ITEM, "/dbs/shop")

    assert not permits()
    granted = [{"principalId": "alice", "roleDefinitionId": DATA_READER}]
    write(place, {"issuers": [ISSUER], "roleAssignments": granted})
    assert permits()
    # A fault keeps the policy of before in force, and is told once.
    write(place, "{")
    assert permits()
    assert permits()
    path.unlink()
    assert permits()
    assert [record.levelname for record in caplog.records] == ["ERROR", "ERROR"]
    write(place, {"issuers": [ISSUER]})
    os.utime(path, (5, 5))
    assert not permits()


class Served(BaseHTTPRequestHandler):
    answers: dict[str, tuple[int, bytes]] = {}  # noqa: RUF012 -- the handlers of one server share it

    def do_GET(self) -> None:
        status, body = self.answers.get(self.path, (404, b""))
        self.send_response(status)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Served) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_keys_come_from_a_url(place: Path, url: str) -> None:
    Served.answers = {"/keys": (200, key_set("ec1").encode()), "/broken": (500, b"{}"), "/text": (200, b"<html>")}
    policy = PolicyFile(write(place, {"issuers": [{**ISSUER, "keys": f"{url}/keys"}]}), Ticking())

    async def verify() -> tuple[str, ...]:
        return (await (await policy.access()).tokens.verify(sign(), wall_us())).ids

    assert asyncio.run(verify()) == ("alice",)
    for path in ("/nosuch", "/broken", "/text"):
        with pytest.raises(KeySetError):
            read_keys(url + path)
    with pytest.raises(KeySetError, match="refused"):
        read_keys("http://127.0.0.1:1/keys")
