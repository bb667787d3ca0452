"""Container policies: defaults, what is shown, what is refused, what may change."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mayflydb.frontends.cosmos import policies
from mayflydb.frontends.cosmos.policies import parse_container, parse_database, unique_keys, unique_values
from mayflydb.model.errors import BadRequest, Unsupported

PK = {"paths": ["/pk"], "kind": "Hash", "version": 2}
BASE: dict[str, Any] = {"id": "c", "partitionKey": PK}
DEFAULT_INDEXING = {
    "indexingMode": "consistent",
    "automatic": True,
    "includedPaths": [{"path": "/*"}],
    "excludedPaths": [{"path": '/"_etag"/?'}],
}


def body(**changes: Any) -> dict[str, Any]:
    return {**BASE, **changes}


def indexing(**policy: Any) -> dict[str, Any]:
    return body(indexingPolicy=policy)


def test_defaults() -> None:
    assert parse_container(BASE).to_json() == {
        "id": "c",
        "partitionKey": PK,
        "indexingPolicy": DEFAULT_INDEXING,
        "uniqueKeyPolicy": {"uniqueKeys": []},
        "conflictResolutionPolicy": {
            "mode": "LastWriterWins", "conflictResolutionPath": "/_ts", "conflictResolutionProcedure": ""},
        "geospatialConfig": {"type": "Geography"},
    }  # fmt: skip


FULL = body(
    partitionKey={"paths": ["/a", "/b"], "kind": "MultiHash", "version": 2},
    defaultTtl=60,
    indexingPolicy={
        "indexingMode": "Lazy",
        "automatic": False,
        "includedPaths": [{"path": "/a/?", "indexes": [{"kind": "Range"}]}, {"path": '/"x y"/[]/b/*'}],
        "excludedPaths": [{"path": "/*"}],
        "compositeIndexes": [[{"path": "/a", "order": "Descending"}, {"path": "/b"}]],
        "spatialIndexes": [{"path": "/p/?", "types": ["Point"]}],
    },
    uniqueKeyPolicy={"uniqueKeys": [{"paths": ["/e", "/f/g"]}, {"paths": ["/h"]}]},
    conflictResolutionPolicy={"mode": "lastWriterWins", "conflictResolutionPath": "/n"},
    geospatialConfig={"type": "Geometry"},
    changeFeedPolicy={"retentionDuration": 10},
    analyticalStorageTtl=0,
    computedProperties=[{"name": "low", "query": "SELECT VALUE LOWER(c.s) FROM c"}],
)


def test_everything_reads_back() -> None:
    definition = parse_container(FULL)
    shown = json.loads(json.dumps(definition.to_json()))
    assert parse_container(shown) == definition
    assert parse_container(shown, definition) == definition
    assert shown["indexingPolicy"] == {
        "indexingMode": "lazy",
        "automatic": False,
        "includedPaths": [{"path": "/a/?"}, {"path": '/"x y"/[]/b/*'}],
        "excludedPaths": [{"path": "/*"}, {"path": '/"_etag"/?'}],
        "compositeIndexes": [[{"path": "/a", "order": "descending"}, {"path": "/b", "order": "ascending"}]],
        "spatialIndexes": [{"path": "/p/?", "types": ["Point"]}],
    }
    assert (shown["defaultTtl"], shown["changeFeedPolicy"], shown["analyticalStorageTtl"]) == (
        60,
        {"retentionDuration": 10},
        0,
    )


@pytest.mark.parametrize(
    ("policy", "included", "excluded"),
    [
        ({}, ["/*"], ['/"_etag"/?']),
        ({"excludedPaths": [{"path": "/a/*"}]}, ["/*"], ["/a/*", '/"_etag"/?']),
        ({"excludedPaths": [{"path": "/*"}]}, [], ["/*", '/"_etag"/?']),
        ({"indexingMode": "NONE", "automatic": False}, [], []),
        ({"includedPaths": [{"path": "/*"}], "excludedPaths": []}, ["/*"], ['/"_etag"/?']),
    ],
)
def test_paths(policy: dict[str, Any], included: list[str], excluded: list[str]) -> None:
    shown = parse_container(indexing(**policy)).indexing
    assert [entry["path"] for entry in shown["includedPaths"]] == included
    assert [entry["path"] for entry in shown["excludedPaths"]] == excluded


PATH = {"path": "/a"}


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (None, "container"), ([], "container"), ({}, "id"), ({"id": "c"}, "partitionKey"), (body(id=""), "id"),
        (body(id="a" * 256), "id"), (body(id="a/b"), "id"), (body(id="a?"), "id"), (body(id=5), "id"),
        (body(other=1), "other"), (body(partitionKey=[]), "partitionKey"), (body(ttlPropertyPath="/a"), "ttlPropertyPath"),
        (body(defaultTtl=0), "defaultTtl"), (body(defaultTtl=None), "defaultTtl"), (body(indexingPolicy=[]), "indexingPolicy"),
        (indexing(indexingMode="x"), "indexingMode"), (indexing(indexingMode=5), "indexingMode"),
        (indexing(automatic="yes"), "automatic"), (indexing(includedPaths={}), "includedPaths"), (indexing(x=1), "x"),
        (indexing(includedPaths=[{"path": "/a"}]), "includedPaths"), (indexing(includedPaths=[{"path": "a/*"}]), "includedPaths"),
        (indexing(includedPaths=[5]), "includedPaths"), (indexing(includedPaths=[{"path": "/a/?", "x": 1}]), "x"),
        (indexing(includedPaths=[{"path": "/a/?"}]), "root"), (indexing(includedPaths=[]), "root"),
        (indexing(includedPaths=[{"path": "/*"}], excludedPaths=[{"path": "/*"}]), "root"),
        (indexing(includedPaths=[{"path": "/*"}, {"path": "/*"}]), "twice"), (indexing(compositeIndexes=[[PATH]]), "2 to 8"),
        (indexing(compositeIndexes=[[PATH] * 9]), "2 to 8"), (indexing(compositeIndexes=[5]), "compositeIndexes"),
        (indexing(compositeIndexes=[[PATH, {"path": "/b", "order": "up"}]]), "order"),
        (indexing(compositeIndexes=[[PATH, {"path": "b"}]]), "compositeIndexes"),
        (indexing(spatialIndexes=[{"path": "/a/?", "types": ["Circle"]}]), "types"),
        (indexing(spatialIndexes=[{"path": "/a/?", "types": [[]]}]), "types"),
        (indexing(spatialIndexes=[{"path": "/a/?", "types": ["Point"], "boundingBox": {"xmin": 0}}]), "boundingBox"),
        (body(uniqueKeyPolicy=5), "uniqueKeyPolicy"), (body(uniqueKeyPolicy={"uniqueKeys": [{}]}), "paths"),
        (body(uniqueKeyPolicy={"uniqueKeys": [{"paths": ["a"]}]}), "uniqueKeyPolicy"),
        (body(uniqueKeyPolicy={"uniqueKeys": [{"paths": ["/a", "/a"]}]}), "twice"),
        (body(uniqueKeyPolicy={"uniqueKeys": [{"paths": ["/a"]}, {"paths": ["/a"]}]}), "twice"),
        (body(uniqueKeyPolicy={"uniqueKeys": [{"paths": ["/_ts"]}]}), "_ts"),
        (body(uniqueKeyPolicy={"uniqueKeys": [{"paths": [f"/{n}" for n in range(17)]}]}), "16"),
        (body(uniqueKeyPolicy={"uniqueKeys": [{"paths": [f"/{n}"]} for n in range(11)]}), "10"),
        (body(conflictResolutionPolicy=[]), "conflictResolutionPolicy"), (body(conflictResolutionPolicy={"mode": "x"}), "mode"),
        (body(conflictResolutionPolicy={"conflictResolutionPath": "n"}), "conflictResolutionPath"),
        (body(conflictResolutionPolicy={"mode": "Custom", "conflictResolutionPath": "/n"}), "Custom"),
        (body(geospatialConfig={"type": "Flat"}), "geospatialConfig"), (body(geospatialConfig=5), "geospatialConfig"),
        (body(changeFeedPolicy={"retentionDuration": -1}), "changeFeedPolicy"), (body(changeFeedPolicy=5), "changeFeedPolicy"),
        (body(changeFeedPolicy={"retentionDuration": 1.5}), "changeFeedPolicy"), (body(changeFeedPolicy={"x": 5}),
         "changeFeedPolicy"),
        (body(computedProperties={}), "computedProperties"),
    ],
)  # fmt: skip
def test_refused(sent: object, says: str) -> None:
    with pytest.raises(BadRequest, match=says):
        parse_container(sent)


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (body(ttlPropertyPath="/a", defaultTtl=5), "ttlPropertyPath"), (body(analyticalStorageTtl=-1), "analyticalStorageTtl"),
        (body(analyticalStorageTtl="0"), "analyticalStorageTtl"), (body(clientEncryptionPolicy={}), "clientEncryption"),
        (body(conflictResolutionPolicy={"mode": "Custom", "conflictResolutionProcedure": "x"}), "Procedure"),
    ],
)  # fmt: skip
def test_unsupported(sent: object, says: str) -> None:
    with pytest.raises(Unsupported, match=says):
        parse_container(sent)


@pytest.mark.parametrize(
    "computed",
    [[5], [{}], [{"name": "id", "query": "q"}], [{"name": "_ts", "query": "q"}], [{"name": "a b", "query": "q"}],
     [{"name": "a", "query": ""}], [{"name": "a", "query": "q"}] * 2, [{"name": f"a{n}", "query": "q"} for n in range(21)]],
)  # fmt: skip
def test_bad_computed(computed: list[Any]) -> None:
    with pytest.raises(BadRequest):
        parse_container(body(computedProperties=computed))


@pytest.mark.parametrize(
    ("query", "says"),
    [
        ("SELECT", "Syntax error"), ("SELECT c.a FROM c", "SELECT VALUE"), ("SELECT * FROM c", "SELECT VALUE"),
        ("SELECT VALUE 1", "SELECT VALUE"), ("SELECT VALUE c.a FROM c WHERE c.b", "SELECT VALUE"),
        ("SELECT DISTINCT VALUE c.a FROM c", "SELECT VALUE"), ("SELECT TOP 1 VALUE c.a FROM c", "SELECT VALUE"),
        ("SELECT VALUE c.a FROM c ORDER BY c.a", "SELECT VALUE"), ("SELECT VALUE c.a FROM c GROUP BY c.a", "SELECT VALUE"),
        ("SELECT VALUE c.a FROM c OFFSET 1 LIMIT 1", "SELECT VALUE"), ("SELECT VALUE t FROM t IN c.a", "SELECT VALUE"),
        ("SELECT VALUE t FROM c JOIN t IN c.a", "SELECT VALUE"), ("SELECT VALUE c.a FROM c.b", "SELECT VALUE"),
        ("SELECT VALUE c.a = @x FROM c", "a parameter"), ("SELECT VALUE COUNT(c.a) FROM c", "an aggregate"),
        ("SELECT VALUE EXISTS(SELECT 1 FROM t IN c.a) FROM c", "a subquery"),
        ("SELECT VALUE 1 + (SELECT VALUE 1) FROM c", "a subquery"), ("SELECT VALUE udf.f(c.a) FROM c", "the function f"),
        ("SELECT VALUE GetCurrentTimestamp() FROM c", "GetCurrentTimestamp"), ("SELECT VALUE RAND() FROM c", "RAND"),
    ],
)  # fmt: skip
def test_queries_that_compute_no_property(query: str, says: str) -> None:
    with pytest.raises(BadRequest, match=says) as caught:
        parse_container(body(computedProperties=[{"name": "low", "query": query}]))
    assert "'low'" in str(caught.value)


def test_the_partition_key_is_not_computed() -> None:
    with pytest.raises(BadRequest, match="partition key"):
        parse_container(body(computedProperties=[{"name": "pk", "query": "SELECT VALUE c.a FROM c"}]))


@pytest.mark.parametrize("ignored", [{"_rid": "x", "_ts": 5, "_docs": "docs/"}, {"vectorEmbeddingPolicy": None},
{"indexingPolicy": None},
                                     {"analyticalStorageTtl": None}, {"computedProperties": []}])  # fmt: skip
def test_without_effect(ignored: dict[str, Any]) -> None:
    assert parse_container(body(**ignored)).indexing == DEFAULT_INDEXING


NONE = "Indexing mode value cannot be 'none' when 'defaultTtl' is specified in the collection"


@pytest.mark.parametrize("replace", [False, True])
@pytest.mark.parametrize(
    ("mode", "ttl", "on"), [("none", 60, None), ("none", -1, None), ("lazy", 60, 60), ("consistent", -1, -1)]
)
def test_mode_and_ttl(mode: str, ttl: int, on: int | None, replace: bool) -> None:
    previous = parse_container(body(defaultTtl=5)) if replace else None
    sent = body(defaultTtl=ttl, indexingPolicy={"indexingMode": mode})
    if on is not None:
        assert parse_container(sent, previous).default_ttl == on
        return
    with pytest.raises(BadRequest) as caught:
        parse_container(sent, previous)
    assert caught.value.message == NONE


def test_mode_none_then_ttl() -> None:
    previous = parse_container(indexing(indexingMode="none"))
    with pytest.raises(BadRequest, match="Indexing mode value"):
        parse_container(indexing(indexingMode="none") | {"defaultTtl": 5}, previous)


def test_excluded_root_with_ttl() -> None:
    assert parse_container(indexing(excludedPaths=[{"path": "/*"}]) | {"defaultTtl": 60}).default_ttl == 60


@pytest.mark.parametrize(
    ("sent", "ttl"), [({}, None), ({"defaultTtl": None}, None), ({"defaultTtl": -1}, -1), ({"defaultTtl": 5.0}, 5)]
)
def test_replace_ttl(sent: dict[str, Any], ttl: int | None) -> None:
    assert parse_container(body(**sent), parse_container(body(defaultTtl=60))).default_ttl == ttl


UNIQUE = {"uniqueKeys": [{"paths": ["/e"]}]}
CONFLICT = {"mode": "LastWriterWins", "conflictResolutionPath": "/n"}


def test_replace_keeps_what_is_absent() -> None:
    previous = parse_container(body(uniqueKeyPolicy=UNIQUE, conflictResolutionPolicy=CONFLICT, defaultTtl=5))
    after = parse_container({"id": "c"}, previous)
    assert after.partition_key == previous.partition_key and after.unique_keys == previous.unique_keys
    assert after.conflicts == previous.conflicts and after.default_ttl is None


@pytest.mark.parametrize(
    "sent",
    [body(id="d"), body(partitionKey={"paths": ["/other"]}), body(partitionKey={"paths": ["/pk"]}),
     body(uniqueKeyPolicy={"uniqueKeys": []}), body(uniqueKeyPolicy={"uniqueKeys": [{"paths": ["/x"]}]}),
     body(conflictResolutionPolicy={"mode": "LastWriterWins"}), body(conflictResolutionPolicy={"mode": "Custom"})],
)  # fmt: skip
def test_unchangeable(sent: dict[str, Any]) -> None:
    previous = parse_container(body(uniqueKeyPolicy=UNIQUE, conflictResolutionPolicy=CONFLICT))
    with pytest.raises(BadRequest, match="cannot be changed"):
        parse_container(sent, previous)


def test_version_stays_unsent() -> None:
    previous = parse_container(body(partitionKey={"paths": ["/pk"]}))
    after = parse_container(body(partitionKey={"paths": ["/pk"], "kind": "Hash", "version": 1}), previous)
    assert after.to_json()["partitionKey"] == {"paths": ["/pk"], "kind": "Hash"}


PATHS = unique_keys({"uniqueKeyPolicy": {"uniqueKeys": [{"paths": ["/a", "/b/c"]}]}})[0]
SAME = [
    ({"a": 1, "b": {"c": "x"}}, {"a": 1.0, "b": {"c": "x", "d": 5}}), ({}, {"a": None, "b": {"c": None}}), ({}, {"b": 5}),
    ({"a": {"x": 1, "y": [2]}}, {"a": {"y": [2.0], "x": 1.0}}), ({"a": -0.0}, {"a": 0}),
]  # fmt: skip
DIFFERENT: list[dict[str, Any]] = [
    {}, {"a": 1}, {"a": True}, {"a": "1"}, {"a": ""}, {"a": [1]}, {"a": {"x": 1}}, {"a": "x"}, {"b": {"c": "x"}},
    {"a": []}, {"a": {}},
    {"a": "x", "b": {"c": "y"}}, {"a": "xy"}, {"a": "[]"}, {"a": {"x": True}}, {"a": {"x": "1"}}, {"a": False}, {"a": 0},
]  # fmt: skip


@pytest.mark.parametrize(("one", "other"), SAME)
def test_same_unique_values(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert unique_values(one, PATHS) == unique_values(other, PATHS)


def test_different_unique_values() -> None:
    assert len({unique_values(doc, PATHS) for doc in DIFFERENT}) == len(DIFFERENT)


def test_unique_limits() -> None:
    sent = {"uniqueKeys": [{"paths": [f"/{k}/{n}" for n in range(16)]} for k in range(10)]}
    assert len(parse_container(body(uniqueKeyPolicy=sent)).unique_keys) == policies.MAX_UNIQUE_KEYS


def test_database() -> None:
    assert parse_database({"id": "d", "_rid": "x"}) == "d"
    for bad in (None, {}, {"id": ""}, {"id": "a#"}, {"id": "d", "x": 1}):
        with pytest.raises(BadRequest):
            parse_database(bad)


@pytest.mark.parametrize("name", ["a", "a" * 255, "é ü", "%", "dbs"])
def test_names(name: str) -> None:
    assert policies.check_name(name, "container") == name
