"""YDB's ports: bound at the start, opened when the store has been tested."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import secrets
import socket
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from mayflydb.announcement import StartFailed
from mayflydb.config.settings import TtlSettings, YdbSettings
from mayflydb.engine.engine import Engine
from mayflydb.serving.listener_checks import ListenAddress, ListenerCheck, ask_ydb
from mayflydb.serving.options import options_from
from mayflydb.serving.ports import address_of, create_secret, is_reachable, listen_addresses, read_password, reserve
from mayflydb.serving.shared_limits import SharedLimits
from mayflydb.sockets.in_flight import BytesInFlight
from mayflydb.sockets.seats import share_descriptors
from mayflydb.version import __version__

if TYPE_CHECKING:
    from mayflydb.frontends.ydb.app import YdbApp
    from mayflydb.frontends.ydb.options import Options
    from mayflydb.frontends.ydb.schemes.catalog import Schemes
    from mayflydb.frontends.ydb.server import GrpcServer

log = logging.getLogger("mayflydb.ydb")

Credentials = Callable[[], tuple[bytes, bytes]]
"""Returns private key and certificate chain, both PEM. OSError or ValueError if there is no valid certificate."""

DISABLE_GRPC_FORK_HANDLERS = ("GRPC_ENABLE_FORK_SUPPORT", "0")
"""The environment variable that gRPC reads when it is loaded.

The fork handlers of gRPC crash some children of a process that has gRPC's threads.
"""


def _load_front_end() -> None:
    # This takes half a second, seconds on a busy machine. A node on PostgreSQL must not be silent so long once it has joined.
    import mayflydb.frontends.ydb.app
    import mayflydb.frontends.ydb.server  # noqa: F401


class YdbPort:
    """The listeners of the YDB front end, with and without TLS."""

    def __init__(self, settings: YdbSettings, ttl: TtlSettings, host: str, data: Path) -> None:
        """Choose and reserve the ports. StartFailed if that is not possible. `data`: the directory of secrets.

        Reserved ports are bound and do not listen: a client takes a port that accepts connections for one that answers.
        """
        os.environ.setdefault(*DISABLE_GRPC_FORK_HANDLERS)
        _load_front_end()
        self._settings = settings
        self._ttl = ttl
        self._app: YdbApp | None = None
        self._in_flight: BytesInFlight | None = None
        self._max_connections = settings.max_connections
        self._servers: list[GrpcServer] = []
        self._plain_sockets: list[socket.socket] = []
        self._tls_sockets: list[socket.socket] = []
        self.password_path: Path | None = None
        try:
            if settings.port != -1:
                self._plain_sockets = reserve(host, settings.port, "ydb.port", "--ydb-port")
            if settings.tls_port != -1:
                self._tls_sockets = reserve(host, settings.tls_port, "ydb.tls_port", "--ydb-tls-port")
            self._login_required = self._needs_login()
            needs_password = self._login_required or settings.password_file is not None
            self._password = self._resolve_password(data) if needs_password else None
        except StartFailed:
            self.release()
            raise
        self._places = listen_addresses(self._plain_sockets), listen_addresses(self._tls_sockets)
        self.address = address_of(self._plain_sockets[0]) if self._plain_sockets else None
        self.tls_address = address_of(self._tls_sockets[0]) if self._tls_sockets else None

    @property
    def secret(self) -> str | None:
        """The password of `root`; None where clients do not log in."""
        return self._password

    @property
    def endpoint(self) -> str:
        """The URL of the endpoint: `grpc://127.0.0.1:2136`; `grpcs://` if only TLS is served."""
        return f"grpcs://{self.tls_address}" if self.address is None else f"grpc://{self.address}"

    @property
    def database(self) -> str:
        """The database of clients that name none."""
        return self._settings.databases[0]

    @property
    def schemes(self) -> Schemes | None:
        """The schemes of the served databases; None before `serve`."""
        return None if self._app is None else self._app.services.schemes

    @property
    def listeners(self) -> int:
        """The number of ports."""
        return bool(self._plain_sockets) + bool(self._tls_sockets)

    async def serve(self, engine: Engine, credentials: Credentials, shared: SharedLimits) -> None:
        """Start to serve. StartFailed if a port or the certificate cannot be used."""
        self._in_flight = shared.in_flight
        self._max_connections = min(self._settings.max_connections, share_descriptors(shared.listeners))
        from mayflydb.frontends.ydb.app import YdbApp

        self._app = YdbApp(engine, self._options(), secrets.SystemRandom())
        await self._app.resume()
        pair = None
        if self._tls_sockets:
            try:
                pair = await asyncio.to_thread(credentials)
            except (OSError, ValueError) as error:
                raise StartFailed(f"there is no certificate: {error}", setting="ydb.tls_port") from error
        if self._plain_sockets:
            await self._open(self._app, self._plain_sockets, None, "ydb.port")
        if pair is not None:
            await self._open(self._app, self._tls_sockets, pair, "ydb.tls_port")
        self.release()
        log.info("YDB's clients are served on %s", self.endpoint)

    async def _open(
        self, app: YdbApp, sockets: Sequence[socket.socket], pair: tuple[bytes, bytes] | None, setting: str
    ) -> None:
        from mayflydb.frontends.ydb.calls import ServedPort
        from mayflydb.frontends.ydb.server import GrpcServer

        port = ServedPort(sockets[0].getsockname()[1], pair is not None)
        server = GrpcServer(app, port, self._in_flight, self._max_connections)
        for each in sockets:
            place = _address_of(each)
            try:
                server.bind(place, pair)
            except OSError:
                # Not every system lets two sockets of one process bind the same port: close the reserved one and try again.
                each.close()
                try:
                    server.bind(place, pair)
                except OSError as error:
                    raise StartFailed(f"{place} is taken", setting=setting) from error
        self._servers.append(server)
        await server.open()

    def checks(self, trusted: bytes | None) -> list[ListenerCheck]:
        """Return the checks that show that the ports answer. `trusted`: the certificate authority, PEM, needed for TLS."""
        plain, encrypted = self._places
        return [
            *(self._check("ydb.port", "gRPC", each) for each in plain),
            *(self._check("ydb.tls_port", "gRPC with TLS", each._replace(trusted=trusted)) for each in encrypted),
        ]

    def _check(self, setting: str, wire: str, place: ListenAddress) -> ListenerCheck:
        return ListenerCheck(
            "ydb", setting, f"{wire} on {place.address}", partial(ask_ydb, place, self.database, self._login_required)
        )

    async def close(self, grace: float) -> None:
        """Close all sessions, let running calls finish within `grace` seconds, and release the ports."""
        if self._app is not None:
            self._app.stop()
        await asyncio.gather(*(server.close(grace) for server in self._servers))
        if self._app is not None:
            await self._app.close()
        self.release()

    def release(self) -> None:
        """Release the reserved ports."""
        for each in (*self._plain_sockets, *self._tls_sockets):
            each.close()

    def _needs_login(self) -> bool:
        settings = self._settings
        reached = is_reachable((*self._plain_sockets, *self._tls_sockets))
        if settings.auth is False and reached:
            raise StartFailed(
                "YDB's port would be open to other machines without a login",
                setting="ydb.auth",
                hint="leave out --no-ydb-auth, or listen on localhost",
                exit_code=4,
            )
        return reached or (settings.password_file is not None if settings.auth is None else settings.auth)

    def _resolve_password(self, data: Path) -> str:
        place = self.password_path = self._settings.password_file or data / "ydb.password"
        if self._settings.password_file is None:
            create_secret(place, secrets.token_urlsafe(32).encode(), "ydb.auth")
        return read_password(place, "ydb.password_file")

    def _options(self) -> Options:
        from mayflydb.frontends.ydb.options import Options

        settings = self._settings
        advertise = settings.advertise
        return options_from(
            Options,
            settings,
            advertise=None if advertise is None else (advertise.host.strip("[]"), advertise.port),
            run_interval=self._ttl.ydb_run_interval,
            min_run_interval=self._ttl.ydb_min_run_interval,
            auth=self._login_required,
            secret=b"" if self._password is None else _signing_key(self._password),
            password=self._password,
            version=__version__,
        )


def _signing_key(password: str) -> bytes:
    """Derive the key that signs tokens. All nodes derive the same key.

    scrypt makes it slow to guess the password from a token.
    """
    return hashlib.scrypt(password.encode(), salt=b"mayfly ydb tokens", n=1 << 14, r=8, p=1, dklen=32)


def _address_of(reserved: socket.socket) -> str:
    host, port = reserved.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
