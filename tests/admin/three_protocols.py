"""A container of each protocol on one server, with records that expire, for tests of lifecycles."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

from azure.cosmos import PartitionKey

from mayflydb.embedded import RunningServer
from served import START, Http

TARGETS = {"cosmos": "cosmos:shop/sessions", "mongo": "mongo:app.otps", "ydb": "ydb:/local/carts"}
NOW = datetime.fromisoformat(START)


class Site:
    """A container of each protocol with three records, of which two live for 100 s and one for 200 s."""

    def __init__(self, server: RunningServer, http: Http) -> None:
        self.server, self.http = server, http
        shop = server.cosmos.client().create_database("shop")
        self.sessions = shop.create_container("sessions", partition_key=PartitionKey("/id"), default_ttl=100)
        self.otps = server.mongo.client()["app"]["otps"]
        self.otps.create_index("at", expireAfterSeconds=100)
        self.driver = server.ydb.driver()
        self.query(
            'CREATE TABLE carts (id Int64, until Timestamp, PRIMARY KEY (id)) WITH (TTL = Interval("PT100S") ON until)'
        )
        for n, life in enumerate((100, 100, 200)):
            self.sessions.create_item({"id": str(n), "text": "äö" * 10} | ({"ttl": 200} if life == 200 else {}))
            at = NOW + timedelta(seconds=life - 100)
            self.otps.insert_one({"_id": n, "at": at})
            self.query(f"UPSERT INTO carts (id, until) VALUES ({n}, CAST('{at:%Y-%m-%dT%H:%M:%SZ}' AS Timestamp))")

    def query(self, text: str) -> list[Any]:
        import ydb

        with ydb.QuerySessionPool(self.driver) as pool:
            return list(pool.execute_with_retries(text))

    def ids(self) -> dict[str, list[int]]:
        """The records that each client sees."""
        items = self.sessions.query_items("SELECT VALUE c.id FROM c", enable_cross_partition_query=True)
        rows = self.query("SELECT id FROM carts ORDER BY id")[0].rows
        return {
            "cosmos": sorted(int(str(id)) for id in items),
            "mongo": sorted(each["_id"] for each in self.otps.find()),
            "ydb": [row.id for row in rows],
        }

    def refuse(self, path: str, **body: object) -> tuple[int, str]:
        """The status and the words of a refusal."""
        answer = self.http("POST", f"/_mayfly/{path}", body)
        return answer.status, str(answer.json)

    def keep(self, grace: str) -> None:
        for target in TARGETS.values():
            self.http.post("lifecycle", target=target, grace=grace)

    def undelete(self, **wanted: object) -> dict[str, int]:
        done = {name: self.http.post("undelete", target=target, **wanted) for name, target in TARGETS.items()}
        assert all(each["done"] for each in done.values())
        return {name: each["undeleted"] for name, each in done.items()}
