"""Records with lives on three wires, through the vendors' own clients, and what of them can be read."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import ydb
from azure.cosmos import CosmosClient, PartitionKey
from azure.cosmos.exceptions import CosmosResourceNotFoundError
from pymongo import MongoClient

WIRES = ("cosmos", "mongo", "ydb")


class Shop:
    """One container of each protocol. A server has to hide what is due on all three (`--mongo-expiry hide`,
    `--ydb-hide-expired`).
    """

    def __init__(self, cosmos: CosmosClient, mongo: MongoClient[dict[str, Any]], driver: ydb.Driver) -> None:
        self._items = cosmos.get_database_client("shop").get_container_client("items")
        self._cosmos = cosmos
        self._documents = mongo.shop.documents
        self._driver = driver
        self._pool = ydb.QuerySessionPool(driver, size=1)

    def open(self) -> None:
        """Define the containers. A date is the end of a life in MongoDB and YDB."""
        database = self._cosmos.create_database("shop")
        database.create_container("items", partition_key=PartitionKey("/id"), default_ttl=-1)
        self._documents.create_index("ends", expireAfterSeconds=0)
        self._pool.execute_with_retries(
            "CREATE TABLE rows (id Utf8, ends Timestamp, PRIMARY KEY (id)) WITH (TTL = Interval('PT0S') ON ends)"
        )

    def stock(self, now: datetime, lives: Mapping[str, int | None]) -> None:
        """Write a record on each wire for each life (seconds from now; None: for ever)."""
        for id, life in lives.items():
            ends = None if life is None else now + timedelta(seconds=life)
            self._items.upsert_item({"id": id} | ({} if life is None else {"ttl": life}))
            self._documents.replace_one({"_id": id}, {"ends": ends}, upsert=True)
            self._pool.execute_with_retries(
                "DECLARE $id AS Utf8; DECLARE $ends AS Timestamp?; UPSERT INTO rows (id, ends) VALUES ($id, $ends)",
                {
                    "$id": (id, ydb.PrimitiveType.Utf8),
                    "$ends": (
                        None if ends is None else ends.replace(tzinfo=UTC),
                        ydb.OptionalType(ydb.PrimitiveType.Timestamp),
                    ),
                },
            )

    def readable(self, ids: Mapping[str, int | None]) -> dict[str, set[str]]:
        """The ids that each wire gives, by reads of single records and by a query over all. AssertionError if those differ."""
        rows = [
            {row["id"] for row in self._pool.execute_with_retries(text)[0].rows}
            for text in ("SELECT id FROM rows", f"SELECT id FROM rows WHERE id IN ({', '.join(map(_text, ids))})")
        ]
        by_query = {
            "cosmos": {item["id"] for item in self._items.read_all_items()},
            "mongo": {document["_id"] for document in self._documents.find()},
            "ydb": rows[0],
        }
        by_point = {
            "cosmos": {id for id in ids if self._has_item(id)},
            "mongo": {id for id in ids if self._documents.find_one(id) is not None},
            "ydb": rows[1],
        }
        assert by_query == by_point
        return by_query

    def _has_item(self, id: str) -> bool:
        try:
            self._items.read_item(id, id)
        except CosmosResourceNotFoundError:
            return False
        return True

    def close(self) -> None:
        """Close the session of YDB; clients and driver are their makers'."""
        self._pool.stop()


def _text(id: str) -> str:
    return f'"{id}"u'
