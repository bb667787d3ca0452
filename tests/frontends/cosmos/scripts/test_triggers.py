"""Triggers: what runs before and after a write, in its transaction, when a request includes them."""

from __future__ import annotations

from typing import Any

import pytest
from azure.cosmos import ContainerProxy
from azure.cosmos.exceptions import CosmosHttpResponseError

from frontends.cosmos.scripts.verbs import trigger
from frontends.cosmos.service import BULK, Service, everywhere, ids, in_memory, path_of, status_of

PRE, POST = "x-ms-documentdb-pre-trigger-include", "x-ms-documentdb-post-trigger-include"

STAMP = """function () {
    var request = getContext().getRequest(), item = request.getBody();
    item.stamped = request.getOperationType();
    request.setBody(item);
}"""
COUNT = """function () {
    __.readDocument(__.getAltLink() + '/docs/count', function (error, count) {
        if (error) throw error;
        count.n += 1;
        count.last = getContext().getResponse().getBody()._etag;
        __.replaceDocument(count._self, count);
    });
}"""


@pytest.fixture
def proxy(service: Service) -> ContainerProxy:
    made = service.container(-1)
    trigger(made, "stamp", "Pre", STAMP)
    trigger(made, "count", "Post", COUNT)
    trigger(made, "fails", "Post", "function () { throw new Error('no'); }")
    made.create_item({"id": "count", "pk": "k", "n": 0})
    return made


@everywhere
def test_before_and_after_every_write(service: Service, proxy: ContainerProxy) -> None:
    both: dict[str, Any] = {"pre_trigger_include": "stamp", "post_trigger_include": "count"}
    made = proxy.create_item({"id": "a", "pk": "k"}, **both)
    assert made["stamped"] == "Create" and made == proxy.read_item("a", "k")
    assert proxy.upsert_item({"id": "a", "pk": "k"}, **both)["stamped"] == "Upsert"
    replaced = proxy.replace_item("a", {"id": "a", "pk": "k", "x": 1}, **both)
    assert (replaced["stamped"], replaced["x"]) == ("Replace", 1)
    count = proxy.read_item("count", "k")
    assert (count["n"], count["last"]) == (3, replaced["_etag"])
    proxy.delete_item("a", "k", post_trigger_include="count")
    assert proxy.read_item("count", "k")["n"] == 4
    assert ids(proxy.read_all_items()) == ["count"]
    proxy.create_item({"id": "plain", "pk": "k"})
    assert proxy.read_item("count", "k")["n"] == 4 and "stamped" not in proxy.read_item("plain", "k")


@everywhere
def test_a_failing_post_trigger_undoes_the_write(service: Service, proxy: ContainerProxy) -> None:
    with pytest.raises(CosmosHttpResponseError, match="Error: no") as error:
        proxy.create_item({"id": "a", "pk": "k"}, pre_trigger_include="stamp", post_trigger_include="fails")
    assert error.value.status_code == 400
    assert status_of(proxy.delete_item, "count", "k", post_trigger_include="fails") == 400
    assert ids(proxy.read_all_items()) == ["count"]


def test_preconditions_and_conflicts(service: Service, proxy: ContainerProxy) -> None:
    etag = proxy.create_item({"id": "a", "pk": "k"})["_etag"]
    path = path_of(proxy, "docs", "a")
    item = {"id": "a", "pk": "k"}
    replaced = service.raw("PUT", path, item, {PRE: "stamp", "if-match": etag}, pk="k")
    assert replaced.status == 200 and replaced.headers["etag"] == replaced.json["_etag"] != etag
    assert service.raw("PUT", path, item, {PRE: "stamp", "if-match": etag}, pk="k").status == 412
    taken = service.raw("POST", path_of(proxy, "docs"), item, {POST: "count"}, pk="k")
    assert (taken.status, taken.headers["x-ms-request-charge"]) == (409, "1.00")
    assert (
        service.raw("PUT", path_of(proxy, "docs", "none"), {"id": "none", "pk": "k"}, {POST: "count"}, pk="k").status
        == 404
    )
    assert proxy.read_item("count", "k")["n"] == 0


def test_sessions_go_on_behind_a_deletion(service: Service, proxy: ContainerProxy) -> None:
    proxy.create_item({"id": "a", "pk": "k"})
    trigger(proxy, "nothing", "Pre", "function () { }")
    deleted = service.raw("DELETE", path_of(proxy, "docs", "a"), None, {PRE: "nothing"}, pk="k")
    reached = service.raw("GET", path_of(proxy, "docs"), pk="k").headers["x-ms-session-token"]
    assert (deleted.status, deleted.headers["x-ms-session-token"]) == (204, reached)


@everywhere
def test_time_to_live(service: Service, proxy: ContainerProxy) -> None:
    trigger(
        proxy,
        "brief",
        "Pre",
        "function () { var b = __.request.getBody(); b.ttl = b.ttl || 5; __.request.setBody(b); }",
    )
    proxy.create_item({"id": "a", "pk": "k"}, pre_trigger_include="brief")
    service.at(5)
    assert status_of(proxy.read_item, "a", "k") == 404
    proxy.create_item({"id": "a", "pk": "k"}, pre_trigger_include="brief")
    assert status_of(proxy.create_item, {"id": "b", "pk": "k", "ttl": -7}, pre_trigger_include="brief") == 400


def test_text_that_no_trigger_touches_stays_as_it_is(service: Service, proxy: ContainerProxy) -> None:
    trigger(proxy, "looks", "Pre", "function () { getContext().getRequest().getBody(); }")
    text = b'{"id":"a", "pk":"k", "n":5e0, "big":12345678901234567890}'
    assert service.raw("POST", path_of(proxy, "docs"), text, {PRE: "looks"}, pk="k").body.startswith(text[:-1])


def test_an_answer_that_a_trigger_gives(service: Service, proxy: ContainerProxy) -> None:
    trigger(proxy, "says", "Post", "function () { __.response.setBody({made: __.response.getBody()._self}); }")
    answer = service.raw("POST", path_of(proxy, "docs"), {"id": "a", "pk": "k"}, {POST: "says"}, pk="k")
    assert (answer.status, answer.json) == (201, {"made": proxy.read_item("a", "k")["_self"]})


MISFITS = [
    ("POST", {PRE: "nobody"}, "does not exist"),
    ("POST", {PRE: "count"}, "was defined with type 'Post'"),
    ("POST", {PRE: "stamp, stamp"}, "Only one pre-trigger"),
    ("POST", {PRE: "replaces"}, "was defined with operation type 'Replace', and therefore is invalid for 'Create'."),
    ("UPSERT", {PRE: "replaces"}, "invalid for 'Upsert'."),
    ("PUT", {PRE: "leaves"}, "cannot reference partition keys other than"),
    ("PUT", {PRE: "breaks"}, "must be a JSON object"),
    ("PATCH", {PRE: "stamp"}, "are not supported by Mayfly"),
    ("BULK", {PRE: "stamp"}, "are not supported by Mayfly"),
]  # fmt: skip


@in_memory
@pytest.mark.parametrize(("method", "headers", "text"), MISFITS)
def test_triggers_of_another_type_or_operation_are_refused(
    service: Service, proxy: ContainerProxy, method: str, headers: Any, text: str
) -> None:
    trigger(proxy, "replaces", "pre", STAMP, "replace")
    for id, change in (("leaves", "b.pk = 'x'"), ("breaks", "b = [b]")):
        trigger(proxy, id, "Pre", f"function () {{ var b = __.request.getBody(); {change}; __.request.setBody(b); }}")
    path = path_of(proxy, "docs", *(["count"] if method in ("PUT", "PATCH") else []))
    special: dict[str, dict[str, Any]] = {"UPSERT": {"x-ms-documentdb-is-upsert": "true"}, "BULK": dict(BULK)}
    more = special.get(method, {})
    body: Any = {"id": "count" if method == "PUT" else "a", "pk": "k"}
    answer = service.raw(method if method in ("PUT", "PATCH") else "POST", path, body, {**headers, **more}, pk="k")
    assert answer.status == 400 and text in answer.json["message"]
    assert ids(proxy.read_all_items()) == ["count"]


def test_a_trigger_may_rename(service: Service, proxy: ContainerProxy) -> None:
    """The body that it sets has another id, as a replace may."""
    trigger(proxy, "moves", "Pre", "function () { var b = __.request.getBody(); b.id = 'x'; __.request.setBody(b); }")
    body: Any = {"id": "count", "pk": "k"}
    answer = service.raw("PUT", path_of(proxy, "docs", "count"), body, {PRE: "moves"}, pk="k")
    assert (answer.status, answer.json["id"]) == (200, "x")
    assert ids(proxy.read_all_items()) == ["x"]
