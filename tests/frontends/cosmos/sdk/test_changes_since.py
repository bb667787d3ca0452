"""The latest-version feed from a time: items whose `_ts` is that second or later, whatever range, page or life they are of."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Any

import pytest
from azure.cosmos import ContainerProxy

from frontends.cosmos.service import Async, Service, Sync, T, everywhere, path_of

pytestmark = everywhere


def http_date(second: float) -> str:
    return format_datetime(datetime.fromtimestamp(T + second, UTC), usegmt=True)


def page(
    service: Service, proxy: ContainerProxy, since: float, etag: str | None = None, **other: str
) -> tuple[list[str], str]:
    """Ids, and the etag to go on from."""
    headers: dict[str, str | bytes | None] = {"a-im": "Incremental Feed", "if-modified-since": http_date(since)}
    headers |= {name.replace("_", "-"): value for name, value in other.items()} | (
        {"if-none-match": etag} if etag else {}
    )
    answer = service.raw("GET", path_of(proxy, "docs"), None, headers)
    assert answer.status in (200, 304), answer
    rows = answer.json["Documents"] if answer.status == 200 else []
    assert [row["_lsn"] for row in rows] == sorted(row["_lsn"] for row in rows)
    return [row["id"] for row in rows], answer.headers["etag"]


def since(service: Service, proxy: ContainerProxy, second: float, **other: str) -> list[str]:
    return page(service, proxy, second, **other)[0]


@pytest.fixture
def proxy(service: Service) -> ContainerProxy:
    """Written at 0, 10, 10.9 and 20; `a` once more at 25."""
    proxy = service.container(100)
    for second, id in ((0, "a"), (10, "b"), (10.9, "c"), (20, "d"), (25, "a")):
        service.at(second)
        proxy.upsert_item({"id": id, "pk": f"p{id}"})
    return proxy


@pytest.mark.parametrize(
    ("second", "wanted"),
    [
        (-(10**6), "bcda"), (0, "bcda"), (9, "bcda"), (10, "bcda"), (11, "da"), (20, "da"), (21, "a"), (25, "a"),
        (26, ""), (10**6, ""),
    ],
)  # fmt: skip
def test_the_second_counts(service: Service, proxy: ContainerProxy, second: float, wanted: str) -> None:
    assert since(service, proxy, second) == list(wanted)


@pytest.mark.parametrize(
    ("now", "second", "wanted"),
    [(109, 0, "bcda"), (110, 0, "da"), (110, 10, "da"), (119, 10, "da"), (120, 10, "a"), (124, 25, "a"), (125, 25, "")],
)
def test_expired_items_are_not_in_the_feed(
    service: Service, proxy: ContainerProxy, now: float, second: float, wanted: str
) -> None:
    service.at(now)
    assert since(service, proxy, second) == list(wanted)
    service.server.purge()
    assert since(service, proxy, second) == list(wanted), "nor once they are purged"


def test_ttl_changes_count_at_once(service: Service, proxy: ContainerProxy) -> None:
    service.at(30)
    service.set_default_ttl(proxy, 6)
    assert since(service, proxy, 0) == ["a"]
    service.set_default_ttl(proxy, None)
    assert since(service, proxy, 0) == ["b", "c", "d", "a"], "they were not purged"


def test_deletes_are_not_told(service: Service, proxy: ContainerProxy) -> None:
    proxy.delete_item("b", "pb")
    assert since(service, proxy, 10) == ["c", "d", "a"]


@pytest.mark.parametrize("size", [1, 2, 3])
def test_pages(service: Service, proxy: ContainerProxy, size: int) -> None:
    """The etag of a page is stronger than the time, which clients keep sending."""
    found, etag = page(service, proxy, 10, x_ms_max_item_count=str(size))
    seen = list(found)
    assert len(found) == size
    while found:
        found, etag = page(service, proxy, 10, etag, x_ms_max_item_count=str(size))
        assert len(found) <= size
        seen += found
    assert seen == ["b", "c", "d", "a"]
    proxy.upsert_item({"id": "e", "pk": "pe"})
    assert page(service, proxy, 10**6, etag)[0] == ["e"]


def test_an_empty_feed_can_be_continued(service: Service, proxy: ContainerProxy) -> None:
    found, etag = page(service, proxy, 26)
    assert found == []
    service.at(30)
    proxy.upsert_item({"id": "b", "pk": "pb"})
    assert page(service, proxy, 26, etag)[0] == ["b"]


def test_the_etag_of_an_empty_container_is_one(service: Service) -> None:
    proxy = service.container()
    found, etag = page(service, proxy, 1000)
    assert (found, etag) == ([], '"0"')
    proxy.upsert_item({"id": "a", "pk": "p"})
    assert page(service, proxy, 1000, etag)[0] == ["a"], "it is stronger than the time"


def test_a_page_of_hidden_ones_ends_where_it_stood(service: Service) -> None:
    proxy = service.container(-1)
    rows: list[dict[str, Any]] = [{"id": f"i{n}", "pk": "p", "ttl": 1000 if n % 100 == 99 else 5} for n in range(700)]
    service.fill(proxy, rows)
    service.at(5)
    found, etag = page(service, proxy, 0, x_ms_max_item_count="3")
    assert found == ["i99", "i199", "i299"]
    assert page(service, proxy, 0, etag)[0] == ["i399", "i499", "i599", "i699"]


@pytest.mark.parametrize("throughput", [400, 30000])
def test_ranges_and_keys_by_the_clients(service: Service, flavour: str, throughput: int) -> None:
    proxy = service.container(100, offer_throughput=throughput)
    container: Sync | Async = service.sync(proxy) if flavour == "sync" else service.aio(proxy)
    for second in (0, 10):
        service.at(second)
        service.fill(proxy, [{"id": f"{second}-{n}", "pk": f"p{n}"} for n in range(12)])
    moment = datetime.fromtimestamp(T + 10, UTC)

    def changes(**options: Any) -> list[str]:
        return [row["id"] for row in container.call("query_items_change_feed", start_time=moment, **options)]

    wanted = sorted(f"10-{n}" for n in range(12))
    assert sorted(changes()) == wanted
    assert sorted(changes(max_item_count=2)) == wanted
    assert changes(partition_key="p3") == ["10-3"]
    ranges = list(proxy.read_feed_ranges())
    by_range = [changes(feed_range=each, max_item_count=1) for each in ranges]
    assert sorted(id for ids in by_range for id in ids) == wanted
    assert throughput == 400 or sum(map(bool, by_range)) > 1
    service.at(110)
    assert changes() == [], "all of them are dead"
