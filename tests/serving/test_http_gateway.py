"""Who may come in: hosts, origins, tokens; and what answers while the server is starting."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from mayflydb.http.messages import Request, Response
from mayflydb.serving.http_gateway import Hosts, HttpGateway, Readiness

KNOWN = [
    "localhost", "localhost:8081", "LOCALHOST", "127.0.0.1:8081", "192.168.0.7", "[::1]:8081", "[fe80::1]", "mayfly",
    "mayfly:8081", "host.docker.internal:8081", "db.test", "DB.TEST:1",
]  # fmt: skip
UNKNOWN = ["evil.example", "evil.example:8081", "localhost.evil.example", "127.0.0.1.evil.example", "", ":8081", "a.b"]


async def cosmos(request: Request) -> Response:
    return Response(200, b"cosmos %b %b" % (request.method.encode(), request.path))


async def portal(request: Request) -> Response:
    return Response(200, b"portal %b %b" % (request.method.encode(), request.path))


async def healthy() -> dict[str, str]:
    return {"store": "ok", "clock": "virtual"}


def ready() -> Readiness:
    return Readiness("virtual", "ok", "ok", "ok")


def opened(token: bytes | None = None, readiness: Readiness | None = None, health: Any = healthy) -> HttpGateway:
    gate = HttpGateway(Hosts(["db.test"]), readiness or ready(), token)
    gate.open(cosmos, lambda: portal, health, "<p>page</p>")
    return gate


def ask(gate: HttpGateway, method: str, path: str, **headers: str | None) -> tuple[int, dict[str, str], str]:
    given = {"host": "localhost", **headers}
    fields = {name.encode(): value.encode() for name, value in given.items() if value is not None}
    answer = asyncio.run(gate(Request(method, path.encode(), fields)))
    found = {name.decode(): value.decode() for name, value in answer.headers}
    return answer.status, found, answer.body.decode()


@pytest.mark.parametrize("host", KNOWN)
def test_a_known_host_is_answered(host: str) -> None:
    assert ask(opened(), "GET", "/dbs", host=host)[2] == "cosmos GET /dbs"


@pytest.mark.parametrize("host", [*UNKNOWN, None])
@pytest.mark.parametrize(
    ("method", "path", "authorization"),
    [
        ("GET", "/dbs", "type=master"),
        ("GET", "/", "type=master"),
        ("GET", "/_mayfly/info", None),
        ("GET", "/metrics", None),
        ("POST", "/_mayfly/reset", None),
        ("POST", "/_mayfly/live", None),
    ],
)
def test_a_strange_host_is_refused(host: str | None, method: str, path: str, authorization: str | None) -> None:
    status, _, body = ask(opened(), method, path, host=host, authorization=authorization)
    assert status == 403
    assert json.loads(body)["message"]
    if host:
        assert "--allow-host" in json.loads(body)["hint"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/", "<p>page</p>"),
        ("/_explorer/index.html", "<p>page</p>"),
        ("/_mayfly/live", '{"live":true}'),
        ("/_explorer/emulator.pem", "portal GET /_explorer/emulator.pem"),
        ("/_mayfly/cert", "portal GET /_mayfly/cert"),
    ],
)
def test_what_containers_wait_for_is_answered_under_any_name(path: str, body: str) -> None:
    status, _, answer = ask(opened(), "GET", path, host="strange.example")
    assert (status, answer) == (200, body)


@pytest.mark.parametrize(
    ("method", "origin", "status"),
    [
        ("POST", None, 200),
        ("POST", "http://localhost:8081", 200),
        ("POST", "https://localhost:8081", 200),
        ("POST", "http://localhost:8082", 403),
        ("POST", "http://evil.example", 403),
        ("POST", "http://evil.example#localhost:8081", 403),
        ("POST", "null", 403),
        ("POST", "", 403),
        ("DELETE", "http://evil.example", 403),
        ("GET", "http://evil.example", 200),
    ],
)
def test_pages_of_others_change_nothing(method: str, origin: str | None, status: int) -> None:
    answer = ask(opened(), method, "/_mayfly/reset", host="localhost:8081", origin=origin)
    assert answer[0] == status


@pytest.mark.parametrize(
    ("path", "authorization", "answer"),
    [
        ("/", None, "<p>page</p>"),
        ("/", "type=master", "cosmos GET /"),
        ("/dbs", None, "cosmos GET /dbs"),
        ("/_mayfly/info", None, "portal GET /_mayfly/info"),
        ("/_explorer/x", None, "portal GET /_explorer/x"),
        ("/metrics", None, "portal GET /metrics"),
    ],
)
def test_the_path_decides_who_answers(path: str, authorization: str | None, answer: str) -> None:
    assert ask(opened(), "GET", path, authorization=authorization)[2] == answer


@pytest.mark.parametrize(
    ("authorization", "status"),
    [(None, 401), ("Bearer secret", 200), ("bearer secret", 200), ("Bearer wrong", 401), ("Basic secret", 401)],
)
@pytest.mark.parametrize("path", ["/_mayfly/info", "/metrics"])
def test_a_token_is_asked_for_where_there_is_one(path: str, authorization: str | None, status: int) -> None:
    answer = ask(opened(b"secret"), "GET", path, authorization=authorization)
    assert answer[0] == status
    assert ("www-authenticate" in answer[1]) is (status == 401)


@pytest.mark.parametrize("path", ["/_mayfly/live", "/_mayfly/ready", "/_mayfly/cert", "/dbs"])
def test_the_token_is_not_for_these(path: str) -> None:
    assert ask(opened(b"secret"), "GET", path)[0] == 200


@pytest.mark.parametrize("path", ["/dbs", "/", "/_mayfly/info", "/metrics"])
def test_until_it_is_ready_a_server_says_so(path: str) -> None:
    gate = HttpGateway(Hosts([]), Readiness("real"))
    status, headers, body = ask(gate, "GET", path, authorization="x")
    assert (status, headers["retry-after"]) == (503, "1")
    assert json.loads(body)["message"] == "Mayfly is starting."
    assert ask(gate, "GET", "/_mayfly/live")[0] == 200
    status, headers, body = ask(gate, "GET", "/_mayfly/ready")
    assert (status, headers["retry-after"]) == (503, "1")
    assert json.loads(body) == {
        "ready": False,
        "protocols": {"cosmos": "starting", "mongo": "off", "ydb": "off"},
        "store": "opening",
        "disk": "ok",
        "seed": "waiting",
        "clock": "real",
    }


def test_the_ready_document() -> None:
    status, _, body = ask(opened(), "GET", "/_mayfly/ready")
    assert status == 200
    assert json.loads(body) == {
        "ready": True,
        "protocols": {"cosmos": "ok", "mongo": "off", "ydb": "off"},
        "store": "ok",
        "disk": "ok",
        "seed": "ok",
        "clock": "virtual",
    }


def test_a_store_that_ails_makes_the_server_unready() -> None:
    async def ailing() -> dict[str, str]:
        return {"store": "the disk is full"}

    status, _, body = ask(opened(health=ailing), "GET", "/_mayfly/ready")
    assert (status, json.loads(body)["ready"], json.loads(body)["store"]) == (503, False, "the disk is full")


def test_a_server_with_a_full_disk_is_ready_for_reads() -> None:
    async def full() -> dict[str, str]:
        return {"store": "ok", "disk": "full: 5 bytes are free"}

    status, _, body = ask(opened(health=full), "GET", "/_mayfly/ready")
    assert (status, json.loads(body)["ready"], json.loads(body)["disk"]) == (200, True, "full: 5 bytes are free")


def test_a_client_without_a_key_is_answered_by_the_front_end() -> None:
    """Not by the page for people: it would not understand it."""
    assert ask(opened(), "GET", "/", **{"x-ms-version": "2020-07-15"})[2] == "cosmos GET /"


BROWSER = "text/html,application/xhtml+xml,*/*;q=0.8"


@pytest.mark.parametrize(
    ("path", "accept", "host", "authorization", "token", "answer"),
    [
        ("/", BROWSER, "localhost", None, None, "portal GET /"),
        ("/_explorer/index.html", BROWSER, "localhost", None, None, "portal GET /_explorer/index.html"),
        ("/", "*/*", "localhost", None, None, "<p>page</p>"),
        ("/", "application/json", "localhost", None, None, "<p>page</p>"),
        ("/", BROWSER, "localhost", "type=master", None, "cosmos GET /"),
        ("/", BROWSER, "evil.example", None, None, "<p>page</p>"),
        ("/_explorer/index.html", BROWSER, "evil.example", None, None, "<p>page</p>"),
        ("/_explorer/index.html", BROWSER, "localhost", "Bearer wrong", b"secret", "<p>page</p>"),
        (
            "/_explorer/index.html", BROWSER, "localhost", "Bearer secret", b"secret",
            "portal GET /_explorer/index.html",
        ),
    ],
)  # fmt: skip
def test_browsers_get_the_portal(
    path: str, accept: str, host: str, authorization: str | None, token: bytes | None, answer: str
) -> None:
    asked = ask(opened(token), "GET", path, accept=accept, host=host, authorization=authorization)
    assert asked[2] == answer
