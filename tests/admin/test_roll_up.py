"""Roll-ups of expired records into another container, for all three protocols."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest
from azure.cosmos import PartitionKey

from mayflydb.embedded import RunningServer
from rolling_shops import LIFE, ROLL_UP, SHOPS, open_shop
from served import START, Http

NOW = datetime.fromisoformat(START)
DAY = START[:10]


class Rolling:
    """A shop of one protocol whose sales are rolled up."""

    def __init__(self, shop: Any, server: RunningServer, http: Http) -> None:
        self.shop, self.server, self.http = shop, server, http
        self.change({**ROLL_UP, "into": shop.into})

    def change(self, roll_up: object, **more: object) -> dict[str, Any]:
        answer: dict[str, Any] = self.http.post("lifecycle", target=self.shop.source, roll_up=roll_up, **more)
        return answer

    def put(self, *sales: tuple[int, str | None, Any]) -> None:
        for id, tenant, amount in sales:
            self.shop.put(id, tenant, amount, self.now)

    @property
    def now(self) -> datetime:
        return datetime.fromisoformat(self.http.get("clock")["now"])

    def expire(self) -> None:
        # A pass of YDB comes once in a quarter of an hour.
        self.server.clock.advance(hours=2)

    def metrics(self) -> set[tuple[str, str]]:
        """(name, value) of each sample, without labels."""
        lines = self.http("GET", "/metrics").body.decode().splitlines()
        return {(line.partition("{")[0], line.rpartition(" ")[2]) for line in lines}

    def settings(self) -> dict[str, Any]:
        (found,) = self.http.get(f"lifecycle?target={self.shop.source}")["targets"]
        return dict(found)


@pytest.fixture(params=list(SHOPS))
def rolling(request: pytest.FixtureRequest, server: RunningServer, http: Http) -> Iterator[Rolling]:
    with open_shop(request.param, server) as shop:
        yield Rolling(shop, server, http)


def test_expired_records_are_aggregated_once(rolling: Rolling) -> None:
    rolling.put((1, "a", 5), (2, "a", 7), (3, "b", -2), (4, None, 1), (5, "b", None))
    rolling.expire()
    first = {
        ("a", DAY): {"n": 2, "total": 12, "least": 5, "most": 7, "skipped": 0},
        ("b", DAY): {"n": 2, "total": -2, "least": -2, "most": -2, "skipped": 1},
        (None, DAY): {"n": 1, "total": 1, "least": 1, "most": 1, "skipped": 0},
    }
    assert (rolling.shop.live(), rolling.shop.totals()) == ({}, first)
    rolling.put((1, "a", 100), (6, "a", 1))
    rolling.expire()
    assert rolling.shop.totals() == first | {("a", DAY): {"n": 4, "total": 113, "least": 1, "most": 100, "skipped": 0}}


def test_the_setting_is_shown_as_it_was_set(rolling: Rolling) -> None:
    wanted = {**ROLL_UP, "into": rolling.shop.into}
    assert (rolling.settings()["roll_up"], rolling.settings()["held_roll_up"]) == (wanted, None)
    assert rolling.change("off")["roll_up"] is None
    rolling.put((1, "a", 5))
    rolling.expire()
    assert (rolling.shop.live(), rolling.shop.totals()) == ({}, {})


def test_deletes_and_replaces_by_clients_are_not_rolled_up(rolling: Rolling) -> None:
    rolling.put((1, "a", 5), (2, "a", 7))
    rolling.put((1, "a", 6))
    rolling.shop.delete(2)
    rolling.expire()
    assert rolling.shop.totals() == {("a", DAY): {"n": 1, "total": 6, "least": 6, "most": 6, "skipped": 0}}


def test_grace_rolls_up_at_the_purge_and_undelete_takes_nothing_back(rolling: Rolling) -> None:
    rolling.change({**ROLL_UP, "into": rolling.shop.into}, grace="3h")
    rolling.put((1, "a", 5))
    rolling.server.clock.advance(seconds=LIFE)
    assert (rolling.shop.live(), rolling.shop.totals()) == ({}, {})
    assert rolling.http.post("undelete", target=rolling.shop.source)["undeleted"] == 1
    rolling.server.clock.advance(hours=2)
    assert rolling.shop.totals() == {}
    rolling.server.clock.advance(hours=3)
    assert rolling.shop.totals()["a", DAY]["total"] == 5


@pytest.mark.parametrize("how", ["sweep", "replaced"])
def test_without_its_target_nothing_is_purged_until_it_is_back(rolling: Rolling, how: str) -> None:
    # Under a grace a record of each protocol is hidden at its deadline, so that another one takes its place.
    rolling.change({**ROLL_UP, "into": rolling.shop.into}, grace="1h")
    rolling.put((1, "a", 5))
    rolling.shop.drop_totals()
    rolling.server.clock.advance(hours=3)
    held = rolling.settings()["held_roll_up"]
    assert "totals" in held["reason"]
    (listed,) = rolling.http.get(f"ttl?target={rolling.shop.source}")["targets"]
    assert (listed["held"], rolling.shop.live()) == (True, {})
    assert ("mayfly_roll_up_held", "1") in rolling.metrics()
    with pytest.raises(Exception, match="rolled up"):
        rolling.put((1, "a", 1))
    rolling.shop.make_totals()
    if how == "sweep":
        rolling.server.clock.advance(seconds=1)
        rolling.http.post("purge")
    else:
        rolling.put((1, "a", 1))
    assert rolling.shop.totals() == {("a", DAY): {"n": 1, "total": 5, "least": 5, "most": 5, "skipped": 0}}
    rolling.expire()
    rolling.http.post("purge")
    assert rolling.settings()["held_roll_up"] is None


def test_a_target_that_refuses_holds_the_purge(rolling: Rolling) -> None:
    rolling.put((1, "a", 5))
    rolling.shop.spoil("a", DAY)
    rolling.expire()
    assert "total" in rolling.settings()["held_roll_up"]["reason"]
    rolling.shop.drop_totals()
    rolling.shop.make_totals()
    rolling.http.post("purge")
    assert rolling.settings()["held_roll_up"] is None
    assert rolling.shop.totals()["a", DAY]["total"] == 5


def test_totals_may_have_a_life_of_their_own(rolling: Rolling) -> None:
    rolling.shop.drop_totals()
    rolling.shop.make_totals(86_400 * 3)
    rolling.change({**ROLL_UP, "into": rolling.shop.into})
    rolling.put((1, "a", 5))
    rolling.expire()
    assert len(rolling.shop.totals()) == 1
    rolling.server.clock.advance(days=4)
    assert rolling.shop.totals() == {}


REFUSALS: list[tuple[dict[str, Any], int, str]] = [
    ({"into": "SOURCE"}, 409, "into itself"),
    ({"into": "nowhere"}, 400, "target"),
    ({"into": "OTHER"}, 400, "another protocol"),
    ({"sum": {"total": "amount"}}, 400, "no path"),
    ({"sum": {"tenant": "/amount"}}, 400, "two members"),
    ({"count": None, "sum": {}, "min": {}, "max": {}}, 400, "count"),
    ({"group": [{"day": "written", "path": "/tenant"}]}, 400, "one of path"),
    ({"group": [{"week": "written"}]}, 400, "week"),
    ({"first": {"x": "/amount"}}, 400, "first"),
    ({"group": [{"path": "/tenant", "name": "_x"}]}, 400, ""),
    ({"group": [f"/a{n}" for n in range(9)]}, 400, "8"),
]


@pytest.mark.parametrize(("change", "status", "words"), REFUSALS)
def test_a_roll_up_that_cannot_be_is_refused(rolling: Rolling, change: dict[str, Any], status: int, words: str) -> None:
    rolling.server.cosmos.client().create_database("others").create_container("x", PartitionKey("/id"))
    with rolling.server.mongo.client() as client:
        client["others"]["x"].insert_one({})
    is_cosmos = rolling.shop.source.startswith("cosmos")
    names = {"SOURCE": rolling.shop.source, "OTHER": "mongo:others.x" if is_cosmos else "cosmos:others/x"}
    wanted = {**ROLL_UP, "into": rolling.shop.into, **change}
    wanted["into"] = names.get(wanted["into"], wanted["into"])
    answer = rolling.http("POST", "/_mayfly/lifecycle", {"target": rolling.shop.source, "roll_up": wanted})
    assert (answer.status, words in str(answer.json)) == (status, True), answer


def test_a_cycle_is_refused(rolling: Rolling) -> None:
    wanted = {"target": rolling.shop.into, "roll_up": {**ROLL_UP, "into": rolling.shop.source}}
    answer = rolling.http("POST", "/_mayfly/lifecycle", wanted)
    assert (answer.status, "into itself" in str(answer.json)) == (409, True)


def test_an_instant_may_be_grouped_by_hour_day_and_month(rolling: Rolling) -> None:
    if rolling.shop.source.startswith("ydb"):
        pytest.skip("its key is made of the columns of the table; see test_roll_up_types")
    group = ["/tenant", *({unit: "deadline", "name": unit[0]} for unit in ("hour", "day", "month"))]
    rolling.change({"into": rolling.shop.into, "group": group, "count": "n"})
    rolling.put((1, "a", 5))
    rolling.expire()
    at = NOW + timedelta(seconds=LIFE)
    found = rolling.shop._totals
    (total,) = found.read_all_items() if rolling.shop.source.startswith("cosmos") else found.find()
    if "id" in total:
        assert [total[name] for name in "hdm"] == [f"{at:%Y-%m-%dT%H}", f"{at:%Y-%m-%d}", f"{at:%Y-%m}"]
    else:
        assert [f"{total['_id'][name]:%Y-%m-%dT%H:%M}" for name in "hdm"] == ["2030-01-01T00:00"] * 3
