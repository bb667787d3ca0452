"""Servers for tests outside of the test process: one that runs already, or one in a process of its own."""

from __future__ import annotations

import http.client
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Literal
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from mayflydb.admin.hints import hint_in
from mayflydb.admin.problems import STATUS
from mayflydb.announcement import Announcement, StartFailed
from mayflydb.embedded import ServerHandle, instant_of, with_hint
from mayflydb.model.durations import parse_instant
from mayflydb.model.errors import BadRequest, Forbidden, MayflyError, Unavailable
from mayflydb.model.instant import Instant, to_rfc3339

Mode = Literal["thread", "process"]
"""The place where a server runs that tests start."""

ClockChoice = Literal["virtual", "system"]
"""A clock that tests move by itself, or that of the tests' process."""

COMMAND: Final = ("-P", "-c", "from mayflydb.cli.main import main; main()", "serve", "--memory", "--clock", "virtual")
OPTIONS: Final = ("-p", "0", "--stop-with-stdin")

STOP_SECONDS: Final = 15.0
"""Seconds that a process is given to end."""

_KINDS: Final = {status: kind for kind, (status, _) in reversed(STATUS.items())}


class RemoteControls:
    """Controls of a server by its admin API. `base`: its address, `http://127.0.0.1:8081/_mayfly`."""

    def __init__(self, base: str) -> None:
        parts = urlsplit(base)
        if parts.scheme != "http" or not parts.hostname:
            raise BadRequest(f"{base!r} is no address of a server for tests", hint="http://127.0.0.1:8081")
        self._host, self._port, self._path = parts.hostname, parts.port, parts.path

    def ask(self, method: str, path: str, /, **members: Any) -> dict[str, Any]:
        for name in [name for name in members if f"{{{name}}}" in path]:
            path = path.replace(f"{{{name}}}", quote(str(members.pop(name)), safe=""))
        given = {name: value for name, value in members.items() if value is not None}
        if method == "GET" and given:
            path += "?" + urlencode(given)
        body = msgspec.json.encode(given) if method == "POST" else None
        status, answer = self.send(method, path, body)
        found = msgspec.json.decode(answer or b"null")
        if status >= 300:
            problem = found if isinstance(found, dict) else {}
            kind = _KINDS.get(status, MayflyError)
            raise with_hint(kind(str(problem.get("detail", status)), hint=hint_in(problem)))
        return dict(found)

    def send(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        """Send a request to a path below the base; return status and body. Unavailable where no server answers."""
        connection = http.client.HTTPConnection(self._host, self._port)
        try:
            connection.request(method, f"{self._path}/{path}", body, {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, response.read()
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(f"no server answers at {self._host}:{self._port}: {error}") from error
        finally:
            connection.close()

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
            path.write_bytes(controls.send("GET", "cert")[1])
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
    if "://" not in url:
        try:
            url = str(msgspec.json.decode(Path(url).read_bytes())["admin"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BadRequest(f"{url} is neither an address nor a ready file: {error}") from error
    base = url.rstrip("/").removesuffix("/_mayfly") + "/_mayfly"
    controls = RemoteControls(base)
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
