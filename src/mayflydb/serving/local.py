"""A database without ports: an engine with Cosmos DB's front end, the admin API and the pages behind one handler."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from mayflydb.admin.operations import EVENT_STREAMS, Admin
from mayflydb.admin.wires import Wires
from mayflydb.announcement import StartFailed
from mayflydb.config.settings import Settings
from mayflydb.frontends.cosmos.auth import Keys
from mayflydb.frontends.cosmos.caller import Caller
from mayflydb.frontends.cosmos.targets import CosmosTargets
from mayflydb.frontends.mongo.targets import MongoTargets
from mayflydb.frontends.ydb.targets import YdbTargets
from mayflydb.http.messages import Handler
from mayflydb.model.errors import MayflyError, NotFound
from mayflydb.serving.archive_sites import archive_sites
from mayflydb.serving.certificates import user_data_directory
from mayflydb.serving.endpoints import Endpoints
from mayflydb.serving.engines import RunningEngine
from mayflydb.serving.http_gateway import Hosts, HttpGateway, Readiness
from mayflydb.serving.http_port import build_cosmos, load_web_app_once
from mayflydb.serving.keys import load_account_key
from mayflydb.serving.mongo_port import contracts
from mayflydb.serving.shared_limits import build_limits

GRACE_SECONDS: Final = 1.0
"""Seconds that queries in work are given to compute."""


class LocalDatabase:
    """A store that is served to its own process alone, from `start` to `close`. `handler`: answers HTTP requests."""

    admin: Admin
    caller: Caller
    handler: Handler
    key: str

    def __init__(self, settings: Settings, environ: Mapping[str, str]) -> None:
        self._settings = settings
        self._data = user_data_directory(environ)
        self._running = RunningEngine(settings)

    async def start(self) -> None:
        """Open the store, test it, start to purge, and apply the seed. StartFailed names the cause of a failure."""
        settings, limits = self._settings, self._settings.limits
        shared = build_limits(limits.bytes_in_flight, limits.open_transactions, limits.transaction_bytes, 1, 0)
        shared.quotas.get(EVENT_STREAMS, limits.event_streams)
        readiness = Readiness(settings.clock.mode)
        try:
            engine = await self._running.start(shared.quotas, partial(setattr, readiness, "store"))
        except MayflyError as error:
            raise StartFailed(str(error), setting="storage.url") from error
        key = load_account_key(settings, self._data)
        self.key = key.base64
        cosmos = build_cosmos(engine, settings, self.key, reachable=False)
        self.caller = Caller(cosmos, Keys.from_base64(self.key))
        spaces = (
            CosmosTargets(self.caller),
            MongoTargets(partial(contracts, settings.mongo), None),
            YdbTargets(settings.ydb.databases, lambda: None),
        )
        endpoints, wires = Endpoints(settings, key, None, None, None), Wires(self.caller)

        def info(address: str | None) -> dict[str, Any]:
            return endpoints.info(address, engine.time.clock.mode)

        self.admin = Admin(
            engine,
            spaces,
            settings.server.allow_time_travel,
            settings.storage.shared,
            info,
            _refuse_certificate,
            self._running.host_clock,
            wires,
            archive_sites(settings),
        )
        if settings.server.seed or settings.server.initdb:
            from mayflydb.serving.seeding import seed

            await seed(engine, self.admin, settings.server.initdb, settings.server.seed)
        readiness.seed = readiness.cosmos = "ok"
        gateway = HttpGateway(Hosts(()), readiness)
        gateway.open(cosmos, load_web_app_once(self.admin, wires, None), self.admin.maintenance.health, "")
        self.handler = gateway
        self.admin.webhooks.start()
        self.admin.archives.writer.start()
        engine.loop_watch.start(asyncio.get_running_loop())

    async def close(self) -> None:
        """End what is in work, then flush and close the store. Safe after a failed start."""
        self._running.limit_computing(GRACE_SECONDS)
        if hasattr(self, "admin"):
            self.admin.events.close()
            await self.admin.webhooks.close()
            await self.admin.archives.writer.close()
        await self._running.close()


async def _refuse_certificate() -> bytes:
    raise NotFound("no port is served here, so there is no certificate")
