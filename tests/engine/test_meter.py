"""Request units by minute: rings against a dict of all minutes."""

from __future__ import annotations

from random import Random

import pytest

from mayflydb.engine import meter as metering
from mayflydb.engine.meter import MINUTES, Meter
from mayflydb.model.instant import MINUTE, SECOND


class Watch:
    def __init__(self) -> None:
        self.now = 17 * SECOND

    def __call__(self) -> int:
        return self.now


def test_the_last_hour_is_kept_by_minute(seed: int) -> None:
    random, watch = Random(seed), Watch()
    meter = Meter(watch)
    spent: dict[tuple[int, int], tuple[float, int]] = {}
    for _ in range(400):
        watch.now += random.choice((0, SECOND, 20 * SECOND, 5 * MINUTE, 61 * MINUTE) if random.random() < 0.3 else (0,))
        container, minute = random.randrange(3), watch.now // MINUTE
        units, refused = spent.get((container, minute), (0.0, 0))
        if random.random() < 0.2:
            meter.refuse(container)
            spent[container, minute] = units, refused + 1
        else:
            meter.charge(container, "read", 2.5)
            spent[container, minute] = units + 2.5, refused
        wanted = random.sample(range(4), 2)
        expected = [
            tuple(map(sum, zip(*(spent.get((id, each), (0.0, 0)) for id in wanted), strict=True)))
            for each in range(minute - MINUTES + 1, minute + 1)
        ]
        assert [(each.units, each.refused) for each in meter.recent(wanted)] == expected


def test_the_rate_of_a_minute_that_is_not_over() -> None:
    watch = Watch()
    meter = Meter(watch)
    meter.charge(1, "read", 34)
    assert meter.recent([1])[-1].rate == 2
    watch.now = MINUTE
    assert (meter.recent([1])[-2].rate, meter.recent([1])[-1].rate) == (34 / 60, 0)


def test_containers_that_were_not_used_for_long_lose_their_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metering, "MOST_KEPT", 2)
    watch = Watch()
    meter = Meter(watch)
    for container in (1, 2, 1, 3):
        watch.now += MINUTE
        meter.charge(container, "read", 1)
    assert [sum(each.units for each in meter.recent([id])) for id in (1, 2, 3)] == [2, 0, 1]
    assert meter.units[2]["read"] == 1
    meter.forget_container(1)
    assert sum(each.units for each in meter.recent([1, 3])) == 1
    meter.forget()
    assert sum(each.units for each in meter.recent([3])) == 0
