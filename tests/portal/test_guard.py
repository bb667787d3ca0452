"""Purges that the guard holds, in containers of all three protocols: seen by clients, told by the page, with both ways out."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from azure.cosmos import DatabaseProxy, PartitionKey

from mayflydb.embedded import RunningServer
from portal.visitor import Visitor
from served import Http, port_of

PAGE = "/_explorer/guard"
TARGETS = {"cosmos": "cosmos:shop/sessions", "mongo": "mongo:app.otps", "ydb": "ydb:/local/carts"}
LIMITS = {"records": 2, "percent": 10}


class Site:
    """A container of each protocol with three records that never expire, and a guard that allows two unexpected expiries."""

    def __init__(self, server: RunningServer, shop: DatabaseProxy) -> None:
        self.server = server
        self.http = Http(port_of(server))
        self.sessions = shop.create_container("sessions", partition_key=PartitionKey("/id"))
        self.otps = server.mongo.client()["app"]["otps"]
        self.driver = server.ydb.driver()
        self.query(
            "CREATE TABLE carts (id Int64, until Timestamp, PRIMARY KEY (id))",
            "UPSERT INTO carts (id, until) VALUES "
            + ", ".join(f"({n}, CAST('{datetime.now(UTC).year - 40}-01-01T00:00:00Z' AS Timestamp))" for n in range(3)),
        )
        for n in range(3):
            self.sessions.create_item({"id": str(n)})
            self.otps.insert_one({"_id": n, "at": datetime(2001, 1, 1, tzinfo=UTC)})
        for target in TARGETS.values():
            self.http.post("lifecycle", target=target, guard=LIMITS)
        server.clock.advance(seconds=100)

    def query(self, *texts: str) -> list[Any]:
        import ydb

        with ydb.QuerySessionPool(self.driver) as pool:
            return [pool.execute_with_retries(text) for text in texts]

    def expire_everything(self) -> None:
        """Each client makes the mistake of its system: a life that is too short."""
        database = self.server.cosmos.client().get_database_client("shop")
        database.replace_container("sessions", partition_key=PartitionKey("/id"), default_ttl=1)
        self.otps.create_index("at", expireAfterSeconds=1)
        self.query('ALTER TABLE carts SET (TTL = Interval("PT1S") ON until)')
        self.server.clock.advance(hours=2)

    def counts(self) -> dict[str, int]:
        """The records that each client sees."""
        items = list(self.sessions.query_items("SELECT VALUE COUNT(1) FROM c", enable_cross_partition_query=True))
        rows = self.query("SELECT COUNT(*) AS n FROM carts")[0][0].rows
        return {"cosmos": items[0], "mongo": self.otps.count_documents({}), "ydb": rows[0].n}


@pytest.fixture
def site(server: RunningServer, shop: DatabaseProxy) -> Iterator[Site]:
    made = Site(server, shop)
    yield made
    made.otps.database.client.close()
    made.driver.stop()


def test_what_clients_expire_by_mistake_waits_and_both_ways_out_work(site: Site, visitor: Visitor) -> None:
    assert "No purge is held" in visitor.get(PAGE).source
    site.expire_everything()
    # Cosmos DB hides what has expired, as always; the others show it until it is purged.
    assert site.counts() == {"cosmos": 0, "mongo": 3, "ydb": 3}
    listed = {row["target"]: row for row in visitor.json(f"{PAGE}.json")["held"]}
    assert listed.keys() == set(TARGETS.values())
    assert {(row["reason"], row["unexpected"], row["due"], row["records"]) for row in listed.values()} == {
        ("rule", 3, 3, 3)
    }
    assert "holds the purge of 3 containers" in visitor.get("/_explorer/").source
    assert "purge held" in visitor.get("/_explorer/").source
    assert (
        'mayfly_guard_held{protocol="ydb",db="/local",container="carts"} 1'
        in site.http("GET", "/metrics").body.decode()
    )
    # Back, for Cosmos DB, by its own client.
    database = site.server.cosmos.client().get_database_client("shop")
    database.replace_container("sessions", partition_key=PartitionKey("/id"), default_ttl=None)
    # Onward, for the others, by the page. A token of before is refused.
    for target in (TARGETS["mongo"], TARGETS["ydb"]):
        wrong = visitor.post(PAGE, {"target": target, "token": "0-0-0"})
        assert (wrong.status, "another held purge" in wrong.source) == (409, True)
        said = visitor.post(PAGE, {"target": target, "token": listed[target]["token"]}).text(
            "notification-console/header-status"
        )
        assert said == f"Confirmed: 3 due records of {target} are purged"
    site.server.clock.advance(hours=2)
    assert site.counts() == {"cosmos": 3, "mongo": 0, "ydb": 0}
    assert visitor.json(f"{PAGE}.json")["held"] == []
