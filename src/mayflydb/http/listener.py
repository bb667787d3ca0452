"""HTTP and HTTPS on one port."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeAlias

from mayflydb.http.connection import Connection, HttpWork, Limits
from mayflydb.http.messages import Handler
from mayflydb.model.quota import Quotas
from mayflydb.sockets import listener
from mayflydb.sockets.first_bytes import FirstBytes
from mayflydb.sockets.in_flight import BytesInFlight
from mayflydb.sockets.listener import CertificateSource, ListenerLimits
from mayflydb.sockets.work import Served

DEFAULTS = Limits()
HEAD_BYTES = 3
"""The first bytes by which a connection over TLS shows another protocol."""

Other: TypeAlias = Callable[[bytes, HttpWork, float], Served | None]
"""Builds the protocol that these first bytes begin; None: they are HTTP. The number is the deadline of the first request."""


class Listener(listener.Listener):
    """Serves a handler on sockets that are already bound."""

    def __init__(
        self,
        handler: Handler,
        certificate: CertificateSource,
        limits: Limits = DEFAULTS,
        in_flight: BytesInFlight | None = None,
        quotas: Quotas | None = None,
        other: Other | None = None,
    ) -> None:
        """`other`: a protocol that is served on the same port, over TLS alone."""
        work = HttpWork(handler, limits, in_flight)

        def build_protocol(tls: bool, deadline: float) -> Served:
            loop = asyncio.get_running_loop()
            if other is None or not tls:
                return Connection(work, "https" if tls else "http", deadline, loop)

            def choose(head: bytes) -> Served:
                return other(head, work, deadline) or Connection(work, "https", deadline, loop)

            return FirstBytes(work, loop, deadline, HEAD_BYTES, choose)

        listener_limits = ListenerLimits(
            limits.connections,
            limits.deadlines.head,
            limits.deadlines.pause,
            limits.per_address,
            limits.listeners,
            "http_connections",
        )
        super().__init__(build_protocol, work, certificate, listener_limits, quotas)
