"""The tables between rntbd and HTTP: paths, methods, headers, and what is refused by name."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from frontends.cosmos.direct.wire import frame, parse_tokens, token
from mayflydb.frontends.cosmos.direct import answers, frames, places, requests
from mayflydb.http.messages import Request, Response
from mayflydb.model.errors import BadRequest, Unsupported

NUMBER = token(0x4D, 2, 1)
C = token(0x15, 8, "d") + token(0x16, 8, "c")
RIDS = base64.b64decode("AAAABIAAAAUDAAAAAAAAAA==")


def translate(resource: int, operation: int, tokens: bytes = b"") -> Request:
    return requests.to_http(frames.parse_request(frame(resource, operation, NUMBER + tokens)))


@pytest.mark.parametrize(
    ("resource", "operation", "tokens", "method", "path"),
    [
        (1, 3, token(0x15, 8, "d"), "GET", b"/dbs/d"),
        (1, 4, b"", "GET", b"/dbs"),
        (1, 0x0F, b"", "POST", b"/dbs"),
        (1, 0x12, b"", "HEAD", b"/dbs"),
        (2, 4, token(0x15, 8, "d"), "GET", b"/dbs/d/colls"),
        (2, 0x11, C, "HEAD", b"/dbs/d/colls/c"),
        (3, 1, C, "POST", b"/dbs/d/colls/c/docs"),
        (3, 0x13, C, "POST", b"/dbs/d/colls/c/docs"),
        (3, 0x25, C, "POST", b"/dbs/d/colls/c/docs"),
        (3, 3, C + token(0x17, 8, "a/b ?é"), "GET", b"/dbs/d/colls/c/docs/a%2Fb%20%3F%C3%A9"),
        (3, 5, C + token(0x17, 8, "i"), "DELETE", b"/dbs/d/colls/c/docs/i"),
        (3, 6, C + token(0x17, 8, "i"), "PUT", b"/dbs/d/colls/c/docs/i"),
        (3, 2, C + token(0x17, 8, "i"), "PATCH", b"/dbs/d/colls/c/docs/i"),
        (5, 3, token(0x15, 8, "d") + token(0x19, 8, "u"), "GET", b"/dbs/d/users/u"),
        (6, 3, token(0x15, 8, "d") + token(0x19, 8, "u") + token(0x1A, 8, "p"), "GET", b"/dbs/d/users/u/permissions/p"),
        (7, 8, C + token(0x1B, 8, "s"), "POST", b"/dbs/d/colls/c/sprocs/s"),
        (8, 4, C, "GET", b"/dbs/d/colls/c/conflicts"),
        (0x16, 4, C, "GET", b"/dbs/d/colls/c/pkranges"),
        # By rid.
        (3, 3, token(0, 0x0B, RIDS), "GET", b"/dbs/AAAABA==/colls/AAAABIAAAAU=/docs/AAAABIAAAAUDAAAAAAAAAA=="),
        (3, 1, token(0, 0x0B, RIDS[:8]), "POST", b"/dbs/AAAABA==/colls/AAAABIAAAAU=/docs"),
        # The rid of the container beside its names, as the vendor's client for Java sends it.
        (3, 1, C + token(0, 0x0B, RIDS[:8]), "POST", b"/dbs/d/colls/c/docs"),
    ],
)
def test_paths(resource: int, operation: int, tokens: bytes, method: str, path: bytes) -> None:
    request = translate(resource, operation, tokens)
    assert (request.method, request.path, request.scheme) == (method, path, "rntbd")


@pytest.mark.parametrize(
    ("tokens", "name", "value"),
    [
        (token(4, 2, 0xFFFFFFFF), "x-ms-max-item-count", b"-1"),
        (token(4, 2, 100), "x-ms-max-item-count", b"100"),
        (token(8, 8, '"e"'), "if-none-match", b'"e"'),
        (token(0x10, 0, 2), "x-ms-consistency-level", b"Session"),
        (token(7, 0, 2), "x-ms-indexing-directive", b"Exclude"),
        (token(0x73, 0, 0), "x-ms-cosmos-batch-atomic", b"false"),
        (token(0x82, 0, 1), "prefer", b"return=minimal"),
        (token(0xC4, 0, 3), "x-ms-cosmos-supported-serialization-formats", b"JsonText,CosmosBinary"),
        (token(0xC4, 0, 2), "x-ms-cosmos-supported-serialization-formats", b"CosmosBinary"),
        (token(0x65, 0, 2), "x-ms-documentdb-content-serialization-format", b"HybridRow"),
        (token(0x2C, 8, "rid,3"), "x-ms-documentdb-partitionkeyrangeid", b"rid,3"),
        (token(0x64, 0, 3) + token(0x62, 0x0B, "05C1"), "x-ms-start-epk", b"05C1"),
        (token(0x64, 0, 2) + token(0x63, 0x0B, b"\xab\x01"), "x-ms-end-epk", b"AB01"),
    ],
)
def test_headers(tokens: bytes, name: str, value: bytes) -> None:
    assert translate(3, 4, C + tokens).headers[name.encode()] == value


def test_match_of_a_write() -> None:
    headers = translate(3, 6, C + token(0x17, 8, "i") + token(8, 8, '"e"')).headers
    assert (headers[b"if-match"], b"if-none-match" in headers) == (b'"e"', False)


def test_reads_of_the_account_have_no_level() -> None:
    # Clients ask for Strong there, whatever the level of the account.
    assert b"x-ms-consistency-level" not in translate(1, 3, token(0x15, 8, "d") + token(0x10, 0, 0)).headers


@pytest.mark.parametrize(
    ("resource", "operation", "tokens", "refusal", "words"),
    [
        (3, 0x31, C, Unsupported, "0x31"),
        (4, 3, C, Unsupported, "resource 0x4"),
        (3, 1, C + token(0x59, 3, 10), Unsupported, "TimeToLiveInSeconds"),
        (3, 4, C + token(0x5E, 0, 2), Unsupported, "reverse"),
        (3, 4, C + token(0x5F, 0x0B, "x"), Unsupported, "StartId"),
        (3, 3, C, BadRequest, "'docs'"),
        (3, 3, token(0x15, 8, "d"), BadRequest, "'colls'"),
        (3, 3, C + token(0x17, 8, "é" * 2049), BadRequest, "4096"),
        (3, 3, b"", BadRequest, "rid"),
        (3, 3, token(0, 0x0B, RIDS[:8]), BadRequest, "rid"),
        (3, 4, C + token(0x10, 0, 5), BadRequest, "consistency level 5"),
        (3, 4, C + token(4, 8, "x"), BadRequest, "integer"),
        (3, 4, C + token(5, 2, 1), BadRequest, "text"),
    ],
)
def test_refused(resource: int, operation: int, tokens: bytes, refusal: type[Exception], words: str) -> None:
    with pytest.raises(refusal, match=words):
        translate(resource, operation, tokens)


def answer(
    headers: list[tuple[bytes, bytes]], status: int = 200, path: str = "", body: bytes = b"{}"
) -> dict[int, Any]:
    addressee = frames.parse_request(frame(3, 3, NUMBER + token(0x13, 8, path))).addressee
    raw = answers.build(addressee, Response(status, body, headers))
    return parse_tokens(raw[24 : int.from_bytes(raw[:4], "little")])


def test_an_answer_has_what_clients_compare() -> None:
    found = answer([(b"lsn", b"7"), (b"x-ms-session-token", b"0:5#7"), (b"x-ms-request-charge", b"1.50")])
    assert {found[id] for id in (0x13, 0x3A, 0x1A, 0x3B, 0x29)} == {7}
    assert (found[0x3E], found[0x15], found[0x1E], found[0x1F], found[0x30]) == ("5#7", 1.5, 3, 4, 0)
    # Of the tokens of several ranges, which are of one version, the last.
    assert answer([(b"x-ms-session-token", b"1:5#7,2:5#7")])[0x3E] == "5#7"


def test_an_answer_without_headers() -> None:
    found = answer([], 503)
    assert (found[0x13], found[0x15], found[0x21]) == (0, 0.0, "M")
    assert 0x1B not in found and answer([], 400)[0x1B] == 1
    assert answer([], path="/apps/mayfly/services/5/partitions/3/replicas/2s")[0x21] == "3"
    assert answer([(b"x-ms-documentdb-partitionkeyrangeid", b"9")])[0x21] == "9"


def test_replicas_of_a_range() -> None:
    rows = places.addresses("h:1", 5, "3")
    assert [row["isPrimary"] for row in rows] == [True, False, False, False]
    assert rows[0]["physcialUri"] == "rntbd://h:1/apps/mayfly/services/5/partitions/3/replicas/1p/"
    assert len({row["physcialUri"] for row in rows}) == 4
    for row in rows:
        assert places.parse(row["physcialUri"].removeprefix("rntbd://h:1").encode()) == (5, b"3")
    assert (
        places.range_of(places.addresses("h:1", None, "M")[1]["physcialUri"].removeprefix("rntbd://h:1").encode())
        == b"M"
    )
    assert places.parse(b"/apps/other") is None
