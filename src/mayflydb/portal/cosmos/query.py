"""Runs queries over the items of a container through Cosmos DB's front end, for the query page and the filter of the grid."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

import msgspec

from mayflydb.admin import formats
from mayflydb.admin.export_records import AS_OF
from mayflydb.admin.wires import Cosmos
from mayflydb.http.messages import Response, check_status
from mayflydb.model.instant import Instant
from mayflydb.portal.querying import QueryAnswer, QueryNote, QueryOption, QueryPlace, QueryRequest
from mayflydb.portal.results import format_json
from mayflydb.portal.shell import Visit

METRICS: Final = (
    ("Retrieved document count", "retrievedDocumentCount", ""),
    ("Retrieved document size", "retrievedDocumentSize", " bytes"),
    ("Output document count", "outputDocumentCount", ""),
    ("Output document size", "outputDocumentSize", " bytes"),
    ("Index hit document count", "", ""),
    ("Index lookup time", "indexLookupTimeInMs", " ms"),
    ("Document load time", "documentLoadTimeInMs", " ms"),
    ("Query engine execution time", "totalExecutionTimeInMs", " ms"),
)
"""Rows of Query Stats, with the metric of the protocol and its unit."""

FEATURES: Final = (
    "Aggregate, CompositeAggregate, CountIf, Distinct, GroupBy, MultipleAggregates, MultipleOrderBy, NonStreamingOrderBy, "
    "NonValueAggregate, OffsetAndLimit, OrderBy, Top"
)
PLAN: Final = QueryOption("plan", "Query plan")
EXAMPLES: Final = (
    ("All items", "SELECT * FROM c"),
    ("Items with a ttl of their own", "SELECT c.id, c.ttl FROM c WHERE IS_DEFINED(c.ttl)"),
    ("Number of items", "SELECT VALUE COUNT(1) FROM c"),
    ("Newest items", "SELECT * FROM c ORDER BY c._ts DESC"),
)


class ItemQueries:
    """Runs queries over the items of one container."""

    def __init__(self, cosmos: Cosmos, visit: Visit, at: Instant | None = None) -> None:
        """`at`: the instant as of which queries read; None: the present."""
        self._cosmos, self._visit = cosmos, visit
        self._at = {} if at is None else {AS_OF: formats.time(at)}
        self._path = ("dbs", visit.database, "colls", visit.name, "docs")

    async def run(self, request: QueryRequest) -> QueryAnswer:
        """Return a page of a query, its statistics and index metrics."""
        headers = {"x-ms-max-item-count": str(request.limit)}
        if not request.exports:
            headers |= {"x-ms-documentdb-populatequerymetrics": "true", "x-ms-cosmos-populateindexmetrics": "true"}
        if request.continuation:
            headers["x-ms-continuation"] = request.continuation
        response = await self._send(request.text, headers)
        trips = 1
        # A container of one range needs no client that merges: its range is asked for by itself.
        if response.status == 400 and _header(response, "x-ms-substatus") == "1004":
            ranges = await self._cosmos("GET", (*self._path[:-1], "pkranges"))
            found = msgspec.json.decode(check_status(ranges).body)["PartitionKeyRanges"]
            if len(found) == 1:
                headers["x-ms-documentdb-partitionkeyrangeid"] = found[0]["id"]
                response, trips = await self._send(request.text, headers), 2
            else:
                # Where WHERE names the partition, a request that may not cross partitions is served there.
                within = await self._send(
                    request.text, {**headers, "x-ms-documentdb-query-enablecrosspartition": "false"}
                )
                response, trips = (within, 2) if within.status == 200 else (response, 2)
        rows = msgspec.json.decode(check_status(response).body)["Documents"]
        continuation = _header(response, "x-ms-continuation")
        if request.exports:
            return QueryAnswer(rows, continuation=continuation)
        notes = await self._notes(request, response)
        stats = _query_stats(response, len(rows), trips)
        return QueryAnswer(rows, stats, continuation, links=self._links(rows), notes=notes)

    async def _send(self, text: str, headers: Mapping[str, str]) -> Response:
        kind = {
            "content-type": "application/query+json",
            "x-ms-documentdb-isquery": "true",
            "x-ms-documentdb-query-enablecrosspartition": "true",
        }
        return await self._cosmos(
            "POST", self._path, msgspec.json.encode({"query": text}), kind | dict(headers) | self._at
        )

    async def _notes(self, request: QueryRequest, response: Response) -> list[QueryNote]:
        notes = []
        if used := _header(response, "x-ms-cosmos-index-utilization"):
            notes.append(QueryNote("Index Metrics", format_json(msgspec.json.decode(b64decode(used)))))
        if request.options.get(PLAN.name):
            headers = {
                "x-ms-cosmos-is-query-plan-request": "true",
                "x-ms-cosmos-supported-query-features": FEATURES,
            }
            plan = check_status(await self._send(request.text, headers))
            notes.append(QueryNote("Query Plan", format_json(msgspec.json.decode(plan.body))))
        return notes

    def _links(self, rows: Sequence[Any]) -> list[str]:
        """Return the addresses of rows that are whole items."""
        paths = self._visit.container.node.body["partitionKey"]["paths"]
        return [
            item_address(self._visit.address, row, paths)
            if isinstance(row, dict) and {"id", "_etag", "_rid"} <= row.keys()
            else ""
            for row in rows
        ]


def query_place(visit: Visit) -> QueryPlace:
    """Return the query page of a container."""
    crumbs = ((visit.database, ""), (visit.name, f"{visit.address}/items"))
    return QueryPlace(f"{visit.address}/query", crumbs, "sql", "SELECT * FROM c", "New SQL Query", (PLAN,), EXAMPLES)


def item_address(base: str, item: Mapping[str, Any], paths: Sequence[str]) -> str:
    """Return the address of an item's page."""
    key = msgspec.json.encode(partition_key(item, paths)).decode("utf-8", "replace")
    return f"{base}/item?{urlencode({'id': item['id'], 'pk': key}, errors='replace')}"


def partition_key(item: Mapping[str, Any], paths: Sequence[str]) -> Any:
    """Return the key of an item: a value, or a list for a hierarchical key. `{}` stands for a missing property."""
    values = [_value_at(item, path) for path in paths]
    return values[0] if len(values) == 1 else values


def _value_at(item: Any, path: str) -> Any:
    for name in path.strip("/").split("/"):
        name = name.strip('"')
        if not isinstance(item, Mapping) or name not in item:
            return {}
        item = item[name]
    return {} if isinstance(item, Mapping | list) else item


def _query_stats(response: Response, count: int, trips: int) -> list[tuple[str, str]]:
    metrics = dict(
        part.split("=", 1) for part in _header(response, "x-ms-documentdb-query-metrics").split(";") if "=" in part
    )
    # The protocol has the share of the documents read that were found by an index, which makes their number.
    hits = float(metrics.get("indexUtilizationRatio", 0)) * int(metrics.get("retrievedDocumentCount", 0))
    stats = [
        ("Request Charge", f"{_header(response, 'x-ms-request-charge')} RUs"),
        ("Showing Results", f"{min(count, 1)} - {count}"),
    ]
    for label, name, unit in METRICS:
        stats.append((label, f"{metrics.get(name, '')}{unit}" if name else str(round(hits))))
    return [*stats, ("Round Trips", str(trips)), ("Activity id", _header(response, "x-ms-activity-id"))]


def _header(response: Response, name: str) -> str:
    wanted = name.encode()
    return next((value.decode("latin-1") for given, value in response.headers if given == wanted), "")
