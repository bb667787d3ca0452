"""The addresses of replicas, by which clients in direct mode reach items and metadata over rntbd."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlsplit

from mayflydb.engine import prices
from mayflydb.frontends.cosmos.calls import CosmosCall
from mayflydb.frontends.cosmos.direct import places
from mayflydb.frontends.cosmos.headers import HOST
from mayflydb.frontends.cosmos.wire import Response, json_response
from mayflydb.model.errors import BadRequest, Unsupported

_PROTOCOL = "protocol eq rntbd"
_DEFAULT_PORTS = {"http": 80, "https": 443}


async def read(call: CosmosCall) -> Response:
    """GET /addresses/. The replicas have the address that the client used for this request, or the advertised one."""
    asked = parse_qs(call.request.arrived.query.decode("latin-1"))
    wanted = asked.get("$filter", [_PROTOCOL])[-1]
    if wanted != _PROTOCOL:
        raise Unsupported(f"Addresses with the filter '{wanted[:100]}' are not supported by Mayfly: rntbd is, alone.")
    authority = _authority(call)
    if call.target.container is None:
        return _answer("", places.addresses(authority, None, places.MASTER.decode()))
    view = await call.get_container()
    ids = asked.get("$partitionKeyRangeIds")
    named = set(ids[-1].split(",")) if ids else None
    # A range that was split is left out: the client reads the ranges again.
    ranges = [each.id for each in view.ranges if named is None or each.id in named]
    return _answer(view.links.rid, [each for id in ranges for each in places.addresses(authority, view.id, id)])


def _authority(call: CosmosCall) -> str:
    """Return `host:port` for clients. BadRequest for an address of IPv6, whose brackets they do not take."""
    request = call.request
    used = call.account.resolve_address(f"{request.scheme}://{request.text(HOST) or 'localhost'}")
    parts = urlsplit(used)
    try:
        host, port = parts.hostname or "localhost", parts.port or _DEFAULT_PORTS[parts.scheme]
    except ValueError:
        raise BadRequest("The header Host has no port between 0 and 65535.") from None
    if ":" in host:
        raise BadRequest(
            "Clients in direct mode take no address of IPv6: use a name such as localhost, or gateway mode."
        )
    return f"{host}:{port}"


def _answer(rid: str, rows: list[dict[str, Any]]) -> Response:
    # The member is spelt so in the protocol.
    return json_response(200, {"_rid": rid, "_count": len(rows), "Addresss": rows}, charge=prices.METADATA)
