"""Stored procedures as the service runs them: what they find around them, what they answer, what their errors become."""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote

import pytest
from azure.cosmos.exceptions import CosmosHttpResponseError

from frontends.cosmos.scripts.verbs import LOGGING, message, procedure, run
from frontends.cosmos.service import Service, everywhere, ids, in_memory, path_of, status_of

BODY = "getContext().getResponse().setBody"

ANSWERS = [
    ("function () { }", [], ""),
    (f"function () {{ {BODY}(1); }}", [], 1),
    (f"function () {{ {BODY}('a'); }}", [], "a"),
    (f"function () {{ {BODY}(null); }}", [], None),
    (f"function () {{ {BODY}(undefined); }}", [], ""),
    (f"function (a, b) {{ {BODY}({{ sum: a.n + b[0] }}); }}", [{"n": 1}, [2]], {"sum": 3}),
    (f"function (a) {{ {BODY}(a === undefined); }}", [], True),
    (f"function (a) {{ {BODY}(a); }}", ["ä\u2028😀\\"], "ä\u2028😀\\"),
    (f"(a) => {{ {BODY}(a); }};\n// the end", ["x"], "x"),
    (f"// first\nfunction main() {{ {BODY}(other()); }}\nfunction other() {{ return 7; }}", [], 7),
    ("function () { var r = getContext().getResponse(); for (var i = 0; i < 4; i++) r.appendBody(i); }", [], "0123"),
    ("function () { for (var i = 0; i < 3; i++) __.response.appendValue('Body', i); }", [], "012"),
    (f"function () {{ {BODY}(getContext().getRequest().getBody()); }}", [1, "x"], [1, "x"]),
    (f"function () {{ {BODY}(__.request.getValue('x-ms-version')); }}", [], "2020-07-15"),
    (f"function () {{ {BODY}(String(__.request.getValue('authorization'))); }}", [], "undefined"),
    # Time is that of the request, and stands still.
    (f"function () {{ {BODY}(new Date().toISOString()); }}", [], "2030-01-01T00:00:00.000Z"),
    (f"function () {{ {BODY}(Date.now() - +new Date()); }}", [], 0),
    (f"function () {{ {BODY}(new Date(0).toISOString()); }}", [], "1970-01-01T00:00:00.000Z"),
    (f"function () {{ {BODY}(new Date() instanceof Date && new Error(1, 'x') instanceof Error); }}", [], True),
    # What runs later still counts.
    (f"function () {{ (async () => {{ await null; {BODY}('later'); }})(); }}", [], "later"),
    # An error in a promise that nobody looks at is lost, as in the service.
    ("function () { (async () => { throw new Error('lost'); })(); }", [], ""),
    # There is nothing to reach for.
    (f"function () {{ {BODY}([typeof require, typeof process, typeof fetch, typeof std, typeof setTimeout].join()); }}",
     [], "undefined,undefined,undefined,undefined,undefined"),
    (f"function () {{ {BODY}([typeof performance, typeof Atomics, typeof SharedArrayBuffer].join()); }}", [],
     "undefined,undefined,undefined"),
]  # fmt: skip


@in_memory
@pytest.mark.parametrize(("body", "args", "expected"), ANSWERS)
def test_answers_of_procedures(service: Service, body: str, args: list[Any], expected: Any) -> None:
    answer = run(service, service.container(), body, *args)
    assert (answer.status, answer.json) == (200, expected)


ERRORS = [
    ("function () { throw new Error('no'); }", 400, 0, "Encountered exception while executing function. Exception = Error: no"),
    ("function () { throw new Error(1234, 'no'); }", 400, 1234, "Exception = Error: no"),
    ("function () { throw 'words'; }", 400, 0, "Exception = words"),
    ("Any text is kept, and fails when it runs.", 400, 0, "Encountered exception while compiling Javascript. Exception = Syntax"),
    ("1 + 1", 400, 0, "the text of a script must be a function"),
    ("function () { nothing(); }", 400, 0, "ReferenceError: nothing is not defined"),
    ("function () { getContext().abort(new Error('stop')); }", 400, 0, "Error: stop"),
    ("function () { try { getContext().abort(new Error('stop')); } catch (e) { } }", 400, 0, "Error: stop"),
    ("function () { (async () => { getContext().abort(new Error('stop')); })().catch(() => 0); }", 400, 0, "Error: stop"),
    ("function () { __.response.setValue('x-new', 1); }", 400, 400, "x-new"),
    ("function () { __.request.setValue; __.response.setBody('x'.repeat(3e6)); }", 400, 413, "too large"),
    ("function () { __.createDocument(__.getSelfLink(), 5); }", 400, 400, "must be an object"),
    ("function () { __.createDocument('dbs/x/colls/y', {}); }", 400, 400, "not that of the collection"),
    ("function () { __.readDocument('dbs/x/colls/y/docs/z'); }", 400, 400, "not that of a document"),
    ("function () { __.queryDocuments(__.getSelfLink()); }", 400, 400, "needs at least 2 argument(s)"),
    ("function () { __.queryDocuments(__.getSelfLink(), 'SELEKT'); }", 400, 400, "Syntax error"),
    ("function () { __.queryDocuments(__.getSelfLink(), 'SELECT * FROM c', 5); }", 400, 400, "must be an object"),
    ("function () { __.readDocument(__.getAltLink() + '/docs/none'); }", 400, 404, "Resource Not Found"),
    ("function () { __.createDocument(__.getSelfLink(), {id: '1', pk: 'other'}); }", 400, 400,
     "Requests originating from scripts cannot reference partition keys other than the one"),
]  # fmt: skip


@in_memory
@pytest.mark.parametrize(("body", "status", "substatus", "text"), ERRORS)
def test_errors_of_procedures(service: Service, body: str, status: int, substatus: int, text: str) -> None:
    answer = run(service, service.container(), body)
    assert (answer.status, answer.substatus) == (status, substatus)
    assert text in message(answer)
    assert "x-ms-session-token" in answer.headers


@everywhere
def test_through_the_vendors_clients(service: Service) -> None:
    proxy = service.container()
    body = f"function (item) {{ __.createDocument(__.getSelfLink(), item, (e, made) => {{ if (e) throw e; {BODY}(made); }}); }}"
    procedure(proxy, body)
    made = proxy.scripts.execute_stored_procedure("p", partition_key="k", params=[{"id": "1", "pk": "k", "ttl": 5}])
    assert made["id"] == "1" and made == proxy.read_item("1", "k")
    with pytest.raises(CosmosHttpResponseError) as error:
        proxy.scripts.execute_stored_procedure("p", partition_key="k", params=[{"id": "1", "pk": "k"}])
    assert (error.value.status_code, error.value.sub_status) == (400, 409)
    assert status_of(proxy.scripts.execute_stored_procedure, "nobody", partition_key="k") == 404
    assert ids(proxy.read_all_items()) == ["1"]


def test_logs(service: Service) -> None:
    proxy = service.container()
    body = "function (fail) { console.log('%s of %s; 100%%', 1, 'ä'); console.log(' end'); if (fail) throw 'x'; }"
    silent = run(service, proxy, body)
    assert "x-ms-documentdb-script-log-results" not in silent.headers
    for args, status in (([], 200), ([True], 400)):
        answer = run(service, proxy, body, *args, **LOGGING)
        assert answer.status == status
        assert unquote(answer.headers["x-ms-documentdb-script-log-results"]) == "1 of ä; 100% end"
    answer = run(service, proxy, "function () { while (true) console.log('more and more'); }", **LOGGING)
    assert (answer.status, answer.substatus) == (400, 413)


@in_memory
@pytest.mark.parametrize("size", [10, 511, 512, 600, 3000])
def test_logs_of_many_pieces(service: Service, size: int) -> None:
    """However the engine keeps a text that was put together from others."""
    body = "function (size) { console.log('a'.repeat(size)); console.log('b'.repeat(size)); if (size % 2) throw 'no'; }"
    answer = run(service, service.container(), body, size, **LOGGING)
    assert answer.status == (400 if size % 2 else 200)
    assert answer.headers["x-ms-documentdb-script-log-results"] == "a" * size + "b" * size


@in_memory
def test_execution_needs_a_key_and_an_array(service: Service) -> None:
    proxy = service.container()
    procedure(proxy, "function () { }")
    path = path_of(proxy, "sprocs", "p")
    assert service.raw("POST", path, []).status == 400
    assert service.raw("POST", path, {"no": "array"}, pk="k").status == 400
    assert service.raw("POST", path, b"", pk="k").status == 200
    assert service.raw("POST", path, [], {"authorization": "type=master"}, pk="k").status == 401
    assert service.raw("POST", path_of(proxy, "udfs", "p"), [], pk="k").status == 400
