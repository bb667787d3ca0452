"""All methods of the served gRPC services, and the response by which each refuses a call."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

import msgspec

from mayflydb.frontends.ydb import wire
from mayflydb.frontends.ydb.descriptors import message, service
from mayflydb.frontends.ydb.services import Handler
from mayflydb.query.yql.faults import Issue

RefusalBuilder: TypeAlias = Callable[[str, Sequence[Issue]], bytes]

SERVICES: Final = (
    "Ydb.Table.V1.TableService",
    "Ydb.Query.V1.QueryService",
    "Ydb.Scheme.V1.SchemeService",
    "Ydb.Discovery.V1.DiscoveryService",
    "Ydb.Scripting.V1.ScriptingService",
    "Ydb.Operation.V1.OperationService",
    "Ydb.Auth.V1.AuthService",
    "Ydb.Monitoring.V1.MonitoringService",
    "Ydb.Cms.V1.CmsService",
    "Ydb.Coordination.V1.CoordinationService",
    "Ydb.Export.V1.ExportService",
    "Ydb.Import.V1.ImportService",
    "Ydb.RateLimiter.V1.RateLimiterService",
    "Ydb.Topic.V1.TopicService",
)


class Method(msgspec.Struct, frozen=True):
    """One method.

    `name`: `Ydb.Table.V1.TableService/CreateTable`. `refuse`: builds the bytes of a response with status and issues.

    `handler` None: the method is not supported. `has_parameters`: the request has `operation_params`.
    """

    service: str
    method: str
    request: Any
    refuse: RefusalBuilder
    streams_requests: bool
    streams_responses: bool
    has_parameters: bool
    handler: Handler | None = None

    @property
    def name(self) -> str:
        return f"{self.service}/{self.method}"

    @property
    def converses(self) -> bool:
        """True if the handler takes a stream of requests."""
        return self.streams_requests and self.handler is not None


def all_methods(handlers: Mapping[str, Handler]) -> Iterator[Method]:
    """Yield all methods of the services. KeyError if a handler's method does not exist."""
    unclaimed = dict(handlers)
    for name in SERVICES:
        for each in service(name).methods:
            request_type = each.input_type
            yield Method(
                name,
                each.name,
                message(request_type.full_name),
                refusal_builder(each.output_type),
                each.client_streaming,
                each.server_streaming,
                "operation_params" in request_type.fields_by_name,
                unclaimed.pop(f"{name}/{each.name}", None),
            )
    # A handler under a misspelt name would never be called.
    if unclaimed:
        raise KeyError(next(iter(unclaimed)))


def refusal_builder(response: Any) -> RefusalBuilder:
    """Return the function that builds a refusal for a response type (a descriptor).

    Status and issues stand in the message itself, in its operation, or in a nested message.
    """
    fields = response.fields_by_name
    if "operation" in fields and fields["operation"].message_type is not None:
        return lambda status, issues: wire.operation_response(status, issues=issues)
    if "status" in fields and "issues" in fields:
        at_status, at_issues = fields["status"].number, fields["issues"].number

        # A bare Operation is complete only with `ready` set.
        head = wire.int_field(fields["ready"].number, 1) if "ready" in fields else b""

        def build(status: str, issues: Sequence[Issue]) -> bytes:
            return head + wire.int_field(at_status, wire.status_number(status)) + wire.issues_field(at_issues, issues)

        return build
    # Streams with messages of several kinds, such as coordination's, have a message of their own for failures.
    inner = fields["failure"]
    build_inner = refusal_builder(inner.message_type)
    return lambda status, issues: wire.bytes_field(inner.number, build_inner(status, issues))
