"""What a preview counts is what a purge removes, and what a forecast counts is what an advanced clock expires."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

import pytest

from mayflydb.embedded import RunningServer, serve
from reliability.previews.subjects import CosmosSubject, MongoSubject, Subject, YdbSubject
from served import START, Http, port_of
from stores import place

STORES = ("memory", *(pytest.param(each, marks=pytest.mark.soak) for each in ("file", "postgres")))
SUBJECTS: dict[str, Callable[[RunningServer], Subject]] = {
    "cosmos": CosmosSubject,
    "mongo": lambda server: MongoSubject(server, "shown", hides=False),
    "mongo-hiding": lambda server: MongoSubject(server, "hiding", hides=True),
    "ydb": lambda server: YdbSubject(server, hides=False),
    "ydb-hiding": lambda server: YdbSubject(server, hides=True),
}
HORIZONS = {"1h": 3_600_000_000, "1d": 86_400_000_000, "7d": 7 * 86_400_000_000}
ROUNDS = 3


@pytest.fixture(scope="module", params=STORES)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    directory = tmp_path_factory.mktemp(f"previews-{request.param}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(directory))
        hiding = {"hiding": {"expiry": "hide"}}
        where = place(request.param, request, directory) | {"scheme": "http"}
        with serve(**where, port=0, clock="virtual", clock_start=START, mongo_database=hiding) as running:
            yield running


@pytest.fixture(params=SUBJECTS)
def subject(request: pytest.FixtureRequest, store: RunningServer) -> Iterator[Subject]:
    made = SUBJECTS[request.param](store)
    yield made
    made.close()


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
