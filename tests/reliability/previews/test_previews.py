"""What a preview counts is what a purge removes, and what a forecast counts is what an advanced clock expires."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from mayflydb.embedded import RunningServer
from reliability.previews.subjects import Subject
from served import START, Http, port_of

HORIZONS = {"1h": 3_600_000_000, "1d": 86_400_000_000, "7d": 7 * 86_400_000_000}
ROUNDS = 3


class Round:
    """One container that is filled, changed and left to time. Its seed repeats it."""

    def __init__(self, server: RunningServer, subject: Subject, seed: int) -> None:
        self._server = server
        self._http = Http(port_of(server))
        self._subject = subject
        self._chance = random.Random(seed)

    def play(self) -> int:
        """Return the number of records that expired on the way. AssertionError where a count does not come true."""
        self._server.start_at(START)
        self._subject.fill(self._chance)
        before, ahead = self._change()
        if self._chance.random() < 0.3:
            return self._let_run(ahead)
        gone = ahead["expire_now"] + before["hidden"] - ahead["reappear_now"]
        assert self._post("purge")["purged"] == gone, (before, ahead)
        assert self._subject.count() == ahead["records"] - ahead["expire_now"] + ahead["reappear_now"]
        return int(ahead["expire_now"]) + self._wait(ahead)

    def _post(self, path: str, **body: Any) -> Any:
        return self._http.post(path, target=self._subject.target, **body)

    def _describe(self) -> dict[str, Any]:
        found: dict[str, Any] = self._http.get(f"ttl?target={self._subject.target}")["targets"][0]
        assert found["exact"]
        return found

    def _forecast(self, horizon: str, buckets: int) -> Any:
        found = self._http.get(f"ttl/forecast?target={self._subject.target}&horizon={horizon}&buckets={buckets}")
        assert found["exact"]
        return found

    def _change(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Preview a change and make it. Return the container as it was, and the preview."""
        before = self._describe()
        assert before["records"] == self._subject.count()
        change = self._subject.propose(self._chance)
        ahead: dict[str, Any] = self._post("ttl/preview", **change)
        assert ahead["exact"] and ahead["records"] == before["records"]
        assert len(ahead["sample"]) == min(10, ahead["expire_now"])
        self._post("ttl/set", **change)
        if self._subject.hides:
            assert self._subject.count() == ahead["records"] - ahead["expire_now"] + ahead["reappear_now"], (
                change,
                ahead,
            )
        return before, ahead

    def _let_run(self, ahead: dict[str, Any]) -> int:
        """Advance to the next pass or removal run, which purges what is forecast up to then, and no more."""
        row = self._describe()
        to = row.get("next_run") or row.get("next_pass")
        now = self._server.clock.now()
        span = timedelta(hours=1) if to is None else datetime.fromisoformat(to) - now
        forecast = self._forecast(f"{span // timedelta(microseconds=1)}us", 1)
        walk = self._server.clock.advance(span)
        told = walk["by_target"].get(self._subject.target, {"expired": 0, "purged": 0})
        assert (
            told["expired"] == forecast["in_horizon"] and told["purged"] == forecast["due_now"] + forecast["in_horizon"]
        )
        assert self._subject.count() == forecast["later"] + forecast["never"]
        assert forecast["never"] == ahead["never"]
        return int(told["purged"])

    def _wait(self, ahead: dict[str, Any]) -> int:
        """Advance the clock bucket by bucket, and compare what expires with the forecast."""
        span = self._chance.choice(list(HORIZONS))
        buckets = self._chance.choice((1, 2, 5))
        forecast = self._forecast(span, buckets)
        assert forecast["due_now"] == 0
        expired = 0
        for bucket in forecast["buckets"]:
            walk = self._server.clock.advance(f"{HORIZONS[span] // buckets}us", sweep="now")
            told = walk["by_target"].get(self._subject.target, {"expired": 0, "purged": 0})
            assert (walk["now"], walk["exact"]) == (bucket["to"], True)
            assert told == {"expired": bucket["count"], "purged": bucket["count"]}, (bucket, forecast)
            expired += bucket["count"]
        assert expired == forecast["in_horizon"] == ahead["expire_within"][span] - ahead["expire_now"]
        assert self._subject.count() == forecast["later"] + forecast["never"]
        self._server.clock.advance(days=365, sweep="now")
        assert self._subject.count() == forecast["never"] == ahead["never"]
        return expired


def test_previews_and_forecasts_come_true(store: RunningServer, subject: Subject, seed: int) -> None:
    expired = 0
    for number in range(ROUNDS):
        print(f"round {seed + number}")
        expired += Round(store, subject, seed + number).play()
    print(f"{expired} records expired")


@pytest.mark.soak
def test_previews_and_forecasts_come_true_for_hours(
    store: RunningServer,
    subject: Subject,
    seed: int,
    soaking: Callable[[float], Iterator[int]],
    figure: Callable[[str], None],
) -> None:
    expired = 0
    for number in soaking(0.005):
        print(f"round {seed + number}")
        expired += Round(store, subject, seed + number).play()
        figure(f"{number + 1} rounds, {expired} records expired")
