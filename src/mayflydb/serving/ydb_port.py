"""YDB's ports: bound at the start, opened when the store has been tested. Their first client loads gRPC and the front end.

gRPC accepts connections by itself. It has an inner port on loopback; a relay passes the clients' bytes on to it.
"""

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
from typing import TYPE_CHECKING, Final

from mayflydb.admin.wires import Ydb
from mayflydb.announcement import StartFailed
from mayflydb.config.settings import TtlSettings, YdbSettings
from mayflydb.engine.engine import Engine
from mayflydb.model.errors import Unavailable
from mayflydb.query.yql.answers import DEFAULT_LIMITS, Answer, AnswerLimits, Mode, Parameters
from mayflydb.serving.listener_checks import ListenAddress, ListenerCheck, ask_listener, ask_ydb
from mayflydb.serving.loading import FrontEnd, load_modules
from mayflydb.serving.options import options_from
from mayflydb.serving.ports import address_of, create_secret, is_reachable, listen_addresses, read_password, reserve
from mayflydb.serving.shared_limits import SharedLimits
from mayflydb.serving.trust import Trust
from mayflydb.sockets.listener import BACKLOG, Listener, ListenerLimits
from mayflydb.sockets.relay import DESCRIPTORS, INNER_HOST, Relay, Relays
from mayflydb.sockets.work import Served
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


SPACE: Final = "ydb"
"""The node of the catalogue below which YDB's databases are."""

FIRST_BYTES_SECONDS = 10.0
"""Seconds in which a client must send its first bytes."""


_FRONT_END = ("mayflydb.frontends.ydb.app", "mayflydb.frontends.ydb.caller", "mayflydb.frontends.ydb.server")
"""The modules that a first client loads."""


class YdbPort:
    """The listeners of the YDB front end, with and without TLS."""

    def __init__(self, settings: YdbSettings, ttl: TtlSettings, host: str, data: Path, is_open: bool = False) -> None:
        """Choose and reserve the ports. StartFailed if that is not possible. `data`: the directory of secrets.

        `is_open`: other machines need no login, unless a password is given.
        Reserved ports are bound and do not listen: a client takes a port that accepts connections for one that answers.
        """
        os.environ.setdefault(*DISABLE_GRPC_FORK_HANDLERS)
        self._settings = settings
        self._is_open = is_open
        self._ttl = ttl
        self._app: YdbApp | None = None
        self._front_end: FrontEnd | None = None
        self._listening: list[Listening] = []
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
    def tls_endpoint(self) -> str | None:
        """The URL of the endpoint with TLS: `grpcs://127.0.0.1:2135`; None if TLS is not served."""
        return None if self.tls_address is None else f"grpcs://{self.tls_address}"

    @property
    def database(self) -> str:
        """The database of clients that name none."""
        return self._settings.databases[0]

    @property
    def schemes(self) -> Schemes | None:
        """The schemes of the served databases; None before it is loaded."""
        return None if self._app is None else self._app.services.schemes

    @property
    def encrypts(self) -> bool:
        """True if TLS is served by a front end that is loaded."""
        return self._app is not None and bool(self._tls_sockets)

    @property
    def listeners(self) -> int:
        """The number of ports."""
        return bool(self._plain_sockets) + bool(self._tls_sockets)

    def wire(self) -> Ydb:
        """A caller that loads the front end with its first query."""

        async def call(
            database: str,
            text: str,
            parameters: Parameters | None = None,
            *,
            mode: Mode = "execute",
            stats: bool = False,
            limits: AnswerLimits = DEFAULT_LIMITS,
        ) -> Answer:
            if self._front_end is None:
                raise Unavailable("YDB's port is not open yet")
            await self._front_end.ready()
            assert self._app is not None
            from mayflydb.frontends.ydb.caller import YdbCaller

            return await YdbCaller(self._app)(database, text, parameters, mode=mode, stats=stats, limits=limits)

        return call

    async def open(self, engine: Engine, credentials: Credentials, shared: SharedLimits, front_end: FrontEnd) -> None:
        """Answer callers of this process. StartFailed if a certificate cannot be used.

        `front_end`: loads what serves the clients.
        """
        self._front_end = front_end
        for sockets, tls in ((self._plain_sockets, False), (self._tls_sockets, True)):
            if sockets:
                self._listening.append(Listening(sockets, tls))
        front_end.load = partial(self._load, engine, credentials, shared)
        if front_end.preload or await engine.node(SPACE) is not None:
            await front_end.ready()

    def listen(self, shared: SharedLimits) -> None:
        """Accept connections from now on."""
        assert self._front_end is not None
        for each in self._listening:
            each.open(self._front_end, self._limits(shared, each), shared)
        secure = "" if None in (self.address, self.tls_address) else f", with TLS on grpcs://{self.tls_address}"
        log.info("YDB's clients are served on %s%s", self.endpoint, secure)

    def _limits(self, shared: SharedLimits, port: Listening) -> ListenerLimits:
        return ListenerLimits(
            self._settings.max_connections,
            FIRST_BYTES_SECONDS,
            per_address=shared.per_address,
            listeners=shared.listeners,
            name="ydb_tls_connections" if port.tls else "ydb_connections",
            descriptors=DESCRIPTORS,
        )

    async def _load(self, engine: Engine, credentials: Credentials, shared: SharedLimits) -> None:
        """Load the front end and gRPC, and open the inner ports."""
        options = await load_modules(*_FRONT_END, then=self._prepare)
        from mayflydb.frontends.ydb.app import YdbApp

        app = YdbApp(engine, options, secrets.SystemRandom())
        try:
            await app.resume()
            for each in self._listening:
                pair = await self._pair(credentials) if each.tls else None
                await each.connect(app, pair, credentials, shared, self._settings)
        except BaseException:
            await asyncio.gather(*(each.disconnect(0) for each in self._listening))
            await app.close()
            raise
        self._app = app

    def _prepare(self) -> Options:
        """Return the options, and build what is kept for all calls: the classes of messages and the table of methods."""
        from mayflydb.frontends.ydb.commands.table import COMMANDS
        from mayflydb.frontends.ydb.methods import all_methods

        list(all_methods(COMMANDS))
        return self._options()

    async def _pair(self, credentials: Credentials) -> tuple[bytes, bytes]:
        try:
            return await asyncio.to_thread(credentials)
        except (OSError, ValueError) as error:
            raise StartFailed(f"there is no certificate: {error}", setting="ydb.tls_port") from error

    def checks(self, trusted: Trust | None) -> list[ListenerCheck]:
        """Return the checks that show that the ports answer. `trusted`: needed for TLS."""
        plain, encrypted = self._places
        return [
            *(self._check("ydb.port", "gRPC", each) for each in plain),
            *(self._check("ydb.tls_port", "gRPC with TLS", each._replace(trusted=trusted)) for each in encrypted),
        ]

    def _check(self, setting: str, wire: str, place: ListenAddress) -> ListenerCheck:
        ask = partial(ask_listener, place)
        if self._app is not None:
            ask = partial(ask_ydb, place, self.database, self._login_required)
        return ListenerCheck("ydb", setting, f"{wire} on {place.address}", ask)

    async def close(self, grace: float) -> None:
        """Close all sessions, let running calls finish within `grace` seconds, and release the ports."""
        if self._app is not None:
            self._app.stop()
        # The ports are closed at once. The relays end when gRPC has closed its connections.
        await asyncio.gather(*(each.close(grace) for each in self._listening))
        if self._app is not None:
            await self._app.close()
        self.release()

    def release(self) -> None:
        """Release the reserved ports."""
        for each in (*self._plain_sockets, *self._tls_sockets):
            each.close()

    def _needs_login(self) -> bool:
        settings = self._settings
        reached = is_reachable((*self._plain_sockets, *self._tls_sockets)) and not self._is_open
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


class Listening:
    """The sockets of one port, and the gRPC server behind them once it is loaded."""

    def __init__(self, sockets: Sequence[socket.socket], tls: bool) -> None:
        self.tls = tls
        self._sockets = sockets
        self._relays = Relays()
        self._listener: Listener | None = None
        self._server: GrpcServer | None = None

    def open(self, front_end: FrontEnd, limits: ListenerLimits, shared: SharedLimits) -> None:
        """Accept connections. gRPC answers those that are encrypted, or not, as the port is not: clients know its refusals."""

        async def prepare(tls: bool) -> None:
            await front_end.ready()

        def build_protocol(tls: bool, deadline: float) -> Served:
            return Relay(self._relays)

        self._listener = Listener(build_protocol, self._relays, None, limits, shared.quotas, prepare)
        for each in self._sockets:
            each.listen(BACKLOG)
        self._listener.serve(self._sockets)

    async def connect(
        self,
        app: YdbApp,
        pair: tuple[bytes, bytes] | None,
        credentials: Credentials,
        shared: SharedLimits,
        settings: YdbSettings,
    ) -> None:
        """Start the gRPC server on a port of its own. `pair`: what `credentials` gives now; None: without TLS."""
        from mayflydb.frontends.ydb.calls import ServedPort
        from mayflydb.frontends.ydb.server import GrpcServer

        port = ServedPort(self._sockets[0].getsockname()[1], self.tls)
        self._server = GrpcServer(app, port, shared.in_flight, settings.max_connections, self._relays.peers)
        self._relays.port = self._server.bind(f"{INNER_HOST}:0", pair, credentials)
        await self._server.open()

    async def disconnect(self, grace: float) -> None:
        """Stop the gRPC server."""
        server, self._server = self._server, None
        if server is not None:
            await server.close(grace)

    async def close(self, grace: float) -> None:
        """Close the port, let running calls finish within `grace` seconds, and end the relays."""
        closing = self.disconnect(grace)
        if self._listener is None:
            await closing
        else:
            await asyncio.gather(closing, self._listener.close(grace))
