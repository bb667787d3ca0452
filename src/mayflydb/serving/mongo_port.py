"""MongoDB's port, bound at the start and opened when the store is ready. Its first connection loads the front end."""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
from collections.abc import Callable
from functools import cached_property, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from mayflydb.admin.wires import Mongo
from mayflydb.announcement import StartFailed
from mayflydb.clock import monotonic_us
from mayflydb.config.settings import Administrator, MongoSettings
from mayflydb.config.values import COMPRESSORS
from mayflydb.engine.engine import Engine
from mayflydb.engine.ordered_histories import ChangeNotifier
from mayflydb.model.errors import Unavailable
from mayflydb.model.instant import Instant
from mayflydb.query.mongo.replies import Reply
from mayflydb.serving.drop_in import bind_alias
from mayflydb.serving.listener_checks import ListenAddress, ListenerCheck, ask_listener, ask_mongo
from mayflydb.serving.loading import FrontEnd, load_modules
from mayflydb.serving.options import options_from
from mayflydb.serving.ports import (
    address_of,
    bind_listening,
    checked_addresses,
    create_secret,
    is_reachable,
    read_password,
)
from mayflydb.serving.shared_limits import SharedLimits
from mayflydb.serving.trust import Trust
from mayflydb.sockets.in_flight import BytesInFlight
from mayflydb.sockets.listener import CertificateSource, Listener, ListenerLimits, ProtocolFactory
from mayflydb.sockets.work import ClosedConnection, Served, Work
from mayflydb.version import __version__

if TYPE_CHECKING:
    from mayflydb.frontends.mongo.accounts.roles import User
    from mayflydb.frontends.mongo.app import MongoApp
    from mayflydb.frontends.mongo.caller import MongoCaller
    from mayflydb.frontends.mongo.contracts import Contracts
    from mayflydb.frontends.mongo.options import Options

log = logging.getLogger("mayflydb.mongo")

FIRST_MESSAGE_SECONDS = 10.0
"""Seconds in which a client must send its first message."""

_FRONT_END = (
    "mayflydb.frontends.mongo.app",
    "mayflydb.frontends.mongo.accounts.scram",
    "mayflydb.frontends.mongo.protocol.compression",
    "mayflydb.frontends.mongo.protocol.connection",
)
"""The modules that a first client loads."""

_COMPRESSOR_PACKAGES = {"zstd": "backports.zstd", "snappy": "cramjam"}
"""Packages of the compressors that are not part of Python."""


class _LoadingCaller:
    """A caller that loads the front end with its first command."""

    def __init__(self, port: MongoPort, engine: Engine, now: Instant) -> None:
        self._port, self._engine, self._now = port, engine, now

    async def __call__(self, database: str, command: dict[str, Any]) -> dict[str, Any]:
        return await (await self._port.ready_caller(self._engine, self._now))(database, command)

    async def send(self, database: str, command: bytes) -> Reply:
        return await (await self._port.ready_caller(self._engine, self._now)).send(database, command)


class MongoPort:
    """The listening end of the MongoDB front end."""

    def __init__(
        self,
        settings: MongoSettings,
        host: str,
        data: Path,
        serverless: bool = False,
        ca: Path | None = None,
        *,
        alias: int = -1,
        is_open: bool = False,
    ) -> None:
        """Bind the port. `data`: the directory of secrets. Raise StartFailed if that fails, or for contradictory settings.

        `ca`: the certificate that clients trust, if other machines need TLS; None: they may connect without TLS.

        `alias`: a second port; -1: none. `is_open`: other machines need no login, unless an administrator is given.
        """
        self._settings = settings
        self._is_open = is_open
        self._serverless = serverless
        self._compressors = _compressors(settings)
        self._sockets = bind_listening(host, settings.port, "mongo.port", "--mongo-port")
        self._alias = bind_alias(host, alias, "MongoDB")
        self._listener: Listener | None = None
        self._notifier: ChangeNotifier | None = None
        self._app: MongoApp | None = None
        self._front_end: FrontEnd | None = None
        self._in_flight: BytesInFlight | None = None
        self._is_asked = False
        self.password_path: Path | None = None
        self._administrator: Administrator | None = None
        try:
            if self._needs_login():
                self._administrator = self._load_administrator(data)
        except StartFailed:
            self.release()
            raise
        self.address = address_of(self._sockets[0])
        self._ca = ca if is_reachable(self._sockets) else None

    @property
    def auth(self) -> bool:
        """True if clients must log in."""
        return self._administrator is not None

    @property
    def secret(self) -> str | None:
        """The administrator's password; None where clients do not log in."""
        return None if self._administrator is None else self._administrator.password

    @property
    def alias_address(self) -> str | None:
        """The address of the second port, if it is open."""
        return address_of(self._alias[0]) if self._alias else None

    @property
    def uri(self) -> str:
        """The connection string, with the administrator's password where logins are needed."""
        tls = "" if self._ca is None else f"&tls=true&tlsCAFile={quote(str(self._ca), safe='')}"
        if self._administrator is None:
            return f"mongodb://{self.address}/?directConnection=true{tls}"
        name, password = (quote(each, safe="") for each in (self._administrator.name, self._administrator.password))
        return f"mongodb://{name}:{password}@{self.address}/?authSource=admin&directConnection=true{tls}"

    def caller(self, engine: Engine, now: Instant) -> MongoCaller:
        """A caller of the front end for other parts of this process."""
        from mayflydb.frontends.mongo.caller import MongoCaller

        return MongoCaller(self._get_app(engine, now))

    def wire(self, engine: Engine, now: Instant) -> Mongo:
        """A caller that loads the front end with its first command."""
        return _LoadingCaller(self, engine, now)

    async def ready_caller(self, engine: Engine, now: Instant) -> MongoCaller:
        """A caller whose front end is loaded. Unavailable before the port is open."""
        if self._front_end is None:
            raise Unavailable("MongoDB's port is not open yet")
        await self._front_end.ready()
        return self.caller(engine, now)

    async def open(self, engine: Engine, now: Instant, shared: SharedLimits, front_end: FrontEnd) -> None:
        """Answer callers of this process. Raise StartFailed if the store was written under another profile.

        `front_end`: loads what serves the clients.
        """
        self._front_end = front_end
        self._in_flight = shared.in_flight
        packages = (_COMPRESSOR_PACKAGES[each] for each in self._compressors if each in _COMPRESSOR_PACKAGES)
        front_end.load = partial(load_modules, *_FRONT_END, *packages, then=self._options)
        is_used = await engine.node("mongo") is not None
        if is_used or front_end.preload:
            await front_end.ready()
            self._is_asked = True
        if is_used:
            await self._recover(engine, now)
        self._notifier = engine.reaper.notifier

    def listen(self, engine: Engine, certificate: CertificateSource, now: Instant, shared: SharedLimits) -> None:
        """Accept connections from now on."""
        front_end = self._front_end
        assert front_end is not None
        work = Work(shared.in_flight)
        factories: list[ProtocolFactory] = []

        def build_protocol(tls: bool, deadline: float) -> Served:
            if self._ca is not None and not tls:
                return ClosedConnection()
            if not factories:
                factories.append(self._service(engine, work, now))
            return factories[0](tls, deadline)

        async def prepare(tls: bool) -> None:
            if tls or self._ca is None:
                await front_end.ready()

        limits = ListenerLimits(
            self._settings.max_connections,
            FIRST_MESSAGE_SECONDS,
            per_address=shared.per_address,
            listeners=shared.listeners,
            name="mongo_connections",
        )
        self._listener = Listener(build_protocol, work, certificate, limits, shared.quotas, prepare)
        self._listener.serve([*self._sockets, *self._alias])
        # Container tools wait for these words in the log.
        log.info("Waiting for connections of MongoDB's clients on %s", self.address)

    def checks(self, trusted: Trust | None) -> list[ListenerCheck]:
        """Checks that the port answers. `trusted`: given where TLS is to be checked as well."""
        at = checked_addresses(self._sockets, trusted, self._ca is not None)
        return [
            ListenerCheck(
                "mongo",
                "mongo.port",
                f"{_protocol_name(each)} on {each.address}",
                partial(ask_mongo if self._is_asked else ask_listener, each),
            )
            for each in at
        ]

    async def close(self, grace: float) -> None:
        """Let running commands finish, end those that only wait, and release the port."""
        if self._notifier is not None:
            self._notifier.close()
        if self._listener is not None:
            await self._listener.close(grace)
        if self._app is not None:
            await self._app.services.cursors.close_all()
        self.release()

    def release(self) -> None:
        """Release the port if it was never served."""
        for each in (*self._sockets, *self._alias):
            each.close()

    async def _recover(self, engine: Engine, now: Instant) -> None:
        """Repair changes that an earlier process left unfinished, before any client can see them."""
        from mayflydb.frontends.mongo.contracts import ProfileChanged

        try:
            await self._get_app(engine, now).services.indexing.recover(now)
        except ProfileChanged as error:
            hint = "start with the profile of before to do so"
            raise StartFailed(str(error), setting="mongo.profile", hint=hint, exit_code=4) from error

    def _get_app(self, engine: Engine, now: Instant) -> MongoApp:
        if self._app is None:
            from mayflydb.frontends.mongo.app import MongoApp

            options, users = self._options(), self._users()
            self._app = MongoApp(
                engine, options, secrets.SystemRandom(), monotonic_us, users, started=now, in_flight=self._in_flight
            )
        return self._app

    def _service(self, engine: Engine, work: Work, now: Instant) -> Callable[[bool, float], Served]:
        from mayflydb.frontends.mongo.protocol.compression import Codecs
        from mayflydb.frontends.mongo.protocol.connection import ConnectionFactory, ConnectionLimits

        app = self._get_app(engine, now)
        options = app.services.options
        factory = ConnectionFactory(
            app, Codecs(options.compressors), ConnectionLimits(first=FIRST_MESSAGE_SECONDS), work
        )
        return factory.build_connection

    def _options(self) -> Options:
        from mayflydb.frontends.mongo.options import Options

        settings = self._settings
        topology, _, replica_set = settings.topology.partition(":")
        port = self.address.rpartition(":")[2]
        advertised = self.address
        if settings.advertise is not None:
            advertised = f"{settings.advertise.host}:{settings.advertise.port or port}"
        return options_from(
            Options,
            settings,
            topology=topology,
            replica_set=replica_set,
            advertise=advertised,
            auth=self.auth,
            compressors=self._compressors,
            secret=self._salt_secret,
            serverless=self._serverless,
            version=__version__,
        )

    def _users(self) -> tuple[User, ...]:
        from mayflydb.frontends.mongo.accounts import scram
        from mayflydb.frontends.mongo.accounts.roles import Role, User

        given = self._administrator
        if given is None:
            return ()
        credentials = {}
        for mechanism in scram.ITERATIONS:
            salt = hmac.digest(self._salt_secret, mechanism.encode(), "sha256")[: scram.salt_length(mechanism)]
            credentials[mechanism] = scram.derive_credential(mechanism, given.name, given.password, salt)
        return (User(given.name, "admin", (Role("root", "admin"),), credentials, fixed=True),)

    @cached_property
    def _salt_secret(self) -> bytes:
        """The secret from which salts are derived: the administrator's, and those of users that do not exist.

        It is the same after a restart, so that salts stay the same. Each client gets a salt before its login, so scrypt makes it
        slow to test guessed passwords with a salt.
        """
        password = "" if self._administrator is None else self._administrator.password
        return hashlib.scrypt(password.encode(), salt=b"mayfly mongo salts", n=1 << 14, r=8, p=1, dklen=32)

    def _needs_login(self) -> bool:
        settings = self._settings
        reached = is_reachable(self._sockets) and not self._is_open
        if settings.auth is False and reached:
            raise StartFailed(
                "MongoDB's port would be open to other machines without a login",
                setting="mongo.auth",
                hint="leave out --no-mongo-auth, or listen on localhost",
                exit_code=4,
            )
        given = settings.administrator is not None or settings.password_file is not None
        return bool(settings.auth) or reached or given

    def _load_administrator(self, data: Path) -> Administrator:
        settings = self._settings
        if settings.administrator is not None:
            self.password_path = settings.administrator.path
            return settings.administrator
        place = self.password_path = settings.password_file or data / "mongo.password"
        if settings.password_file is None:
            create_secret(place, secrets.token_urlsafe(32).encode(), "mongo.auth")
        return Administrator("admin", read_password(place, "mongo.password_file"))


def contracts(settings: MongoSettings) -> Contracts:
    """The TTL contracts, also if MongoDB is not served."""
    from mayflydb.frontends.mongo.contracts import Contracts
    from mayflydb.frontends.mongo.options import Options

    # The rules of expiry depend on neither topology nor logins.
    return Contracts(options_from(Options, settings, topology="mongos", advertise="", auth=False, compressors=()))


def _protocol_name(place: ListenAddress) -> str:
    return "MongoDB" if place.trusted is None else "MongoDB with TLS"


def _compressors(settings: MongoSettings) -> tuple[str, ...]:
    """The compressors to offer: those of the settings, or all that are installed.

    Raise StartFailed for one that is not installed.
    """
    there = tuple(
        name for name in COMPRESSORS if name not in _COMPRESSOR_PACKAGES or _is_installed(_COMPRESSOR_PACKAGES[name])
    )
    if settings.compressors is None:
        return there
    if missing := [name for name in settings.compressors if name not in there]:
        raise StartFailed(
            f"{missing[0]} needs the package {_COMPRESSOR_PACKAGES[missing[0]]}",
            setting="mongo.compressors",
            hint='pip install "mayflydb[mongo-compression]"',
            exit_code=2,
        )
    return settings.compressors


def _is_installed(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False
