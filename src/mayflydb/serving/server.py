"""The composition root: builds clock, store, engine, reaper, front ends and ports, and takes them apart again."""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

from mayflydb.admin.operations import EVENT_STREAMS, Admin
from mayflydb.admin.targets import Targets
from mayflydb.admin.wires import Wires
from mayflydb.announcement import Announcement, StartFailed
from mayflydb.clock import monotonic_us, wall_us
from mayflydb.config.settings import Settings
from mayflydb.engine.access_log import AccessLog
from mayflydb.engine.engine import Engine
from mayflydb.engine.traces import TraceLog
from mayflydb.frontends.cosmos.app import CosmosApp
from mayflydb.frontends.cosmos.auth import Keys
from mayflydb.frontends.cosmos.caller import Caller
from mayflydb.frontends.cosmos.targets import CosmosTargets
from mayflydb.frontends.mongo.targets import MongoTargets
from mayflydb.frontends.ydb.targets import YdbTargets
from mayflydb.model.errors import MayflyError
from mayflydb.model.instant import Instant
from mayflydb.serving.access_log import AccessWriter
from mayflydb.serving.archive_sites import archive_sites
from mayflydb.serving.certificates import Authority, user_data_directory
from mayflydb.serving.drop_in import log_drop_in, publish_certificate
from mayflydb.serving.endpoints import Endpoints
from mayflydb.serving.engines import RunningEngine
from mayflydb.serving.http_gateway import Readiness
from mayflydb.serving.http_port import HttpPort, build_cosmos
from mayflydb.serving.keys import load_account_key
from mayflydb.serving.loading import FrontEnd
from mayflydb.serving.mongo_port import MongoPort, contracts
from mayflydb.serving.own_certificate import RenewedCertificate, load_own_certificate
from mayflydb.serving.ports import require_package
from mayflydb.serving.shared_limits import SharedLimits, build_limits
from mayflydb.serving.spans import SpanSender
from mayflydb.serving.tls import Certificates, TlsContext
from mayflydb.serving.trust import Trust
from mayflydb.serving.ydb_port import YdbPort

if TYPE_CHECKING:
    from mayflydb.frontends.ydb.schemes.catalog import Schemes

log = logging.getLogger("mayflydb.server")

GRACE_SECONDS = 10.0
"""Seconds that requests in work are given to finish."""


class Server:
    """One server, started and stopped within one event loop."""

    def __init__(self, settings: Settings, environ: Mapping[str, str]) -> None:
        self._settings = settings
        self._data = user_data_directory(environ)
        self.certificates = _certificates(settings, self._data)
        self._tls = TlsContext(self.certificates)
        self._key = load_account_key(settings, self._data)
        self._readiness = Readiness(settings.clock.mode)
        self._http: HttpPort | None = None
        self._mongo: MongoPort | None = None
        self._ydb: YdbPort | None = None
        self._running = RunningEngine(settings)
        self._front_ends: list[FrontEnd] = []
        self._writers: list[AccessWriter | SpanSender] = []
        self._limits: SharedLimits
        self._began: Instant
        self.admin: Admin | None = None

    @property
    def secrets(self) -> Iterator[str]:
        """The secrets of this server that are known by now. The log leaves them out."""
        if self._key.path is not None:
            yield self._key.base64
        for port in (self._http, self._mongo, self._ydb):
            if port is not None and port.secret is not None:
                yield port.secret
        drop_in = self._settings.drop_in
        if drop_in is not None and drop_in.certificate_secret is not None:
            yield drop_in.certificate_secret
        password = urlsplit(self._settings.storage.url).password
        if password:
            yield unquote(password)

    async def start(self) -> Announcement:
        """Bind the ports, open the store, and test that both work. StartFailed names the cause of a failure."""
        # Ports come before the store: a taken port is reported at once, and a container check gets 503 instead of no connection.
        http = self._take_ports()
        self._limits.quotas.get(EVENT_STREAMS, self._settings.limits.event_streams)
        http.listen(self._data, self._readiness, self._tls.get, self._limits)
        endpoints = Endpoints(self._settings, self._key, http, self._mongo, self._ydb)
        try:
            engine = await self._running.start(self._limits.quotas, partial(setattr, self._readiness, "store"))
        except MayflyError as error:
            raise StartFailed(str(error), setting="storage.url") from error
        engine.observe(self._open_access_log(), self._open_traces())
        cosmos, caller, wires = await self._build(http, endpoints, engine)
        # Before the ports are open: the first client finds what the seed makes.
        await self._seed(engine)
        self._open_ports(http, engine, cosmos, wires)
        # All ports are open by now. The server is announced only after each of them has answered.
        await self._check_listeners(http, caller)
        if self._settings.drop_in is not None:
            publish_certificate(await self._tls.ca_pem())
        if self.admin is not None:
            self.admin.webhooks.start()
            self.admin.archives.writer.start()
        # Imports of the start hold the loop while no client is served.
        engine.loop_watch.start(asyncio.get_running_loop())
        return endpoints.announcement(self.certificates.ca_path)

    async def stop(self, grace: float = GRACE_SECONDS) -> None:
        """Let requests in work finish, then flush and close. Safe after a failed start."""
        # Requests are given time to finish. A query that still computes after that may take a minute: it gets an error.
        self._running.limit_computing(grace)
        for front_end in self._front_ends:
            await front_end.close()
        if self.admin is not None:
            self.admin.events.close()
            await self.admin.webhooks.close()
            await self.admin.archives.writer.close()
        # Ports close before the store, so that no request meets a store that is closed.
        for port in (self._http, self._mongo, self._ydb):
            if port is not None:
                await port.close(grace)
        for writer in self._writers:
            await asyncio.to_thread(writer.close)
        await self._running.close()

    def _take_ports(self) -> HttpPort:
        """Bind the ports that are served. StartFailed names a port that cannot be bound; then no port stays bound."""
        settings = self._settings
        host = settings.server.host
        http = HttpPort(settings)
        try:
            if settings.mongo.port != -1:
                require_package("bson", "MongoDB", "mongo", "mongo.port")
                ca = None if settings.server.insecure else self.certificates.ca_path
                alias = -1 if settings.drop_in is None else settings.drop_in.mongo_port
                serverless = settings.cosmos.capacity == "serverless"
                self._mongo = MongoPort(
                    settings.mongo, host, self._data, serverless, ca, alias=alias, is_open=settings.is_open
                )
                self._readiness.mongo = "starting"
            if settings.ydb.served:
                require_package("grpc", "YDB", "ydb", "ydb.port")
                self._ydb = YdbPort(settings.ydb, settings.ttl, host, self._data, settings.is_open)
                self._readiness.ydb = "starting"
        except StartFailed:
            http.release()
            if self._mongo is not None:
                self._mongo.release()
            raise
        self._http = http
        log_drop_in(settings)
        if http.reachable and settings.server.insecure and settings.drop_in is None:
            log.warning(
                "other machines can connect without TLS (--insecure): keys, passwords and data can be read on the way"
            )
        limits = settings.limits
        self._limits = build_limits(
            limits.bytes_in_flight,
            limits.open_transactions,
            limits.transaction_bytes,
            limits.connections_per_address,
            1
            + bool(http.alias_addresses)
            + (self._mongo is not None)
            + (0 if self._ydb is None else self._ydb.listeners),
        )
        return http

    def _open_access_log(self) -> AccessLog | None:
        place = self._settings.server.access_log
        if place == "off":
            return None
        accesses = AccessLog(wall_us, monotonic_us)
        try:
            self._writers.append(AccessWriter(accesses, place))
        except OSError as error:
            message = f"the access log {place} cannot be opened: {error.strerror}"
            raise StartFailed(message, setting="server.access_log") from error
        return accesses

    def _open_traces(self) -> TraceLog | None:
        server = self._settings.server
        if not server.trace_endpoint:
            return None
        traces = TraceLog(wall_us, monotonic_us, secrets.SystemRandom().random, server.trace_ratio)
        self._writers.append(SpanSender(traces, server.trace_endpoint, server.trace_service))
        return traces

    async def _build(self, http: HttpPort, endpoints: Endpoints, engine: Engine) -> tuple[CosmosApp, Caller, Wires]:
        """Build the front ends over the engine. Return Cosmos DB's, its caller, and all callers."""
        settings = self._settings
        cosmos = build_cosmos(engine, settings, self._key.base64, http.reachable)
        caller = Caller(cosmos, Keys.from_base64(self._key.base64))
        self._began = now = await engine.now()
        mongo = self._mongo_targets(engine, now)
        spaces: tuple[Targets, ...] = (CosmosTargets(caller), mongo, YdbTargets(settings.ydb.databases, self._schemes))

        def info(address: str | None) -> dict[str, Any]:
            # The mode is read at each call: moving a real clock makes it virtual.
            return endpoints.info(address, engine.time.clock.mode)

        travel, shared = settings.server.allow_time_travel, settings.storage.shared
        wires = Wires(
            caller,
            None if self._mongo is None else self._mongo.wire(engine, now),
            None if self._ydb is None else self._ydb.wire(),
        )
        self.admin = Admin(
            engine,
            spaces,
            travel,
            shared,
            info,
            self._tls.ca_pem,
            self._running.host_clock,
            wires,
            archive_sites(settings),
        )
        if self._mongo is not None:
            front_end = self._front_end("mongo", "MongoDB's front end")
            await self._mongo.open(engine, now, self._limits, front_end)
        if self._ydb is not None:
            await self._ydb.open(
                engine, self.certificates.pair, self._limits, self._front_end("ydb", "YDB's front end")
            )
        return cosmos, caller, wires

    async def _seed(self, engine: Engine) -> None:
        """Apply the resource documents of the settings. StartFailed names the file that could not be applied."""
        server = self._settings.server
        if (server.seed or server.initdb) and self.admin is not None:
            from mayflydb.serving.seeding import seed

            self._readiness.seed = "seeding"
            await seed(engine, self.admin, server.initdb, server.seed)
        self._readiness.seed = "ok"

    def _open_ports(self, http: HttpPort, engine: Engine, cosmos: CosmosApp, wires: Wires) -> None:
        assert self.admin is not None
        http.open(cosmos, self.admin, wires)
        if self._mongo is not None:
            self._mongo.listen(engine, self._tls.get, self._began, self._limits)
        if self._ydb is not None:
            self._ydb.listen(self._limits)

    def _front_end(self, part: str, name: str) -> FrontEnd:
        front_end = FrontEnd(name, self._settings.server.preload, partial(setattr, self._readiness, part))
        self._front_ends.append(front_end)
        return front_end

    async def _check_listeners(self, http: HttpPort, caller: Caller) -> None:
        """Ask each listener as its clients do. StartFailed names the one that does not answer as it should."""
        trusted = await self._trusted_authority()
        checks = http.checks(caller, trusted)
        for port in (self._mongo, self._ydb):
            if port is not None:
                checks += port.checks(trusted)
        failures = await asyncio.gather(*(check.failure() for check in checks))
        failed = [(check, failure) for check, failure in zip(checks, failures, strict=True) if failure is not None]
        for part in {check.part for check in checks}:
            setattr(
                self._readiness, part, "; ".join(failure for check, failure in failed if check.part == part) or "ok"
            )
        if failed:
            raise StartFailed("; ".join(failure for _, failure in failed), setting=failed[0][0].setting)

    async def _trusted_authority(self) -> Trust | None:
        """Return the certificates that clients of TLS trust, if TLS is asked for at the start; else None."""
        is_asked = self._settings.server.scheme == "https" or (self._ydb is not None and self._ydb.encrypts)
        # Clients need the authority's certificate before their first connection. It is read by them alone where it is there.
        if not is_asked and (self._settings.ydb.tls_port == -1 or self.certificates.ca_path.exists()):
            return None
        try:
            await self._tls.ca_pem()
            return await self._tls.trust() if is_asked else None
        except (OSError, ValueError) as error:
            raise StartFailed(f"there is no certificate: {error}", setting="server.scheme") from error

    def _mongo_targets(self, engine: Engine, now: Instant) -> MongoTargets:
        port = self._mongo
        caller = None if port is None else partial(port.caller, engine, now)
        return MongoTargets(partial(contracts, self._settings.mongo), caller)

    def _schemes(self) -> Schemes | None:
        return None if self._ydb is None else self._ydb.schemes


def _certificates(settings: Settings, data: Path) -> Certificates:
    """Return the certificate that the settings name, or those of Mayfly's authority."""
    own = load_own_certificate(settings, data)
    if own is not None:
        return RenewedCertificate(settings, data, own)
    return Authority(data, (*settings.tls.names, *settings.server.advertised_names, *settings.server.bound_names))
