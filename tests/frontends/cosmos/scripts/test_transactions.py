"""What scripts write: all of it or nothing, seen by themselves at once and by others with the commit, whoever else writes."""

from __future__ import annotations

import asyncio
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from azure.cosmos import ContainerProxy

from frontends.cosmos.scripts.verbs import elsewhere, message, procedure, run
from frontends.cosmos.service import Service, T, everywhere, ids, in_memory, path_of, rows
from mayflydb.frontends.cosmos.scripting import attempts
from mayflydb.model.errors import BadRequest

OWN = "var self = __.getSelfLink(), alt = __.getAltLink(), say = (x) => getContext().getResponse().setBody(x);"
"""Names for short scripts; `then` throws what went wrong, or goes on."""
THEN = "var then = (next) => (error, ...found) => { if (error) throw error; next(...found); };"


def script(body: str, parameters: str = "") -> str:
    return f"function ({parameters}) {{ {OWN} {THEN} {body} }}"


SEEN = [
    # Writes are seen by what comes after them, by both kinds of link.
    ("__.createDocument(self, {id: 'n', pk: 'k'}, then((made) => __.readDocument(made._self, then((d) => say(d.id)))))", "n"),
    ("__.createDocument(self, {id: 'n', pk: 'k'}, then(() => __.readDocument(alt + '/docs/n', then((d) => say(d.id)))))", "n"),
    ("__.createDocument(self, {id: 'n', pk: 'k'}); __.queryDocuments(self, 'SELECT VALUE c.id FROM c', then(say))",
     ["a", "b", "n"]),
    ("__.deleteDocument(alt + '/docs/a'); __.readDocuments(self, then((all) => say(all.map((d) => d.id))))", ["b"]),
    (("__.replaceDocument(alt + '/docs/a', {id: 'a', pk: 'k', n: 9}); "
      "__.queryDocuments(self, {query: 'SELECT VALUE c.n FROM c WHERE c.n > @n', parameters: [{name: '@n', value: 8}]}, "
      "then(say))"), [9]),
    (("__.deleteDocument(alt + '/docs/a'); __.createDocument(self, {id: 'a', pk: 'k', n: 7}); "
      "__.queryDocuments(self, 'SELECT c.id, c.n FROM c ORDER BY c.n', then(say))"), [{"id": "b", "n": 2}, {"id": "a", "n": 7}]),
    (("__.upsertDocument(self, {id: 'a', pk: 'k', n: 5}, then((d) => __.upsertDocument(self, {id: 'u', pk: 'k'}, then((e) =>"
      " say([d.n, e.id])))))"), [5, "u"]),
    # A document without an id gets one; if that is not wanted, it is refused.
    ("__.createDocument(self, {pk: 'k'}, then((d) => say(d.id.length)))", 36),
    ("__.createDocument(self, {pk: 'k'}, {disableAutomaticIdGeneration: true}, (e) => say(e.number))", 400),
    ("__.createDocument(self, '{\"id\":\"s\",\"pk\":\"k\",\"n\":5e0}', then((d) => say(d.n)))", 5),
    # Refusals go to the callback, with their number, and nothing is lost by them.
    ("__.createDocument(self, {id: 'a', pk: 'k'}, (e) => say([e.number, typeof e.body]))", [409, "string"]),
    ("__.deleteDocument(alt + '/docs/none', (e) => say(e.number))", 404),
    # Another id renames, and keeps the place in creation order; a taken one is refused.
    (("__.replaceDocument(alt + '/docs/a', {id: 'z', pk: 'k'}); __.queryDocuments(self, 'SELECT VALUE c.id FROM c', then(say))"),
     ["z", "b"]),
    (("__.replaceDocument(alt + '/docs/a', {id: 'z', pk: 'k'}, then((d) => __.readDocument(d._self, then((e) =>"
      " say([e.id, d._rid === e._rid])))))"), ["z", True]),
    ("__.replaceDocument(alt + '/docs/a', {id: 'b', pk: 'k'}, (e) => say(e.number))", 409),
    # A rid stays that of its document, whoever has the name now.
    (("__.readDocument(alt + '/docs/a', then((old) => __.deleteDocument(old._self, then(() => __.createDocument(self, "
      "{id: 'a', pk: 'k'}, then(() => __.readDocument(old._self, (e) => __.replaceDocument(old._self, {id: 'a', pk: 'k', n: 5}, "
      "(f) => __.deleteDocument(old._self, (g) => __.readDocument(alt + '/docs/a', then((d) => "
      "say([e.number, f.number, g.number, d.n === undefined]))))))))))))"), [404, 404, 404, True]),
    (("__.createDocument(self, {id: 'n', pk: 'k'}, then((old) => __.deleteDocument(old._self, then(() => __.createDocument(self,"
      " {id: 'n', pk: 'k'}, then(() => __.readDocument(old._self, (e) => say(e.number))))))))"), 404),
    (("__.readDocument(alt + '/docs/a', then((old) => __.replaceDocument(old._self, {id: 'z', pk: 'k'}, then(() => "
      "__.createDocument(self, {id: 'a', pk: 'k'}, then(() => __.deleteDocument(old._self, then(() => "
      "__.queryDocuments(self, 'SELECT VALUE c.id FROM c', then(say))))))))))"), ["b", "a"]),
    (("__.createDocument(self, {id: 'n', pk: 'k'}, then((made) => __.replaceDocument(made._self, {id: 'm', pk: 'k'}, then(() => "
      "__.deleteDocument(made._self, then(() => __.queryDocuments(self, 'SELECT VALUE c.id FROM c', then(say))))))))"),
     ["a", "b"]),
    # Versions.
    (("__.readDocument(alt + '/docs/a', then((d, o) => __.replaceDocument(d._self, d, {etag: o.etag}, then((r) =>"
      " __.replaceDocument(r._self, r, {etag: d._etag}, (e) => say([d._etag === o.etag, e.number]))))))"), [True, 412]),
    (("__.readDocument(alt + '/docs/a', then((d, o) => __.readDocument(d._self, {ifNoneMatch: o.etag},"
      " then((again, p) => say([again === undefined, p.notModified])))))"), [True, True]),
    ("__.deleteDocument(alt + '/docs/a', {etag: '\"stale\"'}, (e) => say(e.number))", 412),
    # Pages.
    (("__.readDocuments(self, {pageSize: 1}, then((one, o) => __.readDocuments(self, {pageSize: 1, continuation: o.continuation},"
      " then((two, p) => say([one[0].id, two[0].id, p.continuation === undefined])))))"), ["a", "b", True]),
    (("__.createDocument(self, {id: 'n', pk: 'k'}, then(() => __.readDocuments(self, {pageSize: 2}, then((one, o) =>"
      " __.readDocuments(self, {continuation: o.continuation}, then((two) => say([one.length, two.map((d) => d.id)])))))))"),
     [2, ["n"]]),
    ("__.queryDocuments(self, 'SELECT VALUE 1', {continuation: 'made up'}, (e) => say(e.number))", 400),
    ("__.queryDocuments(self, 'SELECT * FROM c ORDER BY c.a, c.b', (e) => say(e.body.includes('composite index')))", True),
    ("__.queryDocuments(self, 'SELECT VALUE udf.f(1)', (e) => say(e.body.includes(\"'udf.f' does not exist\")))", True),
]  # fmt: skip


@pytest.fixture
def proxy(service: Service) -> ContainerProxy:
    made = service.container(-1)
    service.fill(
        made, [{"id": "a", "pk": "k", "n": 1}, {"id": "b", "pk": "k", "n": 2}, {"id": "a", "pk": "other", "n": 9}]
    )
    return made


@pytest.mark.parametrize(("body", "expected"), SEEN)
def test_a_script_sees_what_it_does(service: Service, proxy: ContainerProxy, body: str, expected: Any) -> None:
    answer = run(service, proxy, script(body))
    assert (answer.status, answer.json) == (200, expected)


CHAINS = [
    ("__.filter((d) => d.n > 1, then((all) => say(all.map((d) => d.id))))", ["b"]),
    ("__.map((d) => d.n * 2, then(say))", [2, 4]),
    ("__.pluck('id', then(say))", ["a", "b"]),
    ("__.pluck('id')", '["a","b"]'),
    ("say(__.chain().filter((d) => d.n).sortByDescending((d) => d.n).pluck('id').value(then(say)).isAccepted)", ["b", "a"]),
    ("__.chain().sortBy((d) => -d.n).map((d) => d.id).value({pageSize: 1}, then((p, o) => say([p, o.continuation])))",
     [["b"], "1"]),
    ("__.chain().pluck('id').value({pageSize: 1, continuation: '1'}, then((p, o) => say([p, o])))", [["b"], {}]),
    ("__.chain().map((d) => [d.id, [d.n]]).flatten().value(then(say))", ["a", 1, "b", 2]),
    ("__.chain().map((d) => [d.id, [d.n]]).flatten(true).value(then(say))", ["a", [1], "b", [2]]),
    ("__.chain().unwind((d) => [d.n, 0]).value(then(say))", [1, 0, 2, 0]),
    ("__.chain().unwind((d) => [d.n, 0], (d, x) => d.id + x).value(then(say))", ["a1", "a0", "b2", "b0"]),
    ("try { __.chain().filter((d) => 1, {}) } catch (e) { say(e.number) }", 400),
    ("try { __.filter('no function') } catch (e) { say(e.number) }", 400),
]  # fmt: skip


@in_memory
@pytest.mark.parametrize(("body", "expected"), CHAINS)
def test_queries_as_chains_of_functions(service: Service, proxy: ContainerProxy, body: str, expected: Any) -> None:
    answer = run(service, proxy, script(body))
    assert (answer.status, answer.json) == (200, expected)


@everywhere
def test_all_is_committed_or_nothing(service: Service, proxy: ContainerProxy) -> None:
    writes = "__.createDocument(self, {id: 'n', pk: 'k'}); __.deleteDocument(alt + '/docs/a');"
    answer = run(service, proxy, script(writes + "__.deleteDocument(alt + '/docs/none');"))
    assert (answer.status, answer.substatus) == (400, 404)
    assert ids(proxy.read_all_items()) == ["a", "a", "b"]
    assert run(service, proxy, script(writes)).status == 200
    assert rows(proxy.query_items("SELECT VALUE c.id FROM c", partition_key="k")) == ["b", "n"]


@everywhere
def test_rids_and_etags_in_answers_are_the_stored_ones(service: Service, proxy: ContainerProxy) -> None:
    """Rids and etags are given with the commit: where the script has put them, they are those in the end."""
    body = """__.createDocument(self, {id: 'one', pk: 'k'}, then((one) =>
        __.createDocument(self, {id: 'two', pk: 'k', of: one._self, seen: one._etag}, then((two) =>
        __.replaceDocument(one._self, {id: 'one', pk: 'k', n: 1}, {etag: one._etag}, then((again) =>
        say([again, two, one._etag])))))))"""
    one, two, first = run(service, proxy, script(body)).json
    assert one == proxy.read_item("one", "k") and two == proxy.read_item("two", "k")
    assert two["of"] == one["_self"] and two["seen"] == first != one["_etag"]
    assert not re.search("-ffff-", str([one, two]))
    assert service.raw("GET", "/" + two["of"], pk="k").json["id"] == "one"


@everywhere
def test_items_expire_as_of_the_scripts_now(service: Service, proxy: ContainerProxy) -> None:
    proxy.upsert_item({"id": "a", "pk": "k", "ttl": 10})
    count = "__.queryDocuments(self, 'SELECT VALUE c.id FROM c', then(say))"
    assert run(service, proxy, script(count)).json == ["a", "b"]
    service.at(10)
    assert run(service, proxy, script(count)).json == ["b"]
    read = "__.readDocument(alt + '/docs/a', (e) => say(e.number))"
    assert run(service, proxy, script(read)).json == 404
    made = run(service, proxy, script("__.createDocument(self, {id: 'a', pk: 'k', ttl: 5}, then(say))")).json
    assert made["_ts"] == T + 10
    refused = run(service, proxy, script("__.createDocument(self, {id: 'c', pk: 'k', ttl: 0}, (e) => say(e.number))"))
    assert refused.json == 400
    service.at(14)
    assert run(service, proxy, script(count)).json == ["b", "a"]
    service.at(15)
    assert run(service, proxy, script(count)).json == ["b"]


RENEW = "__.replaceDocument(alt + '/docs/a', {id: 'a', pk: 'k', ttl: 100}, then(() => say('renewed')))"


@everywhere
@pytest.mark.parametrize("commits", [True, False])
def test_items_that_a_script_has_written_are_not_purged(
    service: Service, proxy: ContainerProxy, commits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its item would have died before its commit: it lives on if that comes, and goes if it does not."""
    proxy.upsert_item({"id": "a", "pk": "k", "ttl": 10})
    procedure(proxy, script(RENEW))
    came, goes_on = threading.Event(), threading.Event()
    commit = attempts._commit

    async def slow(call: Any, transaction: Any) -> Any:
        came.set()
        await asyncio.to_thread(goes_on.wait)
        if not commits:
            raise BadRequest("no")
        return await commit(call, transaction)

    monkeypatch.setattr(attempts, "_commit", slow)
    with ThreadPoolExecutor(2) as pool:
        answer = pool.submit(elsewhere, service, proxy)
        assert came.wait(30)
        service.at(20)
        assert service.server.purge()["purged"] == 0
        assert rows(proxy.query_items("SELECT VALUE c.id FROM c", partition_key="k")) == ["b"]
        create = pool.submit(service.raw, "POST", path_of(proxy, "docs"), {"id": "a", "pk": "k"}, pk="k")
        goes_on.set()
        assert answer.result(30).status == (200 if commits else 400)
        assert create.result(30).status == (409 if commits else 201)
    service.at(119)
    assert service.server.purge()["purged"] == 0
    assert ids(proxy.read_all_items()) == ["a", "a", "b"]
    service.at(120)
    assert service.server.purge()["purged"] == (1 if commits else 0)


@everywhere
def test_unique_keys(service: Service) -> None:
    proxy = service.container(unique_key_policy={"uniqueKeys": [{"paths": ["/mail"]}]})
    body = script("__.createDocument(self, {id: 'a', pk: 'k', mail: 1}); __.createDocument(self, {id: 'b', pk: 'k', mail: 1},"
                  " (e) => say(e.number))")  # fmt: skip
    assert run(service, proxy, body).json == 409
    assert ids(proxy.read_all_items()) == ["a"]


@everywhere
def test_no_update_is_lost(service: Service, proxy: ContainerProxy) -> None:
    """Each adds one to what it has read, four at a time: those who were overtaken run again."""
    procedure(
        proxy, script("__.readDocument(alt + '/docs/a', then((d) => { d.n += 1; __.replaceDocument(d._self, d); }))")
    )

    def add(_: int) -> int:
        return elsewhere(service, proxy).status

    with ThreadPoolExecutor(4) as pool:
        statuses = list(pool.map(add, range(12)))
    assert set(statuses) <= {200, 449} and statuses.count(200) >= 4
    assert proxy.read_item("a", "k")["n"] == 1 + statuses.count(200)


@everywhere
def test_no_phantom_is_missed(service: Service, proxy: ContainerProxy) -> None:
    """Each writes how many there are, and so makes one more: no two may have counted the same."""
    body = script("__.queryDocuments(self, 'SELECT VALUE COUNT(1) FROM c', then(([n]) => "
                  "__.createDocument(self, {id: 'c' + id, pk: 'k', n: n}, then(() => say(n)))))", "id")  # fmt: skip
    procedure(proxy, body)
    lock = threading.Lock()
    counts: list[int] = []

    def count(id: int) -> None:
        answer = elsewhere(service, proxy, id)
        if answer.status == 200:
            with lock:
                counts.append(answer.json)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(count, range(10)))
    assert sorted(counts) == list(range(2, 2 + len(counts))) and len(counts) >= 4


@everywhere
def test_sessions_go_on_behind_what_is_deleted(service: Service, proxy: ContainerProxy) -> None:
    """A deletion is a change like any other: the answer's token is no older than it."""
    answer = run(service, proxy, script("__.deleteDocument(alt + '/docs/a')"))
    reached = service.raw("GET", path_of(proxy, "docs"), pk="k").headers["x-ms-session-token"]
    assert (answer.status, answer.headers["x-ms-session-token"]) == (200, reached)


CHARGES = [
    ("throw new Error('no')", 400, "1.00"),
    ("__.createDocument(self, {id: 'm', pk: 'k'}, then(() => __.createDocument(self, {id: 'n', pk: 'k'}, () => { throw 1 })))",
     400, "12.38"),
    ("__.deleteDocument(alt + '/docs/a'); __.deleteDocument(alt + '/docs/none')", 400, "6.71"),
    ("__.deleteDocument(alt + '/docs/none', () => 0)", 200, "3.00"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "status", "charge"), CHARGES)
def test_failed_scripts_are_charged_for_their_work(
    service: Service, proxy: ContainerProxy, body: str, status: int, charge: str
) -> None:
    answer = run(service, proxy, script(body))
    assert (answer.status, answer.headers["x-ms-request-charge"]) == (status, charge)


@in_memory
def test_repeated_conflicts_end_in_a_write_conflict(
    service: Service, proxy: ContainerProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attempts, "MAX_ATTEMPTS", 0)
    answer = run(service, proxy, script("__.deleteDocument(alt + '/docs/a')"))
    assert answer.status == 449 and answer.json["code"] == "RetryWith"
    assert answer.headers["x-ms-request-charge"] == "1.00"
    assert ids(proxy.read_all_items()) == ["a", "a", "b"]


@everywhere
def test_partitions_do_not_disturb_each_other(service: Service, proxy: ContainerProxy) -> None:
    body = script(
        "__.readDocument(alt + '/docs/a', then((d) => { d.n += 1; __.replaceDocument(d._self, d, then(say)); }))"
    )
    assert run(service, proxy, body, pk="other").json["n"] == 10
    assert run(service, proxy, body).json["n"] == 2
    linked = run(service, proxy, script("__.readDocument(link, (e) => say(e.number))", "link"),
                 proxy.read_item("a", "other")["_self"])  # fmt: skip
    assert linked.json == 404, message(linked)
