"""Rids as clients parse them, and rids in the form of earlier versions: these resolve wherever the newer ones do.

Java and .NET take the last 8 bytes of a document's rid for a number, least significant byte first, whose top 4 bits say what the
rid names: `ResourceId` of azure-cosmos (https://github.com/Azure/azure-sdk-for-java).
"""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from azure.cosmos import ContainerProxy

from frontends.cosmos.service import Answer, Service, everywhere, older_rid, path_of, rid_number

SCRIPT = "function () { return 1; }"
DOCUMENT, RANGE, FUNCTION, TRIGGER, PROCEDURE = 0, 5, 6, 7, 8


def create(service: Service, proxy: ContainerProxy, word: str, more: dict[str, str]) -> dict[str, Any]:
    answer = service.raw("POST", path_of(proxy, word), {"id": "s", "body": SCRIPT} | more)
    assert answer.status == 201
    return dict(answer.json)


def test_the_kind_is_where_clients_look_for_it(service: Service) -> None:
    proxy = service.container()
    # From the 16th on the number has more than 4 bits, from the 256th on more than 8.
    items = [proxy.create_item({"id": str(n), "pk": "p"}) for n in range(300)]
    numbers = [rid_number(item["_rid"]) for item in items]
    assert [number >> 60 for number in numbers] == [DOCUMENT] * 300
    assert numbers == sorted(set(numbers)) and numbers[0] > 0
    (row,) = service.raw("GET", path_of(proxy, "pkranges")).json["PartitionKeyRanges"]
    assert rid_number(row["_rid"]) >> 60 == RANGE
    trigger = {"triggerType": "Pre", "triggerOperation": "All"}
    for word, more, kind in (("udfs", {}, FUNCTION), ("triggers", trigger, TRIGGER), ("sprocs", {}, PROCEDURE)):
        assert rid_number(create(service, proxy, word, more)["_rid"]) >> 60 == kind


class Old:
    """An item that is named by its rid of the earlier form."""

    def __init__(self, service: Service, proxy: ContainerProxy, item: dict[str, Any]) -> None:
        self.service = service
        self.rid = older_rid(item["_rid"])
        assert self.rid != item["_rid"]
        self.path = f"/{proxy.read()['_self']}docs/{self.rid}"

    def __call__(self, method: str, body: Any = None, **headers: str) -> Answer:
        return self.service.raw(method, self.path, body, dict(headers), pk="p")


@everywhere
def test_an_item_by_its_older_rid(service: Service) -> None:
    proxy = service.container()
    others = [proxy.create_item({"id": f"o{n}", "pk": "p"}) for n in range(20)]
    old = Old(service, proxy, proxy.create_item({"id": "a", "pk": "p"}))
    assert old("GET").json["id"] == "a"
    assert old("PUT", {"id": "a", "pk": "p", "n": 1}).json["n"] == 1
    assert old("PATCH", {"operations": [{"op": "incr", "path": "/n", "value": 1}]}).json["n"] == 2
    assert proxy.read_item("a", "p")["n"] == 2
    assert (old("DELETE").status, old("GET").status) == (204, 404)
    proxy.create_item({"id": "a", "pk": "p"})
    assert old("GET").status == 404, "a name given again is another item's"
    assert [item["id"] for item in proxy.read_all_items()] == [item["id"] for item in others] + ["a"]


@everywhere
def test_a_script_and_its_documents_by_their_older_rids(service: Service) -> None:
    proxy = service.container()
    item = proxy.create_item({"id": "a", "pk": "p"})
    link = f"{proxy.read()['_self']}docs/{older_rid(item['_rid'])}/"
    body = f"""function () {{
        __.readDocument("{link}", (error, found) => __.response.setBody(error ? error.number : found.id));
    }}"""
    made = proxy.scripts.create_stored_procedure({"id": "s", "body": body})
    answer = service.raw("POST", f"/{proxy.read()['_self']}sprocs/{older_rid(made['_rid'])}", [], pk="p")
    assert (answer.status, answer.json) == (200, "a")


@everywhere
def test_permissions_by_older_rids(service: Service) -> None:
    proxy = service.container()
    item = proxy.create_item({"id": "a", "pk": "p"})
    old = Old(service, proxy, item)
    database = service.client.get_database_client(proxy.container_link.split("/")[1])
    user = database.create_user({"id": "ann"})
    resource = old.path.strip("/")
    made = user.create_permission({"id": "p", "permissionMode": "Read", "resource": resource}).properties
    for name in (made["_rid"], older_rid(made["_rid"])):
        assert service.raw("GET", f"/{user.read()['_self']}permissions/{name}").json["id"] == "p"
    bearer = {"authorization": quote(made["_token"], safe="")}
    for path in (old.path, f"/{item['_self']}"):
        assert service.raw("GET", path, None, bearer, pk="p").json["id"] == "a"
    other = proxy.create_item({"id": "b", "pk": "p"})
    assert service.raw("GET", f"/{other['_self']}", None, bearer, pk="p").status == 403
