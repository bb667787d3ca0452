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
from mayflydb.frontends.ydb.calls import Call
from mayflydb.frontends.ydb.schemes.paths import joined
from mayflydb.frontends.ydb.services import Services, Unary
from mayflydb.query.yql.faults import fault

LOCATION: Final = "1"
NODE: Final = 1

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


class Place(msgspec.Struct, frozen=True):
    """A host, and its numeric IPv6 address where some clients could not use that as the host."""

    host: str
    ipv6: str = ""


async def list_endpoints(services: Services, call: Call, request: Any) -> bytes:
    """`ListEndpoints`: the single endpoint, at an address that the client can reach."""
    database = joined(request.database or call.database)
    if database not in services.options.databases:
        raise fault("Requested database not exists", status="NOT_FOUND")
    entrance = call.entrance
    advertised = services.options.advertise
    port = 0 if entrance is None else entrance.port
    if advertised is not None:
        place, port = Place(advertised[0]), advertised[1] or port
    else:
        place = await asyncio.to_thread(place_for, call.peer)
    endpoint = b"".join(
        (
            wire.text(1, place.host),
            wire.number(2, port),
            wire.number(4, int(entrance is not None and entrance.tls)),
            *(wire.text(5, each) for each in SERVICES),
            wire.text(6, LOCATION),
            wire.number(7, NODE),
            wire.text(9, place.ipv6),
        )
    )
    result = wire.block(1, endpoint) + wire.text(2, LOCATION)
    return wire.operation(result=result, type_name="Ydb.Discovery.ListEndpointsResult")


def place_for(peer: str) -> Place:
    """Return the address by which a peer, as gRPC writes it, reaches this machine."""
    kind, _, rest = unquote(peer).partition(":")
    host = rest.rpartition(":")[0].strip("[]").partition("%")[0]
    if kind not in ("ipv4", "ipv6"):
        return Place("127.0.0.1")
    address = ip_address(host)
    mapped = getattr(address, "ipv4_mapped", None)
    if mapped is not None:
        address = mapped
    if address.is_loopback:
        # Some clients join an IPv6 literal and the port without brackets, which is ambiguous.
        return Place("127.0.0.1") if address.version == 4 else Place("localhost", "::1")
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with closing(socket.socket(family, socket.SOCK_DGRAM)) as probe:
        # Nothing is sent: connecting a datagram socket makes the system choose the source address.
        probe.connect((str(address), 9))
        own = str(probe.getsockname()[0])
    return Place(own, own if address.version == 6 else "")


async def who_am_i(services: Services, call: Call, request: Any) -> bytes:
    """`WhoAmI`"""
    groups = await services.accounts.groups_of(call.user) if request.include_groups else ()
    result = wire.text(1, call.user) + b"".join(wire.text(2, each) for each in groups)
    return wire.operation(result=result, type_name="Ydb.Discovery.WhoAmIResult")


COMMANDS: Final[Mapping[str, Unary]] = {
    "Ydb.Discovery.V1.DiscoveryService/ListEndpoints": list_endpoints,
    "Ydb.Discovery.V1.DiscoveryService/WhoAmI": who_am_i,
}
