"""Rids, etags and bodies."""

from __future__ import annotations

import base64
import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from frontends.cosmos.service import older_rid, rid_number
from mayflydb.engine.catalog import PartitionRange
from mayflydb.engine.throughput import Throughput
from mayflydb.frontends.cosmos import resources
from mayflydb.frontends.cosmos.resources import Rid, RidKind, container_links, parse_rid
from mayflydb.model.instant import SECOND
from mayflydb.model.record import Record

OWNER = container_links(7, 9)
BITS_31, BITS_59 = st.integers(0, 2**31 - 1), st.integers(0, 2**59 - 1)


def raw(rid: str) -> bytes:
    return base64.b64decode(rid.replace("-", "/"), validate=True)


@given(database=st.integers(0, 2**32 - 1), inner=BITS_31, number=BITS_59)
def test_rids_read_back(database: int, inner: int, number: int) -> None:
    rid = container_links(database, inner).rid
    assert len(raw(rid)) == 8 and raw(rid)[4] & 0x80 and parse_rid(rid) == Rid(RidKind.CONTAINER, database, inner)
    rid = resources.user_rid(database, inner)
    assert len(raw(rid)) == 8 and not raw(rid)[4] & 0x80 and parse_rid(rid) == Rid(RidKind.USER, database, inner)
    assert parse_rid(resources.database_rid(database)) == Rid(RidKind.DATABASE, database)
    for kind in (k for k in RidKind if isinstance(k.value, int)):
        rid = resources.child_rid(kind, database, inner, number)
        assert len(raw(rid)) == 16 and parse_rid(rid) == Rid(kind, database, inner, number)
        assert raw(rid)[15] >> 4 == kind.value
    assert resources.item_rid(container_links(database, inner), number) == resources.child_rid(
        RidKind.ITEM, database, inner, number
    )


@given(database=st.integers(0, 2**32 - 1), inner=BITS_31, number=st.integers(0, 2**56 - 1))
def test_rids_of_the_earlier_form_are_told_apart(database: int, inner: int, number: int) -> None:
    for kind in (k for k in RidKind if isinstance(k.value, int)):
        rid = resources.child_rid(kind, database, inner, number)
        assert older_rid(rid) != rid and parse_rid(older_rid(rid)) == Rid(kind, database, inner, number)


def test_offer_rid() -> None:
    assert len(resources.offer_rid(5)) == 4 and parse_rid(resources.offer_rid(5)) == Rid(RidKind.OFFER, number=5)
    with pytest.raises(OverflowError):
        resources.offer_rid(2**24)


def test_slash_is_dash() -> None:
    assert resources.database_rid(0xFFFFFFFF) == "-----w=="
    assert parse_rid("-----w==") == Rid(RidKind.DATABASE, 0xFFFFFFFF)


@pytest.mark.parametrize("text", ["", "a", "abcde", "ab/d", "é" * 4, "AAAAAB==", "=", "abcd\n", "a" * 24, "abc="])
def test_no_rid(text: str) -> None:
    assert parse_rid(text) is None


@given(
    lsn=st.integers(0, 2**48 - 1), container=BITS_31, seconds=st.integers(0, 2**32 - 1), rest=st.integers(0, SECOND - 1)
)
def test_etag_reads_back(lsn: int, container: int, seconds: int, rest: int) -> None:
    text = resources.etag(lsn, container, seconds * SECOND + rest)
    for form in (text, text[1:-1], f" {text} "):
        assert resources.parse_etag(form) == resources.Etag(lsn, container, seconds)
        assert resources.etag_matches(form, text)
    assert not resources.etag_matches(resources.etag(lsn + 1, container, seconds * SECOND), text)


def test_etag_form() -> None:
    assert resources.etag(0x0D00B23F, 0, 0x5C7712E8 * SECOND) == '"0d00b23f-0000-0000-0000-5c7712e80000"'
    assert resources.etag_matches("*", '"x"')


@pytest.mark.parametrize("text", ["", "*", '"x"', 'W/"0d00b23f-0000-0000-0000-5c7712e80000"', "0d00b23f-0000", '""'])
def test_no_etag(text: str) -> None:
    assert resources.parse_etag(text) is None


def record(value: bytes, seq: int = 3) -> Record:
    return Record(b"p", b"k", value, 1893456000 * SECOND + 999_999, 1893456000 * SECOND, None, 2**40 + 5, seq)


@pytest.mark.parametrize("value", [b'{"id":"a","n":1.0}', b"{}", '{"id":"é"}'.encode()])
def test_item_body(value: bytes) -> None:
    body = resources.item_body(OWNER, record(value))
    shown = json.loads(body)
    assert list(shown)[-5:] == ["_rid", "_self", "_etag", "_attachments", "_ts"]
    assert shown == {**json.loads(value), **resources.system_properties(OWNER, record(value))}
    assert shown["_self"] == f"{OWNER.self_link}docs/{shown['_rid']}/" and shown["_ts"] == 1893456000
    assert shown["_etag"] == resources.item_etag(OWNER, record(value))


@given(
    st.lists(
        st.tuples(
            st.sampled_from([b'{"id":"a"}', b"{}", b'{"id":"%b"}']),
            BITS_59,
            st.integers(0, 2**48 - 1),
            st.integers(0, 2**33 * SECOND),
        )
    ),
    st.integers(0, 2**32 - 1),
    BITS_31,
)
def test_bodies_of_many_items_are_those_of_each(
    items: list[tuple[bytes, int, int, int]], database: int, container: int
) -> None:
    links = container_links(database, container)
    records = [Record(b"p", b"k", value, written, None, None, lsn, seq) for value, seq, lsn, written in items]
    bodies = [resources.item_body(links, each) for each in records]
    assert resources.item_bodies(links, records) == bodies
    with_lsn = [body[:-1] + b',"_lsn":%d}' % each.lsn for body, each in zip(bodies, records, strict=True)]
    assert resources.item_bodies(links, records, with_lsn=True) == with_lsn


def test_item_rids_ascend() -> None:
    numbers = [rid_number(resources.item_rid(OWNER, seq)) for seq in (0, 1, 2, 15, 16, 255, 256, 2**40)]
    assert numbers == sorted(set(numbers)) and numbers[0] > 0


def test_database_body() -> None:
    body = resources.database_body("d", 7, 1, 5 * SECOND)
    assert list(body) == ["id", "_rid", "_self", "_etag", "_colls", "_users", "_ts"]
    assert body["_self"] == f"dbs/{body['_rid']}/" and body["_ts"] == 5


def test_container_body() -> None:
    body = resources.container_body({"id": "c"}, OWNER, 1, 5 * SECOND)
    assert body["_self"] == f"dbs/{resources.database_rid(7)}/colls/{body['_rid']}/"
    assert len(raw(body["_rid"])) == 8
    assert resources.container_body({"id": "c"}, OWNER, 2, 5 * SECOND)["_etag"] != body["_etag"]


def test_range_rows() -> None:
    rows = resources.range_rows(OWNER, [PartitionRange("0", "", "1F"), PartitionRange("1", "1F", "FF")], 1, 5 * SECOND)
    assert [(r["id"], r["minInclusive"], r["maxExclusive"], r["ridPrefix"]) for r in rows] == [
        ("0", "", "1F", 0), ("1", "1F", "FF", 1)]  # fmt: skip
    assert all(r["status"] == "online" and r["parents"] == [] and r["throughputFraction"] == 0.5 for r in rows)
    assert [parse_rid(r["_rid"]) for r in rows] == [Rid(RidKind.RANGE, 7, 9, n) for n in (0, 1)]


@pytest.mark.parametrize(
    ("throughput", "content"),
    [
        (Throughput(400), {"offerThroughput": 400, "offerIsRUPerMinuteThroughputEnabled": False}),
        (Throughput(400, 4000, 0), {
            "offerThroughput": 400, "offerIsRUPerMinuteThroughputEnabled": False,
            "offerAutopilotSettings": {"maxThroughput": 4000, "tier": 0, "maximumTierThroughput": 4000,
                                       "autoUpgradePolicy": {"throughputPolicy": {"incrementPercent": 0}}}}),
    ],
)  # fmt: skip
def test_offer_body(throughput: Throughput, content: dict[str, Any]) -> None:
    body = resources.offer_body(5, OWNER.self_link, OWNER.rid, throughput, 1, 5 * SECOND)
    assert body["content"] == content and body["_self"] == f"offers/{body['id']}/" and len(body["id"]) == 4
    assert (body["offerVersion"], body["resource"], body["offerResourceId"]) == ("V2", OWNER.self_link, OWNER.rid)


def test_feed_body() -> None:
    body = resources.feed_body("r", "Documents", [b'{"a":1}', b"2"])
    assert json.loads(body) == {"_rid": "r", "Documents": [{"a": 1}, 2], "_count": 2}
    assert json.loads(resources.feed_body("r", "Offers", [])) == {"_rid": "r", "Offers": [], "_count": 0}


def test_account() -> None:
    document = json.loads(msgspec.json.encode(resources.account_document("http://example:1")))
    assert document["writableLocations"] == [{"name": "Local", "databaseAccountEndpoint": "http://example:1/"}]
    assert json.loads(document["queryEngineConfiguration"])["maxSqlQueryInputLength"] == 524288
    assert document["userConsistencyPolicy"] == {"defaultConsistencyLevel": "Session"}
