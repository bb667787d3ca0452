"""The page TTL advice: proposals with their costs, what only grows, and that nothing is observed."""

from __future__ import annotations

from typing import Any

from azure.cosmos import DatabaseProxy, PartitionKey

from mayflydb.embedded import RunningServer, serve
from mayflydb.expiry.ttl_advice import LEAST_SAMPLES
from portal.visitor import Visitor
from served import Http, port_of

PAGE = "/_explorer/advice"


def test_a_proposal_has_its_costs(shop: DatabaseProxy, server: RunningServer) -> None:
    log = shop.create_container("log", PartitionKey("/id"))
    log.create_item({"id": "1"})
    server.clock.advance(minutes=20)
    for _ in range(LEAST_SAMPLES):
        log.read_item("1", "1")
    server.clock.advance(days=1)
    shown = Visitor(port_of(server)).get(PAGE).source
    assert "30m: 0 of 300 sampled reads and updates would have come too late" in shown
    assert "mayfly ttl preview cosmos:shop/log 30m" in shown
    assert "30 min (proposed)" in shown and "100.00 %" in shown
    assert "cosmos:shop/log has no ttl and only grows: 1 record and " in shown
    twin: Any = Http(port_of(server))("GET", f"{PAGE}.json?target=cosmos:shop/log").json
    assert twin["targets"][0]["advice"][0]["proposed"] == 1800


def test_a_server_that_observes_nothing_says_so() -> None:
    with serve(memory=True, port=0, sample_accesses=0) as server:
        shown = Visitor(port_of(server)).get(PAGE).source
    assert "Accesses are not observed" in shown and "There is no container yet." in shown
