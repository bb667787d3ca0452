"""Queries that compute for minutes end at their deadline, and other requests do not wait for them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection
from threading import Thread

import pytest

from frontends.cosmos.service import API_VERSION, DATE, KEY, START, Answer, Raw, signature
from mayflydb.embedded import serve
from mayflydb.sockets.in_flight import LARGE_AT_ONCE
from served import Http

ITEMS = "/dbs/d/colls/c/docs"
QUERY = {"content-type": "application/query+json", "x-ms-documentdb-isquery": "True"}
READS = 20
"""Point reads that must be answered while one query computes."""


@contextmanager
def serve_large_item(query_time_limit: str) -> Iterator[str]:
    """Serve a container with one item whose joins compute for minutes. Yield the server's address."""
    with serve(memory=True, port=0, clock="virtual", clock_start=START, query_time_limit=query_time_limit) as server:
        raw = Raw(server.cosmos.url)
        raw("POST", "/dbs", {"id": "d"})
        raw("POST", "/dbs/d/colls", {"id": "c", "partitionKey": {"paths": ["/pk"], "kind": "Hash"}})
        assert raw("POST", ITEMS, {"id": "x", "pk": "p", "a": [*range(60)], "s": "x" * 200_000}, pk="p").status == 201
        yield server.cosmos.url
        raw.close()


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serve_large_item("1s") as address:
        yield address


@pytest.fixture
def patient_url() -> Iterator[str]:
    # The deadline must not end the query before its client leaves, however busy the machine is.
    with serve_large_item("10m") as address:
        yield address


def ask(url: str, text: str) -> Answer:
    raw = Raw(url)
    try:
        return raw("POST", ITEMS, {"query": text, "parameters": []}, QUERY, pk="p")
    finally:
        raw.close()


JOINED = "FROM c JOIN a IN c.a JOIN b IN c.a JOIN d IN c.a JOIN e IN c.a"

# a query, the status of its answer, a word of it
HOSTILE = {
    "a join with itself": (f"SELECT VALUE COUNT(1) {JOINED}", 408, "more time"),
    "a join that gives no row": (f"SELECT VALUE a {JOINED} WHERE a < 0", 408, "more time"),
    "a subquery of subqueries": (
        "SELECT VALUE (SELECT VALUE COUNT(1) FROM a IN c.a JOIN b IN c.a JOIN d IN c.a JOIN e IN c.a) FROM c",
        408, "more time",
    ),
    "groups of pairs": (f"SELECT a, b, d, e, COUNT(1) AS n {JOINED} GROUP BY a, b, d, e", 408, "more time"),
    "an order of pairs": (f"SELECT VALUE a {JOINED} ORDER BY c.id", 408, "more time"),
    "a filter of an item": (
        "SELECT * FROM c WHERE (SELECT VALUE COUNT(1) FROM a IN c.a JOIN b IN c.a JOIN d IN c.a JOIN e IN c.a) > 1",
        408, "more time",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_reads_are_answered_while_a_query_computes(url: str, name: str) -> None:
    text, status, word = HOSTILE[name]
    answers: list[Answer] = []
    computing = Thread(target=lambda: answers.append(ask(url, text)))
    reader = Raw(url)
    computing.start()
    for _ in range(READS):
        assert reader("GET", f"{ITEMS}/x", pk="p").status == 200
    assert not answers
    computing.join()
    reader.close()
    assert (answers[0].status, word in answers[0].body.decode()) == (status, True)


def test_a_client_that_leaves_ends_its_query(patient_url: str) -> None:
    http = Http(int(patient_url.rstrip("/").rpartition(":")[2]))

    def measure(name: str) -> float:
        text = http("GET", "/metrics").body.decode()
        return next(float(line.split()[1]) for line in text.splitlines() if line.startswith(f"{name} "))

    abandoned = 'mayfly_queries_stopped_total{reason="abandoned"}'
    # An answered query may still be counted for a moment.
    while measure("mayfly_queries_computing") > 0:
        pass
    before = measure(abandoned)
    text = f"SELECT VALUE COUNT(1) {JOINED}"
    headers = {"authorization": signature(KEY, "POST", ITEMS), "x-ms-date": DATE, "x-ms-version": API_VERSION, **QUERY}
    connection = HTTPConnection("127.0.0.1", http.port)
    headers["x-ms-documentdb-partitionkey"] = '["p"]'
    connection.request("POST", ITEMS, json.dumps({"query": text}), headers)
    # The text is compiled before the query computes, in steps of some milliseconds.
    looks = 0
    while looks < 100:
        looks = looks + 1 if measure("mayfly_queries_computing") else 0
    connection.close()
    while measure("mayfly_queries_computing") > 0:
        pass
    assert measure(abandoned) == before + 1


@pytest.mark.parametrize(("limit", "status"), [("1MiB", 503), ("8MiB", 200)])
def test_a_page_needs_room_while_it_is_made(limit: str, status: int) -> None:
    with serve(memory=True, port=0, clock="virtual", clock_start=START, bytes_in_flight=limit) as server:
        raw = Raw(server.cosmos.url)
        raw("POST", "/dbs", {"id": "d"})
        raw("POST", "/dbs/d/colls", {"id": "c", "partitionKey": {"paths": ["/pk"], "kind": "Hash"}})
        for number in range(20):
            assert raw("POST", ITEMS, {"id": str(number), "pk": "p", "pad": "x" * 100_000}, pk="p").status == 201
        answer = raw("POST", ITEMS, {"query": "SELECT * FROM c"}, {**QUERY, "x-ms-max-item-count": "100"}, pk="p")
        assert answer.status == status
        # What the page held is given back.
        assert raw("POST", ITEMS, {"query": "SELECT VALUE COUNT(1) FROM c"}, QUERY, pk="p").status == 200
        used = [line for line in Http(raw.port)("GET", "/metrics").body.decode().splitlines() if "used" in line]
        assert 'mayfly_budget_used{budget="bytes_in_flight"} 0' in used
        raw.close()


CONTINUATION = "x-ms-continuation"
LARGE_QUERIES = (
    "SELECT * FROM c",
    "SELECT * FROM c ORDER BY c.id",
    "SELECT c.id, MAX(c.pad) AS pad FROM c GROUP BY c.id",
)


def test_large_pages_that_wait_for_their_turn_have_each_row_once() -> None:
    with serve(memory=True, port=0, clock="virtual", clock_start=START) as server:
        raw = Raw(server.cosmos.url)
        raw("POST", "/dbs", {"id": "d"})
        raw("POST", "/dbs/d/colls", {"id": "c", "partitionKey": {"paths": ["/pk"], "kind": "Hash"}})
        # The first reads are small and the later ones large, so that some pages wait in their middle.
        for number in range(60):
            size = 10 if number < 30 else 100_000
            assert raw("POST", ITEMS, {"id": f"{number:02}", "pk": "p", "pad": "x" * size}, pk="p").status == 201
        raw.close()

        def ask(text: str) -> list[str]:
            client = Raw(server.cosmos.url)
            answer = client("POST", ITEMS, {"query": text}, {**QUERY, "x-ms-max-item-count": "20"}, pk="p")
            ids = [document["id"] for document in answer.json["Documents"]]
            while CONTINUATION in answer.headers:
                more = {**QUERY, "x-ms-max-item-count": "20", CONTINUATION: answer.headers[CONTINUATION]}
                answer = client("POST", ITEMS, {"query": text}, more, pk="p")
                ids += [document["id"] for document in answer.json["Documents"]]
            client.close()
            return ids

        # More than there are turns; a turn that is not given back would be missing in the second round.
        for _ in range(2):
            with ThreadPoolExecutor(3 * LARGE_AT_ONCE) as pool:
                for ids in pool.map(ask, LARGE_QUERIES * LARGE_AT_ONCE):
                    assert sorted(ids) == [f"{number:02}" for number in range(60)]


# They hold large values many times, which costs nothing until they are encoded or compiled. As above.
GROWING = {
    "a value many times in a row": (f"SELECT VALUE [{', '.join(['c.s'] * 900)}] FROM c", 400, "larger than 32 MB"),
    "a value many times in a text": (
        f"SELECT VALUE LENGTH(TOSTRING([{', '.join(['c.s'] * 900)}])) FROM c", 400, "larger than 32 MB",
    ),
    "a value many times in many rows": (
        f"SELECT VALUE ARRAY_LENGTH(ARRAY(SELECT VALUE [c.s, TOSTRING([{', '.join(['c.s'] * 100)}])] FROM a IN c.a)) FROM c",
        400, "memory",
    ),
    "a pattern that is written out": (
        "SELECT VALUE REGEXMATCH(c.s, '((((ab){50}){50}){50}){50}') FROM c", 400, "too large",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GROWING)
def test_values_that_grow_are_refused(url: str, name: str) -> None:
    text, status, word = GROWING[name]
    answer = ask(url, text)
    assert answer.status == status
    assert word in answer.body.decode()
