"""The composition root: clock, store, engine, reaper, front ends and portal, put together, served, and taken apart again."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hmac
import logging
import os
import platform
import secrets
import socket
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mayflydb.admin.operations import Admin
from mayflydb.admin.targets import Targets
from mayflydb.announcement import Announcement, StartFailed
from mayflydb.clock import boot_us
from mayflydb.config.settings import Settings
from mayflydb.engine.budgets import Budgets
from mayflydb.engine.engine import Engine
from mayflydb.engine.open import open_engine
from mayflydb.engine.runs import Cadence
from mayflydb.engine.selftest import prove
from mayflydb.engine.throughput import ceiling
from mayflydb.frontends.cosmos.app import CosmosApp
from mayflydb.frontends.cosmos.auth import Keys
from mayflydb.frontends.cosmos.caller import Caller
from mayflydb.frontends.cosmos.calls import Account
from mayflydb.frontends.cosmos.targets import CosmosTargets
from mayflydb.frontends.mongo.targets import MongoTargets
from mayflydb.frontends.ydb.targets import YdbTargets
from mayflydb.http.listener import Listener
from mayflydb.http.messages import Handler
from mayflydb.model.errors import MayflyError
from mayflydb.model.instant import SECOND, Instant
from mayflydb.moving.copy import is_unfinished
from mayflydb.serving.certificates import Authority, user_data_directory
from mayflydb.serving.clocks import build_clock
from mayflydb.serving.http_gateway import Hosts, HttpGateway, Readiness
from mayflydb.serving.keys import account_key, admin_token
from mayflydb.serving.listener_checks import ListenerCheck, Place, ask_http
from mayflydb.serving.mongo_port import MongoPort, contracts
from mayflydb.serving.options import options_from
from mayflydb.serving.ports import address, places, take, within_reach
from mayflydb.serving.stores import open_store
from mayflydb.serving.ydb_port import YdbPort
from mayflydb.store.interface import Store
from mayflydb.version import __version__

if TYPE_CHECKING:
    import ssl

    from mayflydb.frontends.ydb.schemes.catalog import Schemes

log = logging.getLogger("mayflydb.server")

GRACE = 10.0
"""Seconds that requests in work are given to finish."""


class Server:
    """One server, started and stopped within one event loop."""

    def __init__(self, settings: Settings, environ: Mapping[str, str]) -> None:
        self._settings = settings
        self._data = user_data_directory(environ)
        self.authority = Authority(self._data, (*settings.tls.names, *settings.server.advertised_names))
        self._key, self._key_path = account_key(settings, self._data)
        self._readiness = Readiness(settings.clock.mode)
        self._context: asyncio.Future[ssl.SSLContext] | None = None
        self._listener: Listener | None = None
        self._mongo: MongoPort | None = None
        self._ydb: YdbPort | None = None
        self._store: Store | None = None
        self._reaping: asyncio.Task[None] | None = None
        self._endpoint = ""
        self.admin: Admin | None = None

    async def start(self) -> Announcement:
        """Take the port, open the store, prove that it works, answer. StartFailed says what prevented it."""
        settings = self._settings
        sockets = _take_sockets(settings)
        try:
            self._take_ports()
        except StartFailed:
            for each in sockets:
                each.close()
            raise
        names = (
            socket.gethostname(),
            *settings.tls.names,
            *settings.server.allow_hosts,
            *settings.server.advertised_names,
        )
        gateway = HttpGateway(Hosts(names), self._readiness, admin_token(sockets, self._data))
        self._listener = Listener(gateway, self._tls)
        self._listener.serve(sockets)
        self._endpoint = f"{settings.server.scheme}://{address(sockets[0])}"
        try:
            engine = await self._open()
        except MayflyError as error:
            raise StartFailed(str(error), setting="storage.url") from error
        travel = settings.server.allow_time_travel
        cosmos = self._cosmos(engine)
        caller = Caller(cosmos, Keys.from_base64(self._key))
        mongo = self._mongo_targets(engine, await engine.now())
        ydb = YdbTargets(settings.ydb.databases, self._schemes)
        spaces: tuple[Targets, ...] = (CosmosTargets(caller), mongo, ydb)
        self.admin = Admin(engine, spaces, travel, settings.storage.shared, self.info, self._ca_pem)
        portal = self._portal(self.admin, caller)
        gateway.open(cosmos, portal, self.admin.upkeep.health, _page(settings))
        if self._mongo is not None:
            await self._mongo.serve(engine, self._tls, await engine.now())
        if self._ydb is not None:
            await self._ydb.serve(engine, self.authority.pair)
        await self._prove(sockets, caller)
        return self._announcement()

    async def _prove(self, sockets: list[socket.socket], caller: Caller) -> None:
        """Ask each listener as its clients do. StartFailed names the one that does not answer as it should."""
        trusted = await self._authority()
        at = [*places(sockets), *(places(sockets, trusted) if trusted else ())]
        checks = [_http_check(each, caller) for each in at]
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

    async def _authority(self) -> bytes | None:
        """The authority that clients of TLS trust, where TLS is served from the start; elsewhere None."""
        settings = self._settings
        if settings.server.scheme != "https" and settings.ydb.tls_port == -1:
            return None
        try:
            return await self._ca_pem()
        except (OSError, ValueError) as error:
            raise StartFailed(f"there is no certificate: {error}", setting="server.scheme") from error

    def _take_ports(self) -> None:
        """Those of MongoDB and YDB, as far as they are served. StartFailed says which of them does not work."""
        settings = self._settings
        host = settings.server.host
        if settings.mongo.port != -1:
            self._mongo = MongoPort(settings.mongo, host, self._data, settings.cosmos.capacity == "serverless")
            self._readiness.mongo = "starting"
        if settings.ydb.served:
            try:
                self._ydb = YdbPort(settings.ydb, settings.ttl, host, self._data)
            except StartFailed:
                if self._mongo is not None:
                    self._mongo.release()
                raise
            self._readiness.ydb = "starting"

    async def _open(self) -> Engine:
        storage = self._settings.storage
        opened = await open_store(storage, alone=self._settings.clock.mode == "virtual")
        store = self._store = opened.store
        if await is_unfinished(store):
            hint = "start the copy or import again: it goes on where it was"
            raise StartFailed(
                f"{storage.shown} holds an unfinished copy", setting="storage.url", hint=hint, exit_code=4
            )
        self._readiness.store = "checking"
        clock = await build_clock(self._settings, opened)
        budgets = Budgets(ceiling) if self._settings.cosmos.throttling else None
        ttl = self._settings.ttl
        passes = ttl.mongo_sweep_interval
        runs = Cadence(ttl.ydb_tick, ttl.ydb_retry_interval, ttl.ydb_removal)
        every, charge, holds = ttl.sweep_interval, ttl.charge, opened.holds
        engine = await open_engine(
            store, clock, every, opened.lease, budgets, charge, passes, runs, holds, MongoTargets.space
        )
        await prove(engine)
        self._reaping = asyncio.create_task(engine.reaper.run(), name="reaper")
        self._reaping.add_done_callback(_log_end_of_reaper)
        self._readiness.store = self._readiness.seed = "ok"
        return engine

    def _cosmos(self, engine: Engine) -> Handler:
        keys = Keys.from_base64(self._key)
        # Derived from the key, so that continuation tokens outlive a restart.
        secret = hmac.digest(base64.b64decode(self._key), b"continuation tokens", "sha256")
        cosmos = self._settings.cosmos
        account = options_from(
            Account,
            cosmos,
            keys=keys,
            secret=secret,
            direct=cosmos.cross_partition == "direct",
            resolve_address=self._settings.server.told,
            serverless=cosmos.capacity == "serverless",
            lenient=cosmos.query_rules == "lenient",
        )
        return CosmosApp(engine, account, secrets.token_hex(16).encode())

    def _mongo_targets(self, engine: Engine, now: Instant) -> MongoTargets:
        port = self._mongo
        caller = None if port is None else partial(port.caller, engine, now)
        return MongoTargets(partial(contracts, self._settings.mongo), caller)

    def _schemes(self) -> Schemes | None:
        return None if self._ydb is None else self._ydb.schemes

    @staticmethod
    def _portal(admin: Admin, cosmos: Caller) -> Callable[[], Handler]:
        made: list[Handler] = []

        def portal() -> Handler:
            if not made:
                from mayflydb.serving.web_app import web_app

                made.append(web_app(admin, cosmos))
            return made[0]

        return portal

    async def stop(self, grace: float = GRACE) -> None:
        """Let requests in work finish, then flush and close. Safe after a failed start."""
        if self._listener is not None:
            await self._listener.close(grace)
        if self._mongo is not None:
            await self._mongo.close(grace)
        if self._ydb is not None:
            await self._ydb.close(grace)
        if self._reaping is not None:
            self._reaping.cancel()
            await asyncio.wait([self._reaping])
        if self.admin is not None:
            await self.admin.engine.indexes.close()
        if self._store is not None:
            await self._store.close()

    # --- what others ask for -----------------------------------------------------------------------------------------

    async def _tls(self) -> ssl.SSLContext:
        if self._context is None:
            self._context = asyncio.ensure_future(asyncio.to_thread(self.authority.context))
        try:
            return await asyncio.shield(self._context)
        except (OSError, ValueError) as error:
            self._context = None
            log.error("there is no certificate, so https does not work: %s", error)
            raise OSError(str(error)) from error

    async def _ca_pem(self) -> bytes:
        return await asyncio.to_thread(self.authority.ca_pem)

    def info(self, address: str | None) -> dict[str, Any]:
        """Version, storage and how to connect, by the address (scheme://host:port) that the client used; None: our own."""
        server = self._settings.server
        base = self._endpoint if address is None else address
        if server.scheme == "https":
            base = "https://" + base.partition("://")[2]
        cosmos = server.told(base)
        admin, mongo, ydb = self.admin, self._mongo, self._ydb
        assert admin is not None
        ports = {"http": _port(self._endpoint)}
        if mongo is not None:
            ports["mongo"] = _port(mongo.address)
        if ydb is not None and ydb.address is not None:
            ports["ydb"] = _port(ydb.address)
        if ydb is not None and ydb.tls_address is not None:
            ports["ydb_tls"] = _port(ydb.tls_address)
        return {
            "version": __version__,
            "python": platform.python_version(),
            "pid": os.getpid(),
            "storage": self._settings.storage.shown,
            "clock": admin.engine.time.clock.mode,
            "allow_time_travel": server.allow_time_travel,
            "ports": ports,
            "cosmos": {
                "endpoint": f"{cosmos}/",
                "key": self._key,
                "connection_string": f"AccountEndpoint={cosmos}/;AccountKey={self._key};",
            },
            "mongo": None if mongo is None else {"uri": mongo.uri},
            "ydb": None if ydb is None else {"endpoint": ydb.endpoint, "database": ydb.database},
            "portal": f"{base}/",
            "admin": f"{base}/_mayfly",
            "metrics": f"{base}/metrics",
        }

    def _announcement(self) -> Announcement:
        info, advertise, mongo = self.info(None), self._settings.server.advertise, self._mongo
        ydb = self._ydb
        tls = None if ydb is None or ydb.tls_address is None else f"grpcs://{ydb.tls_address}"
        return Announcement(
            pid=os.getpid(),
            cosmos_endpoint=info["cosmos"]["endpoint"],
            cosmos_key=self._key,
            portal=info["portal"],
            admin=info["admin"],
            metrics=info["metrics"],
            storage=info["storage"],
            clock=self._settings.clock.mode,
            version=__version__,
            seconds_to_ready=_process_age(),
            key_path=None if self._key_path is None else str(self._key_path),
            ca_path=str(self.authority.ca_path) if self.authority.ca_path.exists() else None,
            mongo_uri=None if mongo is None else mongo.uri,
            mongo_password_path=None if mongo is None or mongo.password_path is None else str(mongo.password_path),
            ydb_endpoint=None if ydb is None else ydb.endpoint,
            ydb_database=None if ydb is None else ydb.database,
            ydb_tls_endpoint=tls,
            ydb_password_path=None if ydb is None or ydb.password_path is None else str(ydb.password_path),
            either_scheme=advertise is None or advertise.scheme is None,
        )


# --- the parts -----------------------------------------------------------------------------------------------------------


def _http_check(place: Place, caller: Caller) -> ListenerCheck:
    async def ask() -> None:
        await ask_http(place, caller.sign_headers("GET", b"/"))

    return ListenerCheck(
        "cosmos", "server.port", f"{'HTTP' if place.trusted is None else 'HTTPS'} on {place.address}", ask
    )


def _port(place: str) -> int:
    return int(place.rpartition(":")[2])


def _take_sockets(settings: Settings) -> list[socket.socket]:
    server = settings.server
    sockets = take(server.host, server.port, "server.port", "-p")
    protected = settings.cosmos.key_file is not None or settings.cosmos.generate_key
    if not protected and within_reach(sockets):
        for each in sockets:
            each.close()
        raise StartFailed(
            f"{server.host} can be reached from other machines, and the well-known key opens the store to all of them",
            setting="server.host",
            hint="add --generate-key or --key-file PATH, or listen on localhost",
            exit_code=4,
        )
    return sockets


def _page(settings: Settings) -> str:
    storage = {"memory": "memory", "sqlite": "a file", "postgresql": "PostgreSQL"}[settings.storage.kind]
    return (
        "<!doctype html><html lang=en><title>Mayfly</title>"
        f"<p>Mayfly {__version__} is running and keeps its data in {storage}.</p></html>"
    )


def _log_end_of_reaper(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.critical("the reaper stopped: nothing is purged until the server is started again", exc_info=error)


def _process_age() -> float:
    """Seconds since this process was started, the interpreter's own start included; 0 where that cannot be known."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        after_name = Path("/proc/self/stat").read_text(encoding="ascii", errors="replace").rpartition(")")[2]
        started = int(after_name.split()[19]) / os.sysconf("SC_CLK_TCK")
        return max(0.0, boot_us() / SECOND - started)
    return 0.0
