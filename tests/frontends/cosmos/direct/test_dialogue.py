"""Direct mode over TLS, byte by byte: addresses, items, queries, batches, scripts, versions, and what is stale."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
from azure.cosmos import PartitionKey

from frontends.cosmos import hybrid
from frontends.cosmos.direct.wire import (
    BATCH,
    BYTE,
    CHARGE,
    CONTAINER,
    CONTINUATION,
    COUNT,
    CREATE,
    DATABASE,
    DELETE,
    ETAG,
    EXECUTE,
    FEED,
    HEAD,
    HEAD_FEED,
    ITEM,
    LOCAL_LSN,
    LSN,
    PATCH,
    PROCEDURE,
    QUERY,
    RANGE,
    READ,
    REPLACE,
    SESSION,
    TEXT,
    ULONG,
    UPSERT,
    Direct,
    Reply,
    addresses,
    names,
    request,
    rids,
    token,
)  # fmt: skip
from frontends.cosmos.service import GONE, Service, everywhere, in_memory


def query(text: str) -> dict[str, str]:
    return {"query": text}


def versions(reply: Reply) -> tuple[int, str]:
    """The lsn and the session token of an answer."""
    assert reply.tokens[LSN] == reply.tokens[LOCAL_LSN] >= 0
    assert reply.tokens[CHARGE] >= 0
    return reply.tokens[LSN], reply.tokens.get(SESSION, "")


@everywhere
def test_an_item_lives(service: Service, direct: Direct) -> None:
    box = names(service.container(default_ttl=10))
    made = direct(ITEM, CREATE, box, {"id": "é?", "pk": "p", "n": 1}, pk="p")
    assert (made.status, made.json["n"], made.tokens[RANGE]) == (201, 1, "0")
    assert made.tokens[0x17] == f"dbs/{box.replace('/', '/colls/')}"
    assert direct(ITEM, CREATE, box, {"id": "é?", "pk": "p"}, pk="p").status == 409
    read = direct(ITEM, READ, f"{box}/é?", pk="p")
    assert (read.status, read.json, versions(read)) == (200, made.json, versions(made))
    assert direct(ITEM, READ, f"{box}/é?", pk="p", more=token(8, TEXT, read.tokens[ETAG])).status == 304
    stale = token(8, TEXT, '"00000000-0000-0000-0000-000000000000"')
    assert direct(ITEM, REPLACE, f"{box}/é?", {"id": "é?", "pk": "p"}, pk="p", more=stale).status == 412
    quiet = direct(ITEM, UPSERT, box, {"id": "é?", "pk": "p", "n": 2}, pk="p", more=token(0x82, BYTE, 1))
    assert (quiet.status, quiet.body) == (200, b"")
    patch = {"operations": [{"op": "incr", "path": "/n", "value": 5}]}
    assert direct(ITEM, PATCH, f"{box}/é?", patch, pk="p").json["n"] == 7
    service.at(9)
    assert direct(ITEM, READ, f"{box}/é?", pk="p").status == 200
    service.at(10)
    assert direct(ITEM, READ, f"{box}/é?", pk="p").status == GONE
    assert direct(ITEM, CREATE, box, {"id": "é?", "pk": "p"}, pk="p").status == 201
    assert direct(ITEM, DELETE, f"{box}/é?", pk="p").status == 204


@in_memory
def test_refusals_have_versions(service: Service, direct: Direct) -> None:
    box = names(service.container())
    wanted = versions(direct(ITEM, CREATE, box, {"id": "1", "pk": "p"}, pk="p"))
    for reply, status in [
        (direct(ITEM, READ, f"{box}/2", pk="p"), 404),
        (direct(ITEM, CREATE, box, {"id": "1", "pk": "p"}, pk="p"), 409),
        (direct(ITEM, CREATE, box, {"id": "2", "pk": "p"}, pk="q"), 400),
        (direct(ITEM, CREATE, box, b"{", pk="p"), 400),
        (direct(ITEM, QUERY, box, query("SELECT"), range_id="0"), 400),
        (direct(ITEM, READ, f"{box}/1"), 400),
    ]:
        assert (reply.status, versions(reply), reply.tokens[RANGE]) == (status, wanted, "0")
        assert set(reply.json) >= {"code", "message"}
    # A client without a key learns no version.
    stranger = direct(ITEM, READ, f"{box}/1", pk="p", key="AAAA")
    assert (stranger.status, SESSION in stranger.tokens) == (401, False)


@in_memory
def test_the_account_itself(service: Service, direct: Direct) -> None:
    missing = direct(DATABASE, READ, "nope", more=token(0x10, BYTE, 0))
    assert (missing.status, missing.tokens[RANGE], missing.tokens[LSN] > 0) == (404, "M", True)
    box = names(service.container())
    database = box.split("/")[0]
    assert direct(DATABASE, READ, database).json["id"] == database
    assert [each["id"] for each in direct(CONTAINER, FEED, database).json["DocumentCollections"]] == ["c"]
    assert direct(DATABASE, QUERY, body=query("SELECT VALUE d.id FROM d")).json["Databases"] == [database]
    for barrier in (direct(DATABASE, HEAD_FEED), direct(CONTAINER, HEAD, box, pk="p")):
        assert (barrier.status, barrier.body, barrier.tokens[LSN] >= 0) == (200, b"", True)


@everywhere
def test_queries_and_feeds(service: Service, direct: Direct) -> None:
    proxy = service.container()
    box = names(proxy)
    service.fill(proxy, [{"id": str(n), "pk": "p"} for n in range(5)])
    seen: list[str] = []
    more = token(4, ULONG, 2)
    pages = 0
    while more:
        page = direct(ITEM, QUERY, box, query("SELECT VALUE c.id FROM c"), more, range_id="0")
        seen += page.json["Documents"]
        assert page.tokens[COUNT] == len(page.json["Documents"])
        rest = page.tokens.get(CONTINUATION)
        more = token(4, ULONG, 2) + token(6, TEXT, rest) if rest else b""
        pages += 1
    assert (seen, pages) == (["0", "1", "2", "3", "4"], 3)
    assert len(direct(ITEM, FEED, box, range_id="0", more=token(4, ULONG, 0xFFFFFFFF)).json["Documents"]) == 5
    follow = token(0x3F, TEXT, "Incremental Feed")
    changes = direct(ITEM, FEED, box, range_id="0", more=follow)
    assert len(changes.json["Documents"]) == 5
    none = direct(ITEM, FEED, box, range_id="0", more=follow + token(8, TEXT, changes.tokens[ETAG]))
    assert (none.status, none.body, none.tokens[ETAG]) == (304, b"", changes.tokens[ETAG])


@in_memory
def test_batches(service: Service, direct: Direct) -> None:
    box = names(service.container())
    create: Any = {"operationType": "Create", "resourceBody": {"id": "1", "pk": "p"}}
    flags = token(0x73, BYTE, 1) + token(0x75, BYTE, 1)
    assert [each["statusCode"] for each in direct(ITEM, BATCH, box, [create], flags, pk="p").json] == [201]
    failed = direct(ITEM, BATCH, box, [create | {"resourceBody": {"id": "2", "pk": "p"}}, create], flags, pk="p")
    assert (failed.status, [each["statusCode"] for each in failed.json]) == (207, [424, 409])
    bulk = token(0x73, BYTE, 0) + token(0x74, BYTE, 1)
    two = [
        create | {"partitionKey": '["p"]'},
        create | {"partitionKey": '["p"]', "resourceBody": {"id": "3", "pk": "p"}},
    ]
    done = direct(ITEM, BATCH, box, two, bulk, range_id="0")
    assert [each["statusCode"] for each in done.json] == [409, 201]


@in_memory
def test_a_stored_procedure(service: Service, direct: Direct) -> None:
    proxy = service.container()
    body = "function (a) { console.log('said'); getContext().getResponse().setBody(a + 1); }"
    proxy.scripts.create_stored_procedure({"id": "add", "body": body})
    reply = direct(PROCEDURE, EXECUTE, f"{names(proxy)}/add", [41], token(0x3E, BYTE, 1), pk="p")
    assert (reply.status, json.loads(reply.body), reply.tokens[0x25]) == (200, 42, "said")


@in_memory
def test_a_session_that_is_ahead(service: Service, direct: Direct) -> None:
    box = names(service.container())
    lsn, session = versions(direct(ITEM, CREATE, box, {"id": "1", "pk": "p"}, pk="p"))
    known = token(5, TEXT, f"0:{session}")
    assert direct(ITEM, READ, f"{box}/1", pk="p", more=known).status == 200
    ahead = token(5, TEXT, f"0:{session.partition('#')[0]}#{lsn + 1}")
    reply = direct(ITEM, READ, f"{box}/1", pk="p", more=ahead)
    assert (reply.status, reply.substatus, versions(reply)) == (404, 1002, (lsn, session))


@in_memory
def test_batches_in_hybrid_row(service: Service, direct: Direct) -> None:
    """As the .NET client sends them, which has no other form for batches."""
    box = names(service.container())
    create = {"operationType": "Create", "resourceBody": b'{"id":"1","pk":"p"}'}
    read = {"operationType": "Read", "id": "1"}
    atomic = token(0x73, BYTE, 1) + token(0x75, BYTE, 1)
    done = direct(ITEM, BATCH, box, hybrid.batch([create, read]), atomic, pk="p")
    first, second = hybrid.results(done.body)
    assert (done.status, first["statusCode"], second["statusCode"]) == (200, 201, 200)
    assert first["resourceBody"] == second["resourceBody"]
    failed = direct(ITEM, BATCH, box, hybrid.batch([create, read]), atomic, pk="p")
    assert (failed.status, [each["statusCode"] for each in hybrid.results(failed.body)]) == (207, [409, 424])
    bulk = token(0x73, BYTE, 0) + token(0x74, BYTE, 1)
    keyed = [each | {"partitionKey": '["p"]'} for each in (create, read)]
    mixed = direct(ITEM, BATCH, box, hybrid.batch(keyed), bulk, range_id="0")
    assert (mixed.status, [each["statusCode"] for each in hybrid.results(mixed.body)]) == (207, [409, 200])
    assert versions(mixed) == versions(failed)
    broken = direct(ITEM, BATCH, box, hybrid.batch([create])[:-1], atomic, pk="p")
    assert broken.status == 400 and "HybridRow" in broken.json["message"]


@in_memory
@pytest.mark.parametrize(("formats", "first"), [(1, 0x7B), (2, 0x80), (3, 0x7B)])
def test_items_in_binary_json(service: Service, direct: Direct, formats: int, first: int) -> None:
    box = names(service.container())
    asked = token(0xC4, BYTE, formats)
    item = b"\x80\xed\x08\x02\x2c\x811\x82pk\x81p"
    made = direct(ITEM, CREATE, box, item, asked, pk="p")
    read = direct(ITEM, READ, f"{box}/1", None, asked, pk="p")
    assert (made.status, read.status, made.body, made.body[0]) == (201, 200, read.body, first)
    rows = direct(ITEM, FEED, box, None, token(0x65, BYTE, 2), range_id="0")
    assert rows.status == 400 and "Answers in HybridRow" in rows.json["message"]


@in_memory
def test_a_container_that_was_created_again(service: Service, direct: Direct) -> None:
    proxy = service.container()
    box = names(proxy)
    _, rid = rids(service, proxy)
    known = token(0x35, TEXT, rid)
    assert direct(ITEM, CREATE, box, {"id": "1", "pk": "p"}, pk="p", more=known).status == 201
    database = service.client.get_database_client(box.split("/")[0])
    database.delete_container("c")
    gone = direct(ITEM, READ, f"{box}/1", pk="p", more=known)
    assert (gone.status, gone.substatus) == (404, 1003)
    database.create_container("c", PartitionKey("/pk"))
    stale = direct(ITEM, READ, f"{box}/1", pk="p", more=known)
    assert (stale.status, stale.substatus, stale.tokens[LSN] >= 0) == (410, 1000, True)


@in_memory
def test_a_range_that_was_split(service: Service, direct: Direct) -> None:
    proxy = service.container(offer_throughput=400)
    box = names(proxy)
    database, rid = rids(service, proxy)
    place = f"dbs/{database}/colls/{rid}/docs"
    path = (
        addresses(service, place, "&$partitionKeyRangeIds=0").json["Addresss"][1]["physcialUri"].partition("/apps")[2]
    )
    at = token(0x35, TEXT, rid) + token(0x13, TEXT, "/apps" + path)
    assert direct(ITEM, CREATE, box, {"id": "1", "pk": "p"}, pk="p", more=at).status == 201
    proxy.replace_throughput(11_000)
    ranges = [each["id"] for each in service.raw("GET", f"/{proxy.container_link}/pkranges").json["PartitionKeyRanges"]]
    assert "0" not in ranges
    # Clients repeat a request for one item after 1007 alone, and a query after 1002.
    for reply, substatus in (
        (direct(ITEM, READ, f"{box}/1", pk="p", more=at), 1007),
        (direct(ITEM, QUERY, box, query("SELECT * FROM c"), at, range_id="0"), 1002),
    ):
        assert (reply.status, reply.substatus, reply.tokens[LSN] > 0) == (410, substatus, True)
    assert addresses(service, place, "&$partitionKeyRangeIds=0").json["Addresss"] == []
    all_of_them = addresses(service, place).json["Addresss"]
    assert [each["partitionKeyRangeId"] for each in all_of_them[::4]] == ranges
    found = [direct(ITEM, READ, f"{box}/1", pk="p", more=token(0x35, TEXT, rid)).status]
    assert found == [200]


@in_memory
@pytest.mark.parametrize(
    ("headers", "authority"),
    [({}, None), ({"host": "localhost"}, "localhost:80"), ({"host": "mayfly:9000"}, "mayfly:9000")],
)
def test_addresses_are_those_of_the_client(service: Service, headers: dict[str, str], authority: str | None) -> None:
    answer = addresses(service, headers=headers)
    wanted = authority or service.url.partition("://")[2].strip("/")
    assert {each["logicalUri"] for each in answer.json["Addresss"]} == {f"rntbd://{wanted}/"}


@in_memory
def test_addresses_that_are_refused(service: Service) -> None:
    proxy = service.container()
    database, rid = rids(service, proxy)
    assert addresses(service, headers={"host": "[::1]:8081"}).status == 400
    assert addresses(service, headers={"authorization": "type%3Dmaster"}).status == 401
    assert addresses(service, f"dbs/{database}/colls/AAAAAAAAAAA=/docs").status == 404
    assert addresses(service, f"dbs/{database}/colls/{rid}/sprocs").status == 400
    other = addresses(service, more="&$filter=protocol%20eq%20https")
    assert (other.status, "https" in other.json["message"]) == (400, True)


@in_memory
def test_an_operation_that_is_not_known(service: Service, direct: Direct) -> None:
    reply = direct(4, READ, names(service.container()))
    assert (reply.status, reply.json["code"]) == (400, "BadRequest")
    assert "gateway mode" in reply.json["message"]


@in_memory
def test_each_answer_has_a_record_of_its_own(service: Service, direct: Direct) -> None:
    """Of two answers in one TLS record, azure-cosmos 4.81 for Java overwrites the first: bulk writes failed or timed out."""
    box = names(service.container())
    direct.socket.sendall(
        b"".join(request(number, ITEM, CREATE, box, {"id": str(number), "pk": "p"}, pk="p") for number in range(8))
    )
    for _ in range(8):
        # One call returns no more than one record.
        record = direct.socket.recv(1 << 16)
        head, status = struct.unpack_from("<II", record)
        (payload,) = struct.unpack_from("<I", record, head)
        assert (status, len(record)) == (201, head + 4 + payload)
