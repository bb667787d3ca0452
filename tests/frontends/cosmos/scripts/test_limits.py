"""Scripts that never end, or want all there is: each ends with an error, and the server goes on as if nothing had been."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from azure.cosmos import ContainerProxy

from frontends.cosmos.scripts.verbs import LOGGING, hurry, message, run
from frontends.cosmos.service import Raw, Service, ids, in_memory, path_of

pytestmark = in_memory
LIMIT = 0.3

HOGS = [
    ("while (true) { }", 408, "maximum alloted time"),
    ("try { while (true) { } } catch (e) { } finally { while (true) { } }", 408, "maximum alloted time"),
    ("(async () => { while (true) await null; })()", 408, "maximum alloted time"),
    ("(function again() { return Promise.resolve().then(again); })()", 408, "maximum alloted time"),
    ("/(a+)+$/.test('a'.repeat(40) + 'b')", 408, "maximum alloted time"),
    ("Array.prototype.indexOf.call({length: 2 ** 53 - 1}, 1)", 408, "maximum alloted time"),
    # Each step takes long, so that the engine does not look at its time: the request is answered nevertheless.
    ("var s = 'a'.repeat(2e6); var n = 0; while (n < 6000) { n++; s.indexOf('b'); }", 408, "maximum alloted time"),
    ("var a = []; while (true) a.push({})", 400, "out of memory"),
    ("'x'.repeat(2 ** 29)", 400, "out of memory"),
    ("new Uint8Array(2 ** 30)", 400, "out of memory"),
    ("new Array(1e9).fill(0)", 400, "out of memory"),
    ("var a = []; try { while (true) a.push(new Array(1000)); } catch (e) { a = null; throw e; }", 400, "out of memory"),
    ("(function deep() { return deep() + 1; })()", 400, "Maximum call stack size exceeded"),
    ("JSON.parse('['.repeat(100000))", 400, "Maximum call stack size exceeded"),
    ("var a = []; a[0] = a; __.response.setBody(a)", 400, "circular"),
    ("var a = []; for (var i = 0; i < 1e5; i++) a = [a]; __.response.setBody(a)", 400, "Maximum call stack size exceeded"),
    ("import('fs').then((fs) => __.response.setBody('read'), (e) => { getContext().abort(e); })", 400, "Exception"),
]  # fmt: skip


@pytest.fixture
def proxy(service: Service) -> Iterator[ContainerProxy]:
    made = service.container()
    made.create_item({"id": "a", "pk": "k"})
    hurry(service, seconds=LIMIT)
    yield made
    hurry(service)  # As it was, for others.


@pytest.mark.parametrize(("body", "status", "text"), HOGS)
def test_limits_of_time_and_memory(service: Service, proxy: ContainerProxy, body: str, status: int, text: str) -> None:
    if status == 400:
        hurry(service, seconds=3, memory=16 * 1024 * 1024)
    answer = run(service, proxy, f"function () {{ {body} }}")
    assert answer.status == status and text in message(answer)
    hurry(service)
    assert run(service, proxy, "function () { __.response.setBody('well'); }").json == "well"
    assert ids(proxy.read_all_items()) == ["a"]


def test_other_requests_are_served_while_a_script_runs(service: Service, proxy: ContainerProxy) -> None:
    started, served = threading.Event(), []
    proxy.scripts.create_stored_procedure({"id": "spins", "body": "function () { while (true) { } }"})

    def spin() -> None:
        raw = Raw(service.url)
        started.set()
        served.append(raw("POST", path_of(proxy, "sprocs", "spins"), [], pk="k").status)
        raw.close()

    threads = [threading.Thread(target=spin) for _ in range(3)]
    for thread in threads:
        thread.start()
    started.wait()
    reads = 0
    while any(thread.is_alive() for thread in threads):
        assert service.raw("GET", path_of(proxy, "docs", "a"), pk="k").status == 200
        reads += 1
    assert served == [408] * 3 and reads > 10


def test_operations_are_not_accepted_near_the_end(service: Service, proxy: ContainerProxy) -> None:
    """A script that counts on it ends in time, with what it has done, and is told how far it came."""
    body = """function () {
        var done = 0, link = __.getSelfLink();
        function next() {
            var accepted = __.createDocument(link, {id: 'n' + done, pk: 'k'}, function (error) {
                if (error) throw error;
                done++;
                next();
            });
            if (!accepted) __.response.setBody(done);
        }
        next();
    }"""
    # Most of the time is left for the commit of what was accepted, on a busy machine too.
    hurry(service, seconds=5.0, accepting=0.1)
    answer = run(service, proxy, body)
    assert answer.status == 200 and answer.json > 0
    assert len(list(proxy.read_all_items())) == answer.json + 1


def test_nothing_is_left_of_a_script_that_was_stopped(service: Service, proxy: ContainerProxy) -> None:
    body = "function () { __.createDocument(__.getSelfLink(), {id: 'n', pk: 'k'}, function () { while (true) { } }); }"
    answer = run(service, proxy, body)
    assert (answer.status, answer.headers["x-ms-request-charge"]) == (408, "6.19")
    assert ids(proxy.read_all_items()) == ["a"]


SPOILERS = [
    ("Object.prototype.toJSON = () => undefined; __.readDocuments(__.getSelfLink())", 400),
    ("Object.prototype.toJSON = () => 5; __.readDocuments(__.getSelfLink())", 400),
    ("Object.prototype.toJSON = () => undefined; throw new Error('x')", 400),
    ("String.prototype.toJSON = () => ({}); __.response.setBody('x')", 200),
    ("Array.prototype.shift = () => ({asked: {op: 'drop everything'}}); __.readDocuments(__.getSelfLink())", 400),
    ("Object.prototype.error = {number: 'x', message: {}}; __.readDocuments(__.getSelfLink(), () => 0)", 200),
    ("__.createDocument(__.getSelfLink(), '[' .repeat(5000) + ']'.repeat(5000))", 400),
    ("var q = {}; for (var i = 0; i < 1200; i++) q = {q}; __.queryDocuments(__.getSelfLink(), q)", 400),
    ("__.queryDocuments(__.getSelfLink(), {query: 'SELECT 1', parameters: 5})", 400),
    ("__.response.setBody('\\ud800')", 200),
    ("console.log('\\ud800')", 200),
    ("throw '\\ud800'", 400),
    ("throw {toString() { throw 1 }}", 400),
    ("throw {get number() { while (true) { } }}", 408),
]  # fmt: skip


@pytest.mark.parametrize(("body", "status"), SPOILERS)
def test_scripts_that_change_builtins(service: Service, proxy: ContainerProxy, body: str, status: int) -> None:
    hurry(service, seconds=LIMIT if status == 408 else 3)
    assert run(service, proxy, f"function () {{ {body} }}", **LOGGING).status == status
    assert ids(proxy.read_all_items()) == ["a"]


def test_scripts_share_nothing(service: Service) -> None:
    proxy = service.container()
    spoil = (
        "function () { globalThis.left = 1; Array.prototype.push = null; JSON.parse = null; Object.prototype.bad = 1; }"
    )
    assert run(service, proxy, spoil).status == 200
    look = "function () { __.response.setBody([typeof left, [].push(1), JSON.parse('2'), ({}).bad === undefined]); }"
    assert run(service, proxy, look).json == ["undefined", 1, 2, True]
