"""The JSON twin of a grid shows what the page shows: the same filter, the same order, the same page."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest
import ydb
from azure.cosmos import DatabaseProxy, PartitionKey

from mayflydb.embedded import RunningServer
from portal.page_table import COSMOS, MONGO, YDB
from portal.visitor import Visitor
from served import Http, port_of

MANY = 103


@pytest.fixture
def many(shop: DatabaseProxy, server: RunningServer) -> None:
    container = shop.create_container("sessions", PartitionKey("/pk"))
    for n in range(MANY):
        container.create_item({"id": f"{n:03}", "pk": "a", "n": n})
    with server.mongo.client() as client:
        client.app.otps.insert_many([{"_id": f"{n:03}", "n": n} for n in range(MANY)])
    with server.ydb.driver() as driver, ydb.QuerySessionPool(driver) as pool:
        pool.execute_with_retries("DROP TABLE IF EXISTS carts")
        pool.execute_with_retries("CREATE TABLE carts (id Utf8 NOT NULL, n Uint64, PRIMARY KEY (id))")
        rows = ", ".join(f"('{n:03}', {n})" for n in range(MANY))
        pool.execute_with_retries(f"UPSERT INTO carts (id, n) VALUES {rows}")


@pytest.mark.parametrize(
    ("address", "member", "filter", "wrong"),
    [
        (f"{COSMOS}/items.json", "items", "WHERE c.n >= 100", "WHERE ("),
        (f"{MONGO}/documents.json", "documents", "{n: {$gte: 100}}", "{n: {$no: 1}}"),
        (f"{YDB}/rows.json", "documents", "n >= 100", "("),
    ],
)
@pytest.mark.parametrize("store", ["memory"], indirect=True, scope="session")
def test_twins_of_grids(
    many: None, server: RunningServer, visitor: Visitor, address: str, member: str, filter: str, wrong: str
) -> None:
    def read(**asked: str) -> tuple[list[str], str | None]:
        shown = visitor.json(f"{address}?{urlencode(asked)}")
        # The key of a row is a list of texts.
        return [row["id"].strip('[]"') for row in shown[member]], shown["after"]

    ids = [f"{n:03}" for n in range(MANY)]
    assert read(filter=filter) == (ids[100:], None)
    first, following = read(sort="n")
    assert first == ids[:100] and following is not None
    assert read(sort="n", at=following) == (ids[100:], None)
    assert read(sort="-n")[0][:2] == ids[:-3:-1]
    first, following = read()
    assert len(first) == 100 and following is not None
    rest, _ = read(after=following)
    assert sorted(first + rest) == ids
    answer = Http(port_of(server))("GET", f"{address}?{urlencode({'filter': wrong})}")
    assert (answer.status, answer.headers["content-type"]) == (400, "application/problem+json")
