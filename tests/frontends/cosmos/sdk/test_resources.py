"""Databases and containers: created, read, listed, found, replaced, dropped, and made anew."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from azure.cosmos import ContainerProxy, PartitionKey
from azure.cosmos.exceptions import (
    CosmosHttpResponseError,
    CosmosResourceExistsError,
    CosmosResourceNotFoundError,
)

from frontends.cosmos.service import Service, everywhere, ids, in_memory, path_of, rows, status_of

KEY = PartitionKey("/pk")

NAMES = [
    "a", "with space", "  two", "Straße", "日本語", "😀🎉", "100%", "%41", "%2F", "a+b", "a&b=c", "it's", 'say "x"',
    "semi;colon", "tilde~", "(brackets)[]{}", "dbs", "colls", "docs", "x" * 255, "ü" * 255, "null", "..", ".", "a.b",
    "comma,", "@", "$1", "*", "<b>", "^`|", "-", "_",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_names(service: Service, name: str) -> None:
    """A name is kept as it is, whatever it takes to write it in a URL, for database, container and item."""
    if name in (".", ".."):
        # The client's HTTP library resolves dots in paths, so that such a resource cannot be reached.
        assert service.raw("POST", "/dbs", {"id": name}).status == 201
        return
    database = service.client.create_database(name)
    container = database.create_container(name, KEY)
    item = container.create_item({"id": name, "pk": name})
    assert item["id"] == name
    assert container.read_item(name, name) == item
    assert container.replace_item(name, {"id": name, "pk": name, "n": 1})["n"] == 1
    assert rows(container.query_items("SELECT VALUE c.id FROM c WHERE c.id = @id", [{"name": "@id", "value": name}],
                                      partition_key=name)) == [name]  # fmt: skip
    assert ids(service.client.list_databases()) == [name]
    assert ids(database.list_containers()) == [name]
    assert container.read()["id"] == database.read()["id"] == name
    container.delete_item(name, name)
    assert status_of(container.read_item, name, name) == 404
    database.delete_container(name)
    service.client.delete_database(name)
    assert ids(service.client.list_databases()) == []


@in_memory
@pytest.mark.parametrize("name", ["a/b", "a\\b", "a?b", "a#b", "", "x" * 256, None, 5])
@pytest.mark.parametrize("path", ["/dbs", "/dbs/db/colls"])
def test_names_that_are_refused(service: Service, path: str, name: Any) -> None:
    service.raw("POST", "/dbs", {"id": "db"})
    answer = service.raw(
        "POST", path, {"id": name, "partitionKey": {"paths": ["/pk"]}} if "colls" in path else {"id": name}
    )
    assert (answer.status, answer.json["code"]) == (400, "BadRequest")
    assert "id" in answer.json["message"]
    assert service.raw("GET", path).json["_count"] == (0 if "colls" in path else 1)


def test_names_differ_by_case(service: Service) -> None:
    for name in ("Shop", "shop", "SHOP"):
        service.client.create_database(name)
    assert ids(service.client.list_databases()) == ["SHOP", "Shop", "shop"]
    assert status_of(service.client.get_database_client("sHOP").read) == 404


# --- databases -------------------------------------------------------------------------------------------------------


@everywhere
def test_database(service: Service) -> None:
    client = service.client
    created = client.create_database("shop").read()
    assert len(base64.b64decode(created["_rid"].replace("-", "/"))) == 4
    assert created == client.get_database_client("shop").read()
    assert created.keys() == {"id", "_rid", "_self", "_etag", "_colls", "_users", "_ts"}
    with pytest.raises(CosmosResourceExistsError) as exists:
        client.create_database("shop")
    assert exists.value.status_code == 409
    assert "Resource with specified id, name, or unique index already exists." in str(exists.value)
    assert client.create_database_if_not_exists("shop").read() == created
    assert client.create_database_if_not_exists("other").read()["id"] == "other"
    client.delete_database("shop")
    for call in (client.get_database_client("shop").read, lambda: client.delete_database("shop")):
        with pytest.raises(CosmosResourceNotFoundError) as missing:
            call()
        assert missing.value.sub_status in (None, 0)
    again = client.create_database("shop").read()
    assert again["_rid"] != created["_rid"]


@everywhere
def test_databases_are_listed_and_queried_page_by_page(service: Service) -> None:
    for n in range(7):
        service.client.create_database(f"d{n}")
    pages = [[row["id"] for row in page] for page in service.client.list_databases(max_item_count=3).by_page()]
    assert pages == [["d0", "d1", "d2"], ["d3", "d4", "d5"], ["d6"]]
    found = service.client.query_databases(
        "SELECT * FROM root r WHERE r.id = @id", parameters=[{"name": "@id", "value": "d4"}]
    )
    assert ids(found) == ["d4"]
    ordered = service.client.query_databases("SELECT VALUE r.id FROM r WHERE r.id > 'd4' ORDER BY r.id DESC")
    assert rows(ordered) == ["d6", "d5"]


@everywhere
def test_dropping_a_database_drops_what_is_in_it(service: Service) -> None:
    proxy = service.container()
    proxy.create_item({"id": "1", "pk": "p"})
    name = proxy.container_link.split("/")[1]
    service.client.delete_database(name)
    service.client.create_database(name)
    assert status_of(proxy.read) == 404
    service.client.get_database_client(name).create_container("c", KEY)
    assert service.raw("GET", path_of(proxy, "docs")).json["Documents"] == []


@everywhere
def test_a_stale_session_reads_the_container_made_anew(service: Service) -> None:
    proxy = service.container()
    for n in range(5):
        proxy.create_item({"id": str(n), "pk": "p"})
    database = service.client.get_database_client(proxy.container_link.split("/")[1])
    database.delete_container("c")
    proxy = database.create_container("c", KEY)
    assert list(proxy.read_all_items()) == []


# --- containers ------------------------------------------------------------------------------------------------------


@everywhere
def test_container(service: Service) -> None:
    database = service.client.create_database("shop")
    created = database.create_container("c", KEY, default_ttl=60).read()
    assert len(base64.b64decode(created["_rid"].replace("-", "/"))) == 8
    assert created["defaultTtl"] == 60
    assert created["partitionKey"] == {"paths": ["/pk"], "kind": "Hash", "version": 2}
    assert created["indexingPolicy"]["indexingMode"] == "consistent"
    assert status_of(database.create_container, "c", KEY) == 409
    assert database.create_container_if_not_exists("c", KEY).read() == created
    assert database.create_container_if_not_exists("d", KEY).read()["id"] == "d"
    assert ids(database.query_containers("SELECT * FROM root r WHERE r.id = 'd'")) == ["d"]
    database.delete_container("c")
    assert ids(database.list_containers()) == ["d"]
    assert status_of(database.delete_container, "c") == 404


@pytest.mark.parametrize(
    ("path", "substatus"),
    [("/dbs/none", 0), ("/dbs/none/colls", 1003), ("/dbs/none/colls/c", 1003), ("/dbs/shop/colls/none", 0),
     ("/dbs/none/colls/c/docs", 1003), ("/dbs/shop/colls/none/docs", 1003), ("/dbs/shop/colls/none/docs/1", 1003),
     ("/dbs/shop/colls/none/pkranges", 1003), ("/dbs/none/colls/c/pkranges", 1003), ("/dbs/shop/colls/c/docs/none", 0),
     ("/offers/none", 0)],
)  # fmt: skip
def test_missing_resources(service: Service, path: str, substatus: int) -> None:
    service.client.create_database("shop").create_container("c", KEY)
    answer = service.raw("GET", path, pk="p")
    assert (answer.status, answer.substatus, answer.json["code"]) == (404, substatus, "NotFound")


def replaced(service: Service, proxy: ContainerProxy, **members: Any) -> Any:
    body = {"id": "c", "partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 2}} | members
    return service.raw("PUT", path_of(proxy), {name: value for name, value in body.items() if value is not ...})


@pytest.mark.parametrize("members", [
    {"id": "other"},
    {"partitionKey": {"paths": ["/other"], "kind": "Hash", "version": 2}},
    {"partitionKey": {"paths": ["/pk"], "kind": "Hash", "version": 1}},
    {"uniqueKeyPolicy": {"uniqueKeys": [{"paths": ["/mail"]}]}},
    {"unknown": 1}, {"ttlPropertyPath": "/at"}, {"indexingPolicy": {"indexingMode": "sometimes"}},
    {"vectorEmbeddingPolicy": {"vectorEmbeddings": [{"path": "v"}]}}, {"analyticalStorageTtl": 60},
])  # fmt: skip
def test_a_replace_that_is_refused(service: Service, members: dict[str, Any]) -> None:
    proxy = service.container(5)
    before = proxy.read()
    answer = replaced(service, proxy, defaultTtl=50, **members)
    assert answer.status == 400, answer
    (named,) = members
    assert named in answer.json["message"] or "indexingMode" in answer.json["message"]
    assert proxy.read() == before


@everywhere
def test_replace_keeps_items_and_honours_the_etag(service: Service) -> None:
    proxy = service.container()
    item = proxy.create_item({"id": "1", "pk": "p"})
    before = proxy.read()
    answer = replaced(service, proxy, defaultTtl=50, geospatialConfig={"type": "Geometry"})
    assert answer.status == 200
    assert answer.json["_etag"] != before["_etag"]
    assert answer.json["_rid"] == before["_rid"]
    assert answer.headers["etag"] == answer.json["_etag"]
    assert answer.json["geospatialConfig"] == {"type": "Geometry"}
    assert proxy.read_item("1", "p") == item
    body = {"id": "c", "partitionKey": before["partitionKey"]}
    stale = service.raw("PUT", path_of(proxy), body, {"if-match": before["_etag"]})
    assert (stale.status, stale.json["code"]) == (412, "PreconditionFailed")
    assert service.raw("PUT", path_of(proxy), body, {"if-match": answer.json["_etag"]}).status == 200
    assert "defaultTtl" not in proxy.read()


@everywhere
def test_a_recreated_container_is_another_one(service: Service, flavour: str) -> None:
    """A client that knows the old container by heart is told so (1024), reads the new one, and goes on."""
    proxy = service.container(60)
    name = proxy.container_link.split("/")[1]
    client = service.sync(proxy) if flavour == "sync" else service.aio(proxy)
    client.call("create_item", {"id": "1", "pk": "p"})
    first = proxy.read()
    database = service.client.get_database_client(name)
    database.delete_container("c")
    # Made by plain HTTP, so that no client hears of it.
    made = service.raw("POST", f"/dbs/{name}/colls", {"id": "c", "partitionKey": {"paths": ["/other"], "version": 2}})
    assert made.status == 201
    assert made.json["_rid"] != first["_rid"]
    stale = service.raw(
        "GET", path_of(proxy, "docs", "1"), None, {"x-ms-cosmos-intended-collection-rid": first["_rid"]}, pk="p"
    )
    assert (stale.status, stale.substatus) == (400, 1024)
    assert status_of(client.call, "read_item", "1", "p") == 404
    created = client.call("create_item", {"id": "2", "other": "q"})
    assert client.call("read_item", "2", "q") == created
    assert client.call("read_all_items") == [created]


@everywhere
def test_a_client_outlives_a_reset(service: Service) -> None:
    """Its session token is of another life of the server, and still it reads what it writes."""
    database = service.client.create_database("life")
    proxy = database.create_container("c", KEY)
    for n in range(20):
        proxy.create_item({"id": str(n), "pk": "p"})
    service.begin()
    database = service.client.create_database("life")
    proxy = database.create_container("c", KEY)
    proxy.create_item({"id": "1", "pk": "p"})
    assert status_of(proxy.read_item, "1", "p") == 200
    assert status_of(proxy.read_item, "2", "p") == 404
    assert [item["id"] for item in proxy.read_all_items()] == ["1"]


def test_self_links(service: Service) -> None:
    """A rid stands for its resource wherever a name may stand."""
    proxy = service.container()
    proxy.create_item({"id": "1", "pk": "p"})
    rid, self_link = proxy.read()["_rid"], proxy.read()["_self"]
    answer = service.raw("GET", f"/{self_link}")
    assert (answer.status, answer.json["_rid"]) == (200, rid)
    assert service.raw("GET", f"/{self_link}docs").json["_count"] == 1


def test_account(service: Service) -> None:
    for path in ("/", ""):
        answer = service.raw("GET", path or "/")
        assert answer.status == 200
        (location,) = answer.json["writableLocations"]
        assert location["databaseAccountEndpoint"] == service.url
        assert isinstance(answer.json["queryEngineConfiguration"], str)


@pytest.mark.parametrize("host", ["localhost:1234", "mayfly:8081", "127.0.0.1"])
def test_the_account_is_where_the_client_asked(service: Service, host: str) -> None:
    answer = service.raw("GET", "/", None, {"host": host})
    assert answer.json["readableLocations"][0]["databaseAccountEndpoint"] == f"{service.raw.scheme}://{host}/"


def test_there_are_no_conflicts(service: Service) -> None:
    proxy = service.container()
    assert list(proxy.list_conflicts()) == []
    assert list(proxy.query_conflicts("SELECT * FROM c", enable_cross_partition_query=True)) == []
    assert status_of(lambda: list(proxy.query_conflicts("SELECT * FROM c"))) == 400
    assert status_of(proxy.get_conflict, "x", "p") == 404
    assert status_of(proxy.delete_conflict, "x", "p") == 404


def test_flat_shapes_are_refused_by_name(service: Service) -> None:
    body = {"id": "flat", "partitionKey": {"paths": ["/pk"]}, "geospatialConfig": {"type": "Geometry"}}
    database = service.client.create_database("shop")
    assert service.raw("POST", "/dbs/shop/colls", body).status == 201
    flat = database.get_container_client("flat")
    text = "SELECT VALUE ST_ISVALID(c.p) FROM c"
    with pytest.raises(CosmosHttpResponseError, match="ST_ISVALID in a container of Geometry"):
        list(flat.query_items(text, partition_key="p"))
    assert list(service.container().query_items(text, partition_key="p")) == []


def test_conflicts_are_an_empty_feed_and_refused_by_name(service: Service) -> None:
    proxy = service.container()
    answer = service.raw("GET", path_of(proxy, "conflicts"))
    assert (answer.status, answer.json["_count"]) == (200, 0)
    for method, path in (("POST", path_of(proxy, "conflicts")), ("PUT", path_of(proxy, "conflicts", "x"))):
        refused = service.raw(method, path, {"id": "x"})
        assert (refused.status, "not supported by Mayfly" in refused.json["message"]) == (400, True)


# --- throughput ------------------------------------------------------------------------------------------------------


@everywhere
def test_manual_throughput(service: Service) -> None:
    database = service.client.create_database("shop")
    container = database.create_container("c", KEY, offer_throughput=800)
    offer = container.get_throughput()
    assert offer.offer_throughput == 800
    assert container.replace_throughput(1200).offer_throughput == 1200
    assert container.get_throughput().offer_throughput == 1200
    assert database.create_container("d", KEY).get_throughput().offer_throughput == 400
    for wrong in (300, 450, 1_000_100):
        assert status_of(container.replace_throughput, wrong) == 400
    assert container.get_throughput().offer_throughput == 1200


@everywhere
def test_autoscale_throughput(service: Service) -> None:
    from azure.cosmos import ThroughputProperties

    database = service.client.create_database("shop")
    properties = ThroughputProperties(auto_scale_max_throughput=4000, auto_scale_increment_percent=10)
    container = database.create_container("c", KEY, offer_throughput=properties)
    offer = container.get_throughput()
    assert (offer.auto_scale_max_throughput, offer.auto_scale_increment_percent) == (4000, 10)
    container.replace_throughput(ThroughputProperties(auto_scale_max_throughput=6000))
    assert container.get_throughput().auto_scale_max_throughput == 6000
    assert status_of(container.replace_throughput, ThroughputProperties(auto_scale_max_throughput=1500)) == 400
    assert container.get_throughput().auto_scale_max_throughput == 6000


@everywhere
def test_shared_throughput(service: Service) -> None:
    """A database with an offer shares it: its containers have none of their own unless they ask."""
    database = service.client.create_database("shop", offer_throughput=1000)
    assert database.get_throughput().offer_throughput == 1000
    link = database.create_container("c", KEY).read()["_self"]
    query = {"query": "SELECT * FROM root r WHERE r.resource = @link", "parameters": [{"name": "@link", "value": link}]}
    found = service.raw("POST", "/offers", query, {"content-type": "application/query+json"})
    assert found.json["Offers"] == []
    own = database.create_container("d", KEY, offer_throughput=500)
    assert own.get_throughput().offer_throughput == 500
    assert len(service.raw("GET", "/offers").json["Offers"]) == 2


@pytest.mark.parametrize("headers", [
    {"x-ms-offer-throughput": "399"}, {"x-ms-offer-throughput": "401"}, {"x-ms-offer-throughput": "x"},
    {"x-ms-cosmos-offer-autopilot-settings": '{"maxThroughput":900}'},
    {"x-ms-cosmos-offer-autopilot-settings": "{"}, {"x-ms-cosmos-offer-autopilot-settings": "[]"},
    {"x-ms-offer-throughput": "400", "x-ms-cosmos-offer-autopilot-settings": '{"maxThroughput":4000}'},
])  # fmt: skip
def test_throughput_that_is_refused(service: Service, headers: dict[str, str | bytes | None]) -> None:
    assert service.raw("POST", "/dbs", {"id": "shop"}, headers).status == 400
    assert service.raw("GET", "/dbs/shop").status == 404
