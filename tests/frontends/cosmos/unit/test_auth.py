"""Signatures: what is signed, who signed it, what is refused."""

from __future__ import annotations

import base64
import hashlib
import hmac
from urllib.parse import quote, unquote

import pytest

from mayflydb.frontends.cosmos.auth import (
    WELL_KNOWN_KEY,
    KeyKind,
    Keys,
    check_request_date,
    check_write,
    parse_authorization,
    string_to_sign,
    verify,
    verify_common,
)
from mayflydb.frontends.cosmos.paths import parse
from mayflydb.model.errors import Forbidden, Unauthenticated

DATE = "Thu, 27 Apr 2017 00:51:12 GMT"
OTHERS = [base64.b64encode(bytes([n]) * 64).decode() for n in range(1, 4)]
KEYS = Keys.from_base64(WELL_KNOWN_KEY, *OTHERS)


def signed(text: str, key: str = WELL_KNOWN_KEY, encode: bool = True) -> str:
    digest = hmac.new(base64.b64decode(key), text.encode(), hashlib.sha256).digest()
    header = "type=master&ver=1.0&sig=" + base64.b64encode(digest).decode()
    return quote(header, safe="") if encode else header


def test_documented_example() -> None:
    # https://learn.microsoft.com/rest/api/cosmos-db/access-control-on-cosmosdb-resources#constructkeytoken
    key = "dsZQi3KtZmCv1ljt3VNWNm7sQUF1y5rJfC6kv5JiwvW0EndXdDku/dkKBp8/ufDToSxLzR4y+O/0H/t4bQtVNw=="
    header = "type%3dmaster%26ver%3d1.0%26sig%3dc09PEVJrgp2uQRkr934kFbTqhByc7TVr3OHyqlu%2bc%2bc%3d"
    target = parse(b"/dbs/ToDoList")
    assert verify(Keys.from_base64(key), header, "GET", target.signed_links, DATE) is KeyKind.PRIMARY


@pytest.mark.parametrize("encode", [True, False])
@pytest.mark.parametrize(
    ("path", "verb", "text"),
    [
        (b"/", "GET", f"get\n\n\n{DATE.lower()}\n\n"),
        (b"/dbs", "POST", f"post\ndbs\n\n{DATE.lower()}\n\n"),
        (b"/dbs/D/colls/C/docs/", "POST", f"post\ndocs\ndbs/D/colls/C\n{DATE.lower()}\n\n"),
        (b"/dbs/D/colls/C/docs/a%20B", "PUT", f"put\ndocs\ndbs/D/colls/C/docs/a B\n{DATE.lower()}\n\n"),
        (b"/dbs/D/colls/C/docs/%C3%A9", "GET", f"get\ndocs\ndbs/D/colls/C/docs/é\n{DATE.lower()}\n\n"),
        (b"/offers", "GET", f"get\noffers\n\n{DATE.lower()}\n\n"),
        (b"/offers/aBcD", "GET", f"get\noffers\nabcd\n{DATE.lower()}\n\n"),
        (b"/dbs/Jic9AA==/colls/Jic9ANWdO-E=/docs", "GET", f"get\ndocs\njic9anwdo-e=\n{DATE.lower()}\n\n"),
        (b"/dbs/Jic9AA==/colls/Jic9ANWdO-E=", "GET",
         f"get\ncolls\ndbs/Jic9AA==/colls/Jic9ANWdO-E=\n{DATE.lower()}\n\n"),
        (b"/dbs/D/colls/C/operations/partitionkeydelete", "POST", f"post\ncolls\ndbs/D/colls/C\n{DATE.lower()}\n\n"),
        (b"/dbs/D/colls/C/operations/partitionkeydelete/", "POST",
         f"post\npartitionkey\ndbs/D/colls/C\n{DATE.lower()}\n\n"),
    ],
)  # fmt: skip
def test_signature_is_accepted(path: bytes, verb: str, text: str, encode: bool) -> None:
    assert verify(KEYS, signed(text, encode=encode), verb, parse(path).signed_links, DATE) is KeyKind.PRIMARY


@pytest.mark.parametrize(("key", "who"), list(zip([WELL_KNOWN_KEY, *OTHERS], KeyKind, strict=True)))
def test_verify_returns_the_kind_of_the_key(key: str, who: KeyKind) -> None:
    header = signed(string_to_sign("GET", "dbs", "", DATE), key)
    assert verify(KEYS, header, "GET", (("dbs", ""),), DATE) is who
    assert who.may_write is ("read-only" not in who.value)
    common = verify_common(KEYS, header.encode(), "GET", ("dbs", ""), DATE.encode(), b"")
    assert common is who


def test_the_common_way_accepts_nothing_that_verify_refuses() -> None:
    """It answers None for all that it does not recognise; `verify` finds the words."""
    link = ("docs", "dbs/D/colls/C/docs/é")
    good = signed(string_to_sign("GET", *link, DATE, "d")).encode()

    def common(
        header: bytes = good, verb: str = "GET", link: tuple[str, str] = link, date: bytes = b"D"
    ) -> KeyKind | None:
        return verify_common(KEYS, header, verb, link, DATE.encode(), date)

    assert common() is KeyKind.PRIMARY
    assert common(verb="PUT") is None
    assert common(link=("docs", "dbs/D/colls/C/docs/e")) is None
    assert common(link=("docs", "a" * 600)) is None
    assert common(date=b"e") is None
    for header in (b"", good[:-1], good + b"A", good[:-8] + b"%2B%3D", unquote(good.decode()).encode(), b"x" + good):
        assert common(header) is None
    wrong = signed(string_to_sign("GET", *link, DATE, "d"), base64.b64encode(b"another").decode())
    assert common(wrong.encode()) is None


def test_read_only_writes() -> None:
    check_write(KeyKind.SECONDARY, "POST", "/dbs")
    with pytest.raises(Forbidden, match="read-only"):
        check_write(KeyKind.PRIMARY_READ_ONLY, "POST", "/dbs")


def test_payload_is_shown() -> None:
    with pytest.raises(Unauthenticated) as caught:
        verify(KEYS, signed("x"), "GET", parse(b"/dbs/D").signed_links, DATE)
    assert caught.value.message == (
        "The input authorization token can't serve the request. Please check that the expected payload is built as per "
        "the protocol, and check the key being used. Server used the following payload to sign: "
        f"'get\\ndbs\\ndbs/D\\n{DATE.lower()}\\n\\n'"
    )


@pytest.mark.parametrize("change", ["verb", "type", "link", "date"])
def test_each_part_of_the_signed_text_counts(change: str) -> None:
    parts = {"verb": "GET", "type": "docs", "link": "dbs/a/colls/b", "date": DATE} | {change: "other"}
    header = signed(string_to_sign(parts["verb"], parts["type"], parts["link"], parts["date"]))
    with pytest.raises(Unauthenticated):
        verify(KEYS, header, "GET", (("docs", "dbs/a/colls/b"),), DATE)


GOOD = base64.b64encode(bytes(32)).decode()


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ("", "missing"), ("x", "form"), ("type=master", "form"), ("type=master&ver=1.0", "form"),
        (f"type=aad&ver=1.0&sig={GOOD}", "not supported"), ("type=resource&ver=1&sig=a;b;", "not supported"),
        (f"type=other&ver=1.0&sig={GOOD}", "not supported"), (f"type=master&ver=2.0&sig={GOOD}", "1.0"),
        ("type=master&ver=1.0&sig=", "32 bytes"), (f"type=master&ver=1.0&sig={GOOD} ", "32 bytes"),
        (f"type=master&ver=1.0&sig={GOOD[:-1]}", "32 bytes"), (f"type=master&ver=1.0&sig={GOOD}&x=1", "32 bytes"),
        ("type=master&ver=1.0&sig=é", "32 bytes"), (f"type=master&ver=1.0&sig={GOOD}", "payload"), ("a" * 100_000, "form"),
    ],
)  # fmt: skip
def test_authorization_header_is_refused(header: str, says: str) -> None:
    with pytest.raises(Unauthenticated, match=says):
        verify(KEYS, header, "GET", (("dbs", ""),), DATE)


def test_plus_stays() -> None:
    assert parse_authorization("type=master&ver=1.0&sig=a+b/c=") == ("master", "1.0", "a+b/c=")
    assert parse_authorization("type%3Dmaster%26ver%3D1.0%26sig%3Da%2Bb%2Fc%3D") == ("master", "1.0", "a+b/c=")


@pytest.mark.parametrize(
    ("offset", "allowed"), [(0, True), (899, True), (900, True), (-900, True), (901, False), (-901, False)]
)
def test_clock(offset: int, allowed: bool) -> None:
    now = 1493254272 + offset  # The second that DATE names.
    if allowed:
        check_request_date(DATE, now)
        return
    with pytest.raises(
        Forbidden, match=r"^The authorization token is not valid at the current time.*00:36:12.*01:06:12"
    ):
        check_request_date(DATE, now)


@pytest.mark.parametrize("text", ["", "now", "99999", "Thu, 99 Apr 2017 00:51:12 GMT", "1" * 5000])
def test_bad_date(text: str) -> None:
    with pytest.raises(Unauthenticated):
        check_request_date(text, 0)


def test_keys_are_not_shown() -> None:
    assert WELL_KNOWN_KEY[:8] not in repr(KEYS) and "primary" in repr(KEYS)


@pytest.mark.parametrize("key", ["", "é", "a", "####"])
def test_bad_key(key: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011
        Keys.from_base64(key)
