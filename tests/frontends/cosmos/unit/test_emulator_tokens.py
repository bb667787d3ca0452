"""Entra ID tokens of the emulator's kind: whose key they carry, from when until when they count, and what they open."""

from __future__ import annotations

import json
from base64 import b64encode, urlsafe_b64encode
from typing import Any

import pytest

from mayflydb.frontends.cosmos.auth import KeyKind, Keys
from mayflydb.frontends.cosmos.emulator_tokens import check_permitted, is_entra_token, verify
from mayflydb.frontends.cosmos.paths import parse
from mayflydb.model.errors import Forbidden, Unauthenticated
from mayflydb.model.instant import SECOND

PRIMARY, SECONDARY, READING, OTHER = (b64encode(letter * 64).decode() for letter in (b"p", b"s", b"r", b"o"))
KEYS = Keys.from_base64(PRIMARY, SECONDARY, READING)
TIMES = {"nbf": 10_000, "exp": 20_000}
NOW = 15_000 * SECOND


def part(content: str) -> str:
    return urlsafe_b64encode(content.encode()).decode().rstrip("=")


def header(key: str = PRIMARY, claims: Any = TIMES, version: str = "1.0") -> str:
    return f"type=aad&ver={version}&sig={part('{}')}.{part(json.dumps(claims))}.{part(key)}"


@pytest.mark.parametrize(
    ("key", "who"), [(PRIMARY, KeyKind.PRIMARY), (SECONDARY, KeyKind.SECONDARY), (READING, KeyKind.PRIMARY_READ_ONLY)]
)
def test_verify_returns_the_kind_of_the_carried_key(key: str, who: KeyKind) -> None:
    assert is_entra_token(header(key))
    assert is_entra_token("type%3DAAD%26ver%3D1.0%26sig%3Dx")
    assert verify(KEYS, header(key), NOW) is who


@pytest.mark.parametrize(
    "text",
    [
        header(OTHER), header(""), header("not base64"), header(PRIMARY[:-4]), header(version="2.0"), header(claims={}),
        header(claims=[]),
        header(claims={"exp": "20000"}), header(claims={"exp": None}), header().rpartition(".")[0], header() + ".x",
        header().replace(".", ""), "type=aad&ver=1.0&sig=..", "type=aad&ver=1.0&sig=", "type=aad&ver=1.0&sig=é.é.é",
    ],
)  # fmt: skip
def test_other_tokens_are_refused_by_name(text: str) -> None:
    with pytest.raises(Unauthenticated, match=r"\(aad\) tokens are not supported"):
        verify(KEYS, text, NOW)


@pytest.mark.parametrize(
    ("now", "valid"),
    [
        (9_700 * SECOND - 1, False), (9_700 * SECOND, True), (20_300 * SECOND - 1, True), (20_300 * SECOND, False),
    ],
)  # fmt: skip
def test_validity_has_five_minutes_of_skew(now: int, valid: bool) -> None:
    if valid:
        verify(KEYS, header(), now)
    else:
        with pytest.raises(Unauthenticated, match="not valid at the current time"):
            verify(KEYS, header(), now)


C = "/dbs/d/colls/c"


@pytest.mark.parametrize(
    ("method", "path", "opened"),
    [
        ("GET", "/", True), ("GET", "/dbs", True), ("GET", "/dbs/d", True), ("GET", C, True), ("GET", f"{C}/pkranges", True),
        ("GET", f"{C}/docs", True), ("POST", f"{C}/docs", True), ("GET", f"{C}/docs/1", True), ("PUT", f"{C}/docs/1", True),
        ("PATCH", f"{C}/docs/1", True), ("DELETE", f"{C}/docs/1", True), ("POST", f"{C}/operations/partitionkeydelete", True),
        ("POST", "/dbs", False), ("DELETE", "/dbs/d", False), ("POST", "/dbs/d/colls", False), ("PUT", C, False),
        ("DELETE", C, False),
        ("GET", "/offers", False), ("POST", "/offers", False), ("PUT", "/offers/abcd", False), ("GET", f"{C}/sprocs", False),
        ("POST", f"{C}/sprocs", False), ("POST", f"{C}/sprocs/s", True), ("GET", "/dbs/d/users", False),
        ("POST", "/dbs/d/users/u/permissions", False), ("GET", "/dbs/d/users/u/permissions/p", False),
    ],
)  # fmt: skip
def test_requests_that_an_entra_token_permits(method: str, path: str, opened: bool) -> None:
    target = parse(path.encode())
    if opened:
        check_permitted(target, method, path)
        return
    with pytest.raises(Forbidden, match="cannot be authorized by AAD token in data plane") as refused:
        check_permitted(target, method, path)
    assert refused.value.detail["substatus"] == 5300
