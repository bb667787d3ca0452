"""User-defined functions in queries, through the vendor's clients: in every clause, and what their errors become."""

from __future__ import annotations

from typing import Any

import pytest
from azure.cosmos import ContainerProxy
from azure.cosmos.exceptions import CosmosHttpResponseError

from frontends.cosmos.scripts.verbs import hurry, message
from frontends.cosmos.service import Service, everywhere, ids, in_memory, path_of, rows

FUNCTIONS = {
    "double": "function (n) { return n * 2; }",
    "fails": "function (n) { if (n > 1) throw new Error('too much'); return n; }",
    "nothing": "function () { }",
    "whatever": "function (a) { return {got: a, list: [a]}; }",
    "REGEX_MATCH": "function (input, pattern) { return input.match(pattern) !== null; };",
    "spin": "function () { while (true) { } }",
    "now": "function () { return new Date().toISOString(); }",
    "outside": "function () { return typeof getContext + typeof console; }",
}

QUERIES = [
    ("SELECT VALUE udf.double(c.n) FROM c ORDER BY c.n", [2, 4, 6]),
    ("SELECT c.id, udf.double(c.n) AS d FROM c WHERE udf.double(c.n) = 4", [{"id": "b", "d": 4}]),
    ("SELECT VALUE SUM(udf.double(c.n)) FROM c", [12]),
    ("SELECT VALUE udf.double(udf.double(c.n)) FROM c WHERE c.id = 'a'", [4]),
    ("SELECT VALUE udf.whatever(c.id) FROM c WHERE c.n = 1", [{"got": "a", "list": ["a"]}]),
    ("SELECT VALUE c.id FROM c WHERE udf.REGEX_MATCH(c.id, '[ab]')", ["a", "b"]),
    ("SELECT udf.nothing(c.n) AS u, c.id FROM c WHERE c.n = 1", [{"id": "a"}]),
    # A function is not called for what is not there.
    ("SELECT VALUE udf.whatever(c.none) FROM c", []),
    ("SELECT VALUE udf.nothing(c.n) ?? 'none' FROM c WHERE c.n = 1", ["none"]),
    ("SELECT VALUE udf.now() FROM c WHERE c.n = 1", ["2030-01-01T00:00:00.000Z"]),
    ("SELECT VALUE udf.outside() FROM c WHERE c.n = 1", ["undefinedundefined"]),
    ("SELECT DISTINCT VALUE udf.whatever(1).got FROM c", [1]),
    ("SELECT VALUE ARRAY(SELECT VALUE udf.double(t) FROM t IN c.tags) FROM c WHERE c.n = 1", [[20]]),
]


@pytest.fixture
def proxy(service: Service) -> ContainerProxy:
    made = service.container()
    for id, body in FUNCTIONS.items():
        made.scripts.create_user_defined_function({"id": id, "body": body})
    service.fill(made, [{"id": id, "pk": "k", "n": n, "tags": [n * 10]} for n, id in enumerate("abc", 1)])
    return made


def test_functions_work_in_every_clause(service: Service, proxy: ContainerProxy, flavour: str) -> None:
    container: Any = getattr(service, flavour)(proxy)
    for text, expected in QUERIES:
        where: dict[str, Any] = {"partition_key": "k"}
        assert rows(container.call("query_items", text, **where)) == expected, text


@everywhere
def test_over_all_partitions_and_pages(service: Service, proxy: ContainerProxy) -> None:
    proxy.create_item({"id": "d", "pk": "other", "n": 4})
    options: dict[str, Any] = {"enable_cross_partition_query": True, "max_item_count": 1}
    text = "SELECT VALUE udf.double(c.n) FROM c ORDER BY c.n DESC"
    assert rows(proxy.query_items(text, **options)) == [8, 6, 4, 2]
    assert rows(proxy.query_items("SELECT VALUE SUM(udf.double(c.n)) FROM c", **options)) == [20]


REFUSED = [
    ("SELECT VALUE udf.nobody(1) FROM c", "'udf.nobody' does not exist"),
    ("SELECT VALUE udf.DOUBLE(1) FROM c", "'udf.DOUBLE' does not exist"),
    ("SELECT VALUE c.id FROM c ORDER BY udf.double(c.n)", "2206.*could not be mapped to a document path"),
    ("SELECT VALUE udf.fails(c.n) FROM c", "Exception = Error: too much"),
    ("SELECT " + ", ".join(f"udf.double({n}) AS n{n}" for n in range(11)) + " FROM c", "more than 10 times"),
]


@in_memory
@pytest.mark.parametrize(("text", "said"), REFUSED)
def test_refused_calls(service: Service, proxy: ContainerProxy, text: str, said: str) -> None:
    with pytest.raises(CosmosHttpResponseError, match=said) as error:
        list(proxy.query_items(text, partition_key="k"))
    assert error.value.status_code == 400


@in_memory
def test_a_function_that_never_ends(service: Service, proxy: ContainerProxy) -> None:
    hurry(service, seconds=0.2)
    try:
        query = {"content-type": "application/query+json"}
        answer = service.raw("POST", path_of(proxy, "docs"), {"query": "SELECT VALUE udf.spin() FROM c"}, query, pk="k")
    finally:
        hurry(service)
    assert answer.status == 408 and "maximum alloted time" in message(answer)
    assert ids(proxy.read_all_items()) == ["a", "b", "c"]


@in_memory
def test_a_new_text_counts_from_the_next_query_on(service: Service, proxy: ContainerProxy) -> None:
    text = "SELECT VALUE udf.double(c.n) FROM c WHERE c.n = 1"
    assert rows(proxy.query_items(text, partition_key="k")) == [2]
    proxy.scripts.replace_user_defined_function("double", {"id": "double", "body": "(n) => n * 20"})
    assert rows(proxy.query_items(text, partition_key="k")) == [20]


@in_memory
def test_functions_in_the_queries_of_a_script(service: Service, proxy: ContainerProxy) -> None:
    body = """function () { __.queryDocuments(__.getSelfLink(), 'SELECT VALUE udf.double(c.n) FROM c', function (e, found) {
        if (e) throw e; getContext().getResponse().setBody(found); }); }"""
    proxy.scripts.create_stored_procedure({"id": "p", "body": body})
    found: Any = proxy.scripts.execute_stored_procedure("p", partition_key="k")
    assert found == [2, 4, 6]
