"""Items in binary JSON on the wire: they are what the same items in text are."""

from __future__ import annotations

import asyncio
import json
import struct
from typing import Any

import pytest

from frontends.cosmos.service import Answer, Service, in_memory, path_of
from mayflydb.frontends.cosmos.binary_json.reader import to_text
from mayflydb.frontends.cosmos.commands.items import BINARY_BYTES

pytestmark = in_memory

FORMATS: dict[str, str | bytes | None] = {"x-ms-cosmos-supported-serialization-formats": "CosmosBinary"}


def written(value: Any) -> bytes:
    """As the vendor's client for Rust writes it, without the preamble."""
    if isinstance(value, dict):
        return container(0xED, len(value), b"".join(written(name) + written(each) for name, each in value.items()))
    if isinstance(value, list):
        return container(0xE5, len(value), b"".join(map(written, value)))
    if isinstance(value, str):
        text = value.encode()
        return bytes([0x80 + len(text)]) + text if len(text) < 64 else b"\xc1" + struct.pack("<H", len(text)) + text
    if value is None or isinstance(value, bool):
        return {None: b"\xd0", False: b"\xd1", True: b"\xd2"}[value]
    if isinstance(value, float):
        return b"\xcc" + struct.pack("<d", value)
    assert isinstance(value, int)
    return bytes([value]) if 0 <= value < 32 else b"\xcb" + struct.pack("<q", value)


def container(marker: int, members: int, body: bytes) -> bytes:
    if len(body) < 256 and members < 256:
        return bytes([marker, len(body), members]) + body
    return bytes([marker + 1]) + struct.pack("<HH", len(body), members) + body


def read(body: bytes) -> Any:
    """An answer in binary."""
    assert body[:1] == b"\x80"
    return json.loads(asyncio.run(to_text(body, 1 << 20)))


def send(service: Service, method: str, path: str, body: bytes) -> Answer:
    return service.raw(method, path, b"\x80" + body, FORMATS, pk="p")


ITEM = {
    "id": "a",
    "pk": "p",
    "n": -5,
    "x": 0.5,
    "yes": True,
    "no": None,
    "list": [1, 2**40, {"deep": ["é", "x" * 100]}],
}


def test_items_are_created_replaced_and_upserted(service: Service) -> None:
    proxy = service.container()
    assert send(service, "POST", path_of(proxy, "docs"), written(ITEM)).status == 201
    assert {name: value for name, value in proxy.read_item("a", "p").items() if name in ITEM} == ITEM
    assert send(service, "PUT", path_of(proxy, "docs", "a"), written(ITEM | {"n": 6})).status == 200
    assert proxy.read_item("a", "p")["n"] == 6
    headers = FORMATS | {"x-ms-documentdb-is-upsert": "True"}
    answer = service.raw("POST", path_of(proxy, "docs"), b"\x80" + written(ITEM | {"n": 7}), headers, pk="p")
    assert answer.status == 200 and read(answer.body)["n"] == 7
    found: list[Any] = list(proxy.query_items("SELECT VALUE c.list[2].deep FROM c WHERE c.n = 7", partition_key="p"))
    assert found == [["é", "x" * 100]]


@pytest.mark.parametrize(
    ("ttl", "status", "gone"),
    [(10, 201, 10), (10.0, 201, 10), (2**31 - 1, 201, None), (-1, 201, None), (0, 400, None), (1.5, 400, None),
     (2**31, 400, None), ("10", 400, None), (None, 400, None)],
)  # fmt: skip
def test_an_own_ttl_counts(service: Service, ttl: object, status: int, gone: int | None) -> None:
    proxy = service.container(default_ttl=1000)
    answer = send(service, "POST", path_of(proxy, "docs"), written({"id": "a", "pk": "p", "ttl": ttl}))
    assert answer.status == status
    if gone is not None:
        service.at(gone - 1)
        assert service.raw("GET", path_of(proxy, "docs", "a"), pk="p").status == 200
        service.at(gone)
        assert service.raw("GET", path_of(proxy, "docs", "a"), pk="p").status == 404


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        (written(ITEM)[:-1], 400, "invalid binary JSON: it is cut short"),
        (written(ITEM) + b"\x00", 400, "something follows its value"),
        (b"\xea\x06\x2c\x81a\x2c\x81a", 400, "the same property name twice"),
        (b"\xe1" * 200 + b"\x00", 400, "nested"),
        (b"\xe9\x2c\x40", 400, "AZURE_COSMOS_BINARY_ENCODING_ENABLED=false"),
        (written([]), 400, ""),
        (b"", 400, "cut short"),
    ],
    ids=["cut", "trailing", "twice", "deep", "unknown", "array", "nothing"],
)
def test_refusals_have_the_protocols_form(service: Service, body: bytes, status: int, said: str) -> None:
    proxy = service.container()
    answer = send(service, "POST", path_of(proxy, "docs"), body)
    assert answer.status == status and answer.json["code"] == "BadRequest" and said in answer.json["message"]
    assert list(proxy.read_all_items()) == []


@pytest.mark.parametrize(
    ("formats", "is_binary"),
    [(None, False), ("JsonText", False), ("JsonText,CosmosBinary", False), ("CosmosBinary, JsonText", False),
     ("CosmosBinary", True), (" cosmosbinary ", True), ("HybridRow", False), ("", False)],
)  # fmt: skip
def test_items_are_answered_in_binary_to_clients_that_take_no_text(
    service: Service, formats: str | None, is_binary: bool
) -> None:
    proxy = service.container()
    docs, item = path_of(proxy, "docs"), path_of(proxy, "docs", "a")
    asked: dict[str, str | bytes | None] = {"x-ms-cosmos-supported-serialization-formats": formats}
    patch = [{"op": "set", "path": "/n", "value": -5}]
    for method, path, body in (("POST", docs, ITEM), ("GET", item, None), ("PUT", item, ITEM), ("PATCH", item, patch)):
        answer = service.raw(method, path, body, asked, pk="p")
        found = read(answer.body) if is_binary else answer.json
        assert answer.status in (200, 201) and {name: found[name] for name in ITEM} == ITEM
        assert found["_etag"] == answer.headers["etag"]
    # Refusals and pages are text; so is the answer of a write that leaves out the item.
    assert service.raw("GET", path_of(proxy, "docs", "none"), None, asked, pk="p").json["code"] == "NotFound"
    assert service.raw("GET", docs, None, asked, pk="p").json["_count"] == 1
    assert service.raw("PUT", item, ITEM, asked | {"prefer": "return=minimal"}, pk="p").body == b""


def test_long_items_are_answered_in_text(service: Service) -> None:
    proxy = service.container()
    assert send(service, "POST", path_of(proxy, "docs"), written(ITEM | {"id": "b"})).body[:1] == b"\x80"
    long = written(ITEM | {"long": "x" * BINARY_BYTES})
    assert send(service, "POST", path_of(proxy, "docs"), long).json["long"] == "x" * BINARY_BYTES


def test_other_answers_in_hybrid_row_are_refused_by_name(service: Service) -> None:
    proxy = service.container()
    asked: dict[str, str | bytes | None] = {"x-ms-documentdb-content-serialization-format": "HybridRow"}
    answer = service.raw("GET", path_of(proxy, "docs"), None, asked, pk="p")
    assert answer.status == 400 and "Answers in HybridRow" in answer.json["message"]
    asked["x-ms-documentdb-content-serialization-format"] = "CosmosBinary"
    assert service.raw("GET", path_of(proxy, "docs"), None, asked, pk="p").json["_count"] == 0
