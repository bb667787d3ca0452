"""A forecast, a read as of a later instant, and the clock that is advanced to it agree, whatever the lifecycle settings."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Literal

import pytest

from mayflydb.embedded import RunningServer
from reliability.previews.subjects import Subject
from served import START, Http, port_of

ROUNDS = 2
SWEEPS: tuple[Literal["now", "scheduled", "none"], ...] = ("now", "scheduled", "none")
SPANS = {"1h": 3_600, "1d": 86_400, "7d": 7 * 86_400}


class Ahead:
    """One container with random rules, dates, grace and touch. Its seed repeats it."""

    def __init__(self, server: RunningServer, subject: Subject, seed: int) -> None:
        self._server = server
        self._http = Http(port_of(server))
        self._subject = subject
        self._chance = random.Random(seed)

    def play(self) -> int:
        """Return the number of records that expired on the way."""
        self._server.start_at(START)
        self._subject.fill(self._chance)
        grace, touch = self._chance.choice(("0s", "0s", "30m", "3d")), self._chance.choice(("0s", "1m", "1h"))
        self._server.set_lifecycle(self._subject.target, grace=grace, touch=touch)
        print(f"grace {grace}, touch {touch}")
        if self._chance.random() < 0.3:
            self._http.post("ttl/set", target=self._subject.target, **self._subject.propose(self._chance))
        self._use()
        # What is hidden at its deadline needs no purge.
        return self._look(hides=self._subject.hides or grace != "0s")

    def _use(self) -> None:
        """Some records are read by their key, at several instants: their lives may be longer."""
        for _ in range(self._chance.randrange(4)):
            self._server.clock.advance(seconds=self._chance.choice((1, 59, 61, 3_599)))
            there = sorted(self._subject.ids())
            for id in self._chance.sample(there, min(len(there), 3)):
                self._subject.read(id)
        # A move of the clock comes after the notes of reads.
        self._server.clock.advance(seconds=1)

    def _look(self, hides: bool) -> int:
        """Compare the three, bucket by bucket."""
        span, buckets = self._chance.choice(list(SPANS)), self._chance.choice((1, 2, 4))
        target = self._subject.target
        forecast = self._http.get(f"ttl/forecast?target={target}&horizon={span}&buckets={buckets}")
        assert forecast["exact"]
        ends = [datetime.fromisoformat(bucket["to"]) for bucket in forecast["buckets"]]
        told = [self._subject.ids(end) for end in ends]
        expired = 0
        for bucket, end, expected in zip(forecast["buckets"], ends, told, strict=True):
            sweep = self._chance.choice(SWEEPS) if hides else "now"
            self._server.clock.advance(end - self._server.clock.now(), sweep=sweep)
            assert self._subject.ids() == expected, (bucket, sweep)
            expired += bucket["count"]
            assert len(expected) == forecast["in_horizon"] - expired + forecast["later"] + forecast["never"], bucket
        return expired


def test_three_ways_to_look_ahead_agree(store: RunningServer, subject: Subject, seed: int) -> None:
    expired = 0
    for number in range(ROUNDS):
        print(f"round {seed + number}")
        expired += Ahead(store, subject, seed + number).play()
    print(f"{expired} records expired")


@pytest.mark.soak
def test_three_ways_to_look_ahead_agree_for_hours(
    store: RunningServer,
    subject: Subject,
    seed: int,
    soaking: Callable[[float], Iterator[int]],
    figure: Callable[[str], None],
) -> None:
    expired = 0
    for number in soaking(0.005):
        print(f"round {seed + number}")
        expired += Ahead(store, subject, seed + number).play()
        figure(f"{number + 1} rounds, {expired} records expired")
