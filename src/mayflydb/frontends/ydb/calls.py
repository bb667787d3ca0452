"""A call as data. Handlers take it, return the bytes of the whole answer and refuse by raising."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote

import msgspec

from mayflydb.model.instant import Instant


class ServedPort(msgspec.Struct, frozen=True):
    """The port at which a call arrived."""

    port: int
    tls: bool = False


class GrpcCall(msgspec.Struct, frozen=True):
    """One call.

    `database`: the path in its metadata; the first served database if the metadata names none. `now`: the instant at
    which the call happens, read once.

    `user`: the authenticated user, `root@builtin` on a server without login. `peer`: the client's address as gRPC
    writes it, `ipv4:127.0.0.1:40000`. `trace`: the client's trace id. `remaining`: seconds until the client's deadline;
    None: no deadline. `served_port`: the port; None for calls from within this process. `size`: the bytes of the request.
    `row_counts`: of each query of the call, the `RowCounts` by table so far.
    """

    database: str
    now: Instant
    user: str = "root@builtin"
    peer: str = ""
    trace: str = ""
    remaining: float | None = None
    served_port: ServedPort | None = None
    size: int = 0
    row_counts: list[Mapping[str, Any]] = []

    @property
    def address(self) -> str:
        """The client's address without a port: `127.0.0.1`, `::1`."""
        return address_of(self.peer)


def address_of(peer: str) -> str:
    """Return the address of a peer without its port. gRPC writes IPv6 as `ipv6:%5B::1%5D:40000`."""
    return unquote(peer.partition(":")[2]).rpartition(":")[0].strip("[]")
