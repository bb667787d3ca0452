"""Serverless accounts: nothing has throughput, and all that is spent is counted."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from azure.cosmos import PartitionKey

from frontends.cosmos.service import BULK, START, Answer, Service, path_of
from frontends.cosmos.throughput.test_purging import metric, turn
from mayflydb.embedded import serve

CONTAINER = {"id": "c", "partitionKey": {"paths": ["/pk"]}}
REFUSED = "Setting offer throughput or autopilot on {} is not supported for serverless accounts."


@pytest.fixture(scope="module")
def session_service() -> Iterator[Service]:
    with serve(memory=True, port=0, clock="virtual", clock_start=START, capacity="serverless") as server:
        service = Service(server, "memory")
        yield service
        service.close()


@pytest.mark.parametrize("headers", [
    {"x-ms-offer-throughput": "400"}, {"x-ms-cosmos-offer-autopilot-settings": '{"maxThroughput":4000}'},
])  # fmt: skip
def test_throughput_is_refused(service: Service, headers: dict[str, str | bytes | None]) -> None:
    def told(answer: Answer) -> tuple[int, bool, bool]:
        message = answer.json["message"]
        return answer.status, REFUSED.format("database") in message, REFUSED.format("container") in message

    assert told(service.raw("POST", "/dbs", {"id": "shop"}, headers)) == (400, True, False)
    service.client.create_database("shop")
    assert told(service.raw("POST", "/dbs/shop/colls", CONTAINER, headers)) == (400, False, True)
    assert service.raw("GET", "/dbs/shop/colls").json["_count"] == 0


def test_there_are_no_offers(service: Service) -> None:
    database = service.client.create_database("shop")
    container = database.create_container("c", PartitionKey("/pk"))
    assert service.raw("GET", "/offers").json["Offers"] == []
    for link in (database.read()["_self"], container.read()["_self"]):
        # Asked raw: of an answer without offers the client makes an exception, and another one on the way.
        query = {"query": "SELECT * FROM root r WHERE r.resource = @l", "parameters": [{"name": "@l", "value": link}]}
        found = service.raw("POST", "/offers", query, {"content-type": "application/query+json"})
        assert (found.status, found.json["Offers"]) == (200, [])
    assert len(list(container.read_feed_ranges())) == 1


def test_spent_units_are_counted_by_operation(service: Service) -> None:
    """As much as the answers said, and the purge as the deletions that it is."""
    proxy = service.container(10)
    docs, charged = path_of(proxy, "docs"), dict[str, float]()

    def ask(operation: str, answer: Answer) -> None:
        charged[operation] = charged.get(operation, 0.0) + float(answer.headers["x-ms-request-charge"])

    for n in range(20):
        ask("create", service.raw("POST", docs, {"id": str(n), "pk": "a"}, pk="a"))
    ask("create", service.raw("POST", docs, {"id": "0", "pk": "a"}, pk="a"))
    ask("read", service.raw("GET", f"{docs}/0", pk="a"))
    ask("read", service.raw("GET", f"{docs}/absent", pk="a"))
    ask("delete", service.raw("DELETE", f"{docs}/0", pk="a"))
    ask("feed", service.raw("GET", docs, pk="a"))
    ask("batch", service.raw("POST", docs, [{"operationType": "Read", "id": "1", "partitionKey": '["a"]'}], BULK))
    query = json.dumps({"query": "SELECT * FROM c"}).encode()
    ask("query", service.raw("POST", docs, query, {"content-type": "application/query+json"}, pk="a"))
    body = "function () { __.createDocument(__.getSelfLink(), {id: 'made', pk: 'a', ttl: -1}); }"
    proxy.scripts.create_stored_procedure({"id": "makes", "body": body})
    ask("execute", service.raw("POST", path_of(proxy, "sprocs", "makes"), [], pk="a"))
    assert charged["execute"] > 5
    service.raw("GET", path_of(proxy, "pkranges"))
    service.at(10)
    assert turn(service.server) == 19
    charged["purge"] = 19 * 5.71
    _, database, _, container = proxy.container_link.split("/")
    for operation, units in charged.items():
        found = metric(
            service.server, "mayfly_request_units_total", db=database, container=container, operation=operation
        )
        assert found == pytest.approx(units), operation
    assert min(charged.values()) > 0
    assert metric(service.server, "mayfly_request_units_total") == pytest.approx(sum(charged.values()))
    service.server.reset()
    assert metric(service.server, "mayfly_request_units_total") == 0
