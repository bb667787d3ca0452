"""The header that tells which indexes of the policy serve a query."""

from __future__ import annotations

import json
from base64 import b64decode
from typing import Any
from urllib.parse import unquote

import pytest

from frontends.cosmos.service import Service, path_of

POLICY = {
    "excludedPaths": [{"path": "/cold/*"}],
    "includedPaths": [{"path": "/*"}, {"path": "/cold/warm/?"}],
    "compositeIndexes": [[{"path": "/a"}, {"path": "/n", "order": "descending"}]],
}


@pytest.mark.parametrize("version", ["", "-V2"])
@pytest.mark.parametrize(
    ("rest", "pk", "used", "potential", "composite"),
    [
        ("", ..., [], [], []),
        ("", "p", ["/_epk/?"], [], []),
        ("WHERE c.n = 1", ..., ["/n/?"], [], []),
        ("WHERE c.n = 1", "p", ["/_epk/?", "/n/?"], [], []),
        ("WHERE c.n > 1 AND CONTAINS(c.b['x y'], 'z') OR c.n = 0", ..., ["/n/?", '/b/"x y"/?'], [], []),
        ("WHERE c.cold.x = 1 AND c.cold.warm = 2", ..., ["/cold/warm/?"], ["/cold/x/?"], []),
        ("WHERE EXISTS (SELECT VALUE 1 FROM t IN c.tags WHERE t = c.n)", ..., [], [], []),
        ("ORDER BY c.n", ..., ["/n/?"], [], []),
        ("WHERE c.n > 1 ORDER BY c.n", ..., ["/n/?"], [], []),
        ("ORDER BY c.a DESC, c.n", ..., [], [], [["/a DESC", "/n ASC"]]),
    ],
)
def test_index_metrics(
    service: Service,
    version: str,
    rest: str,
    pk: Any,
    used: list[str],
    potential: list[str],
    composite: list[list[str]],
) -> None:
    proxy = service.container(indexing_policy=POLICY)
    headers = {
        f"x-ms-cosmos-populateindexmetrics{version}": "true",
        "content-type": "application/query+json",
        **({"x-ms-documentdb-partitionkeyrangeid": "0"} if pk is ... else {}),
    }
    answer = service.raw("POST", path_of(proxy, "docs"), {"query": f"SELECT * FROM c {rest}"}, headers, pk=pk)
    assert answer.status == 200, answer
    said = answer.headers["x-ms-cosmos-index-utilization"]
    metrics = json.loads(unquote(said) if version else b64decode(said))
    assert [index["IndexSpec"] for index in metrics["UtilizedSingleIndexes"]] == used
    assert [index["IndexSpec"] for index in metrics["PotentialSingleIndexes"]] == potential
    assert [index["IndexSpecs"] for index in metrics["UtilizedCompositeIndexes"]] == composite
    assert metrics["PotentialCompositeIndexes"] == []
