"""Pages across a deadline: the dead stop to appear, nobody appears twice, nobody who lives is missed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from azure.cosmos import ContainerProxy

from frontends.cosmos.service import Service, everywhere

pytestmark = everywhere

COUNT = 10
DIES = 10

Ask = Callable[..., Any]

# How the pages are asked for, and the order in which items come (by n).
FEEDS: dict[str, tuple[Ask, list[int]]] = {
    "streaming": (lambda c, **o: c.query_items("SELECT * FROM c", partition_key="p", **o), list(range(COUNT))),
    "projected": (lambda c, **o: c.query_items("SELECT c.id, c.n FROM c", partition_key="p", **o), list(range(COUNT))),
    "filtered": (
        lambda c, **o: c.query_items("SELECT * FROM c WHERE c.n >= 0", partition_key="p", **o), list(range(COUNT)),
    ),
    "ascending": (
        lambda c, **o: c.query_items("SELECT * FROM c ORDER BY c.n", partition_key="p", **o), list(range(COUNT)),
    ),
    "descending": (
        lambda c, **o: c.query_items("SELECT * FROM c ORDER BY c.n DESC", partition_key="p", **o),
        list(range(COUNT))[::-1],
    ),
    "feed": (lambda c, **o: c.read_all_items(**o), list(range(COUNT))),
    "all partitions": (
        lambda c, **o: c.query_items("SELECT * FROM c", enable_cross_partition_query=True, **o), list(range(COUNT)),
    ),
    "changes": (lambda c, **o: c.query_items_change_feed(start_time="Beginning", **o), list(range(COUNT))),
}  # fmt: skip


def fill(service: Service, proxy: ContainerProxy, dying: set[int]) -> None:
    rows = [{"id": f"i{n}", "pk": "p", "n": n} | ({"ttl": DIES} if n in dying else {}) for n in range(COUNT)]
    service.fill(proxy, rows)


@pytest.mark.parametrize(("read", "size"), [(1, 1), (2, 3), (1, 7)])
@pytest.mark.parametrize("name", FEEDS)
def test_pages_in_flight(service: Service, name: str, read: int, size: int) -> None:
    """`read` pages before the deadline, the rest after it."""
    proxy = service.container(-1)
    dying = {0, 2, 3, 6, 9}
    fill(service, proxy, dying)
    ask, order = FEEDS[name]
    pages = ask(proxy, max_item_count=size).by_page()
    early = [item["n"] for _ in range(read) for item in next(pages, ())]
    assert early == order[: read * size]
    service.at(DIES)
    late = [item["n"] for page in pages for item in page]
    assert late == [n for n in order[len(early) :] if n not in dying]


RESUMABLE = [name for name in FEEDS if name != "changes"]


def go_on(
    service: Service, proxy: ContainerProxy, name: str, between: Callable[[], None]
) -> tuple[list[int], list[int]]:
    """The first page of four, then `between`, then the rest with a continuation token and a new query."""
    ask, _ = FEEDS[name]
    pages = ask(proxy, max_item_count=4).by_page()
    early = [item["n"] for item in next(pages)]
    token = pages.continuation_token
    assert token
    between()
    return early, [item["n"] for page in ask(proxy, max_item_count=4).by_page(token) for item in page]


@pytest.mark.parametrize("purged", [False, True])
@pytest.mark.parametrize("name", RESUMABLE)
def test_a_token_across_the_deadline(service: Service, name: str, purged: bool) -> None:
    """Also when the very item that the token points to has died, or is gone."""
    proxy = service.container(-1)
    _, order = FEEDS[name]
    dying = set(order[2:6])
    fill(service, proxy, dying)

    def between() -> None:
        service.at(DIES)
        if purged:
            assert service.server.purge()["purged"] == len(dying)

    early, late = go_on(service, proxy, name, between)
    assert early == order[:4]
    assert late == order[6:]


@pytest.mark.parametrize("name", RESUMABLE)
def test_a_token_across_deletes(service: Service, name: str) -> None:
    proxy = service.container(-1)
    fill(service, proxy, set())
    _, order = FEEDS[name]

    def between() -> None:
        for n in order[1:5]:
            proxy.delete_item(f"i{n}", "p")

    early, late = go_on(service, proxy, name, between)
    assert early == order[:4]
    assert late == order[5:]


@pytest.mark.parametrize("name", RESUMABLE)
def test_a_token_across_inserts_and_updates(service: Service, name: str) -> None:
    """What comes in before the place reached is not seen any more, what comes in behind it may be; nothing else moves."""
    proxy = service.container(-1)
    fill(service, proxy, set())
    _, order = FEEDS[name]
    ordered = name in ("ascending", "descending")
    first, later = (-5, 50) if name != "descending" else (50, -5)

    def between() -> None:
        proxy.create_item({"id": "before", "pk": "p", "n": first})
        proxy.create_item({"id": "behind", "pk": "p", "n": later})
        proxy.replace_item(f"i{order[0]}", {"id": f"i{order[0]}", "pk": "p", "n": order[0], "touched": True})
        proxy.replace_item(f"i{order[8]}", {"id": f"i{order[8]}", "pk": "p", "n": order[8], "touched": True})

    early, late = go_on(service, proxy, name, between)
    assert early == order[:4]
    if name == "filtered":
        assert late == [*order[4:], later]
    elif ordered:
        assert late == [*order[4:], later]
    else:
        assert late == [*order[4:], first, later]


@pytest.mark.parametrize("name", RESUMABLE)
def test_a_token_across_death_and_second_life(service: Service, name: str) -> None:
    """An item that died unread and was created anew appears once."""
    proxy = service.container(-1)
    _, order = FEEDS[name]
    fill(service, proxy, {order[0], order[7]})

    def between() -> None:
        service.at(DIES)
        for n in (order[0], order[7]):
            proxy.create_item({"id": f"i{n}", "pk": "p", "n": n})

    early, late = go_on(service, proxy, name, between)
    assert early == order[:4]
    if name in ("ascending", "descending"):
        assert late == order[4:]
    else:
        assert late == [*order[4:7], *order[8:], order[0], order[7]], "a second life is a new item"


def test_ties_in_the_order_are_told_apart(service: Service) -> None:
    proxy = service.container(-1)
    for n in range(12):
        proxy.create_item({"id": f"i{n}", "pk": "p", "n": n // 5} | ({"ttl": DIES} if n in (3, 4) else {}))
    pages = proxy.query_items("SELECT * FROM c ORDER BY c.n", partition_key="p", max_item_count=4).by_page()
    early = [item["id"] for item in next(pages)]
    service.at(DIES)
    late = [item["id"] for page in pages for item in page]
    assert early == ["i0", "i1", "i2", "i3"]
    assert late == [f"i{n}" for n in range(5, 12)]


def test_extending_a_life_between_pages(service: Service) -> None:
    proxy = service.container(DIES)
    for n in range(6):
        proxy.create_item({"id": f"i{n}", "pk": "p", "n": n})
    pages = proxy.query_items("SELECT * FROM c", partition_key="p", max_item_count=2).by_page()
    assert [item["n"] for item in next(pages)] == [0, 1]
    service.at(9)
    proxy.patch_item("i4", "p", [{"op": "set", "path": "/kept", "value": True}])
    service.at(DIES)
    assert [item["n"] for page in pages for item in page] == [4]
