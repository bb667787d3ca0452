"""Requests of all protocols are counted, with the time that they took."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys

import pytest
from azure.cosmos import ContainerProxy

from mayflydb.clock import wall_us
from mayflydb.embedded import RunningServer
from mayflydb.engine import request_counts
from mayflydb.engine.request_counts import RequestCounts
from mayflydb.metrics.requests import count_requests
from mayflydb.model.instant import SECOND
from served import Http


def test_three_protocols(server: RunningServer, http: Http, sessions: ContainerProxy) -> None:
    import ydb

    http("GET", "/dbs/none", authorization="type%3dmaster%26ver%3d1.0%26sig%3dwrong")
    with server.mongo.client() as client:
        client.app.command("ping")
        with pytest.raises(Exception, match="no such command"):
            client.app.command("noSuchCommandOfMongoDB")
    driver = server.ydb.driver()
    with ydb.QuerySessionPool(driver) as pool:
        pool.execute_with_retries("SELECT 1")
        with pytest.raises(ydb.issues.Error):
            pool.execute_with_retries("SELECT FROM nowhere at all")
    driver.stop()
    text = http("GET", "/metrics").body.decode()
    samples = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))

    def number(protocol: str, operation: str, status: str) -> int:
        return int(samples[f'mayfly_requests_total{{protocol="{protocol}",operation="{operation}",status="{status}"}}'])

    assert number("cosmos", "unknown", "401") >= 1
    assert number("mongo", "ping", "ok") >= 1 and number("mongo", "unknown", "error") >= 1
    query = "Ydb.Query.V1.QueryService/ExecuteQuery"
    assert number("ydb", query, "SUCCESS") >= 1 and number("ydb", query, "GENERIC_ERROR") >= 1
    assert "noSuchCommandOfMongoDB" not in text
    created = [name for name in samples if re.match(r'mayfly_requests_total{protocol="cosmos",.*status="201"', name)]
    assert created, "the items of `sessions`"
    total = samples[f'mayfly_request_duration_seconds_count{{protocol="ydb",operation="{query}"}}']
    assert samples[f'mayfly_request_duration_seconds_bucket{{protocol="ydb",operation="{query}",le="+Inf"}}'] == total
    assert int(samples["process_resident_memory_bytes"]) > 10_000_000 and int(samples["process_open_fds"]) > 3


def test_the_start_of_a_process() -> None:
    code = (
        "from mayflydb.metrics.requests import measure_process as m; print(next(v for n, _, v in m() if 'start' in n))"
    )
    before = wall_us() / SECOND
    started = float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True).stdout)
    # The system tells the time of its boot in whole seconds.
    assert before - 1.1 < started < wall_us() / SECOND + 1.1


def test_buckets_add_up_and_series_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_counts, "MAX_SERIES", 2)
    ticks = itertools.chain([200, 201, 60_000_000], itertools.repeat(0))
    counts = RequestCounts(lambda: next(ticks))
    for status in (200, 200, 404):
        counts.count("cosmos", "read", status, 0)
    for n in range(5):
        counts.count("cosmos", f"made up {n}", 200, 0)
    samples = list(count_requests(counts))
    reads = [
        (labels["le"], value) for name, labels, value in samples if "le" in labels and labels["operation"] == "read"
    ]
    assert reads[0] == ("0.0002", 1) and reads[1] == ("0.0005", 2) and reads[-2:] == [("30", 2), ("+Inf", 3)]
    totals = {
        (labels["operation"], labels["status"]): value
        for name, labels, value in samples
        if name == "mayfly_requests_total"
    }
    assert totals == {("read", "200"): 2, ("read", "404"): 1, ("_other", "_other"): 5}
