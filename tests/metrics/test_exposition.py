"""Measurements over HTTP, in Prometheus' text format."""

from __future__ import annotations

from azure.cosmos import ContainerProxy

from served import Http


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
        "mayfly_ttl_purged_total": "1",
        "mayfly_throttled_requests_total": "0",
        "mayfly_ttl_purge_lag_seconds": "10",
    }
    assert (samples["mayfly_ready"], samples["mayfly_clock_virtual"], samples["mayfly_clock_fenced"]) == ("1", "1", "0")
