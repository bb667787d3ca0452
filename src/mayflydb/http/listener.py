"""HTTP and HTTPS on one port."""

from __future__ import annotations

import asyncio

from mayflydb.http.connection import Connection, HttpWork, Limits
from mayflydb.http.messages import Handler
from mayflydb.model.quota import Quotas
from mayflydb.sockets import listener
from mayflydb.sockets.in_flight import BytesInFlight
from mayflydb.sockets.listener import CertificateSource, ListenerLimits

DEFAULTS = Limits()


class Listener(listener.Listener):
    """Serves a handler on sockets that are already bound."""

    def __init__(
        self,
        handler: Handler,
        certificate: CertificateSource,
        limits: Limits = DEFAULTS,
        in_flight: BytesInFlight | None = None,
        quotas: Quotas | None = None,
    ) -> None:
        work = HttpWork(handler, limits, in_flight)

        def build_protocol(tls: bool, deadline: float) -> Connection:
            return Connection(work, "https" if tls else "http", deadline, asyncio.get_running_loop())

        listener_limits = ListenerLimits(
            limits.connections,
            limits.deadlines.head,
            limits.deadlines.pause,
            limits.per_address,
            limits.listeners,
            "http_connections",
        )
        super().__init__(build_protocol, work, certificate, listener_limits, quotas)
