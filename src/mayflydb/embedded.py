"""Runs a server in a thread of this process: `with mayflydb.serve(memory=True, port=0) as server: ...`."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import msgspec

from mayflydb.admin.hints import hint_of, word_hint
from mayflydb.announcement import Announcement
from mayflydb.config import MEMORY, TABLE, RawValue, Row, Settings, file_url, load
from mayflydb.model.durations import parse_instant, parse_span
from mayflydb.model.errors import BadRequest, MayflyError
from mayflydb.model.instant import Instant, from_datetime, to_datetime, to_rfc3339

if TYPE_CHECKING:
    from azure.cosmos import CosmosClient
    from pymongo import MongoClient

    from mayflydb.admin.operations import Admin
    from mayflydb.serving.server import Server

T = TypeVar("T")

Sweep = Literal["scheduled", "now", "none"]
_MICROSECOND = timedelta(microseconds=1)
_OF_A_PROCESS = frozenset({"server.log_format", "server.log_level", "server.ready_file", "server.stop_with_stdin"})
"""Settings that would have no effect here: logging and standard input belong to the process, and the ready file is for others."""

INSTALL = 'pip install "mayflydb[demo]"'


class Expired(msgspec.Struct, frozen=True):
    """One record that age removed. `due`: its deadline; `purged_at`: the instant of its purge.

    `reason`: `default` (the container's), `item` (its own ttl), `index` (a date index) or `column` (a TTL column of a table).

    `id`: a document's id that is no string is extended JSON, and an ObjectId is its 24 digits. `pk`: the value of the partition
    key; a list for a hierarchical key, `{}` where the item has no such property, None for documents of MongoDB.
    """

    target: str
    id: str
    pk: Any
    due: datetime
    purged_at: datetime
    reason: str


class Home:
    """The server's event loop, from other threads."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the server's loop and wait for its result; its exceptions are raised here.

        RuntimeError if the server has ended.
        """
        if self._loop.is_closed():
            work.close()
            raise RuntimeError("the server has ended")
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


def with_hint(error: MayflyError) -> MayflyError:
    """Add an error's hint to what Python prints of it."""
    if hint := word_hint(hint_of(error), "python"):
        error.add_note(f"Try: {hint}")
    return error


class Controls(Protocol):
    """The way to a server's admin API: in this process, or over HTTP."""

    def ask(self, method: str, path: str, /, **members: Any) -> dict[str, Any]:
        """Run an operation of the admin API and return its answer. `path`: as in its table, `snapshots/{name}`. MayflyError."""
        ...

    def now(self) -> Instant:
        """Return the server's present."""
        ...

    def start_at(self, instant: Instant) -> None:
        """Freeze the clock of an empty server at an instant, to which later resets return."""
        ...

    def follow_process(self) -> None:
        """Follow the clock of this process. Forbidden for a server in another one."""
        ...


class _Within:
    """Controls of a server in this process."""

    def __init__(self, home: Home, admin: Admin) -> None:
        self._home = home
        self._admin = admin
        self._operations = {(each.method, each.path): each for each in admin.operations()}

    def ask(self, method: str, path: str, /, **members: Any) -> dict[str, Any]:
        operation = self._operations[method, path]
        try:
            wanted = msgspec.convert(members, operation.parameters)
        except msgspec.ValidationError as error:
            raise BadRequest(str(error)) from error

        async def run() -> dict[str, Any]:
            return await operation.handler(wanted)

        try:
            return self._home.call(run())
        except MayflyError as error:
            with_hint(error)
            raise

    def now(self) -> Instant:
        return self._home.call(self._admin.engine.now())

    def start_at(self, instant: Instant) -> None:
        self._home.call(self._admin.clock.start_at(instant))

    def follow_process(self) -> None:
        self._home.call(self._admin.clock.follow_process())


class ClockHandle:
    """The server's clock. A move returns after all purges that it makes due, with the answer of the admin API."""

    def __init__(self, controls: Controls) -> None:
        self._controls = controls

    def now(self) -> datetime:
        """Return the present as an aware datetime in UTC."""
        return to_datetime(self._controls.now())

    def advance(
        self,
        by: timedelta | str | None = None,
        *,
        seconds: float = 0,
        minutes: float = 0,
        hours: float = 0,
        days: float = 0,
        sweep: Sweep = "scheduled",
    ) -> dict[str, Any]:
        """Advance by a timedelta, by a duration as text (`1h30m`), or by the sum of the parts."""
        if isinstance(by, str):
            span = parse_span(by)
        else:
            parts = timedelta(seconds=seconds, minutes=minutes, hours=hours, days=days)
            span = ((by or timedelta()) + parts) // _MICROSECOND
        if span < 0:
            raise ValueError("the clock does not go back; use set")
        return self._controls.ask("POST", "clock/advance", by=f"{span}us", sweep=sweep)

    def set(self, to: datetime | str, *, force: bool = False) -> dict[str, Any]:
        """Set the clock to an aware datetime or a time as text. The past needs `force`, and a store without newer data."""
        return self._controls.ask("POST", "clock/set", to=to_rfc3339(instant_of(to)), force=force)

    def freeze(self) -> None:
        """Stop the clock at the present instant."""
        self._controls.ask("POST", "clock/freeze")

    def resume(self) -> None:
        """Let the clock tick."""
        self._controls.ask("POST", "clock/resume")

    def next_expiry(self) -> datetime | None:
        """Return the next deadline; None: no record expires."""
        found = self._controls.ask("GET", "clock")["next_expiry"]
        return None if found is None else to_datetime(parse_instant(found))

    def advance_to_next_expiry(self) -> dict[str, Any]:
        """Advance to the next deadline, if there is one."""
        return self._controls.ask("POST", "clock/advance", to="next-expiry")

    shift = advance
    move_to = set  # noqa: A003 - the method above, under the name that time machines have for it


class Events:
    """Expiry events since the last reset."""

    def __init__(self, controls: Controls) -> None:
        self._controls = controls

    @property
    def expired(self) -> list[Expired]:
        """The records that age removed, in the order of their purges. HistoryLost if some of them are no longer kept."""
        found: list[Expired] = []
        last = -1
        page: dict[str, Any] = {"last": 0}
        while page["last"] != last:
            last = page["last"]
            page = self._controls.ask("GET", "events/expired", after=last)
            found += map(_expired, page["events"])
        return found


def _expired(row: Mapping[str, Any]) -> Expired:
    due, purged = (to_datetime(parse_instant(row[name])) for name in ("due", "purged_at"))
    return Expired(row["target"], row["id"], row["pk"], due, purged, row["reason"])


class CosmosAccess:
    """The address for Cosmos DB's clients: over http, which needs no certificate. `ca_file` is for clients that use https."""

    def __init__(self, ca_file: Callable[[], Path], announcement: Announcement) -> None:
        self._ca_file = ca_file
        self.url: str = announcement.cosmos_endpoint or ""
        self.key: str = announcement.cosmos_key or ""

    @property
    def connection_string(self) -> str:
        return f"AccountEndpoint={self.url};AccountKey={self.key};"

    @property
    def ca_file(self) -> Path:
        """The file of the certificate authority that clients trust for https; created if it is missing."""
        return self._ca_file()

    def client(self, **options: Any) -> CosmosClient:
        """Build a client of the vendor's SDK. ImportError, with the pip command, if the SDK is not installed."""
        try:
            from azure.cosmos import CosmosClient
        except ImportError as error:
            raise ImportError(f"the vendor's client is not installed: {INSTALL}") from error
        return CosmosClient(self.url, self.key, **options)


class MongoAccess:
    """The address for MongoDB's clients; `uri` is empty where MongoDB is off."""

    def __init__(self, announcement: Announcement) -> None:
        self.uri: str = announcement.mongo_uri or ""

    def client(self, **options: Any) -> MongoClient[dict[str, Any]]:
        """Build a client of pymongo; close it before the server ends."""
        from pymongo import MongoClient

        return MongoClient(self.uri, **options)


class YdbAccess:
    """The address for YDB's clients; `endpoint` is empty where YDB is off."""

    def __init__(self, announcement: Announcement) -> None:
        self.endpoint: str = announcement.ydb_endpoint or ""
        self.tls_endpoint: str = announcement.ydb_tls_endpoint or ""
        self.database: str = announcement.ydb_database or ""

    @property
    def connection_string(self) -> str:
        """`grpc://127.0.0.1:2136?database=/local`, the form that all SDKs read. Some take a slash before the `?` for the path."""
        return f"{self.endpoint}?database={self.database}"

    def driver(self, **options: Any) -> Any:
        """Connect a driver of the vendor's SDK; stop it before the server ends. ImportError if the SDK is not installed."""
        try:
            import ydb
        except ImportError as error:
            raise ImportError(f"the vendor's client is not installed: {INSTALL}") from error
        driver = ydb.Driver(endpoint=self.endpoint, database=self.database, **options)
        driver.wait(timeout=10, fail_fast=True)
        return driver


class ServerHandle:
    """A server, in this process or not, with its addresses and operations."""

    def __init__(self, controls: Controls, announcement: Announcement, ca_file: Callable[[], Path]) -> None:
        self._controls = controls
        self.announcement = announcement
        self.cosmos = CosmosAccess(ca_file, announcement)
        self.mongo = MongoAccess(announcement)
        self.ydb = YdbAccess(announcement)
        self.clock = ClockHandle(controls)
        self.events = Events(controls)

    @property
    def admin_url(self) -> str:
        """The base of the admin API, without a slash at the end."""
        return self.announcement.admin or ""

    def reset(self, target: str | None = None, *, keep_clock: bool = False) -> dict[str, Any]:
        """Delete everything and set a virtual clock back to its start; with a target (`cosmos:shop`), delete that alone."""
        return self._controls.ask("POST", "reset", target=target, keep_clock=keep_clock)

    def start_at(self, instant: datetime | str) -> None:
        """Delete everything and freeze the clock at this time; later resets return to it."""
        self.reset(keep_clock=True)
        self._controls.start_at(instant_of(instant))

    def follow_process(self) -> None:
        """Follow the clock of this process from now on, as time-machine and freezegun move it, until `start_at` or a freeze.

        Each request looks at it first, and is answered after all purges that a move has made due. Resets leave it so.

        Forbidden for a store that outlives the process, and for a server in another one.
        """
        self._controls.follow_process()

    def purge(self, target: str | None = None) -> dict[str, Any]:
        """Purge all due records."""
        return self._controls.ask("POST", "purge", target=target)

    def stats(self) -> dict[str, Any]:
        """Return counts of records, in all and by target."""
        return self._controls.ask("GET", "stats")

    def snapshot(self, name: str = "snapshot") -> dict[str, Any]:
        """Save everything that is stored, and the clock, under a name, in the place of a snapshot that had it."""
        return self._controls.ask("PUT", "snapshots/{name}", name=name)

    def restore(self, name: str = "snapshot") -> dict[str, Any]:
        """Replace everything by a snapshot, and return the clock to its instant. NotFound."""
        return self._controls.ask("POST", "snapshots/{name}/restore", name=name)

    def seed(self, *sources: str | Path | Mapping[str, Any]) -> None:
        """Make what resource documents describe, as `mayfly apply` does: documents, files, or the files of folders.

        Applied again, a document changes nothing. After an error what was made before stays. BadRequest, Conflict, OSError.
        """
        from mayflydb.admin import resource_files, resources

        for source in sources:
            if isinstance(source, Mapping):
                documents = [resources.convert(source)]
            else:
                documents = [resource_files.read(path) for path in resource_files.find([Path(source)])]
            for document in documents:
                for piece in resources.pieces(document):
                    self._controls.ask("POST", "apply", **msgspec.to_builtins(piece))

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

        super().__init__(_Within(home, admin), announcement, ca_file)
        self._server = server
        self._home = home
        self._admin = admin


def instant_of(moment: datetime | str) -> Instant:
    """Convert an aware datetime, RFC 3339 text or Unix seconds to an instant; ValueError for anything else."""
    return parse_instant(moment) if isinstance(moment, str) else from_datetime(moment)


# --- starting and stopping -----------------------------------------------------------------------------------------------


@contextmanager
def serve(path: str | Path | None = None, *, memory: bool = False, **settings: Any) -> Iterator[RunningServer]:
    """Serve a file, or memory, in a thread, until the block ends.

    Keywords are the flags of `mayfly serve` (`port=0`, `clock="virtual"`, `allow_host=["db.test"]`). The environment and
    settings files are not read. TypeError for an unknown keyword; StartFailed for a setting that is refused.
    """
    with running(settings_from(path, memory, settings)) as server:
        yield server


def settings_from(path: str | Path | None, memory: bool, keywords: Mapping[str, Any]) -> Settings:
    """Build settings from keywords of `serve`."""
    rows = {_keyword(row): row for row in TABLE if row.key not in _OF_A_PROCESS}
    for name in keywords:
        if name not in rows:
            raise TypeError(f"there is no setting {name!r}; those that exist: {', '.join(sorted(rows))}")
    given = {rows[name].key: RawValue(value, f"keyword {name}") for name, value in keywords.items()}
    if memory + (path is not None) + ("storage" in keywords) > 1:
        raise TypeError("one of path, memory and storage")
    if memory:
        given["storage.url"] = RawValue(MEMORY, "keyword memory")
    elif path is not None:
        if "://" in str(path):
            # The message does not repeat the value, which may hold a password.
            raise TypeError("path is a file's; a URL goes into storage=")
        if str(path) == ":memory:":
            raise TypeError("path is a file's; memory=True keeps everything in memory")
        given["storage.url"] = RawValue(file_url(Path(path)), "path")
    return load(given, environ={}, search=False).settings


def _keyword(row: Row) -> str:
    return row.flags[-1].partition("/")[0].removeprefix("--").replace("-", "_")


@contextmanager
def running(settings: Settings) -> Iterator[RunningServer]:
    """Run the server that these settings describe in a thread, until the block ends."""
    thread = ServerThread(settings)
    server = thread.start()
    try:
        yield server
    finally:
        thread.stop()


class ServerThread:
    """An event loop in a thread, with a server on it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping = asyncio.Event()
        self._answer: RunningServer | BaseException | None = None
        self._answered = threading.Event()
        self._thread = threading.Thread(target=self._run, name="mayfly-server", daemon=True)

    def start(self) -> RunningServer:
        """Start the thread and return when the server answers; raise the error that prevented it."""
        self._thread.start()
        # Set in every case: after the start, and when the thread ends.
        self._answered.wait()
        if isinstance(self._answer, RunningServer):
            return self._answer
        self._thread.join()
        raise self._answer or RuntimeError("the server's thread ended without a word")

    def stop(self) -> None:
        """Finish requests in progress, close the store, and end the thread."""
        assert self._loop is not None
        # Not `set` itself: an asyncio.Event belongs to the thread of its loop.
        self._loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            from mayflydb.serving.process import loop_factory

            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                runner.run(self._serve())
        except BaseException as error:  # noqa: BLE001 - `start` raises it in the caller's thread
            self._answer = error
        finally:
            self._answered.set()

    async def _serve(self) -> None:
        from mayflydb.serving.server import Server

        self._loop = asyncio.get_running_loop()
        server = Server(self._settings, os.environ)
        try:
            announcement = await server.start()
            self._answer = RunningServer(Home(self._loop), server, announcement)
            self._answered.set()
            await self._stopping.wait()
        finally:
            await server.stop(grace=1.0)
