"""MongoDB's wire with and without TLS on one port."""

from __future__ import annotations

import asyncio

from mayflydb.frontends.mongo.app import MongoApp
from mayflydb.frontends.mongo.compression import Codecs
from mayflydb.frontends.mongo.connection import Connection, Limits, MongoWork
from mayflydb.sockets import listener
from mayflydb.sockets.listener import CertificateSource, Room


class MongoListener(listener.Listener):
    """Serves an application on sockets that are already bound."""

    def __init__(self, app: MongoApp, certificate: CertificateSource, limits: Limits | None = None) -> None:
        """ValueError for a compressor that is not installed."""
        limits = limits or Limits()
        work = MongoWork(app, Codecs(app.options.compressors), limits)

        def introduce(tls: bool, deadline: float) -> Connection:
            return Connection(work, tls, deadline, asyncio.get_running_loop())

        super().__init__(introduce, work, certificate, Room(app.options.max_connections, limits.first))
