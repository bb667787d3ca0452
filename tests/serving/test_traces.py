"""Traces: a span for each request and purge, in the trace of its client, without keys and contents, and bounded."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from frontends.cosmos.service import Raw
from mayflydb.announcement import StartFailed
from mayflydb.embedded import serve
from mayflydb.engine import access_log
from mayflydb.engine.access_log import EndedRequest
from mayflydb.engine.traces import TraceLog, parse_parent
from mayflydb.serving import spans

SECRET = "topsecretvalue"
TRACE, SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = f"00-{TRACE}-{SPAN}-01"
UNSAMPLED = f"00-{'b' * 32}-{SPAN}-00"


class Collector:
    """What was sent to a collector on loopback."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                assert self.path == "/v1/traces"
                collector.bodies.append(self.rfile.read(int(self.headers["content-length"])))
                self.send_response(200)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def spans(self) -> list[dict[str, Any]]:
        found = []
        for body in self.bodies:
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                service = {each.key: each.value.string_value for each in resource.resource.attributes}["service.name"]
                for scope in resource.scope_spans:
                    found += [_members(each) | {"service": service} for each in scope.spans]
        return found


def _members(span: Any) -> dict[str, Any]:
    values = {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in span.attributes}
    return {
        "name": span.name,
        "trace": span.trace_id.hex(),
        "parent": span.parent_span_id.hex(),
        "failed": span.status.code == 2,
        "took": span.end_time_unix_nano - span.start_time_unix_nano,
        "attributes": values,
    }


@pytest.fixture
def collector() -> Iterator[Collector]:
    collector = Collector()
    thread = threading.Thread(target=collector.server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield collector
    collector.server.shutdown()
    thread.join()
    collector.server.server_close()


def ask_ydb(address: str, metadata: Mapping[str, str]) -> None:
    with grpc.insecure_channel(address.removeprefix("grpc://")) as channel:
        call = channel.unary_unary("/Ydb.Discovery.V1.DiscoveryService/WhoAmI")
        call(b"", metadata=tuple({"x-ydb-database": "/local", **metadata}.items()), timeout=10)


def named(found: list[dict[str, Any]], name: str) -> dict[str, Any]:
    (one,) = [each for each in found if each["name"] == name]
    return one


def test_a_span_for_each_request_and_purge(collector: Collector) -> None:
    with serve(memory=True, port=0, clock="virtual", trace_endpoint=collector.url, trace_service="shop") as server:
        raw = Raw(server.cosmos.url)
        raw("POST", "/dbs", {"id": "shop"})
        container = {"id": "carts", "partitionKey": {"paths": ["/pk"], "kind": "Hash"}, "defaultTtl": 60}
        raw("POST", "/dbs/shop/colls", container)
        raw(
            "POST",
            "/dbs/shop/colls/carts/docs",
            {"id": SECRET, "pk": SECRET},
            pk=SECRET,
            headers={"traceparent": PARENT},
        )
        raw("GET", f"/dbs/shop/colls/carts/docs/{SECRET}", pk=SECRET, headers={"traceparent": UNSAMPLED})
        raw("GET", f"/dbs/shop/colls/carts/docs/{SECRET}x", pk=SECRET)
        raw.close()
        with MongoClient[dict[str, Any]](server.mongo.uri) as client:
            client["app"]["otps"].insert_one({"_id": SECRET, "code": SECRET})
            with pytest.raises(OperationFailure):
                client["app"].command("find", "otps", filter={"$bad": SECRET})
        ask_ydb(server.ydb.endpoint, {"traceparent": PARENT})
        server.clock.advance(seconds=61)
    found = collector.spans()
    assert SECRET.encode() not in b"".join(collector.bodies)
    assert {each["service"] for each in found} == {"shop"} and all(each["took"] >= 0 for each in found)
    created = named(found, "create carts")
    assert (created["trace"], created["parent"], created["failed"]) == (TRACE, SPAN, False)
    assert created["attributes"].items() >= {
        "db.system.name": "azure.cosmosdb", "db.operation.name": "create", "db.namespace": "shop",
        "db.collection.name": "carts", "db.response.status_code": "201",
    }.items()  # fmt: skip
    assert created["attributes"]["azure.cosmosdb.operation.request_charge"] > 0
    missing = named(found, "read carts")
    assert missing["failed"] and missing["attributes"]["error.type"] == "404" and missing["parent"] == ""
    inserted = named(found, "insert otps")["attributes"]
    assert (inserted["db.system.name"], inserted["db.namespace"]) == ("mongodb", "app")
    refused = named(found, "find otps")
    assert refused["failed"] and refused["attributes"]["error.type"] == "BadValue"
    who = named(found, "Ydb.Discovery.V1.DiscoveryService/WhoAmI /local")
    assert (who["trace"], who["parent"], who["attributes"]["db.system.name"]) == (TRACE, SPAN, "ydb")
    purge = named(found, "purge carts")["attributes"]
    assert (purge["db.namespace"], purge["db.collection.name"], purge["mayfly.purge.records"]) == ("shop", "carts", 1)
    assert [each.string_value for each in purge["mayfly.purge.rules"].values] == ["default"]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (PARENT, (TRACE, SPAN, True)),
        (UNSAMPLED, ("b" * 32, SPAN, False)),
        (f"01-{TRACE}-{SPAN}-03-more", (TRACE, SPAN, True)),
        (f"ff-{TRACE}-{SPAN}-01", None),
        (f"00-{'0' * 32}-{SPAN}-01", None),
        (f"00-{TRACE}-{'0' * 16}-01", None),
        (f"00-{TRACE.upper()}-{SPAN}-01", None),
        ("nonsense", None),
    ],
)
def test_the_trace_context_of_a_client(text: str, found: tuple[str, str, bool] | None) -> None:
    assert parse_parent(text) == found


def note(log: TraceLog, parent: str = "") -> None:
    log.note(EndedRequest("mongo", "1:2", "find", "shop.carts", "ok", 1.0, 0, "127.0.0.1", parent=parent))


def traces(ratio: float, chance: float = 0.5) -> TraceLog:
    return TraceLog(lambda: 1_000_000, lambda: 7, lambda: chance, ratio)


@pytest.mark.parametrize(("ratio", "kept"), [(0.0, 0), (0.5, 0), (0.51, 1), (1.0, 1)])
def test_a_part_of_the_traces_is_kept(ratio: float, kept: int) -> None:
    log = traces(ratio)
    note(log)
    log.note_purge("mongo", "shop", "carts", ("index",), 3, 0)
    assert len(log.take(9)) == 2 * kept
    note(log, PARENT)
    note(log, UNSAMPLED)
    assert [line.took for line in log.take(9)] == [7]


def test_the_number_of_waiting_spans_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_log, "MAX_WAITING", 2)
    log = traces(1.0)
    for _ in range(5):
        note(log)
    assert log.dropped == 3 and len(log.take(9)) == 2


def test_a_collector_that_is_gone_costs_spans_and_no_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(spans, "LAST_SECONDS", 0.0)
    log = traces(1.0)
    note(log)
    spans.SpanSender(log, "http://127.0.0.1:1", "mayfly").close()
    assert log.dropped == 1 and "traces cannot be sent, spans are dropped" in caplog.text


def test_the_extra_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spans, "find_spec", lambda name: None)
    with pytest.raises(StartFailed) as caught, serve(memory=True, port=0, trace_endpoint="http://127.0.0.1:4318"):
        pass
    assert caught.value.hint == 'pip install "mayflydb[otel]"' and caught.value.setting == "server.trace_endpoint"


@pytest.mark.parametrize("wrong", [{"trace_endpoint": "localhost:4318"}, {"trace_ratio": "1.1"}, {"trace_ratio": "x"}])
def test_settings_that_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(StartFailed), serve(memory=True, port=0, **wrong):
        pass
