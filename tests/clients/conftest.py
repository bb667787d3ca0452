"""A server in a process of its own, for clients in processes of their own."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

START = "2030-01-01T00:00:00Z"
PROGRAM = "from mayflydb.cli.main import main; main()"
PATIENCE = 30.0


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Environment variables that name a running server: memory, a virtual clock that starts at START, every port and TLS.

    MAYFLY_COSMOS and MAYFLY_COSMOS_TLS are endpoints, MAYFLY_KEY their key; MAYFLY_ADMIN is the root of the admin API.
    MAYFLY_MONGO and MAYFLY_MONGO_TLS are connection strings, the latter without a CA. MAYFLY_YDB and MAYFLY_YDB_TLS are
    `grpc[s]://host:port/database`. MAYFLY_CERT is the path of the CA's certificate in PEM, MAYFLY_TRUSTSTORE of one for Java.
    """
    home = tmp_path_factory.mktemp("server")
    tls = _free_port()
    with _served(tmp_path_factory.getbasetemp(), home, "--ydb-port", "0", "--ydb-tls-port", str(tls)) as ready:
        yield _variables(ready, tls, home)


@pytest.fixture(scope="module")
def throttled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """The endpoints of one more server: MAYFLY_THROTTLED, which refuses what is over the throughput, and MAYFLY_STRONG, whose
    default consistency is Strong.
    """
    base = tmp_path_factory.getbasetemp()
    with (
        _served(base, tmp_path_factory.mktemp("throttled"), "--throttling") as throttled,
        _served(base, tmp_path_factory.mktemp("strong"), "--consistency", "strong") as strong,
    ):
        yield {"MAYFLY_THROTTLED": _endpoint(throttled), "MAYFLY_STRONG": _endpoint(strong)}


@contextmanager
def _served(data: Path, home: Path, *options: str) -> Iterator[dict[str, Any]]:
    """Yield the ready document of a server. Servers with the same folder for `data` have certificates of the same CA."""
    log = home / "log"
    with log.open("wb") as sink, _launch(data, home, sink, *options) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, log.read_text(encoding="utf-8")
            yield json.loads(line)
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE)
            except subprocess.TimeoutExpired:
                process.kill()


def _launch(data: Path, home: Path, log: Any, *more: str) -> subprocess.Popen[str]:
    options = ["--memory", "--clock", "virtual", "--clock-start", START, "-p", "0", "--mongo-port", "0", *more]
    ours = {name: value for name, value in os.environ.items() if not name.startswith("MAYFLY_")}
    places = {"XDG_DATA_HOME": str(data / "data"), "HOME": str(home), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", PROGRAM, "serve", "--ready-file", str(home / "ready.json"), *options]
    return subprocess.Popen(command, cwd=home, env=ours | places, stdout=subprocess.PIPE, stderr=log, text=True)


def _endpoint(ready: dict[str, Any]) -> str:
    """Return the address for TLS, which is on the port of HTTP."""
    return str(ready["cosmos"]["endpoint"]).replace("http://127.0.0.1", "https://localhost")


def _free_port() -> int:
    # The ready document names one port of YDB's, so the port with TLS is chosen here.
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _variables(ready: dict[str, Any], ydb_tls_port: int, home: Path) -> dict[str, str]:
    plain, mongo, ydb = ready["cosmos"]["endpoint"], ready["mongo"]["uri"], ready["ydb"]
    certificate, truststore = home / "ca.pem", home / "ca.p12"
    for place in (certificate, truststore):
        export = [sys.executable, "-c", PROGRAM, "--url", ready["admin"], "cert", "export", str(place)]
        subprocess.run(export, check=True, timeout=PATIENCE)
    return {
        "MAYFLY_COSMOS": plain,
        "MAYFLY_COSMOS_TLS": _endpoint(ready),
        "MAYFLY_KEY": ready["cosmos"]["key"],
        "MAYFLY_ADMIN": ready["admin"],
        "MAYFLY_MONGO": mongo,
        "MAYFLY_MONGO_TLS": mongo.replace("127.0.0.1", "localhost") + "&tls=true",
        "MAYFLY_YDB": ydb["endpoint"] + ydb["database"],
        "MAYFLY_YDB_TLS": f"grpcs://localhost:{ydb_tls_port}{ydb['database']}",
        "MAYFLY_CERT": str(certificate),
        "MAYFLY_TRUSTSTORE": str(truststore),
    }
