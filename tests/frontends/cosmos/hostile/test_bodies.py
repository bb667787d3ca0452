"""Bodies that are broken, too deep, too large, or lie about themselves; each is refused by what is wrong with it."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import Any

import pytest

from frontends.cosmos import hybrid
from frontends.cosmos.hostile.sentinel import Target
from frontends.cosmos.service import in_memory

pytestmark = in_memory

MIB = 1024 * 1024
LIMIT = 2 * MIB


def nested(levels: int, kind: str = "[]") -> bytes:
    """An item that is nested `levels` deep, itself included."""
    inner = levels - 1
    if kind == "[]":
        return b'{"id":"x","pk":"p","v":' + b"[" * inner + b"]" * inner + b"}"
    return b'{"id":"x","pk":"p","v":' + b'{"a":' * (inner - 1) + b"{}" + b"}" * inner


def member(text: bytes) -> bytes:
    return b'{"id":"x","pk":"p","v":%b}' % text


# what is sent, and a word of the answer
BROKEN: dict[str, tuple[bytes, str]] = {
    "empty": (b"", "empty"), "blank": (b" \n ", "empty"), "brace": (b"{", ""), "text": (b"hello", ""),
    "half": (b'{"id":"x"', ""), "two": (b'{"id":"x","pk":"p"}{"id":"y"}', ""), "comma": (b'{"id":"x","pk":"p",}', ""),
    "single quotes": (b"{'id':'x'}", ""), "comment": (b'{"id":"x",/* */"pk":"p"}', ""),
    "bom": (b'\xef\xbb\xbf{"id":"x","pk":"p"}', ""),
    "utf-16": ('{"id":"x","pk":"p"}'.encode("utf-16"), ""), "null bytes": (b"\0" * 100, ""),
    "array": (b"[]", "object"), "number": (b"5", "object"), "null": (b"null", "object"), "string": (b'"x"', "object"),
    "NaN": (member(b"NaN"), ""), "Infinity": (member(b"Infinity"), ""), "-Infinity": (member(b"-Infinity"), ""),
    "1e999": (member(b"1e999"), "double"), "-1e999": (member(b"-1e999"), "double"), "1e309": (member(b"1e309"),
    "double"),
    "100,000 digits": (member(b"9" * 100_000), "double"), "5,000 digits": (member(b"9" * 5_000), "double"),
    "310 digits": (member(b"9" * 310), "double"), "deep and huge": (member(b"[" * 5 + b"9" * 4000 + b"]" * 5),
    "double"),
    "leading zero": (member(b"01"), ""), "plus": (member(b"+1"), ""), "point": (member(b"1."), ""),
    "hex": (member(b"0x10"), ""),
    "lone high surrogate": (member(b'"\\ud800"'), ""), "lone low surrogate": (member(b'"\\udc00"'), ""),
    "swapped surrogates": (member(b'"\\udc00\\ud800"'), ""),
    "surrogate in a name": (b'{"id":"x","pk":"p","\\ud800":1}', ""),
    "surrogate as utf-8": (member(b'"\xed\xa0\x80"'), "UTF-8"), "invalid utf-8": (member(b'"\xff\xfe"'), "UTF-8"),
    "overlong utf-8": (member(b'"\xc0\xaf"'), "UTF-8"), "cut utf-8": (member(b'"\xe2\x82"'), "UTF-8"),
    "control character": (member(b'"\x01"'), ""), "newline in a string": (member(b'"a\nb"'), ""),
    "bad escape": (member(b'"\\x41"'), ""), "half an escape": (member(b'"\\u12"'), ""),
    "name twice": (b'{"id":"x","pk":"p","id":"x"}', "twice"), "name twice, inside": (member(b'{"a":1,"a":1}'), "twice"),
    "name twice, escaped": (b'{"id":"x","pk":"p","\\u0070k":"p"}', "twice"),
    "key twice": (b'{"id":"x","pk":"q","pk":"p"}', "twice"),
    "ttl twice": (b'{"id":"x","pk":"p","ttl":1,"ttl":2}', "twice"),
    "129 levels": (nested(129), "128"), "129 objects": (nested(129, "{}"), "128"), "1,000 levels": (nested(1000),
    "nested"),
    "10,000 levels": (nested(10_000), "deep"), "1,000,000 levels": (nested(1_000_000), "deep"),
    "10,000 objects": (nested(10_000, "{}"), "deep"), "300,000 objects": (nested(300_000, "{}"), "deep"),
    "open brackets": (b"[" * 1_000_000, ""), "open objects": (b'{"a":' * 300_000, ""),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_broken_json(target: Target, name: str) -> None:
    body, word = BROKEN[name]
    for verb in ("create", "upsert", "replace", "batch", "query"):
        answer = send(target, verb, body)
        if verb == "query" and len(body) > MIB:
            assert answer.status == 413
            continue
        assert answer.status == 400, (verb, answer)
        assert answer.json["code"] == "BadRequest"
        if verb in ("create", "upsert", "replace"):
            assert word in answer.json["message"]
        assert len(answer.body) < 2000, "an error does not send the request back"


def send(target: Target, verb: str, body: bytes) -> Any:
    match verb:
        case "replace":
            return target.attack("PUT", f"{target.items}/x", body)
        case "upsert":
            return target.attack("POST", None, body, {"x-ms-documentdb-is-upsert": "True"})
        case "batch":
            flags = {"x-ms-cosmos-is-batch-request": "True", "x-ms-cosmos-batch-atomic": "True"}
            return target.attack("POST", None, body, flags)
        case "query":
            return target.attack("POST", None, body, {"content-type": "application/query+json"})
        case _:
            return target.attack("POST", None, body)


@pytest.mark.parametrize("kind", ["[]", "{}"])
@pytest.mark.parametrize("levels", [2, 127, 128])
def test_depth_that_is_allowed(target: Target, levels: int, kind: str) -> None:
    answer = target.attack("POST", None, nested(levels, kind))
    assert answer.status == 201
    assert target.attack("GET", f"{target.items}/x").body.startswith(nested(levels, kind)[:-1])
    asked = target.proxy.query_items("SELECT VALUE c.v FROM c WHERE c.id = 'x'", partition_key="p")
    assert list(asked) == [json.loads(nested(levels, kind))["v"]]


def item_of(size: int) -> bytes:
    """An item of exactly this many bytes."""
    empty = b'{"id":"x","pk":"p","v":""}'
    return empty[:-2] + b"v" * (size - len(empty)) + empty[-2:]


@pytest.mark.parametrize(
    ("over", "status"), [(-1, 201), (0, 201), (1, 413), (60_000, 413), (70_000, 413), (10 * MIB, 413)]
)
def test_largest_item(target: Target, over: int, status: int) -> None:
    body = item_of(LIMIT + over)
    answer = target.attack("POST", None, body)
    assert answer.status == status
    if status == 413:
        assert answer.json["code"] == "RequestEntityTooLarge"
        assert target.attack("GET", f"{target.items}/x").status == 404
    else:
        assert target.attack("GET", f"{target.items}/x").body.startswith(body[:-1])


@pytest.mark.parametrize("verb", ["upsert", "replace", "batch", "query"])
def test_too_large_whatever_it_is(target: Target, verb: str) -> None:
    assert send(target, verb, item_of(LIMIT + 100_000)).status == 413


def test_a_patch_may_not_make_an_item_too_large(target: Target) -> None:
    assert target.attack("POST", None, item_of(LIMIT)).status == 201
    patch = {"operations": [{"op": "add", "path": "/more", "value": 1}]}
    assert target.attack("PATCH", f"{target.items}/x", patch).status == 413
    assert "more" not in target.attack("GET", f"{target.items}/x").json


def test_a_patch_may_not_nest_too_deep(target: Target) -> None:
    assert target.attack("POST", None, nested(128)).status == 201
    value = json.loads(b"[" * 100 + b"]" * 100)
    patch = {
        "operations": [
            {"op": "add", "path": "/v/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/0/-", "value": value}
        ]
    }
    answer = target.attack("PATCH", f"{target.items}/x", patch)
    assert answer.status == 400


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "x", "gzip, gzip", "identity"])
def test_content_encoding(target: Target, coding: str) -> None:
    """Compressed bodies are no JSON; nothing is ever unpacked."""
    plain = b'{"id":"x","pk":"p"}'
    packed = {"gzip": gzip.compress(plain), "deflate": zlib.compress(plain)}.get(coding, plain)
    answer = target.attack("POST", None, packed, {"content-encoding": coding})
    assert answer.status == (201 if packed == plain else 400)


@pytest.mark.parametrize("text", [
    "", "text/plain", "application/xml", "application/json; charset=utf-16", "multipart/form-data; boundary=x",
    "a" * 5000,
])  # fmt: skip
def test_content_type_does_not_matter(target: Target, text: str) -> None:
    assert target.attack("POST", None, b'{"id":"x","pk":"p"}', {"content-type": text}).status == 201


# --- bodies of the other requests ------------------------------------------------------------------------------------

PATCHES: list[Any] = [
    {}, [], {"operations": []}, {"operations": None}, {"operations": {}}, {"operations": [5]}, {"operations": [{}]},
    "x", None, 5,
    [{"op": "set"}], [{"op": "set", "path": "/a"}], [{"op": "set", "path": "a", "value": 1}], [{"op": "set", "path": 5,
    "value": 1}],
    [{"op": "x", "path": "/a", "value": 1}], [{"op": 5, "path": "/a", "value": 1}], [{"op": "set", "path": "",
    "value": 1}],
    [{"op": "set", "path": "/~2", "value": 1}], [{"op": "set", "path": "/id", "value": "y"}], [{"op": "set",
    "path": "/pk", "value": "q"}],
    [{"op": "set", "path": "/_ts", "value": 1}], [{"op": "remove", "path": "/none"}], [{"op": "replace",
    "path": "/none", "value": 1}],
    [{"op": "incr", "path": "/id", "value": 1}], [{"op": "incr", "path": "/n", "value": "x"}], [{"op": "incr",
    "path": "/n", "value": 1e308}] * 2,
    [{"op": "move", "from": "/none", "path": "/b"}], [{"op": "move", "path": "/b"}], [{"op": "move", "from": "/n",
    "path": "/n/a"}],
    [{"op": "set", "path": "/a", "value": 1}] * 11, [{"op": "add", "path": "/n/0", "value": 1}], [{"op": "add",
    "path": "/a/b/c", "value": 1}],
    {"operations": [{"op": "set", "path": "/a", "value": 1}], "condition": "from c where"},
    {"operations": [{"op": "set", "path": "/a", "value": 1}], "condition": 5},
    {"operations": [{"op": "set", "path": "/a", "value": 1}], "condition": "drop table"},
    {"operations": [{"op": "set", "path": "/a", "value": 1}], "condition": "from c where badfunc(c)"},
    {"operations": [{"op": "set", "path": "/a", "value": 1}], "condition": ""},
]  # fmt: skip


@pytest.mark.parametrize("index", range(len(PATCHES)))
def test_patches(target: Target, index: int) -> None:
    answer = target.attack("PATCH", f"{target.items}/sentinel", json.dumps(PATCHES[index]).encode())
    assert answer.status == 400, answer


BATCHES: list[Any] = [
    [], {}, 5, None, "x", [5], [None], [[]], [{}], [{"operationType": 5}], [{"operationType": "Drop"}],
    [{"operationType": "create"}],
    [{"operationType": "Create"}] * 101, [{"operationType": "Create", "resourceBody": {"id": str(n),
    "pk": "p"}} for n in range(101)],
]  # fmt: skip


@pytest.mark.parametrize("index", range(len(BATCHES)))
def test_batches(target: Target, index: int) -> None:
    for atomic in ("True", "False"):
        flags = {"x-ms-cosmos-is-batch-request": "True", "x-ms-cosmos-batch-atomic": atomic}
        answer = target.attack("POST", None, json.dumps(BATCHES[index]).encode(), flags)
        assert answer.status in (400, 207), answer
        if answer.status == 207:
            assert {result["statusCode"] for result in answer.json} <= {400, 424}


OPERATIONS: list[dict[str, Any]] = [
    {"operationType": "Create"}, {"operationType": "Create", "resourceBody": 5}, {"operationType": "Create",
    "resourceBody": {"id": "x"}},
    {"operationType": "Create", "resourceBody": {"pk": "p"}}, {"operationType": "Create", "resourceBody": {"id": "x",
    "pk": "q"}},
    {"operationType": "Create", "resourceBody": {"id": "", "pk": "p"}}, {"operationType": "Read"},
    {"operationType": "Read", "id": ""},
    {"operationType": "Read", "id": "none"}, {"operationType": "Delete"}, {"operationType": "Delete", "id": "none"},
    {"operationType": "Patch", "id": "sentinel"}, {"operationType": "Patch", "id": "sentinel",
    "resourceBody": {"operations": []}},
    {"operationType": "Patch", "id": "none", "resourceBody": {"operations": [{"op": "set", "path": "/a", "value": 1}]}},
    {"operationType": "Replace", "id": "x", "resourceBody": {"id": "y", "pk": "p"}}, {"operationType": "Upsert",
    "resourceBody": []},
    {"operationType": "Upsert", "resourceBody": {"id": "x", "pk": "p", "ttl": 0}},
    {"operationType": "Replace", "id": "sentinel", "ifMatch": "\"no\"", "resourceBody": {"id": "sentinel", "pk": "p"}},
    {"operationType": "Create", "resourceBody": {"id": "sentinel", "pk": "p"}},
]  # fmt: skip


@pytest.mark.parametrize("index", range(len(OPERATIONS)))
@pytest.mark.parametrize("atomic", ["True", "False"])
def test_an_operation_that_fails_alone(target: Target, index: int, atomic: str) -> None:
    flags = {"x-ms-cosmos-is-batch-request": "True", "x-ms-cosmos-batch-atomic": atomic}
    good = {"operationType": "Create", "resourceBody": {"id": "good", "pk": "p"}}
    operations = [{"partitionKey": '["p"]', **operation} for operation in (good, OPERATIONS[index])]
    answer = target.attack("POST", None, operations, flags)
    assert answer.status == 207, answer
    first, second = (result["statusCode"] for result in answer.json)
    assert first == (424 if atomic == "True" else 201)
    assert second in (400, 404, 409, 412)
    assert target.attack("GET", f"{target.items}/good").status == (404 if atomic == "True" else 200)


@pytest.mark.parametrize("atomic", ["True", "False"])
def test_an_operation_fails_alike_in_hybrid_row(target: Target, atomic: str) -> None:
    """Those above that have a body of JSON, or none: results in both forms, one operation after the other."""
    flags = {"x-ms-cosmos-is-batch-request": "True", "x-ms-cosmos-batch-atomic": atomic}
    for operation in OPERATIONS:
        given: dict[str, Any] = {"partitionKey": '["p"]', **operation}
        in_json = target.attack("POST", None, [given], flags).json
        if "resourceBody" in given:
            given["resourceBody"] = json.dumps(given["resourceBody"]).encode()
        (found,) = hybrid.results(target.attack("POST", None, hybrid.batch([given]), flags).body)
        told = {name: found.get(name) for name in ("statusCode", "requestCharge")}
        assert told == {name: in_json[0].get(name) for name in told}, operation
        assert found["subStatusCode"] == in_json[0].get("subStatusCode", 0)
        assert json.loads(found["resourceBody"]) == {"Errors": [in_json[0]["message"]]}


QUERIES: list[Any] = [
    {}, [], 5, None, {"query": 5}, {"query": None}, {"query": ""}, {"query": " "}, {"query": "SELECT"},
    {"query": "DROP TABLE c"},
    {"query": "SELECT * FROM c", "parameters": {}}, {"query": "SELECT * FROM c", "parameters": [5]},
    {"query": "SELECT * FROM c", "parameters": [{"name": 5}]}, {"query": "SELECT * FROM c",
    "parameters": [{"name": "x", "value": 1}]},
    {"query": "SELECT * FROM c WHERE c.a = @missing"},
    {"query": "SELECT * FROM c WHERE " + "(" * 5000 + "1" + ")" * 5000},
    {"query": "SELECT * FROM c WHERE " + "NOT " * 5000 + "true"}, {"query": "SELECT VALUE " + "-" * 5000 + "1"},
    {"query": "SELECT VALUE " + "[" * 5000 + "]" * 5000}, {"query": "SELECT VALUE 1" + " + 1" * 20_000 + " FROM"},
    {"query": "SELECT * FROM c WHERE c.a = '" + "x" * 600_000 + "'"}, {"query": "SELECT * FROM c WHERE c.a = 'x"},
    {"query": "SELECT * FROM c; SELECT 1"}, {"query": "SELECT TOP -1 * FROM c"}, {"query": "SELECT TOP 1.5 * FROM c"},
    {"query": "SELECT * FROM c OFFSET -1 LIMIT 1"}, {"query": "SELECT VALUE 1e999"},
    {"query": "SELECT VALUE badfunc(1)"},
    {"query": "SELECT VALUE udf.f(1)"}, {"query": "SELECT VALUE ABS()"},
    {"query": "SELECT VALUE VectorDistance(c.v, [1], 5) FROM c"},
    {"query": "SELECT * FROM c ORDER BY RANK c.t"}, {"query": "SELECT VALUE RegexMatch('x', '(')"},
    {"query": "\0"}, {"query": "SELECT \ud800"},
]  # fmt: skip


@pytest.mark.parametrize("index", range(len(QUERIES)))
def test_queries(target: Target, index: int) -> None:
    answer = target.attack("POST", None, QUERIES[index], {"content-type": "application/query+json"})
    allowed = {400, 413} if index != 32 else {200, 400}  # A pattern that is none may also be undefined.
    assert answer.status in allowed, answer
    plan = target.attack("POST", None, QUERIES[index], {"x-ms-cosmos-is-query-plan-request": "True"})
    assert plan.status in allowed | ({200} if answer.status == 200 else set()) | ({200} if index == 14 else set()), plan
