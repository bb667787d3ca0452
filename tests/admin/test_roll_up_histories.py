"""What clients have written is in records or in totals, to the last unit: random histories, each protocol, each store."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mayflydb.embedded import RunningServer, serve
from rolling_shops import ROLL_UP, SHOPS, Shop, open_shop
from served import START
from stores import STORES, place

TENANTS = ("a", "b", "c / d", None)
STEPS, SALES = 60, 10


@pytest.fixture(scope="module", params=STORES)
def store(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def stored_server(
    store: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    directory = tmp_path_factory.mktemp(store)
    where: dict[str, Any] = {"path": directory / "mayfly.db"} if store == "file" else place(store, request, Path())
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(directory))
        with serve(**where, port=0, clock="virtual", clock_start=START) as running:
            yield running


class History:
    """A random history of sales, and the sum that they must have."""

    def __init__(self, server: RunningServer, shop: Shop, chance: random.Random) -> None:
        self.server, self.shop, self.chance = server, shop, chance
        self.expected = 0

    def step(self) -> None:
        draw = self.chance.random()
        if draw < 0.6:
            self.put(self.chance.randrange(SALES))
        elif draw < 0.7:
            live = self.shop.live()
            if live:
                id = self.chance.choice(sorted(live))
                self.shop.delete(id)
                self.expected -= live[id] or 0
        elif draw < 0.95:
            self.server.clock.advance(seconds=self.chance.choice((1, 20, 50, 100, 4000)))
        else:
            self.server.purge()

    def put(self, id: int) -> None:
        before = self.shop.live().get(id) or 0
        amount = self.chance.choice((None, self.chance.randrange(-99, 1000)))
        self.shop.put(id, self.chance.choice(TENANTS), amount, self.server.clock.now())
        self.expected += (amount or 0) - before

    def sum(self) -> int:
        return sum(total.get("total", 0) for total in self.shop.totals().values())


@pytest.mark.parametrize("protocol", list(SHOPS))
def test_sales_and_totals_amount_to_what_was_written(stored_server: RunningServer, protocol: str, seed: int) -> None:
    chance = random.Random(seed)
    stored_server.start_at(START)
    with open_shop(protocol, stored_server) as shop:
        # Under a grace of another protocol than Cosmos DB, too, a record is hidden at its deadline and replaced by writes.
        grace = chance.choice(("0s", "90s", "2h"))
        stored_server.set_lifecycle(shop.source, roll_up={**ROLL_UP, "into": shop.into}, grace=grace)
        history = History(stored_server, shop, chance)
        for n in range(STEPS):
            history.step()
            if n % 20 == 19:
                stored_server.clock.advance(hours=4)
                assert (shop.live(), history.sum()) == ({}, history.expected)
