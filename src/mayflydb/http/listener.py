"""HTTP and HTTPS on one port."""

from __future__ import annotations

import asyncio

from mayflydb.http.connection import Connection, HttpWork, Limits
from mayflydb.http.messages import Handler
from mayflydb.sockets import listener
from mayflydb.sockets.listener import CertificateSource, Room

DEFAULTS = Limits()


class Listener(listener.Listener):
    """Serves a handler on sockets that are already bound."""

    def __init__(self, handler: Handler, certificate: CertificateSource, limits: Limits = DEFAULTS) -> None:
        work = HttpWork(handler, limits)

        def introduce(tls: bool, deadline: float) -> Connection:
            return Connection(work, "https" if tls else "http", deadline, asyncio.get_running_loop())

        room = Room(limits.connections, limits.deadlines.head, limits.deadlines.pause)
        super().__init__(introduce, work, certificate, room)
