"""COUNT over a whole container is made from indexes, and is exactly the number of items that a query returns."""

from __future__ import annotations

from typing import Any

import pytest

from frontends.cosmos.service import Service, everywhere, path_of, rows
from mayflydb.engine.commands import Command, Mode
from mayflydb.frontends.cosmos.partition_key import PartitionKeyDefinition

pytestmark = everywhere

CROSS: dict[str, Any] = {"enable_cross_partition_query": True, "populate_query_metrics": True}
COUNT = "SELECT VALUE COUNT(1) FROM c"
TTLS = (None, -1, 1, 3, 4)


@pytest.mark.parametrize("default_ttl", [None, -1, 3])
def test_hidden_items_are_not_counted(service: Service, default_ttl: int | None) -> None:
    proxy = service.container(default_ttl)
    for second in (0, 2):
        service.at(second)
        own = [{} if ttl is None else {"ttl": ttl} for ttl in TTLS]
        service.fill(proxy, [{"id": f"{second} {n}", "pk": f"p{n % 3}", **ttl} for n, ttl in enumerate(own)])
    counts = []
    for second in range(2, 8):
        service.at(second)
        (counted,) = rows(proxy.query_items(COUNT, **CROSS))
        metrics = str(proxy.client_connection.last_response_headers["x-ms-documentdb-query-metrics"])
        assert "retrievedDocumentCount=0;" in metrics
        assert counted == len(rows(proxy.query_items("SELECT c.id FROM c", **CROSS)))
        counts.append(counted)
    assert counts == {None: [10] * 6, -1: [9, 7, 6, 5, 4, 4], 3: [9, 6, 5, 3, 2, 2]}[default_ttl]
    service.server.purge()
    assert rows(proxy.query_items(COUNT, **CROSS)) == counts[-1:]
    assert rows(proxy.query_items(COUNT, partition_key="p0")) == [
        len(rows(proxy.query_items("SELECT * FROM c", partition_key="p0")))
    ]


FORMS = [
    ("SELECT COUNT(1) AS n FROM c", [{"n": 4}]),
    ("SELECT VALUE {'n': COUNT(1), 'm': COUNT('x')} FROM c", [{"n": 4, "m": 4}]),
    ("SELECT VALUE COUNT(undefined) FROM c", [0]),
    ("SELECT VALUE COUNT(1) FROM c WHERE true", [4]),
    ("SELECT VALUE COUNT(1) FROM c WHERE c.n > 1", [2]),
    ("SELECT VALUE COUNT(c.n) FROM c", [3]),
    ("SELECT VALUE COUNT(1) FROM c JOIN t IN c.tags", [2]),
    ("SELECT VALUE COUNT(1) FROM c GROUP BY c.n", [1, 1, 1, 1]),
    ("SELECT VALUE COUNT(1)", [1]),
]


@pytest.mark.parametrize(("text", "expected"), FORMS)
def test_forms_of_counts(service: Service, text: str, expected: list[Any]) -> None:
    proxy = service.container()
    service.fill(proxy, [{"id": f"{n}", "pk": f"{n}", "n": n, "tags": ["a"] * (n == 2) * 2} for n in range(3)])
    service.fill(proxy, [{"id": "x", "pk": "x", "n": 9}, {"id": "9", "pk": "9"}])
    proxy.delete_item("0", "0")
    headers: dict[str, str | bytes | None] = {
        "content-type": "application/query+json",
        "x-ms-documentdb-partitionkeyrangeid": "0",
    }
    answer = service.raw("POST", path_of(proxy, "docs"), {"query": text}, headers)
    assert answer.json["Documents"] == expected


def test_a_container_that_changes_meanwhile_is_read(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """A write between the reads of a count could be counted twice, or a purge not at all."""
    proxy = service.container(default_ttl=10)
    service.fill(proxy, [{"id": f"{n}", "pk": "p"} for n in range(5)])
    engine: Any = service.cosmos_app()._engine
    counts = engine.expiry_counts
    totals = counts.totals

    async def totals_and_a_write(container: int, with_bytes: bool = False) -> Any:
        found = await totals(container, with_bytes)
        key = PartitionKeyDefinition.from_json({"paths": ["/pk"], "version": 2})
        deletion = Command(Mode.DELETE, key.logical_partition(("p",)), b"3", None)
        await engine.write(container, deletion, await engine.now())
        return found

    monkeypatch.setattr(type(counts), "totals", lambda self, *args, **named: totals_and_a_write(*args, **named))
    assert rows(proxy.query_items(COUNT, **CROSS)) == [4]
    metrics = str(proxy.client_connection.last_response_headers["x-ms-documentdb-query-metrics"])
    assert "retrievedDocumentCount=4;" in metrics
