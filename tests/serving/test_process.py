"""The real program: its ready line, its ready file, its signals and exit codes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from mayflydb.config import file_url
from mayflydb.frontends.cosmos.auth import WELL_KNOWN_KEY
from postgres_cluster import PASSWORD, Cluster
from served import Http

PROGRAM = "from mayflydb.cli.main import main; main()"
PATIENCE = 30.0


class Running(NamedTuple):
    process: subprocess.Popen[str]
    ready: dict[str, Any]

    @property
    def port(self) -> int:
        return int(self.ready["admin"].removesuffix("/_mayfly").rpartition(":")[2])

    def end(self) -> int:
        """The exit code, once it has ended by itself."""
        return self.process.wait(PATIENCE)


def launch(directory: Path, *arguments: str, program: str = PROGRAM) -> subprocess.Popen[str]:
    places = {"XDG_DATA_HOME": str(directory), "HOME": str(directory), "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen(
        [sys.executable, "-c", program, "serve", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=directory,
        env=os.environ | places,
    )


@contextlib.contextmanager
def running(directory: Path, *arguments: str) -> Iterator[Running]:
    process = launch(directory, *arguments)
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        yield Running(process, json.loads(line))
    finally:
        process.kill()
        process.communicate()


def knock_until_refused(port: int) -> None:
    """Returns when the server takes no more connections."""
    with contextlib.suppress(OSError):
        while True:
            socket.create_connection(("127.0.0.1", port), PATIENCE).close()


def busy(port: int) -> socket.socket:
    """A client in the middle of a request that the server has begun to work on."""
    client = socket.create_connection(("127.0.0.1", port), PATIENCE)
    client.sendall(
        b"POST /_mayfly/purge HTTP/1.1\r\nhost: localhost\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n"
    )
    assert client.recv(1000).startswith(b"HTTP/1.1 100")
    return client


@pytest.mark.short
def test_the_ready_line_and_the_ready_file_are_the_contract(tmp_path: Path) -> None:
    with running(tmp_path, "-m", "-p", "0", "--clock", "virtual", "--ready-file", "ready.json") as server:
        base, ydb = f"http://127.0.0.1:{server.port}", server.ready["ydb"]["endpoint"]
        assert server.ready == {
            "event": "ready",
            "pid": server.process.pid,
            "cosmos": {"endpoint": f"{base}/", "key": WELL_KNOWN_KEY, "key_file": None},
            "mongo": {"uri": server.ready["mongo"]["uri"], "password_file": None},
            "ydb": {
                "endpoint": ydb,
                "tls_endpoint": None,
                "database": "/local",
                "connection_string": f"{ydb}?database=/local",
                "tls_connection_string": None,
                "password_file": None,
            },
            "portal": f"{base}/",
            "admin": f"{base}/_mayfly",
            "metrics": f"{base}/metrics",
            "storage": "memory",
            "clock": "virtual",
        }
        place = tmp_path / "ready.json"
        assert json.loads(place.read_text()) == server.ready
        http = Http(server.port)
        assert http.get("ready")["ready"]
        assert http.get("live") == {"live": True}
        assert http("GET", "/").body.startswith(b"<!doctype html>")
        server.process.send_signal(signal.SIGTERM)
        assert server.end() == 0
        assert not place.exists()


@pytest.mark.short
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_requests_finish(tmp_path: Path, number: signal.Signals) -> None:
    with running(tmp_path, "store.db", "-p", "0") as server:
        client = busy(server.port)
        server.process.send_signal(number)
        knock_until_refused(server.port)
        client.sendall(b"{}")
        assert client.recv(1000).startswith(b"HTTP/1.1 200")
        client.close()
        assert server.end() == 0
        assert server.ready["storage"] == file_url(tmp_path / "store.db")


STARTER = """
import subprocess, sys
server = subprocess.Popen([sys.executable, "-c", *sys.argv[1:]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
sys.stdout.buffer.write(server.stdout.readline())
sys.stdout.flush()
server.wait()
"""


@pytest.mark.short
def test_a_server_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    options = ("-m", "-p", "0", "--mongo-port", "-1", "--ydb-port", "-1", "--ready-file", str(tmp_path / "ready.json"))
    starter = subprocess.Popen(
        [sys.executable, "-c", STARTER, PROGRAM, "serve", "--stop-with-stdin", *options],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"XDG_DATA_HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert starter.stdout is not None
    ready = json.loads(starter.stdout.readline())
    starter.kill()
    starter.communicate()
    knock_until_refused(Running(starter, ready).port)
    assert starter.returncode == -signal.SIGKILL


@pytest.mark.parametrize("more", [(), ("--stop-with-stdin",)])
def test_standard_input_may_be_closed_unless_the_server_ends_with_it(tmp_path: Path, more: tuple[str, ...]) -> None:
    options = ("-m", "-p", "0", "--mongo-port", "-1", "--ydb-port", "-1", *more)
    command = ["sh", "-c", 'exec "$0" "$@" <&-', sys.executable, "-c", PROGRAM, "serve", *options]
    environment = os.environ | {"XDG_DATA_HOME": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    started = process.stdout.readline() != ""
    process.terminate()
    said = process.communicate(timeout=PATIENCE)[1]
    assert (started, process.returncode) == ((False, 2) if more else (True, 0)), said
    assert ("standard input is closed" in said) == ("server.stop_with_stdin" in said) == (not started)


def test_no_output_holds_the_password_of_a_database(tmp_path: Path, postgres: Cluster) -> None:
    place = tmp_path / "ready.json"
    url = postgres.fresh()
    process = launch(tmp_path, "--storage", url, "-p", "0", "--log-level", "debug", "--ready-file", str(place))
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        postgres.drop(url)
        # What a store logs of a database that is gone is no exception.
        answer = Http(int(json.loads(line)["cosmos"]["endpoint"].rstrip("/").rpartition(":")[2]))(
            "GET", "/_mayfly/stats"
        )
        assert answer.status >= 500
        told = line + place.read_text() + answer.body.decode()
        process.send_signal(signal.SIGTERM)
        told += "".join(process.communicate(timeout=PATIENCE))
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0
    assert url.rpartition("/")[2] in told
    assert PASSWORD not in told


def test_a_second_interrupt_ends_at_once(tmp_path: Path) -> None:
    with running(tmp_path, "-m", "-p", "0") as server, busy(server.port):
        server.process.send_signal(signal.SIGINT)
        knock_until_refused(server.port)
        server.process.send_signal(signal.SIGINT)
        assert server.end() == 130


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["-m", "--host", "0.0.0.0"], 4, "--generate-key"),
        (["-m", "--clock-start", "2030-01-01T00:00:00Z"], 2, "--clock virtual"),
        (["missing/store.db"], 1, "storage.url"),
    ],
)
def test_a_start_that_fails_says_why(tmp_path: Path, arguments: list[str], code: int, words: str) -> None:
    process = launch(tmp_path, *arguments, "-p", "0")
    out, err = process.communicate(timeout=PATIENCE)
    assert (process.returncode, out) == (code, "")
    assert words in err
    assert "Traceback" not in err


@pytest.mark.short
def test_a_plain_start_loads_neither_certificates_nor_the_portal(tmp_path: Path) -> None:
    code = "import sys, atexit; atexit.register(lambda: print(*sorted(sys.modules), file=sys.stderr)); " + PROGRAM
    process = launch(tmp_path, "-m", "-p", "0", "--ydb-port", "-1", program=code)
    assert process.stdout is not None
    assert process.stdout.readline()
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=PATIENCE)
    loaded = {name.partition(".")[0] for name in err.split()}
    assert "httptools" in loaded
    assert loaded.isdisjoint({"cryptography", "starlette", "grpc", "jinja2", "azure", "aiohttp", "quickjs"})
