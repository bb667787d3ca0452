"""Paths, methods and headers that make no sense; and what the socket can do to a server that means well."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from frontends.cosmos.hostile.sentinel import Target, well_formed
from frontends.cosmos.service import DATE, KEY, Answer, Service, everywhere, in_memory, path_of, signature

# --- paths -----------------------------------------------------------------------------------------------------------

PATHS = [
    "/x", "/dbs/", "/dbs//colls", "/dbs/d/x", "/dbs/d/colls/c/x", "/colls", "/docs", "/dbs/d/docs",
    "/dbs/d/colls/c/docs/1/x",
    "/dbs/d/colls/c/docs/1/attachments", "/addresses", "/dbs/d/colls/c/addresses", "/offers/x/y", "/media/x",
    "/dbs/d/colls/c/operations",
    "/dbs/d/colls/c/operations/x", "/dbs/d/colls/c/operations/partitionkeydelete",
    "/dbs/d/operations/partitionkeydelete",
    "/dbs/d/colls/c/pkranges/0", "/dbs/d/users/u/permissions/p/x", "/DBS", "/dbs/d/COLLS", "/favicon.ico", "/index.php",
    "/dbs/%00", "/dbs/a%2Fb", "/dbs/%zz", "/dbs/%", "/dbs/%c3%28", "/dbs/%ff", "/dbs/%ed%a0%80", "/dbs/..%2f..%2fetc",
    "/dbs/" + "x" * 20_000,
    "/" + "dbs/" * 2000, "/dbs/d?x=y", "/dbs/%3F", "/dbs/%23", "/dbs/%5C", "/dbs/+", "/dbs/%20",
    "/dbs/d/colls/c/docs/%00",
    "/dbs/d/colls/c/docs/%2F", "/dbs/d/colls/c/docs/%252F", "/dbs/d/colls/c/docs/%e2%82", "/dbs/d/colls/c/sprocs/x",
    "/dbs/d/users", "/;/", "/%2e%2e",
]  # fmt: skip
METHODS = ["POST", "PUT", "PATCH", "HEAD", "OPTIONS", "TRACE", "MKCOL"]


@in_memory
@pytest.mark.parametrize("path", PATHS)
def test_paths(target: Target, path: str) -> None:
    for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
        answer = target.attack(method, path, None if method in ("GET", "DELETE") else {"id": "d"})
        if method != "POST" and path != "/dbs/":
            assert answer.status in (400, 401, 404), (method, answer)
    assert [row["id"] for row in target.service.client.list_databases()] in ([db(target)], [db(target), "d"])


def db(target: Target) -> str:
    return target.proxy.container_link.split("/")[1]


@in_memory
@pytest.mark.parametrize("method", METHODS)
def test_methods(target: Target, method: str) -> None:
    for end in ("", "/docs", "/docs/sentinel", "/pkranges", "/docs/none"):
        answer = target.raw(method, path_of(target.proxy) + end, pk="p")
        if method != "HEAD":
            well_formed(answer)
        # HEAD of a container tells how far it is.
        assert answer.status in ((200,) if (method, end) == ("HEAD", "") else (400, 404)), answer


@pytest.mark.parametrize("path", ["/dbs/%00", "/dbs/d/colls/c/docs/x"])
def test_an_unknown_path_is_named(target: Target, path: str) -> None:
    answer = target.attack("MKCOL", path)
    assert answer.status == 400
    assert "MKCOL" in answer.json["message"]


@in_memory
@pytest.mark.parametrize(
    "id",
    [
        "%00",
        "a%00b",
        "%2F",
        "a%2Fb",
        "%5C",
        "%3F",
        "%23",
        "%zz",
        "%",
        "a%",
        "%E0%80%80",
        "%ED%A0%80",
        "%C3%A9",
        "%2525",
        "+",
    ],
)
def test_odd_percent_encodings(target: Target, id: str) -> None:
    patch = {"operations": [{"op": "set", "path": "/a", "value": 1}]}
    for method, body in (("GET", None), ("DELETE", None), ("PUT", {"id": "x", "pk": "p"}), ("PATCH", patch)):
        answer = target.attack(method, f"{target.items}/{id}", body)
        assert answer.status in (400, 401, 404), (method, answer)


# --- headers ---------------------------------------------------------------------------------------------------------

HEADERS = [
    "x-ms-date", "date", "x-ms-version", "x-ms-documentdb-partitionkey", "x-ms-documentdb-partitionkeyrangeid",
    "x-ms-start-epk",
    "x-ms-end-epk", "x-ms-read-key-type", "x-ms-documentdb-query-enablecrosspartition", "x-ms-max-item-count",
    "x-ms-continuation",
    "x-ms-documentdb-responsecontinuationtokenlimitinkb", "x-ms-session-token", "x-ms-consistency-level",
    "x-ms-cosmos-intended-collection-rid", "if-match", "if-none-match", "if-modified-since", "a-im", "prefer",
    "x-ms-offer-throughput",
    "x-ms-cosmos-offer-autopilot-settings", "x-ms-documentdb-populatequerymetrics", "x-ms-cosmos-populateindexmetrics",
    "x-ms-documentdb-populatequotainfo", "x-ms-indexing-directive", "x-ms-documentdb-expiry-seconds",
    "x-ms-activity-id",
    "x-ms-cosmos-is-batch-request", "x-ms-cosmos-batch-atomic", "x-ms-cosmos-batch-continue-on-error",
    "x-ms-documentdb-isquery",
    "x-ms-documentdb-is-upsert", "x-ms-cosmos-is-query-plan-request", "x-ms-cosmos-query-version", "content-type",
    "accept",
    "x-ms-cosmos-supported-query-features", "x-ms-documentdb-pre-trigger-include", "x-ms-documentdb-post-trigger-include",
    "x-ms-documentdb-script-enable-logging", "user-agent", "accept-encoding",
    "range", "cookie",
    "origin", "referer", "x-forwarded-for", "x-forwarded-host", "x-http-method-override", "te", "upgrade", "expect",
    "authorization",
]  # fmt: skip
GARBAGE: list[str | bytes] = [
    "", " ", "garbage", "-1", "99999999999999999999", "1e5", "NaN", "true", "null", "{}", "[]", '["p"]', '"', "*", ",",
    "%00", "9" * 5000, "[" * 5000,
    "x" * 8000, b"\xff\xfe\x80", b"\xc3\xa9", '{"a":', "0:-1#99999999999999999999", "a=b&c=d", "FF",
]  # fmt: skip


@in_memory
@pytest.mark.parametrize("name", HEADERS)
def test_garbage_in_a_header(target: Target, name: str) -> None:
    """Whatever stands in one header, the answer is well-formed, and reads harm nothing."""
    for value in GARBAGE:
        if isinstance(value, str):
            value = value.encode("latin-1")
        for path in (f"{target.items}/sentinel", target.items):
            target.attack("GET", path, None, {name: value})
        target.attack(
            "POST", None, {"query": "SELECT * FROM c"}, {"content-type": "application/query+json", name: value}
        )
        target.attack("POST", None, {"id": "fresh", "pk": "p"}, {name: value})


@pytest.mark.parametrize("value", ["garbage", "0:x", "0:-1#x", ":", "0:-1#5#1", "a:-1#1", "-1", "0:-1#" + "9" * 30])
def test_session_tokens_that_are_none(target: Target, value: str) -> None:
    answer = target.attack("GET", f"{target.items}/sentinel", None, {"x-ms-session-token": value})
    assert answer.status == 400
    assert "x-ms-session-token" in answer.json["message"]


@pytest.mark.parametrize("value", ["garbage", "AAAA", "x" * 20_000, "é", "=", "A" * 100])
def test_continuations_that_are_none(target: Target, value: str) -> None:
    answer = target.attack("GET", None, None, {"x-ms-continuation": value.encode("latin-1")})
    assert answer.status == 400
    assert "x-ms-continuation" in answer.json["message"]


def test_a_continuation_is_for_its_own_request(target: Target) -> None:
    for n in range(3):
        target.proxy.create_item({"id": f"i{n}", "pk": "p"})
    token = target.attack("GET", None, None, {"x-ms-max-item-count": "1"}).headers["x-ms-continuation"]
    query = {"content-type": "application/query+json", "x-ms-continuation": token}
    assert target.attack("POST", None, {"query": "SELECT * FROM c"}, query).status == 400
    assert target.attack("GET", None, None, {"x-ms-continuation": token}, pk="q").status == 400
    flipped = token[:-6] + ("A" if token[-6] != "A" else "B") + token[-5:]
    assert target.attack("GET", None, None, {"x-ms-continuation": flipped}).status == 400
    assert target.attack("GET", None, None, {"x-ms-continuation": token}).status == 200


@pytest.mark.parametrize("value", ["\r\nx-injected: 1", "a\r\n\r\nHTTP/1.1 200 OK", "\n", "é\r\n"])
def test_echoed_values_make_no_header(target: Target, value: str) -> None:
    """Names in a path and in a body end in answers, where they must stay in their place."""
    quoted = "".join(f"%{byte:02X}" for byte in value.encode())
    answer = target.attack("GET", f"/dbs/{quoted}")
    assert answer.status == 404
    assert "x-injected" not in answer.headers
    created = target.attack("POST", "/dbs", {"id": value})
    assert created.status in (201, 400)
    if created.status == 201:
        path = f"/dbs/{quoted}/colls"
        made = target.attack("POST", path, {"id": value, "partitionKey": {"paths": ["/pk"]}})
        assert made.status == 201
        item = target.attack("POST", f"{path}/{quoted}/docs", {"id": value, "pk": "p"})
        assert item.status == 201
        assert "x-injected" not in item.headers
        assert target.attack("GET", f"{path}/{quoted}/docs/{quoted}").status == 200


# --- sockets ---------------------------------------------------------------------------------------------------------


@contextmanager
def connected(service: Service) -> Iterator[socket.socket]:
    """A connection of its own, by the scheme of the service."""
    raw = service.raw
    with socket.create_connection((raw.host, raw.port), timeout=60) as plain:
        if raw.scheme == "http":
            yield plain
            return
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        with context.wrap_socket(plain) as secure:
            yield secure


def drain(connection: socket.socket) -> bytes:
    """Everything up to the end, however it comes."""
    answer = b""
    with suppress(OSError):
        while part := connection.recv(65536):
            answer += part
    return answer


def exchange(service: Service, *parts: bytes, shut: bool = False) -> bytes:
    """Send bytes as they are, say no more, and read to the end."""
    with connected(service) as connection:
        # The server may hang up before it has heard everything; what it said can still be read.
        with suppress(OSError):
            for part in parts:
                connection.sendall(part)
            if shut and service.raw.scheme == "http":
                connection.shutdown(socket.SHUT_WR)
        return drain(connection)


def head(method: str, path: str, *lines: str, authorize: bool = True) -> bytes:
    given = [f"{method} {path} HTTP/1.1", "host: localhost", "connection: close", *lines]
    if authorize:
        given += [
            f"authorization: {signature(KEY, method, path)}",
            f"x-ms-date: {DATE}",
            'x-ms-documentdb-partitionkey: ["p"]',
        ]
    return ("\r\n".join(given) + "\r\n\r\n").encode("latin-1")


def parsed(answer: bytes) -> Answer:
    start, _, body = answer.partition(b"\r\n\r\n")
    first, *rest = start.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in rest)}
    return Answer(int(first.split(" ")[1]), headers, body)


BODY = b'{"id":"x","pk":"p"}'


def chunked(*chunks: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(chunk), chunk) for chunk in (*chunks, b""))


@everywhere
def test_a_chunked_body(target: Target) -> None:
    answer = parsed(
        exchange(target.service, head("POST", target.items, "transfer-encoding: chunked"), chunked(BODY[:5], BODY[5:]))
    )
    assert answer.status == 201


@everywhere
def test_a_chunked_body_without_end_is_cut_off(target: Target) -> None:
    """No length is announced, so the limit holds while it comes in."""
    piece = b"x" * 262_144
    answer = exchange(
        target.service, head("POST", target.items, "transfer-encoding: chunked"), *[b"40000\r\n%b\r\n" % piece] * 20
    )
    assert answer == b"" or parsed(answer).status == 413


@pytest.mark.parametrize("length", [str(3 * 1024 * 1024), str(10**12), "9" * 18])
def test_a_length_that_is_announced_and_too_large(target: Target, length: str) -> None:
    """Refused at once, not after the body."""
    answer = parsed(exchange(target.service, head("POST", target.items, f"content-length: {length}"), BODY))
    assert answer.status == 413
    well_formed(answer)


@pytest.mark.parametrize("lines", [
    ["content-length: x"], ["content-length: -1"], ["content-length: 5", "content-length: 6"], ["content-length: 1e3"],
    ["content-length: " + "9" * 30], ["content-length: 5", "transfer-encoding: chunked"], ["transfer-encoding: x"],
    ["transfer-encoding: chunked, x"], ["content-length: +5"], ["content-length:"],
])  # fmt: skip
def test_lengths_that_make_no_sense(target: Target, lines: list[str]) -> None:
    answer = exchange(target.service, head("POST", target.items, *lines), BODY, shut=True)
    assert answer == b"" or parsed(answer).status < 500, answer


@everywhere
def test_a_body_shorter_than_announced(target: Target) -> None:
    """A client that went away in the middle has asked for nothing, even if what came could be read."""
    framed = [f"content-length: {len(BODY) + 9}"], ["transfer-encoding: chunked"]
    for lines, body in zip(framed, (BODY, b"%x\r\n%b\r\n" % (len(BODY), BODY)), strict=True):
        with connected(target.service) as connection:
            connection.sendall(head("POST", target.items, *lines) + body)
            connection.shutdown(socket.SHUT_WR)
            drain(connection)
    assert target.attack("GET", f"{target.items}/x").status == 404


def test_a_body_longer_than_announced(target: Target) -> None:
    """What follows is taken for the next request, which it is not: the connection ends."""
    answer = exchange(
        target.service, head("POST", target.items, f"content-length: {len(BODY)}"), BODY + b"GARBAGE\r\n\r\n"
    )
    assert answer == b"" or parsed(answer).status in (201, 400)


@in_memory
@pytest.mark.parametrize("data", [
    b"\0" * 1000, b"GET", b"GET /\r\n", b"GET / HTTP/9.9\r\n\r\n", b"G\xc3\x89T / HTTP/1.1\r\n\r\n", b"\r\n" * 5000,
    b"SSH-2.0-x\r\n",
    b"GET / HTTP/1.1\r\nhost: a\r\nx\r\n\r\n", b"GET / HTTP/1.1\r\n: x\r\n\r\n",
    b"GET / HTTP/1.1\r\nhost: a\r\n" + b"x: y\r\n" * 20_000,
    b"GET / HTTP/1.1\r\nhost: a\r\nx: " + b"y" * 100_000, b"GET /" + b"x" * 100_000,
    b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", b"\x16\x03\x01",
    b"GET / HTTP/1.1\r\n\r\n", b"GET http://other/dbs HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n",
    b"CONNECT a:1 HTTP/1.1\r\nhost: localhost\r\n\r\n", b"GET / HTTP/1.0\r\n\r\n",
])  # fmt: skip
def test_malformed_requests(target: Target, data: bytes) -> None:
    answer = exchange(target.service, data, shut=True)
    assert answer == b"" or parsed(answer).status < 500, answer


@in_memory
def test_a_client_of_http2_that_asks_for_nothing(target: Target) -> None:
    """The server sends its empty SETTINGS frame, as RFC 9113 (3.4) has it, and the connection ends with the client's half."""
    assert exchange(target.service, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", shut=True) == b"\0\0\0\4\0\0\0\0\0"


def test_headers_up_to_the_limit(target: Target) -> None:
    for size, status in ((30_000, 200), (40_000, 431)):
        answer = exchange(target.service, head("GET", f"{target.items}/sentinel", "x-filler: " + "y" * size))
        assert parsed(answer).status == status


@everywhere
@pytest.mark.parametrize("cut", [1, 10, 60, 200, -1])
def test_clients_that_go_away(target: Target, cut: int) -> None:
    request = head("POST", target.items, f"content-length: {len(BODY)}") + BODY
    for _ in range(5):
        with connected(target.service) as connection:
            connection.sendall(request[:cut])


@everywhere
def test_pipelined_requests_answer_in_order(target: Target) -> None:
    keep = head("GET", f"{target.items}/sentinel").replace(b"connection: close\r\n", b"")
    last = head("GET", f"{target.items}/none")
    answer = exchange(target.service, keep * 5 + last)
    assert answer.count(b"HTTP/1.1 200") == 5
    assert answer.count(b"HTTP/1.1 404") == 1
    assert answer.rindex(b"HTTP/1.1 200") < answer.index(b"HTTP/1.1 404")


def test_repeated_headers(target: Target) -> None:
    doubled = head("GET", f"{target.items}/sentinel", 'x-ms-documentdb-partitionkey: ["q"]', "x-ms-max-item-count: 1")
    assert parsed(exchange(target.service, doubled)).status in (200, 400, 404)


# --- secrets ---------------------------------------------------------------------------------------------------------

SECRETS = [KEY, KEY[:40], KEY.replace("/", "\\/")]


@pytest.mark.parametrize("headers", [
    {"authorization": None}, {"authorization": ""}, {"authorization": "garbage"}, {"authorization": KEY},
    {"authorization": f"Bearer {KEY}"},
    {"authorization": f"type=master&ver=1.0&sig={KEY}"}, {"authorization": f"type=aad&ver=1.0&sig={KEY}"},
    {"authorization": f"type=resource&ver=1&sig={KEY}"}, {"x-ms-session-token": KEY}, {"x-ms-continuation": KEY},
])  # fmt: skip
def test_no_error_tells_a_secret(target: Target, headers: dict[str, Any]) -> None:
    answer = target.attack("GET", f"{target.items}/none", None, headers)
    assert answer.status >= 400
    if "authorization" in headers:
        assert answer.status == 401
        for secret in SECRETS:
            assert secret.encode() not in answer.body


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8081", "a.b", "", "x" * 300 + ".y"])
def test_a_host_that_is_not_ours(target: Target, host: str) -> None:
    """A page elsewhere may point its own name at this server, and gets nothing."""
    answer = target.raw("GET", f"{target.items}/sentinel", None, {"host": host}, pk="p")
    assert answer.status == 403
    assert "sentinel" not in answer.json["message"]
    assert answer.json["code"] == "Forbidden"
