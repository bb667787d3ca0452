"""Paths: what they name, with and without slashes, in and out of percent-encoding."""

from __future__ import annotations

import pytest

from mayflydb.frontends.cosmos.paths import Resource, parse
from mayflydb.model.errors import BadRequest, Unsupported

ROWS = [
    ("/", Resource.ACCOUNT, True, None, None, None),
    ("/dbs", Resource.DATABASE, True, None, None, None),
    ("/dbs/d", Resource.DATABASE, False, "d", None, "d"),
    ("/dbs/d/colls", Resource.CONTAINER, True, "d", None, None),
    ("/dbs/d/colls/c", Resource.CONTAINER, False, "d", "c", "c"),
    ("/dbs/d/colls/c/docs", Resource.ITEM, True, "d", "c", None),
    ("/dbs/d/colls/c/docs/i", Resource.ITEM, False, "d", "c", "i"),
    ("/dbs/d/colls/c/docs/docs", Resource.ITEM, False, "d", "c", "docs"),
    ("/dbs/dbs/colls/colls", Resource.CONTAINER, False, "dbs", "colls", "colls"),
    ("/dbs/D%20e/colls/%C3%A9%25/docs/a%2Fb", Resource.ITEM, False, "D e", "é%", "a/b"),
    ("/dbs/a+b/colls/%2525", Resource.CONTAINER, False, "a+b", "%25", "%25"),
    ("/dbs/d/colls/c/pkranges", Resource.RANGE, True, "d", "c", None),
    ("/dbs/d/colls/c/conflicts", Resource.CONFLICT, True, "d", "c", None),
    ("/dbs/d/colls/c/sprocs/s", Resource.STORED_PROCEDURE, False, "d", "c", "s"),
    ("/dbs/d/colls/c/triggers", Resource.TRIGGER, True, "d", "c", None),
    ("/dbs/d/colls/c/udfs", Resource.USER_DEFINED_FUNCTION, True, "d", "c", None),
    ("/dbs/d/users/u", Resource.USER, False, "d", None, "u"),
    ("/dbs/d/users/u/permissions/p", Resource.PERMISSION, False, "d", None, "p"),
    ("/offers", Resource.OFFER, True, None, None, None),
    ("/offers/aBcD", Resource.OFFER, False, None, None, "aBcD"),
    ("/dbs/d/colls/addresses", Resource.CONTAINER, False, "d", "addresses", "addresses"),
]


@pytest.mark.parametrize("slash", ["", "/"])
@pytest.mark.parametrize(("path", "resource", "is_feed", "database", "container", "id"), ROWS)
def test_target(
    path: str,
    resource: Resource,
    is_feed: bool,
    database: str | None,
    container: str | None,
    id: str | None,
    slash: str,
) -> None:
    target = parse((path + slash).encode())
    assert (target.resource, target.is_feed, target.database) == (resource, is_feed, database)
    assert (target.container, target.id, target.operation) == (container, id, None)
    assert parse((path + slash).encode()) is target


def test_operation() -> None:
    target = parse(b"/dbs/d/colls/c/operations/partitionkeydelete/")
    assert (target.resource, target.container, target.operation) == (Resource.CONTAINER, "c", "partitionkeydelete")
    assert target.signed_links == (("colls", "dbs/d/colls/c"), ("partitionkey", "dbs/d/colls/c"))


def test_user_and_permission() -> None:
    target = parse(b"/dbs/d/users/u/permissions/p")
    assert (target.user, target.id) == ("u", "p")
    assert target.signed_links == (("permissions", "dbs/d/users/u/permissions/p"),)


@pytest.mark.parametrize(
    ("path", "signed"),
    [
        ("/dbs/d", (("dbs", "dbs/d"),)),
        ("/dbs/Jic9AA==", (("dbs", "dbs/Jic9AA=="), ("dbs", "jic9aa=="))),
        ("/offers/aBcD", (("offers", "abcd"), ("offers", "offers/aBcD"))),
        ("/dbs/d/colls/C/docs", (("docs", "dbs/d/colls/C"),)),
    ],
)
def test_signed(path: str, signed: tuple[tuple[str, str], ...]) -> None:
    assert parse(path.encode()).signed_links == signed


@pytest.mark.parametrize(
    "path",
    ["/x", "/dbs/d/x", "/docs", "/colls/c", "/dbs//colls", "/dbs/d/colls/c/docs/i/attachments", "/dbs/d/docs", "/offers/a/b",
     "/dbs/d/colls/c/pkranges/0", "/dbs/d/colls/c/operations", "/dbs/d/colls/c/operations/other", "/dbs/d/operations/x",
     "/dbs/d/operations/partitionkeydelete", "/operations/partitionkeydelete", "/Dbs", "/dbs/%FF", "/dbs/d/colls/c/docs/%C3",
     "/_mayfly", "/dbs/d/colls/c/operations/partitionkeydelete/x"],
)  # fmt: skip
def test_unknown(path: str) -> None:
    with pytest.raises(BadRequest) as caught:
        parse(path.encode())
    assert path in caught.value.message


@pytest.mark.parametrize("path", ["/addresses", "/addresses/", "//addresses//"])
def test_addresses(path: str) -> None:
    account = parse(f"{path}?$resolveFor=dbs&$filter=protocol%20eq%20rntbd".encode())
    assert (account.resource, account.container, account.signed_links) == (Resource.ADDRESS, None, (("dbs", ""),))
    items = parse(f"{path}?$filter=x&$resolveFor=dbs%2FAA%3D%3D%2Fcolls%2FaBc%3D%2Fdocs".encode())
    assert (items.resource, items.database, items.container) == (Resource.ADDRESS, "AA==", "aBc=")
    assert items.signed_links == (("docs", "abc="), ("docs", "dbs/AA==/colls/aBc="))


@pytest.mark.parametrize(
    ("path", "refusal"),
    [
        ("/addresses", BadRequest),
        ("/addresses?$resolveFor=dbs/d", BadRequest),
        ("/addresses?$resolveFor=dbs/d/colls//docs", BadRequest),
        ("/addresses?$resolveFor=dbs/d/colls/c/sprocs", Unsupported),
        ("/dbs/d/colls/c/docs/x/addresses", BadRequest),
    ],
)
def test_addresses_of_nothing(path: str, refusal: type[Exception]) -> None:
    with pytest.raises(refusal):
        parse(path.encode())


def test_long_path() -> None:
    name = "a" * 20_000
    assert parse(f"/dbs/{name}".encode()).id == name
    with pytest.raises(BadRequest) as caught:
        parse(f"/{name}".encode())
    assert len(caught.value.message) < 2000
