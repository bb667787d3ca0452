"""Discovery: the endpoints of the server, and the name of the user."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from contextlib import closing
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from mayflydb.frontends.ydb import wire
from mayflydb.frontends.ydb.calls import GrpcCall
from mayflydb.frontends.ydb.schemes.paths import join_path
from mayflydb.frontends.ydb.services import Services, Unary
from mayflydb.query.yql.faults import fault

LOCATION: Final = "1"
NODE_ID: Final = 1

SERVICES: Final = (
    "discovery",
    "table_service",
    "query_service",
    "scheme_service",
    "scripting",
    "operation",
    "auth",
    "monitoring",
)
"""The services of the endpoint, by which clients choose one."""


class HostAddress(msgspec.Struct, frozen=True):
    """A host, and its numeric IPv6 address where some clients could not use that as the host."""

    host: str
    ipv6: str = ""


async def list_endpoints(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`ListEndpoints`: the single endpoint, at an address that the client can reach."""
    database = join_path(request.database or call.database)
    if database not in services.options.databases:
        raise fault("Requested database not exists", status="NOT_FOUND")
    served_port = call.served_port
    advertised = services.options.advertise
    port = 0 if served_port is None else served_port.port
    if advertised is not None:
        # Behind a proxy or in a container, this process does not know the address that clients use.
        host_address, port = HostAddress(advertised[0]), advertised[1] or port
    else:
        host_address = await asyncio.to_thread(reachable_address, call.peer)
    endpoint = b"".join(
        (
            # Fields of EndpointInfo: 1 address, 2 port, 4 ssl, 5 service, 6 location, 7 node_id, 9 ip_v6.
            wire.text_field(1, host_address.host),
            wire.int_field(2, port),
            wire.int_field(4, int(served_port is not None and served_port.tls)),
            *(wire.text_field(5, each) for each in SERVICES),
            wire.text_field(6, LOCATION),
            wire.int_field(7, NODE_ID),
            wire.text_field(9, host_address.ipv6),
        )
    )
    result = wire.bytes_field(1, endpoint) + wire.text_field(2, LOCATION)
    return wire.operation_response(result=result, type_name="Ydb.Discovery.ListEndpointsResult")


def reachable_address(peer: str) -> HostAddress:
    """Return the address by which a peer, as gRPC writes it, reaches this machine."""
    # gRPC writes `ipv4:127.0.0.1:40000`, `ipv6:%5B::1%5D:40000` (percent-encoded brackets) or `unix:path`.
    kind, _, rest = unquote(peer).partition(":")
    host = rest.rpartition(":")[0].strip("[]").partition("%")[0]
    if kind not in ("ipv4", "ipv6"):
        return HostAddress("127.0.0.1")
    address = ip_address(host)
    mapped = getattr(address, "ipv4_mapped", None)
    if mapped is not None:
        address = mapped
    if address.is_loopback:
        # Some clients join an IPv6 literal and the port without brackets, which is ambiguous.
        return HostAddress("127.0.0.1") if address.version == 4 else HostAddress("localhost", "::1")
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with closing(socket.socket(family, socket.SOCK_DGRAM)) as probe:
        # Nothing is sent: connecting a datagram socket makes the system choose the source address.
        probe.connect((str(address), 9))
        own = str(probe.getsockname()[0])
    return HostAddress(own, own if address.version == 6 else "")


async def who_am_i(services: Services, call: GrpcCall, request: Any) -> bytes:
    """`WhoAmI`"""
    groups = await services.accounts.groups_of(call.user) if request.include_groups else ()
    result = wire.text_field(1, call.user) + b"".join(wire.text_field(2, each) for each in groups)
    return wire.operation_response(result=result, type_name="Ydb.Discovery.WhoAmIResult")


COMMANDS: Final[Mapping[str, Unary]] = {
    "Ydb.Discovery.V1.DiscoveryService/ListEndpoints": list_endpoints,
    "Ydb.Discovery.V1.DiscoveryService/WhoAmI": who_am_i,
}
