"""Servers for tests outside of the test process: one that runs already, or one in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal, NoReturn
from urllib.parse import quote

import msgspec

from mayflydb.announcement import Announcement, StartFailed
from mayflydb.embedded import ServerHandle, instant_of, with_hint
from mayflydb.model.durations import parse_instant
from mayflydb.model.errors import BadRequest, Forbidden, MayflyError
from mayflydb.model.instant import Instant, to_rfc3339
from mayflydb.remote_admin import AdminClient, Patience

Mode = Literal["thread", "process"]
"""The place where a server runs that tests start."""

ClockChoice = Literal["virtual", "system"]
"""A clock that tests move by itself, or that of the tests' process."""

COMMAND: Final = ("-P", "-c", "from mayflydb.cli.main import main; main()", "serve", "--memory", "--clock", "virtual")
OPTIONS: Final = ("-p", "0", "--stop-with-stdin")

STOP_SECONDS: Final = 15.0
"""Seconds that a process is given to end."""


class _Client(AdminClient):
    def fail(self, error: MayflyError) -> NoReturn:
        raise with_hint(error)


class RemoteControls:
    """Controls of a server by its admin API. `url`: its address, `http://127.0.0.1:8081`, or the path of its ready file."""

    def __init__(self, url: str, patience: Patience | None = None) -> None:
        self.client = _Client(url, patience)

    def ask(self, method: str, path: str, /, **members: Any) -> dict[str, Any]:
        for name in [name for name in members if f"{{{name}}}" in path]:
            path = path.replace(f"{{{name}}}", quote(str(members.pop(name)), safe=""))
        given = {name: value for name, value in members.items() if value is not None}
        client = self.client
        found = (
            client.get(path, given)
            if method == "GET"
            else (client.post(path, given) if method == "POST" else client.call(method, path))
        )
        return dict(found)

    def now(self) -> Instant:
        return parse_instant(self.ask("GET", "clock")["now"])

    def start_at(self, instant: Instant) -> None:
        self.ask("POST", "clock/freeze")
        self.ask("POST", "clock/set", to=to_rfc3339(instant), force=True)

    def follow_process(self) -> None:
        raise Forbidden(
            "a server in another process does not see the clock of this one, which time-machine and freezegun move",
            hint='a server in a thread of the tests, or clock="virtual"',
        )


class RemoteServer(ServerHandle):
    """A server in another process."""

    def __init__(self, controls: RemoteControls, announcement: Announcement, folder: Path) -> None:
        """`folder`: for the certificate of the server's authority."""

        def ca_file() -> Path:
            path = folder / "ca.pem"
            path.write_text(controls.client.read_certificate())
            return path

        super().__init__(controls, announcement, ca_file)
        self._start: datetime | str | None = None

    def reset(self, target: str | None = None, *, keep_clock: bool = False) -> dict[str, Any]:
        if target is not None or keep_clock or self._start is None:
            return super().reset(target, keep_clock=keep_clock)
        # The server does not know of the test's start, and would return to its own.
        start = instant_of(self._start)
        answer = super().reset(keep_clock=True)
        self._controls.start_at(start)
        return answer | {"now": to_rfc3339(start)}

    def start_at(self, instant: datetime | str) -> None:
        super().start_at(instant)
        self._start = instant


@contextmanager
def connect(url: str) -> Iterator[RemoteServer]:
    """Use a running server: `http://127.0.0.1:8081`, or the path of its ready file.

    Forbidden for a server that tests should not empty, or cannot use: its clock is real or may not be moved, or its key is a
    secret.
    """
    controls = RemoteControls(url)
    base = controls.client.base
    if not base.startswith("http://"):
        raise BadRequest(f"{url!r} is no address of a server for tests", hint="http://127.0.0.1:8081")
    info = controls.ask("GET", "info")
    hint = "mayfly serve --memory --clock virtual"
    if info["clock"] != "virtual" or not info["allow_time_travel"]:
        raise Forbidden(f"tests empty a server and move its clock, and the clock of {base} is real or fixed", hint=hint)
    cosmos, mongo, ydb = (info[name] or {} for name in ("cosmos", "mongo", "ydb"))
    if cosmos.get("key_file") or mongo.get("password_file") or ydb.get("password_file"):
        raise Forbidden(f"the server at {base} has secrets, which tests do not read", hint=hint)
    announcement = Announcement(
        pid=info["pid"],
        cosmos_endpoint=cosmos.get("endpoint"),
        cosmos_key=cosmos.get("key"),
        portal=info["portal"],
        admin=base,
        metrics=info["metrics"],
        storage=info["storage"],
        clock="virtual",
        version=info["version"],
        seconds_to_ready=0.0,
        mongo_uri=mongo.get("uri"),
        ydb_endpoint=ydb.get("endpoint"),
        ydb_database=ydb.get("database"),
        ydb_tls_endpoint=ydb.get("tls_endpoint"),
    )
    with tempfile.TemporaryDirectory(prefix="mayfly-") as folder:
        yield RemoteServer(controls, announcement, Path(folder))


@contextmanager
def spawn() -> Iterator[RemoteServer]:
    """Run a server in memory in a process of its own, on free ports, until the block ends. StartFailed."""
    with tempfile.TemporaryDirectory(prefix="mayfly-") as folder, Path(folder, "log").open("w+b") as log:
        # Neither the environment nor a settings file reaches it, as in a thread.
        Path(folder, "mayfly.toml").touch()
        environ = {name: value for name, value in os.environ.items() if not name.startswith("MAYFLY_")}
        environ["MAYFLY_CONFIG"] = str(Path(folder, "mayfly.toml"))
        # A session of its own: Ctrl+C is for the tests, which end the server after their last words with it.
        process = subprocess.Popen(  # noqa: S603 - of constants
            [sys.executable, *COMMAND, *OPTIONS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environ,
            start_new_session=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            ready = process.stdout.readline()
            if not ready:
                code = process.wait()
                log.seek(0)
                raise StartFailed(f"the server's process ended with {code}: {log.read()[-2000:].decode()}")
            with connect(msgspec.json.decode(ready)["admin"]) as server:
                yield server
        finally:
            process.stdin.close()
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            process.stdout.close()
