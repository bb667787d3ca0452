"""Resource tokens by themselves: what is signed comes back, what was touched does not, and the end is a second."""

from __future__ import annotations

import base64
from urllib.parse import quote

import msgspec
import pytest

from mayflydb.frontends.cosmos.auth import Keys
from mayflydb.frontends.cosmos.partition_key import parse_header
from mayflydb.frontends.cosmos.resource_tokens import (
    TokenGrant,
    check_expiry,
    is_resource_token,
    item_digest,
    key_digests,
    seal,
    unseal,
)
from mayflydb.model.errors import Forbidden, Unauthenticated
from mayflydb.model.instant import SECOND

T = 1893456000
KEY, OTHER = (base64.b64encode(bytes([n]) * 64).decode() for n in (1, 2))
KEYS = Keys.from_base64(KEY)
GRANT = TokenGrant(True, T, T + 600, 4, 5, item_digest("i"), key_digests(("a", 5)), b"12345678", 7, b"terms")
TOKEN = seal(KEYS, GRANT)


@pytest.mark.parametrize("header", [TOKEN, quote(TOKEN, safe="-_.!~*'()"), quote(TOKEN, safe="").replace("%3D", "%3d")])
def test_a_token_as_it_was_issued(header: str) -> None:
    assert is_resource_token(header)
    assert unseal(KEYS, header) == GRANT


def test_the_form_that_clients_look_for() -> None:
    assert TOKEN.startswith("type=resource&ver=1&sig=")
    assert TOKEN.endswith(";")
    assert TOKEN.isascii()


@pytest.mark.parametrize("header", ["type=master&ver=1.0&sig=x", "type%3Dmaster", "", "resource", "x" + TOKEN])
def test_headers_of_another_type(header: str) -> None:
    assert not is_resource_token(header)


def test_every_character_counts() -> None:
    """Whichever character is another one, the token is refused: no bit of it goes unsigned."""
    start = TOKEN.index("sig=") + 4
    for place in range(start, len(TOKEN)):
        for other in "A/;":
            if TOKEN[place] != other:
                with pytest.raises(Unauthenticated):
                    unseal(KEYS, TOKEN[:place] + other + TOKEN[place + 1 :])


@pytest.mark.parametrize("header", [
    "type=resource", "type=resource&ver=1&sig=", "type=resource&ver=1&sig=x", "type=resource&ver=1&sig=;;",
    "type=resource&ver=1&sig=é;é;", TOKEN[:-1], TOKEN + ";", TOKEN + "x", TOKEN.replace("ver=1", "ver=2"),
    TOKEN.replace("type=resource", "type=resources"), TOKEN + "A" * 10_000,
])  # fmt: skip
def test_malformed_tokens_are_refused(header: str) -> None:
    with pytest.raises(Unauthenticated):
        unseal(KEYS, header)


def test_more_rights_need_another_signature() -> None:
    more = msgspec.msgpack.encode(msgspec.structs.replace(GRANT, container=0, item=b"", key=(), expires=T + 10**9))
    mac = TOKEN.split("sig=")[1].split(";")[0]
    with pytest.raises(Unauthenticated):
        unseal(KEYS, f"type=resource&ver=1&sig={mac};{base64.b64encode(more).decode()};")


@pytest.mark.parametrize(
    ("keys", "accepted"),
    [
        (Keys.from_base64(KEY, OTHER), True),
        (Keys.from_base64(OTHER, KEY), True),
        (Keys.from_base64(OTHER), False),
        (Keys.from_base64(OTHER, None, KEY), False),  # A read-only key signs nothing that may write.
        (Keys.from_base64(OTHER, None, OTHER, KEY), False),
    ],
)
def test_keys(keys: Keys, accepted: bool) -> None:
    if accepted:
        assert unseal(keys, TOKEN) == GRANT
        return
    with pytest.raises(Unauthenticated):
        unseal(keys, TOKEN)


def test_the_end_is_a_second() -> None:
    check_expiry(GRANT, GRANT.expires * SECOND - 1)
    for now in (GRANT.expires * SECOND, GRANT.expires * SECOND + 1, (GRANT.expires + 10**6) * SECOND):
        with pytest.raises(Forbidden, match="not valid at the current time") as expired:
            check_expiry(GRANT, now)
        assert "token expiry time: Tue, 01 Jan 2030 00:10:00 GMT" in expired.value.message


def test_a_clock_that_was_set_back_ends_nothing() -> None:
    check_expiry(GRANT, (T - 10**6) * SECOND)


@pytest.mark.parametrize(("left", "right", "same"), [
    ('["a"]', '["a"]', True), ("[5]", "[5.0]", True), ("[0]", "[-0.0]", False), ("[1]", "[true]", False),
    ("[null]", "[{}]", False), ('["5"]', "[5]", False), ('["a","b"]', '["ab",""]', False), ("[]", "[null]", False),
])  # fmt: skip
def test_keys_that_are_the_same(left: str, right: str, same: bool) -> None:
    assert (key_digests(parse_header(left)) == key_digests(parse_header(right))) is same
