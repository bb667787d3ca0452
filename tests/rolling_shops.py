"""Sales that expire and are rolled up, for each protocol, by the vendor's client."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final, Protocol

from mayflydb.embedded import RunningServer

ROLL_UP: Final[dict[str, Any]] = {
    "group": ["/tenant", {"day": "written"}],
    "count": "n",
    "sum": {"total": "/amount"},
    "min": {"least": "/amount"},
    "max": {"most": "/amount"},
    "skipped": "skipped",
}

LIFE: Final = 100
"""Seconds for which a sale lives."""

Totals = dict[tuple[str | None, str], dict[str, Any]]
"""(tenant, day) -> results."""


class Shop(Protocol):
    source: str
    into: str

    def put(self, id: int, tenant: str | None, amount: Any, now: datetime) -> None:
        """Write a sale, as an upsert."""

    def delete(self, id: int) -> None: ...

    def live(self) -> dict[int, Any]:
        """The visible sales: id -> amount."""

    def totals(self) -> Totals: ...

    def drop_totals(self) -> None: ...

    def make_totals(self, life: int | None = None) -> None:
        """Create the container of totals. `life`: seconds for which a total lives after its last write."""

    def spoil(self, tenant: str, day: str) -> None:
        """Replace a total's sum by a text; where the protocol has types, drop its column."""

    def close(self) -> None: ...


class CosmosShop:
    source, into = "cosmos:shop/sales", "cosmos:shop/totals"

    def __init__(self, server: RunningServer) -> None:
        from azure.cosmos import PartitionKey

        self._key = PartitionKey("/tenant")
        self._database = server.cosmos.client().create_database("shop")
        self._sales = self._database.create_container("sales", PartitionKey("/id"), default_ttl=LIFE)
        self.make_totals()

    def make_totals(self, life: int | None = None) -> None:
        self._totals = self._database.create_container("totals", self._key, default_ttl=life)

    def drop_totals(self) -> None:
        self._database.delete_container("totals")

    def put(self, id: int, tenant: str | None, amount: Any, now: datetime) -> None:
        self._sales.upsert_item({"id": str(id), "tenant": tenant, "amount": amount})

    def delete(self, id: int) -> None:
        self._sales.delete_item(str(id), str(id))

    def live(self) -> dict[int, Any]:
        return {int(item["id"]): item["amount"] for item in self._sales.read_all_items()}

    def totals(self) -> Totals:
        found = {}
        for item in self._totals.read_all_items():
            tenant = "null" if item["tenant"] is None else item["tenant"].replace("/", "%2F")
            assert item["id"] == f"{tenant}|{item['day']}"
            found[item["tenant"], item["day"]] = _results(item)
        return found

    def spoil(self, tenant: str, day: str) -> None:
        self._totals.upsert_item({"id": f"{tenant}|{day}", "tenant": tenant, "day": day, "total": "much"})

    def close(self) -> None:
        """The client keeps no connection that it would not close by itself."""


class MongoShop:
    source, into = "mongo:shop.sales", "mongo:shop.totals"

    def __init__(self, server: RunningServer) -> None:
        self._client = server.mongo.client()
        self._database = self._client["shop"]
        self._sales = self._database["sales"]
        self._sales.create_index("at", expireAfterSeconds=LIFE)
        self.make_totals()

    def make_totals(self, life: int | None = None) -> None:
        self._totals = self._database.create_collection("totals")
        if life is not None:
            self._totals.create_index("_id.day", expireAfterSeconds=life)

    def drop_totals(self) -> None:
        self._totals.drop()

    def put(self, id: int, tenant: str | None, amount: Any, now: datetime) -> None:
        self._sales.replace_one({"_id": id}, {"tenant": tenant, "amount": amount, "at": now}, upsert=True)

    def delete(self, id: int) -> None:
        self._sales.delete_one({"_id": id})

    def live(self) -> dict[int, Any]:
        return {each["_id"]: each["amount"] for each in self._sales.find()}

    def totals(self) -> Totals:
        return {
            (each["_id"]["tenant"], f"{each['_id']['day']:%Y-%m-%d}"): _results(each) for each in self._totals.find()
        }

    def spoil(self, tenant: str, day: str) -> None:
        at = datetime.fromisoformat(f"{day}T00:00:00+00:00")
        self._totals.replace_one({"_id": {"tenant": tenant, "day": at}}, {"total": "much"}, upsert=True)

    def close(self) -> None:
        self._client.close()


class YdbShop:
    source, into = "ydb:/local/sales", "ydb:/local/totals"

    def __init__(self, server: RunningServer) -> None:
        import ydb

        self._driver = server.ydb.driver()
        self._pool = ydb.QuerySessionPool(self._driver)
        self._run(
            "CREATE TABLE sales (id Int64, tenant Utf8, amount Int64, at Timestamp, PRIMARY KEY (id)) "
            f'WITH (TTL = Interval("PT{LIFE}S") ON at)'
        )
        self.make_totals()

    def _run(self, text: str, given: Mapping[str, Any] | None = None) -> list[Any]:
        return [row for each in self._pool.execute_with_retries(text, given) for row in each.rows]

    def make_totals(self, life: int | None = None) -> None:
        ttl = "" if life is None else f' WITH (TTL = Interval("PT{life}S") ON day)'
        self._run(
            "CREATE TABLE totals (day Timestamp, tenant Utf8, n Uint64, skipped Uint64, total Int64, least Int64, "
            f"most Int64, PRIMARY KEY (tenant, day)){ttl}"
        )

    def drop_totals(self) -> None:
        self._run("DROP TABLE totals")

    def put(self, id: int, tenant: str | None, amount: Any, now: datetime) -> None:
        import ydb

        self._run(
            "DECLARE $id AS Int64; DECLARE $tenant AS Utf8?; DECLARE $amount AS Int64?; DECLARE $at AS Timestamp; "
            "UPSERT INTO sales (id, tenant, amount, at) VALUES ($id, $tenant, $amount, $at)",
            {
                "$id": (id, ydb.PrimitiveType.Int64),
                "$tenant": (tenant, ydb.OptionalType(ydb.PrimitiveType.Utf8)),
                "$amount": (amount if isinstance(amount, int) else None, ydb.OptionalType(ydb.PrimitiveType.Int64)),
                "$at": (now, ydb.PrimitiveType.Timestamp),
            },
        )

    def delete(self, id: int) -> None:
        self._run(f"DELETE FROM sales WHERE id = {id}")

    def live(self) -> dict[int, Any]:
        return {row.id: row.amount for row in self._run("SELECT id, amount FROM sales")}

    def totals(self) -> Totals:
        rows = self._run("SELECT * FROM totals")
        return {(row["tenant"], f"{row['day']:%Y-%m-%d}"): _results(row) for row in rows}

    def spoil(self, tenant: str, day: str) -> None:
        self._run("ALTER TABLE totals DROP COLUMN total")

    def close(self) -> None:
        self._pool.stop()
        self._driver.stop()


def _results(record: Mapping[str, Any]) -> dict[str, Any]:
    names = ("n", "total", "least", "most", "skipped")
    return {name: record[name] for name in names if name in record and record[name] is not None}


SHOPS: Final[dict[str, Callable[[RunningServer], Shop]]] = {"cosmos": CosmosShop, "mongo": MongoShop, "ydb": YdbShop}


@contextmanager
def open_shop(protocol: str, server: RunningServer) -> Iterator[Any]:
    """A shop, whose sales are not rolled up yet."""
    shop: Shop = SHOPS[protocol](server)
    try:
        yield shop
    finally:
        shop.close()
