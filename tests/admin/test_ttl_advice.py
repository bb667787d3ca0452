"""Advice on a ttl from what clients of all three protocols do, on every store, and after a restart."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import ydb
from azure.cosmos import PartitionKey
from click.testing import CliRunner

from mayflydb.cli.main import mayfly
from mayflydb.embedded import RunningServer, serve
from mayflydb.expiry.ttl_advice import LEAST_SAMPLES
from served import START, Http, port_of

TARGETS = {"cosmos": "cosmos:shop/sessions", "mongo": "mongo:app.otps", "ydb": "ydb:/local/carts"}
RECORDS = 4
DAYS = 3
READS = LEAST_SAMPLES // (RECORDS * DAYS * 3) + 1
HOUR, DAY = 3600, 86400


class Site:
    """The clients of a server."""

    def __init__(self, server: RunningServer) -> None:
        self.server = server
        self.account = server.cosmos.client()
        self.mongo = server.mongo.client()
        self.driver = server.ydb.driver()
        self.otps = self.mongo["app"]["otps"]

    def close(self) -> None:
        self.mongo.close()
        self.driver.stop()

    def query(self, text: str) -> list[Any]:
        with ydb.QuerySessionPool(self.driver) as pool:
            return list(pool.execute_with_retries(text))

    def fill(self) -> None:
        shop = self.account.create_database("shop")
        shop.create_container("sessions", PartitionKey("/id"))
        self.query("CREATE TABLE carts (id Utf8, made Timestamp, seen Datetime, n Uint64, PRIMARY KEY (id))")

    @property
    def sessions(self) -> Any:
        return self.account.get_database_client("shop").get_container_client("sessions")

    def use(self, days: int = DAYS) -> None:
        """Write records each day, and read them by their keys for 50 minutes."""
        for _ in range(days):
            now = self.server.clock.now()
            day = f"{now:%y%m%d}"
            for n in range(RECORDS):
                self.sessions.create_item({"id": f"{day}-{n}", "text": "x" * 100})
                self.otps.insert_one({"_id": f"{day}-{n}", "at": now, "text": "x" * 100})
                self.query(
                    f"UPSERT INTO carts (id, made, n) VALUES ('{day}-{n}', Timestamp('{now:%Y-%m-%dT%H:%M:%SZ}'), 7)"
                )
            for minutes in (5, 25, 20):
                self.server.clock.advance(minutes=minutes)
                for n in range(RECORDS):
                    for _ in range(READS):
                        self.sessions.read_item(f"{day}-{n}", f"{day}-{n}")
                        assert self.otps.find_one({"_id": f"{day}-{n}"})
                    self.query("; ".join([f"SELECT * FROM carts WHERE id = '{day}-{n}'"] * READS))
            self.server.clock.advance(hours=23, minutes=10)

    def advice(self, protocol: str, number: int = 0) -> dict[str, Any]:
        (found,) = self.server.ttl.advise(TARGETS[protocol])["targets"]
        advice: dict[str, Any] = found["advice"][number]
        return advice


@contextmanager
def opened(storage: str | None, start: str = START, **more: Any) -> Iterator[Site]:
    place: dict[str, Any] = {"memory": True} if storage is None else {"storage": storage}
    with serve(
        **place, port=0, mongo_port=0, ydb_port=0, clock="virtual", clock_start=start, allow_time_travel=True, **more
    ) as server:
        site = Site(server)
        try:
            yield site
        finally:
            site.close()


@pytest.fixture(params=["memory", "file", "postgres"])
def store(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def storage(store: str, request: pytest.FixtureRequest, tmp_path: Path) -> str | None:
    if store == "memory":
        return None
    return f"sqlite:///{tmp_path}/mayfly.db" if store == "file" else str(request.getfixturevalue("postgres").fresh())


def brief(advice: dict[str, Any]) -> tuple[Any, ...]:
    return advice["field"], advice["verdict"], advice["proposed"], advice["reads"]["longest"]


def test_every_protocol_is_advised(storage: str | None) -> None:
    with opened(storage) as site:
        site.fill()
        site.use()
        found = {each["target"]: each for each in site.server.ttl.advise()["targets"]}
        assert sorted(found) == sorted(TARGETS.values())
        longest = 50 * 60
        for target in TARGETS.values():
            row = found[target]
            assert (row["since"], row["observed_seconds"]) == (START, DAYS * DAY), target
            assert (row["created"], row["deleted"], row["own_ttl"]) == (RECORDS * DAYS, 0, 0), target
            assert row["only_grows"]["records_per_day"] == RECORDS, target
            assert row["only_grows"]["bytes_per_day"] > 0, target
        assert [brief(each) for each in found["cosmos:shop/sessions"]["advice"]] == [(None, "propose", HOUR, longest)]
        assert [brief(each) for each in found["mongo:app.otps"]["advice"]] == [
            (None, "propose", HOUR, longest),
            ("at", "propose", HOUR, longest),
        ]
        # A column without a date, and a number whose unit is not known, are not proposed.
        assert [brief(each) for each in found["ydb:/local/carts"]["advice"]] == [("made", "propose", HOUR, longest)]
        for row in found.values():
            for advice in row["advice"]:
                count = advice["reads"]["sampled"]
                # Of the last day nothing is older than an hour when it is read; now everything is.
                assert advice["frees"]["records"] == RECORDS * DAYS, row["target"]
                assert advice["frees"]["exact"]
                assert [cost["seconds"] for cost in advice["costs"]] == [900, 1800, HOUR, 2 * HOUR, 4 * HOUR]
                late = [cost["late_reads"] for cost in advice["costs"]]
                assert late == [2 * count // 3, 2 * count // 3, 0, 0, 0]
                assert advice["text"].startswith(f"1h: 0 of {count} sampled"), advice["text"]


def test_the_proposed_command_previews_what_was_told(storage: str | None) -> None:
    with opened(storage) as site:
        site.fill()
        site.use()
        found = site.server.ttl.advise()["targets"]
        for advice in [each for row in found for each in row["advice"]]:
            _, *command = advice["command"].split()
            result = CliRunner().invoke(mayfly, ["--url", site.server.admin_url, "-o", "json", *command])
            assert result.exit_code == 0, result.output
            assert json.loads(result.stdout)["expire_now"] == advice["frees"]["records"], command


def test_a_restart_keeps_what_was_seen(storage: str | None, store: str) -> None:
    if storage is None:
        pytest.skip("memory ends with its process")
    with opened(storage) as site:
        site.fill()
        site.use(2)
        before = {name: site.advice(name)["reads"]["sampled"] for name in TARGETS}
        assert min(before.values()) < LEAST_SAMPLES
        assert {site.advice(name)["verdict"] for name in TARGETS} == {"few"}
    with opened(storage, "") as site:
        assert {name: site.advice(name)["reads"]["sampled"] for name in TARGETS} == before
        site.use(1)
        assert {site.advice(name)["verdict"] for name in TARGETS} == {"propose"}
        assert {row["since"] for row in site.server.ttl.advise()["targets"]} == {START}


def test_rules_in_force_are_judged() -> None:
    with opened(None) as site:
        site.fill()
        http = Http(port_of(site.server))
        http.post("ttl/set", target=TARGETS["cosmos"], default_ttl=10 * DAY)
        site.otps.create_index("other")
        http.post("ttl/set", target=TARGETS["mongo"], field="at", expire_after_seconds=HOUR)
        http.post("ttl/set", target=TARGETS["ydb"], column="made", expire_after_seconds=30 * 60)
        site.use()
        assert brief(site.advice("cosmos")) == (None, "shorter", HOUR, 3000)
        assert site.advice("cosmos")["text"].startswith("1h instead of 10d: 0 of ")
        assert site.advice("cosmos")["frees"]["records"] == RECORDS * DAYS
        assert brief(site.advice("mongo")) == ("at", "to-the-end", None, 3000)
        assert (site.advice("mongo")["present"], site.advice("mongo")["command"]) == (HOUR, None)
        assert site.advice("ydb")["verdict"] == "to-the-end"
        assert all(row["only_grows"] is None for row in site.server.ttl.advise()["targets"])


def test_updates_and_deletes_of_each_protocol_are_seen() -> None:
    with opened(None) as site:
        site.fill()
        now = f"{site.server.clock.now():%Y-%m-%dT%H:%M:%SZ}"
        for n in range(2):
            site.sessions.create_item({"id": str(n)})
            site.otps.insert_one({"_id": n, "at": datetime.fromisoformat(START)})
            site.query(f"UPSERT INTO carts (id, made) VALUES ('{n}', Timestamp('{now}'))")
        site.server.clock.advance(hours=3)
        site.sessions.upsert_item({"id": "0", "a": 1})
        site.otps.update_one({"_id": 0}, {"$set": {"a": 1}})
        site.query("UPDATE carts SET n = 5 WHERE id = '0'")
        site.sessions.delete_item("1", "1")
        site.otps.delete_one({"_id": 1})
        site.query("DELETE FROM carts WHERE id = '1'")
        for name, target in TARGETS.items():
            (found,) = site.server.ttl.advise(target)["targets"]
            assert (found["created"], found["deleted"], found["only_grows"]) == (2, 1, None), name
            updates = found["advice"][0]["updates"]
            assert (updates["sampled"], updates["longest"]) == (1, 3 * HOUR), name


def test_reads_that_prolong_lives_are_counted_from_the_last_of_them() -> None:
    with opened(None) as site:
        site.fill()
        Http(port_of(site.server)).post("ttl/set", target=TARGETS["cosmos"], default_ttl=HOUR)
        site.server.set_lifecycle(TARGETS["cosmos"], touch="1s")
        site.sessions.create_item({"id": "1"})
        for _ in range(5):
            site.server.clock.advance(minutes=40)
            site.sessions.read_item("1", "1")
        assert site.advice("cosmos")["reads"]["longest"] == 40 * 60


def test_without_sampling_it_says_so() -> None:
    with opened(None, sample_accesses=0) as site:
        site.fill()
        site.sessions.create_item({"id": "1"})
        site.sessions.read_item("1", "1")
        answer = site.server.ttl.advise(TARGETS["cosmos"])
        assert (answer["sampling"], answer["targets"][0]["since"]) == (0, None)
        assert answer["targets"][0]["advice"][0]["text"] == "0 reads and updates were sampled; advice needs 300"
        result = CliRunner().invoke(mayfly, ["--url", site.server.admin_url, "-o", "table", "ttl", "advise"])
        assert "--sample-accesses" in result.stderr


def test_the_command_prints_a_table() -> None:
    with opened(None) as site:
        site.fill()
        site.use()
        base = ["--url", site.server.admin_url]
        result = CliRunner().invoke(mayfly, [*base, "-o", "table", "ttl", "advise"])
        assert result.exit_code == 0, result.output
        lines = [line.split() for line in result.stdout.splitlines()]
        assert lines[0] == ["target", "from", "ttl", "sampled", "longest", "advice", "frees"]
        count = str(site.advice("cosmos")["reads"]["sampled"])
        assert ["cosmos:shop/sessions", "write", "off", count, "50m", "1h", "12"] in lines
        count = str(site.advice("ydb")["reads"]["sampled"])
        assert ["ydb:/local/carts", "made", "off", count, "50m", "1h", "12"] in lines
        assert "cosmos:shop/sessions has no ttl and only grows: 4 records and " in result.stdout
        assert "  mayfly ttl preview ydb:/local/carts 1h --column made" in result.stdout
        rows = CliRunner().invoke(mayfly, [*base, "-o", "jsonl", "ttl", "advise", TARGETS["mongo"]]).stdout.splitlines()
        assert [json.loads(row)["counts_from"] for row in rows] == ["the last write", "at"]
        refused = CliRunner().invoke(mayfly, [*base, "ttl", "advise", "cosmos:nowhere/x"])
        assert refused.exit_code != 0 and "there is no cosmos:nowhere/x" in refused.stderr
