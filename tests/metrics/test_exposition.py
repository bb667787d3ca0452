"""Measurements over HTTP, in Prometheus' text format."""

from __future__ import annotations

import ast
import asyncio
import inspect
import re
from collections import Counter
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from azure.cosmos import ContainerProxy, PartitionKey

import mayflydb
from mayflydb.admin.operations import Admin
from mayflydb.clock import SystemClock, wall_us
from mayflydb.embedded import RunningServer
from mayflydb.metrics import exposition, requests
from mayflydb.model.instant import DAY, SECOND, from_rfc3339
from served import START, Http, port_of

NAME = re.compile(r"(mayfly|process|SchemeShard|erase_rows)_[A-Za-z_]+")
STORAGE = re.compile(r'^mayfly_storage_bytes{kind="(\w+)"} (\d+)$', re.MULTILINE)
START_SECONDS = from_rfc3339(START) // SECOND


def test_metrics(http: Http, sessions: ContainerProxy) -> None:
    http.post("clock/advance", seconds=60)
    http.post("clock/advance", seconds=50, sweep="none")
    text = http("GET", "/metrics").body.decode()
    labels = '{protocol="cosmos",db="shop",container="sessions"}'
    samples = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    values = {name.removesuffix(labels): value for name, value in samples.items() if name.endswith(labels)}
    assert values == {
        "mayfly_items": "1",
        "mayfly_ttl_default_seconds": "100",
        "mayfly_ttl_backlog_items": "1",
        "mayfly_guard_held": "0",
        "mayfly_hold_preserved_records": "0",
        "mayfly_roll_up_held": "0",
        "mayfly_ttl_purged_total": "1",
        "mayfly_throttled_requests_total": "0",
        "mayfly_ttl_purge_lag_seconds": "10",
    }
    assert (samples["mayfly_ready"], samples["mayfly_clock_virtual"], samples["mayfly_clock_fenced"]) == ("1", "1", "0")


def _host_after(step: int) -> int:
    return wall_us() + step


def test_a_jump_of_the_clock() -> None:
    with mayflydb.serve(memory=True, port=0) as server:
        clock = server._admin.engine.time.clock
        assert isinstance(clock, SystemClock)
        found = []
        for step in (0, DAY, -DAY):
            clock._wall = partial(_host_after, step)
            text = Http(port_of(server))("GET", "/metrics").body.decode()
            lines = [line.split() for line in text.splitlines() if line.startswith("mayfly_clock")]
            samples = {name: round(float(value)) for name, value in lines}
            found.append((samples["mayfly_clock_fenced"], samples["mayfly_clock_jump_seconds"]))
            assert (
                Http(port_of(server))
                .get("ready")["clock"]
                .startswith("real; the host's clock jumped: it says 2" if step else "real")
            )
    assert found == [(0, 0), (1, 86400), (1, -86400)]


def test_the_disk_of_a_file(tmp_path: Path) -> None:
    with mayflydb.serve(tmp_path / "x.db", port=0, storage_reserve="1MiB", storage_min_free="2KB") as server:
        text = Http(port_of(server))("GET", "/metrics").body.decode()
    lines = [line.split() for line in text.splitlines() if line.startswith("mayfly_disk")]
    samples = {name: int(value) for name, value in lines}
    assert samples.pop("mayfly_disk_free_bytes") > 2000
    assert samples == {
        "mayfly_disk_least_free_bytes": 2000,
        "mayfly_disk_reserve_bytes": 1 << 20,
        "mayfly_disk_reserve_wanted_bytes": 1 << 20,
        "mayfly_disk_short": 0,
        "mayfly_disk_refused_writes_total": 0,
    }


def test_the_size_of_the_store(tmp_path: Path, server: RunningServer, http: Http) -> None:
    with mayflydb.serve(tmp_path / "x.db", port=0, storage_reserve="1MiB") as own:
        text = Http(port_of(own))("GET", "/metrics").body.decode()
        found = {kind: int(size) for kind, size in STORAGE.findall(text)}
        assert found["database"] == (tmp_path / "x.db").stat().st_size and found["reserve"] == 1 << 20
        assert set(found) == {"database", "wal", "shm", "reserve"}
        own.cosmos.client().create_database("a" * 100)
        # The sizes are kept for some seconds.
        assert STORAGE.findall(Http(port_of(own))("GET", "/metrics").body.decode()) == STORAGE.findall(text)
    ((kind, size),) = STORAGE.findall(http("GET", "/metrics").body.decode())
    assert kind == "memory" and int(size) > 10_000


def test_the_delays_of_purges(http: Http, sessions: ContainerProxy) -> None:
    """One item dies after 60 s, two after 100 s. Each rule's purge counts its earliest deadline."""

    def delays() -> tuple[float, dict[str, int]]:
        text = http("GET", "/metrics").body.decode()
        found = re.findall(
            r'^mayfly_ttl_purge_delay_seconds_(\w+){protocol="cosmos"(?:,le="(.*)")?} (.*)$', text, re.MULTILINE
        )
        return (
            sum(float(value) for part, _, value in found if part == "sum"),
            {bound or "all": int(value) for part, bound, value in found if part in ("bucket", "count")},
        )

    before, counts_before = delays()
    http.post("clock/advance", seconds=120, sweep="none")
    http.post("purge")
    after, counts = delays()
    changed = {bound: number - counts_before.get(bound, 0) for bound, number in counts.items()}
    assert round(after - before, 3) == 60 + 20
    assert {bound: changed[bound] for bound in ("10", "30", "60", "+Inf", "all")} == {
        "10": 0,
        "30": 1,
        "60": 2,
        "+Inf": 2,
        "all": 2,
    }


def test_containers_beyond_the_labelled_ones_are_combined(
    monkeypatch: pytest.MonkeyPatch, server: RunningServer, http: Http, sessions: ContainerProxy
) -> None:
    """Counts are added up; of lags the greatest is shown, of instants and defaults the least."""
    for name, ttl in (("later", 300), ("sooner", 200)):
        container = (
            server.cosmos.client()
            .get_database_client("shop")
            .create_container(name, partition_key=PartitionKey("/id"), default_ttl=ttl)
        )
        container.create_item({"id": "1"})
        container.create_item({"id": "2", "ttl": 40 if name == "later" else 50})
    monkeypatch.setattr(exposition, "MAX_LABELLED_CONTAINERS", 0)
    http.post("clock/advance", seconds=70, sweep="none")
    text = http("GET", "/metrics").body.decode()
    labels = '{protocol="cosmos",db="_other",container="_other"}'
    lines = [line.rsplit(" ", 1) for line in text.splitlines()]
    # Items die at 40, 50, 60, 100, 200, 300 seconds, and one never.
    assert {name.removesuffix(labels): value for name, value in lines if name.endswith(labels)} == {
        "mayfly_items": "4",
        "mayfly_ttl_default_seconds": "100",
        "mayfly_ttl_backlog_items": "3",
        "mayfly_guard_held": "0",
        "mayfly_hold_preserved_records": "0",
        "mayfly_roll_up_held": "0",
        "mayfly_ttl_purged_total": "0",
        "mayfly_throttled_requests_total": "0",
        "mayfly_ttl_purge_lag_seconds": "30",
        "mayfly_ttl_next_expiry_timestamp_seconds": str(START_SECONDS + 100),
    }


def test_a_sample_without_help_is_refused_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    async def samples(admin: object) -> list[requests.Sample]:
        return [("mayfly_ready", {}, 1), ("mayfly_unheard_of", {}, 1)]

    monkeypatch.setattr(exposition, "count_requests", lambda requests: [])
    for source in (
        "_clock",
        "_storage",
        "_purge_delays",
        "_disk",
        "_webhooks",
        "_archives",
        "_queries",
        "_loop",
        "_containers",
        "_background_removal",
        "_erasure_log",
        "_budgets",
    ):
        monkeypatch.setattr(exposition, source, samples)
    with pytest.raises(LookupError, match="mayfly_unheard_of has no row in HELP"):
        asyncio.run(exposition.render_metrics(cast("Admin", SimpleNamespace(engine=SimpleNamespace(requests=None)))))


def test_each_name_has_a_row_of_help_and_a_sample() -> None:
    names = Counter(
        node.value
        for module in (exposition, requests)
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and NAME.fullmatch(node.value)
    )
    assert set(names) == set(exposition.HELP), "HELP of metrics/exposition.py"
    assert [name for name, count in names.items() if count == 1] == [], "a sample in metrics"
    assert all(kind in ("gauge", "counter", "histogram") for kind, _ in exposition.HELP.values())
