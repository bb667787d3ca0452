"""Every page of the portal: its route, and an address of it over the records that `fill` writes."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final, cast

import ydb
from azure.cosmos import DatabaseProxy, PartitionKey
from starlette.applications import Starlette
from starlette.routing import Route

from mayflydb.admin.wires import Wires
from mayflydb.embedded import RunningServer
from mayflydb.portal.routes import pages_app

LONG: Final = "an-id-without-any-place-to-break-it-" * 3
COLUMN: Final = "a_column_without_any_place_to_break_it_" * 3
COSMOS, COSMOS_ROUTE = "/_explorer/cosmos/shop/sessions", "/_explorer/cosmos/{database}/{container}"
MONGO, MONGO_ROUTE = "/_explorer/mongo/app/otps", "/_explorer/mongo/{database}/{collection:path}"
YDB, YDB_ROUTE = "/_explorer/ydb/local/carts", "/_explorer/ydb/{path:path}"

PAGES: Final = {
    "/": "/",
    "/_explorer/": "/_explorer/?horizon=1d",
    "/_explorer/index.html": "/_explorer/index.html",
    "/_explorer/find": "/_explorer/find?q=s",
    "/_explorer/due": "/_explorer/due",
    "/_explorer/advice": "/_explorer/advice",
    "/_explorer/events": "/_explorer/events",
    "/_explorer/clock": "/_explorer/clock",
    "/_explorer/guard": "/_explorer/guard",
    "/_explorer/webhooks": "/_explorer/webhooks",
    "/_explorer/erasure": "/_explorer/erasure?report=yes&target=cosmos%3Ashop%2Fsessions&id=gone&pk=a",
    "/_explorer/connect": "/_explorer/connect",
    "/_explorer/snapshots": "/_explorer/snapshots",
    "/_explorer/new-container": "/_explorer/new-container?database=shop",
    "/_explorer/new-collection": "/_explorer/new-collection",
    "/_explorer/cosmos/{database}/delete-database": "/_explorer/cosmos/shop/delete-database",
    "/_explorer/mongo/{database}/drop-database": "/_explorer/mongo/app/drop-database",
    "/_explorer/ydb/{database}/new-table": "/_explorer/ydb/local/new-table",
    f"{COSMOS_ROUTE}/items": f"{COSMOS}/items",
    f"{COSMOS_ROUTE}/item": f"{COSMOS}/item?id=1&pk=%22a%22",
    f"{COSMOS_ROUTE}/new-item": f"{COSMOS}/new-item",
    f"{COSMOS_ROUTE}/upload": f"{COSMOS}/upload",
    f"{COSMOS_ROUTE}/query": f"{COSMOS}/query",
    f"{COSMOS_ROUTE}/delete": f"{COSMOS}/delete",
    f"{COSMOS_ROUTE}/settings": f"{COSMOS}/settings",
    f"{COSMOS_ROUTE}/lifecycle": f"{COSMOS}/lifecycle",
    f"{MONGO_ROUTE}/documents": f"{MONGO}/documents",
    f"{MONGO_ROUTE}/document": f"{MONGO}/document?id=1",
    f"{MONGO_ROUTE}/new-document": f"{MONGO}/new-document",
    f"{MONGO_ROUTE}/upload": f"{MONGO}/upload",
    f"{MONGO_ROUTE}/query": f"{MONGO}/query",
    f"{MONGO_ROUTE}/drop": f"{MONGO}/drop",
    f"{MONGO_ROUTE}/indexes": f"{MONGO}/indexes?field=at&seconds=60",
    f"{MONGO_ROUTE}/lifecycle": f"{MONGO}/lifecycle",
    f"{YDB_ROUTE}/rows": f"{YDB}/rows",
    f"{YDB_ROUTE}/row": f"{YDB}/row?key=%5B%22an-id%22%5D",
    f"{YDB_ROUTE}/new": f"{YDB}/new",
    f"{YDB_ROUTE}/upload": f"{YDB}/upload",
    f"{YDB_ROUTE}/query": f"{YDB}/query",
    f"{YDB_ROUTE}/drop": f"{YDB}/drop",
    f"{YDB_ROUTE}/indexes": f"{YDB}/indexes",
    f"{YDB_ROUTE}/lifecycle": f"{YDB}/lifecycle",
    f"{YDB_ROUTE}/topic": "/_explorer/ydb/local/deep/topic-of-things/topic",
}
"""By route."""

FILES: Final = {
    "/_explorer/events.jsonl": "/_explorer/events.jsonl",
    "/_explorer/erasure.jsonl": "/_explorer/erasure.jsonl",
    "/_explorer/snapshots/{name}.snapshot": "/_explorer/snapshots/monday.snapshot",
    "/_explorer/static/{name:path}": "/_explorer/static/portal.css",
    f"{COSMOS_ROUTE}/export": f"{COSMOS}/export?form=csv",
    f"{MONGO_ROUTE}/export": f"{MONGO}/export?form=csv",
    f"{YDB_ROUTE}/export": f"{YDB}/export?form=jsonl",
}
"""What is saved as a file, or loaded by pages."""

ACTIONS: Final = {
    "/_explorer/snapshots/upload": "/_explorer/snapshots",
    f"{MONGO_ROUTE}/pass": f"{MONGO_ROUTE}/documents",
    f"{YDB_ROUTE}/pass": f"{YDB_ROUTE}/rows",
    f"{YDB_ROUTE}/delete": f"{YDB_ROUTE}/rows",
}
"""Routes of forms alone, and the page that has the form."""

OVERVIEW_TWIN: Final = "/_explorer/index.json"
OVERVIEW: Final = ("/", "/_explorer/", "/_explorer/index.html")


def routes(method: str) -> set[str]:
    """The paths of the portal's route table that take a method."""
    # The routes are built before the first request; nothing of the server is used for it.
    app = cast(Starlette, pages_app(cast(Any, None), Wires(cosmos=cast(Any, None))))
    return {each.path for each in app.routes if isinstance(each, Route) and method in (each.methods or ())}


def fill(shop: DatabaseProxy, server: RunningServer, **options: Any) -> None:
    """Write records of every protocol, with ids and columns that no window is wide enough for. `options`: of YDB's driver."""
    container = shop.create_container("sessions", PartitionKey("/pk"), default_ttl=7200, offer_throughput=400)
    container.create_item({"id": "1", "pk": "a"})
    container.create_item({"id": LONG, "pk": "a", "ttl": -1})
    container.create_item({"id": "gone", "pk": "a", "ttl": 60})
    container.read_item("1", "a")
    with server.mongo.client() as client:
        client.app.otps.create_index("at", expireAfterSeconds=5)
        client.app.otps.create_index("_ts", expireAfterSeconds=7200)
        client.app.otps.insert_one({"_id": LONG, "ttl": "x"})
        client.app.otps.insert_one({"_id": 1, "at": server.clock.now() + timedelta(hours=2)})
    with server.ydb.driver(**options) as driver, ydb.QuerySessionPool(driver) as pool:
        pool.execute_with_retries("DROP TABLE IF EXISTS carts")
        pool.execute_with_retries(
            f"CREATE TABLE carts (id Utf8, {COLUMN} Uint32, PRIMARY KEY (id), INDEX by_{COLUMN} GLOBAL ON ({COLUMN}))"
            f" WITH (TTL = Interval('PT1H') ON {COLUMN} AS SECONDS)"
        )
        pool.execute_with_retries("UPSERT INTO carts (id) VALUES ('an-id')")
        pool.execute_with_retries("CREATE TOPIC IF NOT EXISTS `deep/topic-of-things` (CONSUMER c)")
        with driver.topic_client.writer("deep/topic-of-things") as writer:
            writer.write_with_ack(LONG)
