"""Headers that clients read without looking whether they are there, or build names from.

Java takes `x-ms-alt-content-path` for the path of a resource's owner and appends the rest (`PathsHelper` and
`RxDocumentServiceResponse` of azure-cosmos), as Microsoft's samples show it:
https://learn.microsoft.com/rest/api/cosmos-db/create-a-user.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from azure.cosmos import PartitionKey

from frontends.cosmos.service import Answer, Service, in_memory, path_of, rid_number

QUERY: dict[str, str | bytes | None] = {
    "content-type": "application/query+json",
    "x-ms-documentdb-isquery": "True",
    "x-ms-documentdb-query-enablecrosspartition": "True",
    "x-ms-documentdb-populatequerymetrics": "True",
}
DATABASE, CONTAINER, USER = "dbs/shop", "dbs/shop/colls/c", "dbs/shop/users/u"
FUNCTION = {"body": "function () {}"}
TRIGGER = FUNCTION | {"triggerType": "Pre", "triggerOperation": "All"}
GRANT = {"permissionMode": "Read", "resource": CONTAINER}
KEY = {"partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}}

RESOURCES: list[tuple[str, str, str | None, dict[str, Any]]] = [
    ("databases", "dbs", None, {}),
    ("containers", f"{DATABASE}/colls", DATABASE, KEY),
    ("users", f"{DATABASE}/users", DATABASE, {}),
    ("permissions", f"{USER}/permissions", USER, GRANT),
    ("items", f"{CONTAINER}/docs", CONTAINER, {"pk": "p"}),
    ("stored procedures", f"{CONTAINER}/sprocs", CONTAINER, FUNCTION),
    ("triggers", f"{CONTAINER}/triggers", CONTAINER, TRIGGER),
    ("functions", f"{CONTAINER}/udfs", CONTAINER, FUNCTION),
]


def owner_of(answer: Answer) -> tuple[str | None, str | None]:
    assert answer.status < 300, answer
    return answer.headers.get("x-ms-alt-content-path"), answer.headers.get("x-ms-content-path")


@in_memory
@pytest.mark.parametrize("by", ["name", "rid"])
@pytest.mark.parametrize(("what", "feed", "owner", "body"), RESOURCES, ids=[each[0] for each in RESOURCES])
def test_a_resource_names_its_owner(
    service: Service, what: str, feed: str, owner: str | None, body: dict[str, Any], by: str
) -> None:
    database = service.client.create_database("shop")
    database.create_container("c", PartitionKey("/pk"))
    database.create_user({"id": "u"})
    expected: tuple[str | None, str | None] = (None, None)
    if owner is not None:
        expected = owner, service.raw("GET", f"/{owner}").json["_rid"]
        if by == "rid":
            feed = service.raw("GET", f"/{owner}").json["_self"] + feed.rpartition("/")[2]
    one = f"/{feed}/x"
    call = service.raw
    assert owner_of(call("POST", f"/{feed}", {"id": "x"} | body, pk="p")) == expected
    assert owner_of(call("GET", one, pk="p")) == expected
    assert owner_of(call("GET", f"/{feed}", pk="p")) == expected
    query = {"query": "SELECT * FROM c", "parameters": []}
    assert owner_of(call("POST", f"/{feed}", query, QUERY)) == expected
    if what != "databases":
        assert owner_of(call("PUT", one, {"id": "x"} | body, pk="p")) == expected
    assert owner_of(call("DELETE", one, pk="p")) == expected


@in_memory
def test_ranges_and_conflicts_are_their_containers(service: Service) -> None:
    proxy = service.container()
    expected = proxy.container_link, proxy.read()["_rid"]
    for feed in ("pkranges", "conflicts"):
        assert owner_of(service.raw("GET", path_of(proxy, feed))) == expected
    assert owner_of(service.raw("GET", "/offers")) == (None, None)


# --- queries ---------------------------------------------------------------------------------------------------------

MEASURED = {
    "totalExecutionTimeInMs", "queryCompileTimeInMs", "queryLogicalPlanBuildTimeInMs", "queryPhysicalPlanBuildTimeInMs",
    "queryOptimizationTimeInMs", "VMExecutionTimeInMs", "indexLookupTimeInMs", "documentLoadTimeInMs",
    "systemFunctionExecuteTimeInMs", "userFunctionExecuteTimeInMs", "retrievedDocumentCount", "retrievedDocumentSize",
    "outputDocumentCount", "outputDocumentSize", "writeOutputTimeInMs", "indexUtilizationRatio",
}  # fmt: skip

QUERIES = [
    ("SELECT * FROM c", 20, 20, 1.0),
    ("SELECT * FROM c WHERE c.n < 5", 20, 5, 0.25),
    ("SELECT VALUE c.n FROM c WHERE c.n < 5 ORDER BY c.n", 20, 5, 0.25),
    ("SELECT VALUE COUNT(1) FROM c WHERE c.n < 5", 20, 1, 0.25),
    ("SELECT VALUE t FROM c JOIN t IN c.tags WHERE c.n < 10", 20, 20, 1.0),
    ("SELECT TOP 1 * FROM c", 1, 1, 1.0),
    ("SELECT * FROM c WHERE c.n < 0", 20, 0, 0.0),
]


@in_memory
@pytest.mark.parametrize(("text", "read", "written", "ratio"), QUERIES)
def test_query_metrics_are_whole(service: Service, text: str, read: int, written: int, ratio: float) -> None:
    """Java reads each of them, and fails if one is missing: `QueryMetrics.createFromDelimitedString`."""
    proxy = service.container()
    service.fill(proxy, ({"id": str(n), "pk": "p", "n": n, "tags": ["a", "b"]} for n in range(20)))
    answer = service.raw("POST", path_of(proxy, "docs"), {"query": text, "parameters": []}, QUERY, pk="p")
    parts = [part.split("=") for part in answer.headers["x-ms-documentdb-query-metrics"].split(";")]
    assert Counter(name for name, _ in parts) == Counter(MEASURED)
    found = {name: float(value) for name, value in parts}
    assert (found["retrievedDocumentCount"], found["outputDocumentCount"]) == (read, written)
    assert found["indexUtilizationRatio"] == ratio
    assert found["retrievedDocumentSize"] > 0 and found["totalExecutionTimeInMs"] >= 0


@in_memory
@pytest.mark.parametrize("direction", ["ASC", "DESC"])
def test_equal_sort_keys_come_by_rid(service: Service, direction: str) -> None:
    """The header says so: without it, clients that resume in descending order skip rows by descending rid."""
    proxy = service.container()
    service.fill(proxy, ({"id": str(n), "pk": "p", "even": n % 2 == 0} for n in range(40)))
    text = f"SELECT c._rid, c.even FROM c ORDER BY c.even {direction}"
    answer = service.raw("POST", path_of(proxy, "docs"), {"query": text, "parameters": []}, QUERY, pk="p")
    expected = '{"reverseRidEnabled":false,"reverseIndexScan":false}'
    assert answer.headers["x-ms-cosmos-query-execution-info"] == expected
    rows = answer.json["Documents"]
    last = direction == "ASC"
    assert rows == sorted(rows, key=lambda row: (row["even"] is last, rid_number(row["_rid"])))
