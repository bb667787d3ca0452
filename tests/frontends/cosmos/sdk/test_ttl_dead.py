"""Writes that meet an item past its deadline: whether it is still stored or not, they find nobody."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from azure.core import MatchConditions
from azure.cosmos import ContainerProxy
from azure.cosmos.exceptions import CosmosBatchOperationError

from frontends.cosmos.service import Answer, Service, T, everywhere, path_of, rows, status_of

pytestmark = everywhere

BODY = {"id": "1", "pk": "p", "new": True}
IF_MATCH = MatchConditions.IfNotModified
SET = [{"op": "set", "path": "/n", "value": 1}]


@pytest.fixture(params=["hidden", "purged"])
def dead(request: pytest.FixtureRequest, service: Service) -> tuple[ContainerProxy, str]:
    """A container whose only item, `1`, has just died, and the etag it had."""
    proxy = service.container(100)
    etag = proxy.create_item({"id": "1", "pk": "p", "ttl": 10, "old": True})["_etag"]
    service.at(10)
    if request.param == "purged":
        assert service.server.purge()["purged"] == 1
    return proxy, str(etag)


def changed(proxy: ContainerProxy, how: str, etag: str) -> int:
    options: dict[str, Any] = {"etag": etag, "match_condition": IF_MATCH} if "If-Match" in how else {}
    if "any" in how:
        options = {"match_condition": MatchConditions.IfPresent}
    verb = how.split(maxsplit=1)[0]
    if verb == "replace":
        return status_of(proxy.replace_item, "1", dict(BODY), **options)
    if verb == "patch":
        return status_of(proxy.patch_item, "1", "p", SET, **options)
    return status_of(proxy.delete_item, "1", "p", **options)


HOWS = [f"{verb}{how}" for verb in ("replace", "patch", "delete") for how in ("", " If-Match", " any")]


@pytest.mark.parametrize("how", HOWS)
def test_a_change_finds_nobody(dead: tuple[ContainerProxy, str], how: str) -> None:
    proxy, etag = dead
    assert changed(proxy, how, etag) == 404, "never 412"
    assert list(proxy.read_all_items()) == []


@pytest.mark.parametrize("etag", ['"00000001-0000-0000-0000-000000000000"', '"x"', "*"])
@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
def test_expired_items_are_missing_whatever_the_etag(
    service: Service, dead: tuple[ContainerProxy, str], method: str, etag: str
) -> None:
    body = {"PUT": BODY, "PATCH": {"operations": SET}, "DELETE": None}[method]
    answer = service.raw(method, path_of(dead[0], "docs", "1"), body, {"if-match": etag}, pk="p")
    assert answer.status == 404


def raw_write(service: Service, proxy: ContainerProxy, upsert: bool, etag: str | None = None) -> Answer:
    headers = {"x-ms-documentdb-is-upsert": "True" if upsert else None, "if-match": etag}
    return service.raw("POST", path_of(proxy, "docs"), BODY, headers, pk="p")


@pytest.mark.parametrize("how", ["create", "upsert", "upsert If-Match", "upsert any"])
def test_a_new_item_inherits_nothing(service: Service, dead: tuple[ContainerProxy, str], how: str) -> None:
    proxy, etag = dead
    match = {"create": None, "upsert": None, "upsert If-Match": etag, "upsert any": "*"}[how]
    answer = raw_write(service, proxy, how.startswith("upsert"), match)
    assert answer.status == 201, answer
    item = answer.json
    assert {name for name in item if not name.startswith("_")} == {"id", "pk", "new"}
    assert item["_ts"] == T + 10
    assert item["_etag"] != etag
    service.at(109)
    assert status_of(proxy.read_item, "1", "p") == 200, "the dead item's own ttl of 10 is no longer"
    service.at(110)
    assert status_of(proxy.read_item, "1", "p") == 404


@pytest.mark.parametrize("how", ["create", "upsert"])
def test_a_write_over_an_expired_item_purges_it_with_its_event(service: Service, how: str) -> None:
    """Exactly one death is told of: that of the version that died, at the moment its place was taken."""
    proxy = service.container(10)
    proxy.create_item({"id": "1", "pk": "p"})
    service.at(12)
    assert raw_write(service, proxy, how == "upsert").status == 201
    (death,) = service.deaths()
    assert (death.how, death.cause, death.key, death.anchor) == ("replaced", "default", b"1", T * 1_000_000)
    assert (death.deadline, death.purged) == ((T + 10) * 1_000_000, (T + 12) * 1_000_000)
    assert service.server.purge()["purged"] == 0
    assert len(service.deaths()) == 1
    (told,) = service.server.events.expired
    assert (told.id, told.pk, told.reason) == ("1", "p", "default")


@pytest.mark.parametrize("steps", [
    [("replace", ("1", BODY))], [("patch", ("1", SET))], [("delete", ("1",))], [("read", ("1",))],
    [("create", ({"id": "2", "pk": "p"},)), ("delete", ("1",))],
])  # fmt: skip
def test_a_batch_finds_nobody(dead: tuple[ContainerProxy, str], steps: list[Any]) -> None:
    proxy, _ = dead
    with pytest.raises(CosmosBatchOperationError) as refused:
        proxy.execute_item_batch(steps, "p")
    assert refused.value.error_index == len(steps) - 1
    answers = [int(answer["statusCode"]) for answer in refused.value.operation_responses]
    assert answers == [424] * (len(steps) - 1) + [404]
    assert list(proxy.read_all_items()) == []


def test_a_batch_creates_and_then_finds_it(dead: tuple[ContainerProxy, str]) -> None:
    proxy, _ = dead
    steps: list[Any] = [
        ("create", (dict(BODY),)),
        ("patch", ("1", SET)),
        ("upsert", ({"id": "1", "pk": "p", "last": 1},)),
    ]
    answers = proxy.execute_item_batch(steps, "p")
    assert [int(answer["statusCode"]) for answer in answers] == [201, 200, 200]
    (item,) = proxy.read_all_items()
    assert {name for name in item if not name.startswith("_")} == {"id", "pk", "last"}


# --- unique keys -----------------------------------------------------------------------------------------------------

UNIQUE = {"uniqueKeys": [{"paths": ["/mail"]}, {"paths": ["/a", "/b"]}]}


@pytest.mark.parametrize("how", ["create", "upsert", "replace", "patch", "batch"])
@pytest.mark.parametrize("second", [9, 10, 11])
def test_a_unique_value_is_free_at_the_deadline(service: Service, how: str, second: int) -> None:
    proxy = service.container(1000, unique_key_policy=UNIQUE)
    proxy.create_item({"id": "1", "pk": "p", "mail": "m", "a": 1, "b": 1, "ttl": 10})
    proxy.create_item({"id": "2", "pk": "p", "mail": "other", "a": 2, "b": 2})
    service.at(second)
    taker = {"id": "3", "pk": "p", "mail": "m", "a": 3, "b": 3}
    ways: dict[str, Callable[[], Any]] = {
        "create": lambda: proxy.create_item(taker),
        "upsert": lambda: proxy.upsert_item(taker),
        "replace": lambda: proxy.replace_item("2", taker | {"id": "2"}),
        "patch": lambda: proxy.patch_item("2", "p", [{"op": "set", "path": "/mail", "value": "m"}]),
        "batch": lambda: proxy.execute_item_batch([("create", (taker,))], "p"),
    }
    work = ways[how]
    if second < 10:
        status = 409
        if how == "batch":
            with pytest.raises(CosmosBatchOperationError) as refused:
                work()
            assert int(refused.value.operation_responses[0]["statusCode"]) == status
        else:
            assert status_of(work) == status
        assert service.deaths() == []
        return
    work()
    (death,) = service.deaths()
    assert (death.key, death.how, death.cause) == (b"1", "replaced", "item")
    assert service.server.purge()["purged"] == 0
    mails = rows(proxy.query_items("SELECT VALUE c.id FROM c WHERE c.mail = 'm'", partition_key="p"))
    assert mails == ["2" if how in ("replace", "patch") else "3"]


def test_two_expired_holders_of_unique_values_at_once(service: Service) -> None:
    """One item takes its id from one dead item and its unique values from two others: all three go, each with its event."""
    proxy = service.container(10, unique_key_policy=UNIQUE)
    proxy.create_item({"id": "1", "pk": "p", "mail": "x", "a": 1, "b": 1})
    proxy.create_item({"id": "2", "pk": "p", "mail": "y", "a": 2, "b": 2})
    proxy.create_item({"id": "3", "pk": "p", "mail": "z", "a": 3, "b": 3})
    service.at(10)
    proxy.create_item({"id": "1", "pk": "p", "mail": "y", "a": 3, "b": 3})
    assert sorted(death.key for death in service.deaths()) == [b"1", b"2", b"3"]
    assert {death.how for death in service.deaths()} == {"replaced"}
    assert [item["id"] for item in proxy.read_all_items()] == ["1"]
    assert service.server.purge()["purged"] == 0


def test_a_unique_value_of_the_living_stays_held(service: Service) -> None:
    proxy = service.container(10, unique_key_policy=UNIQUE)
    proxy.create_item({"id": "1", "pk": "p", "mail": "m", "ttl": -1})
    service.at(1000)
    assert status_of(proxy.create_item, {"id": "2", "pk": "p", "mail": "m"}) == 409


# --- a whole partition -----------------------------------------------------------------------------------------------


def test_expired_items_of_a_deleted_partition_expire_with_an_event(service: Service) -> None:
    """Deleting a partition takes the living; what had expired is purged, with its event."""
    proxy = service.container(10)
    proxy.create_item({"id": "dead", "pk": "p"})
    proxy.create_item({"id": "alive", "pk": "p", "ttl": -1})
    service.at(1000)
    proxy.delete_all_items_by_partition_key("p")
    assert list(proxy.read_all_items()) == []
    assert service.server.purge()["purged"] == 1
