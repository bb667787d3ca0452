"""Whatever arrives, a parser answers with a value or with one of the project's own errors."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from mayflydb.engine.throughput import Throughput
from mayflydb.frontends.cosmos import auth, continuation, patch, paths, policies, resources, session, throughput, values
from mayflydb.frontends.cosmos.partition_key import PartitionKeyDefinition
from mayflydb.model.errors import MayflyError

LIMITS = values.ItemLimits()
KEY = PartitionKeyDefinition.from_json({"paths": ["/a"]})
KEYS = auth.Keys.from_base64(auth.WELL_KNOWN_KEY)
ALPHABET = b'[]{}",:\\u0123456789abdefopqsthvl/~-+.#=&% \x00\x1f\x7f\xff\xed\xa0\x80\xc3\xa9'
WORDS = [
    b'"op"', b'"path"', b'"value"', b'"from"', b'"set"', b'"/a/b"', b'"ttl"', b'"id"', b"null", b"true", b"1e400", b'"paths"',
    b"type=master", b"&ver=1.0", b"&sig=", b"/dbs/", b"/colls/", b"/docs/", b"%C3", b"%A9", b":-1#", b"NaN", b'"_ts":1', b"-0",
]  # fmt: skip


def item(data: bytes) -> None:
    parsed = values.parse_item(data, LIMITS)
    values.own_ttl(parsed.doc)
    KEY.logical_partition(KEY.extract(parsed.doc))
    assert values.parse_item(parsed.text, LIMITS) == parsed
    values.item_id(parsed.doc, LIMITS)


def text(parse: Callable[[str], Any]) -> Callable[[bytes], Any]:
    return lambda data: parse(data.decode("latin-1"))


PARSERS: dict[str, Callable[[bytes], Any]] = {
    "item": item,
    "patch": lambda data: patch.parse_patch(data, LIMITS),
    "path": paths.parse,
    "authorization": text(lambda t: auth.verify(KEYS, t, "GET", (("", ""),), t)),
    "date": text(lambda t: auth.check_request_date(t, 0.0)),
    "session": text(session.parse),
    "continuation": text(lambda t: continuation.unseal(b"s", b"b", t)),
    "rid": text(resources.parse_rid),
    "etag": text(resources.parse_etag),
    "manual": text(lambda t: throughput.parse_headers(t, None)),
    "autoscale": text(lambda t: throughput.parse_headers(None, t)),
}


@pytest.mark.parametrize("name", PARSERS)
def test_random_bytes_are_refused_or_parsed(name: str) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    source = random.Random(seed)
    for _ in range(1500):
        parts = [bytes(source.choices(ALPHABET, k=source.randrange(8))) for _ in range(source.randrange(5))]
        parts += source.choices(WORDS, k=source.randrange(6))
        source.shuffle(parts)
        with suppress(MayflyError):
            PARSERS[name](b"".join(parts))


LEAVES: list[Any] = [None, True, 0, -1, 5, 1.5, 2**40, "", "/a", "/*", "/a/?", "x", "none", "Hash", "set", "é", [], {}]
NAMES = sorted(
    {"id", "partitionKey", "paths", "kind", "version", "defaultTtl", "ttlPropertyPath", "indexingPolicy", "indexingMode", "path",
     "includedPaths", "excludedPaths", "compositeIndexes", "spatialIndexes", "types", "boundingBox",
     "uniqueKeyPolicy", "uniqueKeys",
     "conflictResolutionPolicy", "mode", "geospatialConfig", "type", "computedProperties", "name", "query", "changeFeedPolicy",
     "retentionDuration", "analyticalStorageTtl", "order", "op", "value", "from", "operations", "condition", "maxThroughput",
     "offerThroughput", "offerAutopilotSettings", "autoUpgradePolicy", "vectorIndexes", "automatic",
     "vectorEmbeddingPolicy", "vectorEmbeddings", "dataType", "dimensions", "distanceFunction", "fullTextPolicy", "fullTextPaths",
     "fullTextIndexes", "quantizerType", "quantizationByteSize", "indexingSearchListSize", "vectorIndexShardKey", "language"}
)  # fmt: skip


def shape(source: random.Random, depth: int) -> Any:
    kind = source.randrange(4) if depth else 3
    if kind == 0:
        return [shape(source, depth - 1) for _ in range(source.randrange(4))]
    if kind in (1, 2):
        return {source.choice(NAMES): shape(source, depth - 1) for _ in range(source.randrange(5))}
    return source.choice(LEAVES)


def mutate(source: random.Random, value: Any) -> Any:
    if source.random() < 0.15:
        return shape(source, 2)
    if isinstance(value, dict):
        return {name: mutate(source, inner) for name, inner in value.items() if source.random() > 0.05}
    return [mutate(source, inner) for inner in value] if isinstance(value, list) else value


CONTAINER = policies.parse_container({
    "id": "c", "partitionKey": {"paths": ["/a"]}, "defaultTtl": 5, "changeFeedPolicy": {"retentionDuration": 5},
    "uniqueKeyPolicy": {"uniqueKeys": [{"paths": ["/u"]}]},
    "computedProperties": [{"name": "x", "query": "SELECT VALUE LOWER(c.y) FROM c"}],
    "indexingPolicy": {"compositeIndexes": [[{"path": "/a"}, {"path": "/b"}]], "spatialIndexes": [{"path": "/s/?"}],
                       "vectorIndexes": [{"path": "/v", "type": "diskANN", "quantizationByteSize": 8,
                                          "vectorIndexShardKey": ["/a"]}],
                       "fullTextIndexes": [{"path": "/t"}]},
    "vectorEmbeddingPolicy": {"vectorEmbeddings": [{"path": "/v", "dimensions": 8}]},
    "fullTextPolicy": {"fullTextPaths": [{"path": "/t"}]},
})  # fmt: skip
OPERATIONS = [{"op": "set", "path": "/l/0", "value": 1}, {"op": "move", "from": "/l", "path": "/m/x"},
              {"op": "incr", "path": "/n", "value": 1}, {"op": "remove", "path": "/m"}, {"op": "add", "path": "/l/-",
              "value": {}}]  # fmt: skip
SHAPES: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "container": (CONTAINER.to_json(), policies.parse_container),
    "replace": (CONTAINER.to_json(), lambda body: policies.parse_container(body, CONTAINER)),
    "database": ({"id": "d"}, policies.parse_database),
    "key": ({"paths": ["/a"], "kind": "Hash", "version": 2}, PartitionKeyDefinition.from_json),
    "offer": ({"offerThroughput": 400, "offerAutopilotSettings": {"maxThroughput": 1000}},
              lambda body: throughput.parse_content(body, Throughput(400, 4000), False, False)),
    "patch": (OPERATIONS,
              lambda body: patch.apply_to_item(patch.parse_patch_value(body), b'{"id":"a","l":[1],"m":{},"n":5}', KEY, LIMITS)),
    "item": ({"id": "a", "ttl": 5, "a": "x"}, lambda body: item(json.dumps(body).encode())),
    "default ttl": (5, lambda value: values.parse_default_ttl(value, "create")),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_random_json_is_refused_or_parsed(name: str) -> None:
    seed = random.randrange(2**32)
    print("seed", seed)
    source = random.Random(seed)
    good, parse = SHAPES[name]
    for _ in range(1500):
        with suppress(MayflyError):
            parse(mutate(source, good))
