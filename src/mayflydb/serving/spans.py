"""Sends spans of requests and purges over OTLP, on a thread of its own. OpenTelemetry's packages are imported at its start."""

from __future__ import annotations

import logging
import threading
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from mayflydb.announcement import StartFailed
from mayflydb.engine.access_log import AccessLine
from mayflydb.engine.traces import PurgeLine, TraceLog, parse_parent
from mayflydb.version import __version__

if TYPE_CHECKING:
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter

log = logging.getLogger(__name__)

SEND_SECONDS: Final = 0.5
"""The interval at which spans are sent."""

BATCH: Final = 500
"""Spans of one message."""

TIMEOUT_SECONDS: Final = 5.0
"""The time of one message, with what is tried again."""

LAST_SECONDS: Final = 2.0
"""The time for what waits when the server ends."""

SYSTEMS: Final = {"cosmos": "azure.cosmosdb", "mongo": "mongodb", "ydb": "ydb"}
"""`db.system.name` by protocol. OpenTelemetry has no name for YDB."""

_EXPORTER_LOG: Final = "opentelemetry.exporter.otlp.proto.http.trace_exporter"

Attributes = dict[str, str | int | float | tuple[str, ...]]


def describe_request(line: AccessLine) -> tuple[str, Attributes, bool]:
    """Return the name and the attributes of a request's span, and whether it failed."""
    operation = line.operation if isinstance(line.operation, str) else "/".join(line.operation)
    namespace, collection = _place_of(line)
    failed = line.status >= 400 if isinstance(line.status, int) else line.status not in ("ok", "SUCCESS")
    attributes: Attributes = {
        "db.system.name": SYSTEMS[line.protocol],
        "db.operation.name": operation,
        "db.response.status_code": str(line.status),
    }
    if namespace:
        attributes["db.namespace"] = namespace
    if collection:
        attributes["db.collection.name"] = collection
    if failed:
        attributes["error.type"] = str(line.status)
    if line.charge is not None:
        attributes["azure.cosmosdb.operation.request_charge"] = round(line.charge, 2)
    if line.client:
        attributes["client.address"] = line.client
    return f"{operation} {collection or namespace or SYSTEMS[line.protocol]}", attributes, failed


def describe_purge(line: PurgeLine) -> tuple[str, Attributes]:
    """Return the name and the attributes of a purge's span."""
    attributes: Attributes = {
        "db.system.name": SYSTEMS.get(line.space, line.space),
        "db.namespace": line.database,
        "db.collection.name": line.container,
        "db.operation.name": "purge",
        "mayfly.purge.records": line.records,
        "mayfly.purge.rules": line.causes,
    }
    return f"purge {line.container}", attributes


def _place_of(line: AccessLine) -> tuple[str, str]:
    """Return the database and the container of a request; empty where it names none."""
    if line.protocol == "cosmos":
        parts = [unquote(part) for part in line.target.split("/")]
        return (parts[1] if len(parts) > 1 else ""), (parts[3] if len(parts) > 3 else "")
    if line.protocol == "mongo":
        database, _, collection = line.target.partition(".")
        return database, collection
    return line.namespace, line.target.removeprefix(line.namespace).strip("/")


class SpanSender:
    """Sends what a trace log holds, until it is closed."""

    def __init__(self, traces: TraceLog, endpoint: str, service: str) -> None:
        """`endpoint`: a collector's URL, with or without the path of traces. StartFailed without OpenTelemetry's packages."""
        if find_spec("opentelemetry") is None or find_spec("opentelemetry.exporter") is None:
            raise StartFailed(
                "traces cannot be sent: there is no module opentelemetry",
                setting="server.trace_endpoint",
                hint='pip install "mayflydb[otel]"',
            )
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource

        # A failure is told once below, and not at each message.
        logging.getLogger(_EXPORTER_LOG).setLevel(logging.CRITICAL)
        self._traces = traces
        self._exporter: SpanExporter = OTLPSpanExporter(endpoint_of(endpoint), timeout=TIMEOUT_SECONDS)
        self._resource = Resource.create({"service.name": service, "service.version": __version__})
        self._fails = False
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mayfly-traces", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Send what waits, for a short time, and end."""
        self._ended.set()
        self._thread.join(LAST_SECONDS)
        # Ends a wait between two attempts.
        self._exporter.shutdown()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.wait(SEND_SECONDS):
            self._send_waiting()
        self._send_waiting()

    def _send_waiting(self) -> None:
        from opentelemetry.sdk.trace.export import SpanExportResult

        while batch := self._traces.take(BATCH):
            spans = [make_span(line, self._resource) for line in batch]
            sent = self._exporter.export(spans) is SpanExportResult.SUCCESS
            if not sent:
                self._traces.dropped += len(batch)
                if not self._fails:
                    log.warning("traces cannot be sent, spans are dropped")
            self._fails = not sent
            if not sent and self._ended.is_set():
                return


def make_span(line: AccessLine | PurgeLine, resource: Resource) -> ReadableSpan:
    """Return the span of a line. A tracer takes four times as long, for what is not needed after the event."""
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope
    from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

    if isinstance(line, PurgeLine):
        (name, attributes), failed, kind, parent = describe_purge(line), False, SpanKind.INTERNAL, None
    else:
        (name, attributes, failed), kind, parent = describe_request(line), SpanKind.SERVER, parse_parent(line.parent)
    ids, sampled = RandomIdGenerator(), TraceFlags(TraceFlags.SAMPLED)
    trace = ids.generate_trace_id() if parent is None else int(parent[0], 16)
    return ReadableSpan(
        name,
        SpanContext(trace, ids.generate_span_id(), is_remote=False, trace_flags=sampled),
        None if parent is None else SpanContext(trace, int(parent[1], 16), is_remote=True, trace_flags=sampled),
        resource,
        attributes,
        kind=kind,
        status=Status(StatusCode.ERROR if failed else StatusCode.UNSET),
        start_time=(line.ended - line.took) * 1000,
        end_time=line.ended * 1000,
        instrumentation_scope=InstrumentationScope("mayflydb", __version__),
    )


def endpoint_of(url: str) -> str:
    """Return the URL that traces are sent to: a collector's alone gets OTLP's path."""
    return url if urlsplit(url).path.strip("/") else url.rstrip("/") + "/v1/traces"
