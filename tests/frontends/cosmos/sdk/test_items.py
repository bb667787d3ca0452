"""Items one by one: what comes back, under which conditions they change, what they may be called and hold."""

from __future__ import annotations

import json
from copy import deepcopy
from typing import Any

import pytest
from azure.core import MatchConditions
from azure.cosmos import ContainerProxy
from azure.cosmos.exceptions import CosmosBatchOperationError, CosmosHttpResponseError

from frontends.cosmos.service import BULK, KEY, Service, T, everywhere, in_memory, path_of, signature, status_of

IS, NOT = MatchConditions.IfNotModified, MatchConditions.IfModified


def plain(item: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in item.items() if not name.startswith("_")}


@everywhere
def test_life_of_an_item(service: Service, flavour: str) -> None:
    proxy = service.container()
    call = (service.sync(proxy) if flavour == "sync" else service.aio(proxy)).call
    created = call("create_item", {"id": "1", "pk": "p", "n": 1})
    assert list(created) == ["id", "pk", "n", "_rid", "_self", "_etag", "_attachments", "_ts"]
    assert created["_ts"] == T
    assert call("read_item", "1", "p") == created
    assert status_of(call, "create_item", {"id": "1", "pk": "p"}) == 409
    service.at(5)
    replaced = call("replace_item", "1", {"id": "1", "pk": "p", "n": 2})
    assert (replaced["_rid"], replaced["_self"]) == (created["_rid"], created["_self"])
    assert (replaced["_ts"], replaced["n"]) == (T + 5, 2)
    assert replaced["_etag"] != created["_etag"]
    upserted = call("upsert_item", {"id": "1", "pk": "p", "m": 3})
    assert plain(upserted) == {"id": "1", "pk": "p", "m": 3}
    assert plain(call("upsert_item", {"id": "2", "pk": "p"})) == {"id": "2", "pk": "p"}
    call("delete_item", "1", "p")
    for method, *args in (
        ("read_item", "1", "p"), ("delete_item", "1", "p"), ("replace_item", "1", {"id": "1", "pk": "p"}),
        ("patch_item", "1", "p", [{"op": "set", "path": "/a", "value": 1}]),
    ):  # fmt: skip
        assert status_of(call, method, *args) == 404


def test_statuses_and_headers(service: Service) -> None:
    proxy = service.container()
    items = path_of(proxy, "docs")
    body = {"id": "1", "pk": "p"}
    created = service.raw("POST", items, body, pk="p")
    again = service.raw("POST", items, body, {"x-ms-documentdb-is-upsert": "true"}, pk="p")
    read = service.raw("GET", f"{items}/1", pk="p")
    replaced = service.raw("PUT", f"{items}/1", body, pk="p")
    gone = service.raw("DELETE", f"{items}/1", pk="p")
    answers = [created, again, read, replaced, gone]
    assert [answer.status for answer in answers] == [201, 200, 200, 200, 204]
    assert gone.body == b""
    for answer in answers[:-1]:
        assert answer.headers["etag"] == answer.json["_etag"]
        assert answer.headers["content-type"] == "application/json"
    for answer in answers:
        assert answer.headers["x-ms-session-token"].startswith("0:")
        assert answer.headers["x-ms-documentdb-partitionkeyrangeid"] == "0"
        assert answer.headers["x-ms-alt-content-path"] == proxy.container_link
        assert answer.headers["x-ms-content-path"] == proxy.read()["_rid"]
        assert float(answer.headers["x-ms-request-charge"]) > 0
    lsns = [int(answer.headers["x-ms-session-token"].partition("#")[2]) for answer in answers]
    assert lsns == sorted(lsns)
    assert len({answer.headers["x-ms-activity-id"] for answer in answers}) == len(answers)
    echoed = service.raw(
        "GET", f"{items}/1", None, {"x-ms-activity-id": "11111111-2222-3333-4444-555555555555"}, pk="p"
    )
    assert echoed.headers["x-ms-activity-id"] == "11111111-2222-3333-4444-555555555555"


# --- conditions ------------------------------------------------------------------------------------------------------


@everywhere
@pytest.mark.parametrize("verb", ["replace", "upsert", "patch", "delete"])
@pytest.mark.parametrize("which", ["current", "stale", "foreign", "any"])
def test_if_match(service: Service, verb: str, which: str) -> None:
    proxy = service.container()
    stale = proxy.create_item({"id": "1", "pk": "p"})["_etag"]
    current = proxy.upsert_item({"id": "1", "pk": "p", "n": 1})
    etag = {"current": current["_etag"], "stale": stale, "foreign": '"x"', "any": "*"}[which]
    method, path, body = {
        "replace": ("PUT", "/1", {"id": "1", "pk": "p", "n": 2}), "upsert": ("POST", "", {"id": "1", "pk": "p",
        "n": 2}),
        "patch": ("PATCH", "/1", {"operations": [{"op": "set", "path": "/n", "value": 2}]}), "delete": ("DELETE", "/1",
        None),
    }[verb]  # fmt: skip
    headers = {"if-match": etag, "x-ms-documentdb-is-upsert": "True" if verb == "upsert" else None}
    answer = service.raw(method, path_of(proxy, "docs") + path, body, headers, pk="p")
    if which in ("stale", "foreign"):
        assert (answer.status, answer.json["code"]) == (412, "PreconditionFailed")
        assert "one of the specified precondition is not met" in answer.json["message"]
        assert proxy.read_item("1", "p") == current
    else:
        assert answer.status == (204 if verb == "delete" else 200)


def test_conditions_through_the_client(service: Service, flavour: str) -> None:
    proxy = service.container()
    call = (service.sync(proxy) if flavour == "sync" else service.aio(proxy)).call
    first = call("create_item", {"id": "1", "pk": "p"})["_etag"]
    second = call("replace_item", "1", {"id": "1", "pk": "p"}, etag=first, match_condition=IS)["_etag"]
    assert status_of(call, "replace_item", "1", {"id": "1", "pk": "p"}, etag=first, match_condition=IS) == 412
    assert status_of(call, "upsert_item", {"id": "1", "pk": "p"}, etag=first, match_condition=IS) == 412
    assert status_of(call, "delete_item", "1", "p", etag=first, match_condition=IS) == 412
    assert status_of(call, "read_item", "1", "p", etag=second, match_condition=NOT) in (200, 304)
    call("delete_item", "1", "p", etag=second, match_condition=IS)
    assert status_of(call, "replace_item", "1", {"id": "1", "pk": "p"}, etag=second, match_condition=IS) == 404
    assert status_of(call, "upsert_item", {"id": "1", "pk": "p"}, etag=second, match_condition=IS) == 200


@pytest.mark.parametrize(("which", "status"), [("current", 304), ("stale", 200), ("foreign", 200), ("any", 304)])
def test_if_none_match(service: Service, which: str, status: int) -> None:
    proxy = service.container()
    stale = proxy.create_item({"id": "1", "pk": "p"})["_etag"]
    current = proxy.upsert_item({"id": "1", "pk": "p"})["_etag"]
    etag = {"current": current, "stale": stale, "foreign": '"x"', "any": "*"}[which]
    answer = service.raw("GET", path_of(proxy, "docs", "1"), None, {"if-none-match": etag}, pk="p")
    assert answer.status == status
    assert answer.headers["etag"] == current
    assert (answer.body == b"") == (status == 304)


def test_minimal_answers(service: Service) -> None:
    proxy = service.container()
    items, minimal = path_of(proxy, "docs"), {"prefer": "return=minimal"}
    created = service.raw("POST", items, {"id": "1", "pk": "p"}, minimal, pk="p")
    replaced = service.raw("PUT", f"{items}/1", {"id": "1", "pk": "p"}, minimal, pk="p")
    patch = {"operations": [{"op": "set", "path": "/n", "value": 1}]}
    patched = service.raw("PATCH", f"{items}/1", patch, minimal, pk="p")
    assert [(a.status, a.body) for a in (created, replaced, patched)] == [(201, b""), (200, b""), (200, b"")]
    read = service.raw("GET", f"{items}/1", None, minimal, pk="p")
    assert read.json["_etag"] == patched.headers["etag"]
    assert proxy.create_item({"id": "2", "pk": "p"}, no_response=True) == {}
    assert proxy.read_item("2", "p")["id"] == "2"


# --- what an item may hold -------------------------------------------------------------------------------------------

TEXTS = [
    "1.0", "5e0", "1E2", "-0", "-0.0", "0.1", "1e-7", "9007199254740993", "123456789012345678901234567890",
    "1.7976931348623157e308",
    "5e-324", "18446744073709551616", '"\\u00e9"', '"\\/"', '"\\ud83d\\ude00"', '"\\u0000"', '""', "null", "[ 1 , 2 ]",
    '{"b": 1, "a": 2}', "[[], {}]",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("verb", ["create", "replace", "batch"])
def test_the_text_that_was_sent_comes_back(service: Service, verb: str, text: str) -> None:
    proxy = service.container()
    items = path_of(proxy, "docs")
    body = f'{{"id":"1","pk":"p","v":{text}}}'.encode()
    if verb == "replace":
        proxy.create_item({"id": "1", "pk": "p"})
        answer = service.raw("PUT", f"{items}/1", body, pk="p")
    elif verb == "batch":
        flags = {"x-ms-cosmos-is-batch-request": "True", "x-ms-cosmos-batch-atomic": "True"}
        answer = service.raw("POST", items, b'[{"operationType":"Create","resourceBody":%b}]' % body, flags, pk="p")
    else:
        answer = service.raw("POST", items, body, {"x-ms-documentdb-is-upsert": str(verb == "upsert")}, pk="p")
    assert answer.status in (200, 201), answer
    wanted = b'"v":%b' % text.encode()
    assert wanted in answer.body
    assert wanted in service.raw("GET", f"{items}/1", pk="p").body
    assert wanted in service.raw("GET", items).body
    assert proxy.read_item("1", "p")["v"] == json.loads(text)


def test_system_properties_in_a_body_are_replaced(service: Service) -> None:
    proxy = service.container()
    forged = {"_rid": "x", "_self": "x", "_etag": "x", "_attachments": "x", "_ts": 5, "_lsn": 7}
    created = proxy.create_item({"id": "1", "pk": "p", **forged, "n": 1.0})
    assert plain(created) == {"id": "1", "pk": "p", "n": 1}
    assert created["_ts"] == T
    assert proxy.replace_item("1", dict(created))["_etag"] != created["_etag"]


@in_memory
@pytest.mark.parametrize("id", ["", "x" * 1024, "ü" * 512, 5, None, True, [], {}, ...])
def test_ids_that_are_refused(service: Service, id: Any) -> None:
    proxy = service.container()
    body = {"pk": "p"} if id is ... else {"id": id, "pk": "p"}
    answer = service.raw("POST", path_of(proxy, "docs"), body, pk="p")
    assert (answer.status, "id" in answer.json["message"]) == (400, True)
    assert service.raw("GET", path_of(proxy, "docs")).json["_count"] == 0


UNUSUAL = ["a/b", "a\\b", "a?b=1", "a#b", "/", "//", "?", "#", "docs/x", "a%2Fb", "../x", ".."]
"""The documentation forbids most of these, and the service takes them."""


@everywhere
@pytest.mark.parametrize("id", UNUSUAL)
def test_ids_with_characters_of_paths(service: Service, id: str) -> None:
    proxy = service.container(default_ttl=100)
    docs, one = path_of(proxy, "docs"), path_of(proxy, "docs", id)
    created = service.raw("POST", docs, {"id": id, "pk": "p", "n": 1}, pk="p")
    assert (created.status, created.json["id"]) == (201, id)
    assert service.raw("POST", docs, {"id": id, "pk": "p"}, pk="p").status == 409
    # By its id, percent-encoded once.
    assert service.raw("GET", one, None, pk="p").json["n"] == 1
    assert service.raw("PUT", one, {"id": id, "pk": "p", "n": 2}, pk="p").status == 200
    patch = {"operations": [{"op": "incr", "path": "/n", "value": 1}]}
    assert service.raw("PATCH", one, patch, {"content-type": "application/json-patch+json"}, pk="p").json["n"] == 3
    # By its rid, as clients do that hold the whole item.
    held = proxy.query_items(
        "SELECT * FROM c WHERE c.id = @id", parameters=[{"name": "@id", "value": id}], partition_key="p"
    )
    (item,) = held
    assert (item["_rid"], item["n"]) == (created.json["_rid"], 3)
    assert proxy.read_item(item, "p")["id"] == id
    named = "/" + item["_self"].strip("/")
    assert service.raw("PUT", named, {"id": id, "pk": "p", "n": 4}, pk="p").json["n"] == 4
    (read,) = proxy.execute_item_batch([("read", (id,))], "p")
    assert read["resourceBody"]["n"] == 4
    assert [change["id"] for change in proxy.query_items_change_feed(start_time="Beginning")] == [id]
    _, database, _, name = proxy.container_link.split("/")
    outlook = service.server._admin.reports
    explained = service.server._home.call(outlook.explain(f"cosmos:{database}/{name}", id, "p"))
    assert (explained["id"], explained["state"]) == (id, "alive")
    assert service.raw("DELETE", one, None, pk="p").status == 204
    assert service.raw("GET", one, None, pk="p").status == 404


@everywhere
@pytest.mark.parametrize("id", ["a?b", "a?b=1&c=%41?", "?x"])
def test_a_question_mark_that_is_sent_as_it_is(service: Service, id: str) -> None:
    """As the vendor's clients of .NET and JavaScript do."""
    proxy = service.container()
    assert service.raw("POST", path_of(proxy, "docs"), {"id": id, "pk": "p"}, pk="p").status == 201
    sent = f"{path_of(proxy, 'docs')}/{id.replace('%', '%25')}"
    signed = {"authorization": signature(KEY, "GET", path_of(proxy, "docs", id))}
    read = service.raw("GET", sent, None, signed, pk="p")
    assert (read.status, read.json["id"]) == (200, id)
    assert read.headers["content-location"].endswith(sent)
    assert service.raw("GET", sent + "1", None, signed, pk="p").status == 401


@in_memory
def test_ids_that_the_client_quotes(service: Service, flavour: str) -> None:
    """The vendor's client checks ids that it creates, and not those that it reads."""
    proxy = service.container()
    client: Any = getattr(service, flavour)(proxy)
    for id in ("a?b=1", "a#b", "a\\b", "ä %41"):
        assert service.raw("POST", path_of(proxy, "docs"), {"id": id, "pk": "p"}, pk="p").status == 201
        assert client.call("read_item", id, "p")["id"] == id
        client.call("delete_item", id, "p")
    assert list(proxy.read_all_items()) == []


@everywhere
@pytest.mark.parametrize(
    "id",
    [
        "x" * 1023,
        "ü" * 511,
        "😀" * 255,
        "a b",
        "a%2Fb",
        "%",
        "+",
        "é",
        "null",
        ".x",
        "a:b",
        "@",
        "a\tb",
        "\x01",
        "'",
        '"',
    ],
)
def test_odd_ids(service: Service, id: str) -> None:
    proxy = service.container()
    items = path_of(proxy, "docs")
    assert service.raw("POST", items, {"id": id, "pk": "p"}, pk="p").status == 201
    path = path_of(proxy, "docs", id)
    assert service.raw("GET", path, pk="p").json["id"] == id
    assert service.raw("PUT", path, {"id": id, "pk": "p", "n": 1}, pk="p").json["n"] == 1
    assert service.raw("DELETE", path, pk="p").status == 204


def test_an_item_keeps_its_key(service: Service) -> None:
    proxy = service.container()
    proxy.create_item({"id": "1", "pk": "p"})
    moved = service.raw("PUT", path_of(proxy, "docs", "1"), {"id": "1", "pk": "q"}, pk="p")
    assert (moved.status, moved.substatus) == (400, 1001)


# --- sessions --------------------------------------------------------------------------------------------------------


@everywhere
def test_session_tokens(service: Service) -> None:
    proxy = service.container()
    proxy.create_item({"id": "1", "pk": "p"})
    items = path_of(proxy, "docs")
    token = service.raw("GET", f"{items}/1", pk="p").headers["x-ms-session-token"]
    number = int(token.partition("#")[2])
    for sent, status in (
        (token, 200),
        (f"0:-1#{number - 1}", 200),
        (f"0:-1#{number + 1}", 404),
        (f"0:-1#{10**15}", 404),
    ):
        for method, path in (("GET", f"{items}/1"), ("GET", items)):
            answer = service.raw(method, path, None, {"x-ms-session-token": sent}, pk="p")
            assert answer.status == status
            if status == 404:
                assert answer.substatus == 1002
                assert answer.json["message"]
    missing = service.raw("GET", f"{items}/none", None, {"x-ms-session-token": f"0:-1#{number + 1}"}, pk="p")
    assert (missing.status, missing.substatus) == (404, 1002)


@pytest.mark.parametrize("level", ["Session", "ConsistentPrefix", "Eventual"])
def test_consistency_levels_up_to_the_account(service: Service, level: str) -> None:
    proxy = service.container()
    proxy.create_item({"id": "1", "pk": "p"})
    answer = service.raw("GET", path_of(proxy, "docs", "1"), None, {"x-ms-consistency-level": level}, pk="p")
    assert answer.status == 200


# --- patch -----------------------------------------------------------------------------------------------------------

PATCHES: list[tuple[str, list[dict[str, Any]], dict[str, Any]]] = [
    ("add", [{"op": "add", "path": "/x", "value": {"y": 1}}], {"x": {"y": 1}}),
    ("add over", [{"op": "add", "path": "/n", "value": 9}], {"n": 9}),
    ("add in array", [{"op": "add", "path": "/a/1", "value": 9}], {"a": [1, 9, 2, 3]}),
    ("append", [{"op": "add", "path": "/a/-", "value": 9}], {"a": [1, 2, 3, 9]}),
    ("set", [{"op": "set", "path": "/a/1", "value": 9}], {"a": [1, 9, 3]}),
    ("set new", [{"op": "set", "path": "/o/z", "value": None}], {"o": {"k": "v", "z": None}}),
    ("replace", [{"op": "replace", "path": "/o/k", "value": "w"}], {"o": {"k": "w"}}),
    ("remove", [{"op": "remove", "path": "/a/0"}], {"a": [2, 3]}),
    ("incr", [{"op": "incr", "path": "/n", "value": 2}], {"n": 3}),
    ("decrease", [{"op": "incr", "path": "/n", "value": -1.5}], {"n": -0.5}),
    ("incr new", [{"op": "incr", "path": "/m", "value": 2}], {"m": 2}),
    ("move", [{"op": "move", "from": "/n", "path": "/o/n"}], {"n": ..., "o": {"k": "v", "n": 1}}),
    ("escapes", [{"op": "set", "path": "/a~1b", "value": 1}, {"op": "set", "path": "/c~0d", "value": 2}], {"a/b": 1,
    "c~d": 2}),
    ("in order", [{"op": "set", "path": "/x", "value": 1}, {"op": "incr", "path": "/x", "value": 1}, {"op": "move",
    "from": "/x", "path": "/y"}], {"y": 2}),
]  # fmt: skip
BEFORE = {"id": "1", "pk": "p", "n": 1, "a": [1, 2, 3], "o": {"k": "v"}}


@pytest.mark.parametrize(("name", "steps", "changed"), PATCHES, ids=[row[0] for row in PATCHES])
def test_patch(service: Service, flavour: str, name: str, steps: list[dict[str, Any]], changed: dict[str, Any]) -> None:
    proxy = service.container()
    call = (service.sync(proxy) if flavour == "sync" else service.aio(proxy)).call
    call("create_item", dict(BEFORE))
    patched = call("patch_item", "1", "p", steps)
    assert plain(patched) == {k: v for k, v in (BEFORE | changed).items() if v is not ...}
    assert call("read_item", "1", "p") == patched


@everywhere
def test_patch_is_all_or_nothing(service: Service) -> None:
    proxy = service.container()
    before = proxy.create_item(dict(BEFORE))
    steps: list[dict[str, Any]] = [{"op": "set", "path": "/n", "value": 5}, {"op": "remove", "path": "/none"}]
    assert status_of(proxy.patch_item, "1", "p", steps) == 400
    assert proxy.read_item("1", "p") == before


@pytest.mark.parametrize(
    ("condition", "status"),
    [("from c where c.n = 1", 200), ("from c where c.n = 2", 412), ("from c where c.none", 412),
    ("FROM c WHERE c._ts > 0", 200),
     ("from c where ARRAY_CONTAINS(c.a, 3)", 200)],
)  # fmt: skip
def test_patch_condition(service: Service, condition: str, status: int) -> None:
    proxy = service.container()
    proxy.create_item(dict(BEFORE))
    steps = [{"op": "set", "path": "/n", "value": 7}]
    assert status_of(proxy.patch_item, "1", "p", steps, filter_predicate=condition) == status
    assert proxy.read_item("1", "p")["n"] == (7 if status == 200 else 1)


def test_a_bare_array_is_a_patch_too(service: Service) -> None:
    proxy = service.container()
    proxy.create_item(dict(BEFORE))
    answer = service.raw("PATCH", path_of(proxy, "docs", "1"), [{"op": "incr", "path": "/n", "value": 1}], pk="p")
    assert (answer.status, answer.json["n"]) == (200, 2)


# --- batches ---------------------------------------------------------------------------------------------------------


@everywhere
def test_batch(service: Service, flavour: str) -> None:
    proxy = service.container()
    call = (service.sync(proxy) if flavour == "sync" else service.aio(proxy)).call
    etag = call("create_item", dict(BEFORE))["_etag"]
    steps: list[Any] = [
        ("create", ({"id": "2", "pk": "p"},)), ("upsert", ({"id": "3", "pk": "p", "n": 1},)), ("upsert", ({"id": "3",
        "pk": "p", "n": 2},)),
        ("replace", ("2", {"id": "2", "pk": "p", "n": 5})), ("patch", ("2", [{"op": "incr", "path": "/n",
        "value": 1}])), ("read", ("2",)),
        ("delete", ("1",), {"if_match_etag": etag}), ("create", ({"id": "1", "pk": "p", "again": True},)),
    ]  # fmt: skip
    results = call("execute_item_batch", steps, partition_key="p")
    assert [int(result["statusCode"]) for result in results] == [201, 201, 200, 200, 200, 200, 204, 201]
    assert plain(results[5]["resourceBody"]) == {"id": "2", "pk": "p", "n": 6}
    assert results[5]["eTag"] == results[4]["eTag"] == call("read_item", "2", "p")["_etag"]
    assert plain(call("read_item", "1", "p")) == {"id": "1", "pk": "p", "again": True}


FAILURES: list[tuple[Any, int]] = [
    (("create", ({"id": "1", "pk": "p"},)), 409), (("create", ({"id": "9", "pk": "q"},)), 400), (("replace", ("9",
    {"id": "9", "pk": "p"})), 404),
    (("patch", ("1", [{"op": "remove", "path": "/none"}])), 400), (("read", ("9",)), 404), (("delete", ("9",)), 404),
    (("replace", ("1", {"id": "1", "pk": "p"}), {"if_match_etag": '"x"'}), 412),
    (("patch", ("1", [{"op": "set", "path": "/n", "value": 1}]), {"filter_predicate": "from c where c.n = 99"}), 412),
]  # fmt: skip


@everywhere
@pytest.mark.parametrize("place", [0, 2])
@pytest.mark.parametrize("index", range(len(FAILURES)))
def test_batch_that_fails(service: Service, index: int, place: int) -> None:
    proxy = service.container()
    before = proxy.create_item(dict(BEFORE))
    step, status = deepcopy(FAILURES[index])  # The client takes the options out of what it is given.
    steps: list[Any] = [("create", ({"id": f"g{n}", "pk": "p"},)) for n in range(3)]
    steps[place] = step
    with pytest.raises(CosmosBatchOperationError) as refused:
        proxy.execute_item_batch(steps, "p")
    assert (refused.value.error_index, refused.value.status_code) == (place, status)
    expected = [424, 424, 424]
    expected[place] = status
    assert [int(answer["statusCode"]) for answer in refused.value.operation_responses] == expected
    assert list(proxy.read_all_items()) == [before]


@pytest.mark.parametrize(("count", "status"), [(1, 200), (99, 200), (100, 200), (101, 400), (0, 400)])
def test_batch_sizes(service: Service, count: int, status: int) -> None:
    proxy = service.container()
    steps = [{"operationType": "Create", "resourceBody": {"id": str(n), "pk": "p"}} for n in range(count)]
    flags = {"x-ms-cosmos-is-batch-request": "True", "x-ms-cosmos-batch-atomic": "True"}
    answer = service.raw("POST", path_of(proxy, "docs"), steps, flags, pk="p")
    assert answer.status == status
    assert service.raw("GET", path_of(proxy, "docs"), None, {"x-ms-max-item-count": "-1"}).json["_count"] == (
        count if status == 200 else 0
    )


@everywhere
def test_bulk_is_each_for_itself(service: Service) -> None:
    proxy = service.container()
    proxy.create_item(dict(BEFORE))
    steps = [
        {"operationType": "Create", "partitionKey": '["a"]', "resourceBody": {"id": "1", "pk": "a"}},
        {"operationType": "Create", "partitionKey": '["p"]', "resourceBody": {"id": "1", "pk": "p"}},
        {"operationType": "Read", "partitionKey": '["p"]', "id": "1"}, {"operationType": "Delete",
        "partitionKey": '["q"]', "id": "1"},
        {"operationType": "Upsert", "partitionKey": "[5]", "resourceBody": {"id": "x", "pk": 5}},
    ]  # fmt: skip
    flags = {
        "x-ms-cosmos-is-batch-request": "True",
        "x-ms-cosmos-batch-atomic": "False",
        "x-ms-cosmos-batch-continue-on-error": "True",
    }
    answer = service.raw("POST", path_of(proxy, "docs"), steps, flags)
    assert answer.status == 207
    assert [result["statusCode"] for result in answer.json] == [201, 409, 200, 404, 201]
    assert len(list(proxy.read_all_items())) == 3


@everywhere
@pytest.mark.parametrize(
    ("go_on", "statuses"), [("False", [201, 409, 424]), ("True", [201, 409, 201]), (None, [201, 409, 201])]
)
def test_bulk_ends_at_a_failure_where_asked_to(service: Service, go_on: str | None, statuses: list[int]) -> None:
    proxy = service.container()
    steps = [
        {"operationType": "Create", "partitionKey": '["p"]', "resourceBody": {"id": id, "pk": "p"}}
        for id in ("1", "1", "2")
    ]
    flags = BULK | {"x-ms-cosmos-batch-continue-on-error": go_on}
    answer = service.raw("POST", path_of(proxy, "docs"), steps, flags)
    assert (answer.status, [result["statusCode"] for result in answer.json]) == (207, statuses)
    assert len(list(proxy.read_all_items())) == statuses.count(201)


@in_memory
def test_levels_of_throughput_before_request_units_are_refused(service: Service) -> None:
    path = path_of(service.container()).rpartition("/")[0]
    body = {"id": "levels", "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}}
    answer = service.raw("POST", path, body, {"x-ms-offer-type": "S1"})
    assert answer.status == 400
    assert "The offer type 'S1' is not supported by Mayfly" in answer.json["message"]


@in_memory
@pytest.mark.parametrize(
    ("named", "keys", "status"),
    [
        ("0", [0, 5], 200), ("1", [1], 200), ("{rid},1", [1], 200), (None, [0, 1, 5], 200),
        ("0", [1], 410), ("1", [5], 410), ("1", [1, 0], 410), ("7", [1], 410), ("1", [1, "no key"], 207),
    ],
)  # fmt: skip
def test_bulk_is_for_the_range_it_names(service: Service, named: str | None, keys: list[Any], status: int) -> None:
    """A client that has another idea of the ranges is told to read them again, before anything is done."""
    proxy = service.container(offer_throughput=11000)
    steps = [
        {"operationType": "Upsert", "partitionKey": f"[{key}]", "resourceBody": {"id": "1", "pk": key}} for key in keys
    ]
    range_id = None if named is None else named.format(rid=proxy.read()["_rid"])
    answer = service.raw(
        "POST", path_of(proxy, "docs"), steps, BULK | {"x-ms-documentdb-partitionkeyrangeid": range_id}
    )
    assert (answer.status, answer.substatus) == (status, 1002 if status == 410 else 0)
    if status != 410:
        # Java takes the whole header for the token of one range.
        told = [token.partition(":")[0] for token in answer.headers["x-ms-session-token"].split(",")]
        assert told == (["0", "1"] if named is None else [named[-1]])
    written = 0 if status == 410 else sum(isinstance(key, int) for key in keys)
    assert len(list(proxy.read_all_items())) == written


@everywhere
@pytest.mark.parametrize("atomic", ["True", "False"])
@pytest.mark.parametrize("wish", ["header", "operation", "none", "no"])
def test_a_batch_without_the_items_written(service: Service, atomic: str, wish: str) -> None:
    """Go asks for it by header unless told otherwise, Java's bulk operation by operation. What is read comes all the same."""
    proxy = service.container()
    proxy.create_item(dict(BEFORE))
    steps: list[dict[str, Any]] = [
        {"operationType": "Create", "resourceBody": {"id": "2", "pk": "p"}},
        {"operationType": "Upsert", "resourceBody": {"id": "1", "pk": "p"}},
        {"operationType": "Replace", "id": "2", "resourceBody": {"id": "2", "pk": "p", "n": 1}},
        {
            "operationType": "Patch",
            "id": "2",
            "resourceBody": {"operations": [{"op": "incr", "path": "/n", "value": 1}]},
        },
        {"operationType": "Read", "id": "2"},
        {"operationType": "Delete", "id": "1"},
    ]
    for step in steps:
        step["partitionKey"] = '["p"]'
        step |= {"operation": {"minimalReturnPreference": True}, "no": {"minimalReturnPreference": False}}.get(wish, {})
    flags = {"x-ms-cosmos-is-batch-request": "True", "x-ms-cosmos-batch-atomic": atomic}
    flags |= {"prefer": "return=minimal"} if wish == "header" else {}
    if atomic == "False":
        # Operations of a bulk are in no order, so each goes by itself here.
        answers = [service.raw("POST", path_of(proxy, "docs"), [step], flags).json[0] for step in steps]
    else:
        answers = service.raw("POST", path_of(proxy, "docs"), steps, flags, pk="p").json
    assert [answer["statusCode"] for answer in answers] == [201, 200, 200, 200, 200, 204]
    bodies = [answer.get("resourceBody", {}).get("id") for answer in answers]
    assert bodies == [None] * 4 + ["2", None] if wish in ("header", "operation") else ["2", "1", "2", "2", "2", None]
    assert [("eTag" in answer, answer["requestCharge"] > 0) for answer in answers] == [(True, True)] * 5 + [
        (False, True)
    ]
    assert answers[4]["resourceBody"]["n"] == 2 and answers[3]["eTag"] == answers[4]["eTag"]


# --- unique keys -----------------------------------------------------------------------------------------------------

UNIQUE = {"uniqueKeys": [{"paths": ["/mail"]}, {"paths": ["/a/b", "/c"]}]}


@pytest.fixture
def unique(service: Service) -> ContainerProxy:
    proxy = service.container(unique_key_policy=UNIQUE)
    proxy.create_item({"id": "1", "pk": "p", "mail": "m", "a": {"b": 1}, "c": "x"})
    return proxy


@everywhere
@pytest.mark.parametrize(
    ("members", "status"),
    [({"mail": "m", "c": 1}, 409), ({"mail": "M", "c": 1}, 200), ({"mail": "n", "a": {"b": 1}, "c": "x"}, 409),
     ({"mail": "n", "a": {"b": 1.0}, "c": "x"}, 409), ({"mail": "n", "a": {"b": 1}, "c": "y"}, 200), ({"mail": "n",
     "a": 1, "c": "x"}, 200),
     ({"mail": "m", "c": 1, "pk": "q"}, 200), ({"c": 5}, 200)],
)  # fmt: skip
def test_unique_keys(unique: ContainerProxy, members: dict[str, Any], status: int) -> None:
    with pytest.raises(CosmosHttpResponseError) if status == 409 else _nothing() as refused:
        unique.create_item({"id": "2", "pk": "p"} | members)
    if status == 409:
        assert "Unique index constraint violation." in str(refused.value)
        assert status_of(unique.read_item, "2", "p") == 404


def _nothing() -> Any:
    from contextlib import nullcontext

    return nullcontext()


@everywhere
def test_unique_keys_of_changes(unique: ContainerProxy) -> None:
    unique.create_item({"id": "2", "pk": "p", "mail": "n", "c": 2})
    assert status_of(unique.replace_item, "2", {"id": "2", "pk": "p", "mail": "m", "c": 2}) == 409
    assert status_of(unique.patch_item, "2", "p", [{"op": "set", "path": "/mail", "value": "m"}]) == 409
    assert status_of(unique.upsert_item, {"id": "1", "pk": "p", "mail": "m", "c": "x"}) == 200
    steps: list[Any] = [("delete", ("1",)), ("patch", ("2", [{"op": "set", "path": "/mail", "value": "m"}]))]
    assert [int(answer["statusCode"]) for answer in unique.execute_item_batch(steps, "p")] == [204, 200]
    assert status_of(unique.create_item, {"id": "3", "pk": "p", "c": 3}) == 200
    assert status_of(unique.create_item, {"id": "4", "pk": "p", "mail": None, "c": 4}) == 409, "missing counts as null"


# --- by a whole item -------------------------------------------------------------------------------------------------


def test_a_whole_item_names_itself(service: Service) -> None:
    """Given an item in place of an id, clients follow its `_self`, which is made of rids."""
    proxy = service.container(100)
    for id in ("1", "2", "3 é"):
        proxy.create_item({"id": id, "pk": "p"})
    proxy.create_item({"id": "1", "pk": "q"})
    item = proxy.read_item("2", "p")
    assert proxy.read_item(item, "p") == item
    changed = proxy.replace_item(item, {**item, "n": 1})
    assert (changed["id"], changed["n"], changed["_rid"]) == ("2", 1, item["_rid"])
    assert proxy.patch_item(changed, "p", [{"op": "incr", "path": "/n", "value": 1}])["n"] == 2
    assert status_of(proxy.replace_item, item, {**item, "id": "1"}) == 409
    # Its rid is of its partition alone.
    assert status_of(proxy.read_item, item, "q") == 404
    proxy.delete_item(item, "p")
    assert status_of(proxy.read_item, item, "p") == 404
    again = proxy.create_item({"id": "2", "pk": "p"})
    assert status_of(proxy.delete_item, item, "p") == 404
    service.at(100)
    assert status_of(proxy.read_item, again, "p") == 404


def test_an_id_that_looks_like_a_rid_is_an_id(service: Service) -> None:
    proxy = service.container()
    rid = proxy.create_item({"id": "1", "pk": "p"})["_rid"]
    assert status_of(proxy.read_item, rid, "p") == 404
    assert proxy.create_item({"id": rid, "pk": "p", "n": 2})["n"] == 2
    assert proxy.read_item(rid, "p")["n"] == 2
    assert proxy.read_item(proxy.read_item("1", "p"), "p")["id"] == "1"
