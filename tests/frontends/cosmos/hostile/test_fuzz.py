"""Valid requests, broken at random: never a 500, never silence, and what was stored before is still there."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from frontends.cosmos.hostile.sentinel import Target, well_formed
from frontends.cosmos.service import signature

ROUNDS = 750
"""Requests of one test; there are four of them, two for each store."""

JSON_BITS: list[Any] = [
    None, True, False, 0, -1, 1, 1.5, 2**31, 2**53 + 1, 10**30, -(2**63), 1e308, "", "p", "id", "ttl", "\x00", "é",
    "😀", "a/b", "*", [], {},
    [[]], {"a": 1}, "x" * 3000, "SELECT * FROM c", '["p"]',
]  # fmt: skip
BYTES = [
    b"",
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b",",
    b":",
    b"\\u",
    b"\xff",
    b"\x00",
    b"1e999",
    b"NaN",
    b"null",
    b"\\",
    b"-",
    b"0" * 400,
    b" " * 100,
]
HEADER_VALUES = ["", "x", "-1", "0", "99999999999", "*", "True", "true", "[]", '["p"]', "[{}]", "0:-1#1", "0:-1#999",
'"x"', "FF", "é", "application/json",
                 "application/query+json", "Incremental Feed", "Tue, 01 Jan 2030 00:00:00 GMT"]  # fmt: skip
QUERY_BITS = ["SELECT", "VALUE", "*", "c", "FROM", "WHERE", "c.n", "=", ">", "'x'", "1", "ORDER BY", "GROUP BY",
"COUNT(1)", "SUM(c.n)", "TOP 1", "DISTINCT",
              "JOIN t IN c.tags", "(", ")", "[", "]", ",", "@p", "OFFSET 1 LIMIT 1", "AND", "NOT", "IN", "LIKE",
              "udf.f(", "-", "null", "\\", "\"", "..", "??", "?"]  # fmt: skip


def seeds(target: Target) -> list[tuple[str, str, Any, dict[str, str]]]:
    """Valid requests: method, path, body, headers."""
    items, key = target.items, {"x-ms-documentdb-partitionkey": '["p"]'}
    container = items.removesuffix("/docs")
    query = {"content-type": "application/query+json", "x-ms-documentdb-isquery": "True"}
    cross = query | {"x-ms-documentdb-query-enablecrosspartition": "True"}
    operation = {"operationType": "Upsert", "resourceBody": {"id": "f", "pk": "p"}}
    batch = {"x-ms-cosmos-is-batch-request": "True", "x-ms-cosmos-batch-atomic": "True"}
    bulk = {"x-ms-cosmos-is-batch-request": "True", "x-ms-cosmos-batch-atomic": "False"}
    text = {"query": "SELECT c.id, c.n FROM c WHERE c.n > @p ORDER BY c.n", "parameters": [{"name": "@p", "value": 0}]}
    plan = {
        "x-ms-cosmos-is-query-plan-request": "True",
        "x-ms-cosmos-supported-query-features": "OrderBy,Aggregate,Distinct",
    }
    patch = {"operations": [{"op": "set", "path": "/n", "value": 5}], "condition": "from c where c.n > 0"}
    script = {"id": "s", "body": "function (a) { __.filter((d) => d.n > a); console.log('%s', a); return a; }"}
    trigger = script | {"triggerType": "Pre", "triggerOperation": "All"}
    logs = {"x-ms-documentdb-script-enable-logging": "True"}
    definition = {"id": "c", "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}, "defaultTtl": 1000}
    return [
        ("GET", "/", None, {}), ("GET", "/dbs", None, {}), ("POST", "/dbs", {"id": "f"},
        {"x-ms-offer-throughput": "400"}),
        ("GET", container, None, {"x-ms-documentdb-populatequotainfo": "True"}), ("PUT", container, definition, {}),
        ("POST", container.removesuffix("/c"), definition | {"id": "f"}, {}), ("GET", f"{container}/pkranges", None,
        {"a-im": "Incremental Feed"}),
        ("GET", f"{items}/f", None, key), ("GET", items, None, {"x-ms-max-item-count": "2"}),
        ("GET", items, None, key | {"a-im": "Incremental Feed", "if-none-match": '"1"', "x-ms-max-item-count": "3"}),
        ("POST", items, {"id": "f", "pk": "p", "n": 1, "tags": ["a"], "ttl": 50},
        key | {"x-ms-documentdb-is-upsert": "True"}),
        ("POST", items, {"id": "g", "pk": "p", "n": 1}, key), ("PUT", f"{items}/f", {"id": "f", "pk": "p"},
        key | {"if-match": "*"}),
        ("PATCH", f"{items}/f", patch, key), ("DELETE", f"{items}/f", None, key), ("POST", items, [operation,
        operation], key | batch),
        ("POST", items, [operation | {"partitionKey": '["p"]'}], bulk), ("POST", items, text, key | query), ("POST",
        items, text, cross),
        ("POST", items, text, query | plan), ("POST", items, text, query | {"x-ms-documentdb-partitionkeyrangeid": "0",
        "x-ms-start-epk": "", "x-ms-end-epk": "FF"}),
        ("POST", "/offers", {"query": "SELECT * FROM root r WHERE r.resource = 'x'"}, query), ("GET", "/offers", None,
        {}),
        ("POST", f"{container}/sprocs", script, {}), ("PUT", f"{container}/sprocs/s", script, {}),
        ("POST", f"{container}/sprocs/s", [0, "x"], key | logs), ("POST", f"{container}/triggers", trigger, {}),
        ("POST", f"{container}/udfs", script, {}), ("GET", f"{container}/udfs/s", None, {}),
        ("POST", items, text | {"query": "SELECT VALUE udf.s(c.n) FROM c WHERE udf.s(c.n) > @p"}, key | query),
        ("POST", items, {"id": "t", "pk": "p"}, key | {"x-ms-documentdb-pre-trigger-include": "s"}),
    ]  # fmt: skip


def change_json(source: random.Random, value: Any) -> Any:
    """One place of a value, somewhere inside it, becomes something else."""
    if isinstance(value, dict) and value and source.random() < 0.8:
        name = source.choice(list(value))
        match source.randrange(4):
            case 0:
                return {each: inner for each, inner in value.items() if each != name}
            case 1:
                return value | {str(source.choice(JSON_BITS)): source.choice(JSON_BITS)}
            case _:
                return value | {name: change_json(source, value[name])}
    if isinstance(value, list) and value and source.random() < 0.8:
        place = source.randrange(len(value))
        return [*value[:place], change_json(source, value[place]), *value[place + source.randrange(2) :]]
    if isinstance(value, str) and "SELECT" in value and source.random() < 0.9:
        words = value.split(" ")
        for _ in range(source.randrange(1, 4)):
            words[source.randrange(len(words))] = source.choice(QUERY_BITS)
        return " ".join(words)
    return source.choice(JSON_BITS)


def change_bytes(source: random.Random, text: bytes) -> bytes:
    place = source.randrange(len(text) + 1)
    return text[:place] + source.choice(BYTES) + text[place + source.randrange(3) :]


def change_path(source: random.Random, path: str) -> str:
    segments = path.split("/")
    place = source.randrange(len(segments))
    segments[place] = source.choice(
        ["", "x", "%00", "%2F", "%ff", "docs", "colls", "dbs", "%", "é", "AAAA", "x" * 300, "..", "pkranges", "offers"]
    )
    return "/" + "/".join(segments).encode("ascii", "ignore").decode().lstrip("/")


def mutate(
    source: random.Random, method: str, path: str, body: Any, headers: dict[str, str]
) -> tuple[str, str, bytes | None, dict[str, str | bytes]]:
    given: dict[str, str | bytes] = dict(headers)
    payload = None if body is None else json.dumps(body).encode()
    for _ in range(source.choice((0, 1, 1, 1, 2))):
        match source.randrange(7):
            case 0 | 1 if body is not None:
                body = change_json(source, body)
                payload = json.dumps(body).encode()
            case 2 if payload is not None:
                payload = change_bytes(source, payload)
            case 3:
                path = change_path(source, path)
            case 4:
                method = source.choice(["GET", "POST", "PUT", "PATCH"])
            case _:
                name = source.choice(
                    [
                        *given,
                        "x-ms-max-item-count",
                        "x-ms-continuation",
                        "if-match",
                        "x-ms-session-token",
                        "a-im",
                        "prefer",
                        "content-type",
                    ]
                )
                given[name] = source.choice(HEADER_VALUES).encode("latin-1")
    return method, path, payload, given


@pytest.mark.parametrize("part", [0, 1])
def test_broken_at_random(target: Target, part: int, seed: int, record: Callable[[str], None]) -> None:
    source = random.Random(seed)
    valid = seeds(target)
    counts: dict[int, int] = {}
    for number in range(ROUNDS):
        method, path, payload, headers = mutate(source, *source.choice(valid))
        if method in ("PUT", "DELETE", "PATCH") and "sentinel" in path:
            continue
        request = {
            "authorization": signature(target.raw.key, method, path),
            "x-ms-date": "Tue, 01 Jan 2030 00:00:00 GMT",
        } | headers
        answer = target.raw.send(method, path, payload, request)
        try:
            well_formed(answer)
        except AssertionError:
            print("request", number, method, path, payload, headers)
            raise
        counts[answer.status] = counts.get(answer.status, 0) + 1
    record(f"seed {seed}: {dict(sorted(counts.items()))}")
    assert counts.get(200, 0) > ROUNDS // 50, "most of what is sent must not die at the door"
    assert len(counts) >= 4


@pytest.fixture
def record(record_property: Callable[[str, object], None]) -> Callable[[str], None]:
    return lambda text: record_property("figure", text)
