"""Runs a server in a thread of this process: `with mayflydb.serve(memory=True, port=0) as server: ...`."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mayflydb.announcement import Announcement
from mayflydb.config import Settings
from mayflydb.embedded.addresses import CosmosAccess, MongoAccess, YdbAccess
from mayflydb.embedded.handles import AdminHandle, Controls
from mayflydb.embedded.settings import settings_from
from mayflydb.embedded.threads import Home, run_in_thread
from mayflydb.embedded.within import Within

if TYPE_CHECKING:
    from mayflydb.serving.server import Server


class ServerHandle(AdminHandle):
    """A server, in this process or not, with its addresses and operations."""

    def __init__(self, controls: Controls, announcement: Announcement, ca_file: Callable[[], Path]) -> None:
        super().__init__(controls)
        self.announcement = announcement
        self.cosmos = CosmosAccess(ca_file, announcement)
        self.mongo = MongoAccess(announcement)
        self.ydb = YdbAccess(ca_file, announcement)

    @property
    def admin_url(self) -> str:
        """The base of the admin API, without a slash at the end."""
        return self.announcement.admin or ""

    def env(self) -> dict[str, str]:
        """Return the environment variables in which applications look for a server."""
        variables = {
            "COSMOS_ENDPOINT": self.cosmos.url,
            "COSMOS_KEY": self.cosmos.key,
            "COSMOS_CONNECTION_STRING": self.cosmos.connection_string,
        }
        if self.mongo.uri:
            variables["MONGODB_URI"] = self.mongo.uri
        if self.ydb.endpoint:
            variables["YDB_CONNECTION_STRING"] = self.ydb.connection_string
        return variables


class RunningServer(ServerHandle):
    """A server in this process. Its methods may be called from any thread except its own, which would wait for itself."""

    def __init__(self, home: Home, server: Server, announcement: Announcement) -> None:
        admin = server.admin
        assert admin is not None

        def ca_file() -> Path:
            server.certificates.ca_pem()
            return server.certificates.ca_path

        super().__init__(Within(home, admin), announcement, ca_file)
        self._server = server
        self._home = home
        self._admin = admin


@contextmanager
def serve(path: str | Path | None = None, *, memory: bool = False, **settings: Any) -> Iterator[RunningServer]:
    """Serve a file, or memory, in a thread, until the block ends.

    Keywords are the flags of `mayfly serve` (`port=0`, `clock="virtual"`, `allow_host=["db.test"]`). The environment and
    settings files are not read. `clock="system"`: the clock of this process, which tests move, for a server in memory. TypeError
    for an unknown keyword; StartFailed for a setting that is refused.
    """
    follows = settings.get("clock") == "system"
    if follows:
        if not memory or "clock_start" in settings:
            raise TypeError("clock='system' is for a server in memory, and begins at the time of this process")
        settings["clock"] = "virtual"
    with running(settings_from(path, memory, settings)) as server:
        if follows:
            server.follow_process()
        yield server


@contextmanager
def running(settings: Settings) -> Iterator[RunningServer]:
    """Run the server that these settings describe in a thread, until the block ends."""
    with run_in_thread(partial(_start, settings), "mayfly-server") as server:
        yield server


@asynccontextmanager
async def _start(settings: Settings, home: Home) -> AsyncIterator[RunningServer]:
    from mayflydb.serving.server import Server

    server = Server(settings, os.environ)
    try:
        announcement = await server.start()
        yield RunningServer(home, server, announcement)
    finally:
        await server.stop(grace=1.0)
