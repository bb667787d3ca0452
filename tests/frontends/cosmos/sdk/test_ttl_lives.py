"""How long items live: default against own ttl, the exact second of death, what starts a life anew and what does not."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from azure.cosmos import ContainerProxy

from frontends.cosmos.sdk.verbs import VERBS, prepare, writer
from frontends.cosmos.service import START, Service, T, everywhere, path_of, status_of

NEVER = None
FAR = 4_000_000_000 - T
"""A second at which everything with a deadline in these tables is gone."""

# id, defaultTtl of the container, own ttl, second of death
MATRIX = [
    ("CM1", None, None, NEVER), ("CM2", None, -1, NEVER), ("CM3", None, 2000, NEVER),
    ("CM4", -1, None, NEVER), ("CM5", -1, -1, NEVER), ("CM6", -1, 2000, 2000),
    ("CM7", 1000, None, 1000), ("CM8", 1000, -1, NEVER), ("CM9a", 1000, 2000, 2000), ("CM9b", 1000, 500, 500),
]  # fmt: skip


def status(proxy: ContainerProxy, id: str = "1", pk: str = "p") -> int:
    return status_of(proxy.read_item, id, pk)


def dies_at(service: Service, proxy: ContainerProxy, second: int | None) -> None:
    """There at the second before, gone at that second and later; None: always there."""
    moments = [1999, 2000, FAR] if second is None else [second - 1, second, second + 1]
    for moment in moments:
        service.at(moment)
        assert status(proxy) == (200 if second is None or moment < second else 404), f"at {moment} s"


@everywhere
@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize(("name", "default", "own", "second"), MATRIX, ids=[row[0] for row in MATRIX])
def test_matrix(
    service: Service, name: str, default: int | None, own: int | None, second: int | None, verb: str
) -> None:
    proxy = service.container(default)
    prepare(proxy, verb)
    members = "{}" if own is None else f'{{"ttl":{own}}}'
    writer(service, proxy, members).write(verb, members)
    assert proxy.read_item("1", "p").get("ttl") == own
    dies_at(service, proxy, second)


@pytest.mark.parametrize(("name", "default", "own", "second"), MATRIX, ids=[row[0] for row in MATRIX])
def test_matrix_with_the_asynchronous_client(
    service: Service, name: str, default: int | None, own: int | None, second: int | None
) -> None:
    proxy = service.container(default)
    container = service.aio(proxy)
    container.call("upsert_item", {"id": "1", "pk": "p"} | ({} if own is None else {"ttl": own}))
    for moment in [1999, 2000] if second is None else [second - 1, second, second + 1]:
        service.at(moment)
        seen = container.call("query_items", "SELECT VALUE c.id FROM c", partition_key="p")
        assert seen == (["1"] if second is None or moment < second else [])
        assert status_of(container.call, "read_item", "1", "p") == (200 if seen else 404)


# --- boundaries ------------------------------------------------------------------------------------------------------

MICROSECOND = 0.000001

# id, start of the clock, seconds after it of the write, ttl, seconds after the start of death, smallest step
BOUNDARIES = [
    ("B1", START, 0, 10, 10, 1),
    ("B2", START, 0.999999, 10, 10, MICROSECOND),
    ("B3", START, 0, 2147483647, 2147483647, 1),
    ("B10", "2038-01-19T03:14:07Z", 0, 1, 1, MICROSECOND),
]


@everywhere
@pytest.mark.parametrize("place", ["default", "own"])
@pytest.mark.parametrize(
    ("name", "start", "written", "ttl", "dies", "step"), BOUNDARIES, ids=[b[0] for b in BOUNDARIES]
)
def test_boundaries(
    service: Service, name: str, start: str, written: float, ttl: int, dies: int, step: float, place: str
) -> None:
    service.server.start_at(start)
    begin = service.server.clock.now()
    proxy = service.container(ttl if place == "default" else -1)

    def go_to(second: float) -> None:
        service.server.clock.advance(begin + timedelta(seconds=second) - service.server.clock.now(), sweep="none")

    go_to(written)
    item = proxy.create_item({"id": "1", "pk": "p"} | ({"ttl": ttl} if place == "own" else {}))
    assert item["_ts"] == int(begin.timestamp()), "the second of the write, rounded down"
    swept = []
    for second in (dies - step, dies, dies + step):
        go_to(second)
        assert status(proxy) == (200 if second < dies else 404), f"at {second} s"
        swept.append(service.server.purge()["purged"])
    assert swept == [0, 1, 0], "a sweep takes what is due at its start, once"


@everywhere
@pytest.mark.parametrize("second", [9, 10, 11])
def test_a_sweep_takes_what_is_due_when_it_starts(service: Service, second: int) -> None:
    proxy = service.container(10)
    proxy.create_item({"id": "1", "pk": "p"})
    service.at(second)
    assert service.server.purge()["purged"] == (0 if second < 10 else 1)
    assert len(service.server.events.expired) == (0 if second < 10 else 1)


# --- what starts a life anew -----------------------------------------------------------------------------------------

BODY = {"id": "1", "pk": "p", "n": 1}


def _batch(proxy: ContainerProxy, verb: str, *args: Any) -> None:
    proxy.execute_item_batch([(verb, args)], "p")


RENEWING: dict[str, Callable[[Any], Any]] = {
    "upsert, identical": lambda c: c.upsert_item(dict(BODY)),
    "replace, identical": lambda c: c.replace_item("1", dict(BODY)),
    "replace, other": lambda c: c.replace_item("1", BODY | {"n": 2}),
    "upsert, minimal": lambda c: c.upsert_item(dict(BODY), no_response=True),
    "replace, minimal": lambda c: c.replace_item("1", dict(BODY), no_response=True),
    "patch": lambda c: c.patch_item("1", "p", [{"op": "set", "path": "/n", "value": 1}]),
    "patch, minimal": lambda c: c.patch_item("1", "p", [{"op": "incr", "path": "/n", "value": 1}], no_response=True),
    "batch upsert": lambda c: _batch(c, "upsert", dict(BODY)),
    "batch replace": lambda c: _batch(c, "replace", "1", dict(BODY)),
    "batch patch": lambda c: _batch(c, "patch", "1", [{"op": "set", "path": "/n", "value": 3}]),
}


@everywhere
@pytest.mark.parametrize("how", RENEWING)
def test_a_write_starts_a_new_life(service: Service, how: str) -> None:
    proxy = service.container(10)
    proxy.create_item(dict(BODY))
    service.at(9.5)
    RENEWING[how](proxy)
    assert proxy.read_item("1", "p")["_ts"] == T + 9
    for second in (10, 18.9, 19):
        service.at(second)
        assert status(proxy) == (200 if second < 19 else 404)


READING: dict[str, Callable[[Any], Any]] = {
    "read": lambda c: c.read_item("1", "p"),
    "readMany": lambda c: c.read_items([("1", "p")]),
    "query": lambda c: list(c.query_items("SELECT * FROM c", enable_cross_partition_query=True)),
    "feed": lambda c: list(c.read_all_items()),
    "changes": lambda c: list(c.query_items_change_feed(start_time="Beginning")),
    "batch read": lambda c: c.execute_item_batch([("read", ("1",))], "p"),
    "refused create": lambda c: status_of(c.create_item, dict(BODY)),
    "refused replace": lambda c: status_of(
        c.replace_item, "1", dict(BODY), etag='"other"', match_condition=_if_not_modified()
    ),
}


def _if_not_modified() -> Any:
    from azure.core import MatchConditions

    return MatchConditions.IfNotModified


@pytest.mark.parametrize("how", READING)
def test_a_read_or_a_refused_write_does_not(service: Service, how: str) -> None:
    proxy = service.container(10)
    before = proxy.create_item(dict(BODY))
    service.at(9)
    READING[how](proxy)
    assert proxy.read_item("1", "p") == before
    service.at(10)
    assert status(proxy) == 404


@everywhere
def test_replacing_the_container_does_not(service: Service) -> None:
    proxy = service.container(10)
    before = proxy.create_item(dict(BODY))
    service.at(9)
    service.set_default_ttl(proxy, 10)
    assert proxy.read_item("1", "p") == before
    service.at(10)
    assert status(proxy) == 404


# --- own ttl changed, removed ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("operation", "second"),
    [
        ({"op": "set", "path": "/ttl", "value": 100}, 105),
        ({"op": "incr", "path": "/ttl", "value": 5}, 20),
        ({"op": "replace", "path": "/ttl", "value": 1}, 6),
        ({"op": "replace", "path": "/ttl", "value": -1}, NEVER),
        ({"op": "remove", "path": "/ttl"}, 25),
        ({"op": "move", "from": "/ttl", "path": "/was"}, 25),
        ({"op": "move", "from": "/other", "path": "/ttl"}, 12),
    ],
)
def test_patching_the_ttl(service: Service, operation: dict[str, Any], second: int | None) -> None:
    proxy = service.container(20)
    proxy.create_item({"id": "1", "pk": "p", "ttl": 10, "other": 7})
    service.at(5)
    proxy.patch_item("1", "p", [operation])
    dies_at(service, proxy, second)


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "incr", "path": "/ttl", "value": -10},
        {"op": "set", "path": "/ttl", "value": 0},
        {"op": "move", "from": "/pk2", "path": "/ttl"},
        {"op": "add", "path": "/ttl", "value": None},
        {"op": "incr", "path": "/ttl", "value": 0.5},
    ],
)
def test_a_patch_whose_result_has_an_invalid_ttl_is_refused(service: Service, operation: dict[str, Any]) -> None:
    proxy = service.container(20)
    before = proxy.create_item({"id": "1", "pk": "p", "ttl": 10, "pk2": "x"})
    service.at(5)
    assert status_of(proxy.patch_item, "1", "p", [operation]) == 400
    assert proxy.read_item("1", "p") == before
    service.at(10)
    assert status(proxy) == 404


def test_removing_the_ttl_by_writing_without_it(service: Service) -> None:
    proxy = service.container(-1)
    proxy.create_item({"id": "1", "pk": "p", "ttl": 10})
    service.at(9)
    proxy.replace_item("1", dict(BODY))
    dies_at(service, proxy, NEVER)


@everywhere
@pytest.mark.parametrize("purged", [False, True])
def test_created_again_after_death(service: Service, purged: bool) -> None:
    """The second life has nothing of the first: other etag, other rid, its own ttl and deadline."""
    proxy = service.container(20)
    first = proxy.create_item({"id": "1", "pk": "p", "ttl": 5, "old": True})
    service.at(5)
    if purged:
        service.server.purge()
    second = proxy.create_item({"id": "1", "pk": "p"})
    assert second.keys() & {"old", "ttl"} == set()
    assert second["_etag"] != first["_etag"]
    assert second["_rid"] != first["_rid"]
    assert second["_ts"] == T + 5
    answer = service.raw("PUT", path_of(proxy, "docs", "1"), dict(BODY), {"if-match": first["_etag"]}, pk="p")
    assert answer.status == 412
    dies_at(service, proxy, 25)
    assert [event.version for event in service.deaths()] != [], "the first life has its event"
