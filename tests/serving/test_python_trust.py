"""How azure-cosmos trusts a server that it reaches by another name than localhost, as docs/tls.md says."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from azure.core.exceptions import ServiceRequestError
from azure.cosmos import CosmosClient

from mayflydb.embedded import RunningServer, serve

LISTS = ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "SSL_CERT_FILE", "SSL_CERT_DIR")
ONCE: dict[str, Any] = {"retry_total": 0, "retry_connect": 0}

ASYNCHRONOUS = """
import asyncio, socket, sys
from azure.cosmos.aio import CosmosClient

resolve = socket.getaddrinfo
socket.getaddrinfo = lambda host, *rest, **options: resolve("127.0.0.1", *rest, **options)

async def main():
    async with CosmosClient(sys.argv[1], sys.argv[2], retry_total=0, retry_connect=0) as client:
        print([each async for each in client.list_databases()])

asyncio.run(main())
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("authority")))
        with serve(memory=True, port=0, mongo_port=-1, ydb_port=-1, tls_name=["db.test"]) as running:
            yield running


@pytest.fixture
def url(server: RunningServer) -> str:
    return server.cosmos.url.replace("http://127.0.0.1", "https://db.test")


@pytest.mark.parametrize(
    ("variable", "options", "trusted"),
    [("", (), False), ("", ("connection_verify",), False), ("REQUESTS_CA_BUNDLE", (), True)],
)
def test_the_client_reads_a_variable(
    server: RunningServer,
    url: str,
    monkeypatch: pytest.MonkeyPatch,
    variable: str,
    options: tuple[str, ...],
    trusted: bool,
) -> None:
    place = str(server.cosmos.ca_file)
    for name in LISTS:
        monkeypatch.delenv(name, raising=False)
    if variable:
        monkeypatch.setenv(variable, place)
    resolve = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *rest: resolve("127.0.0.1", *rest))
    given = dict.fromkeys(options, place)

    def ask() -> list[Any]:
        with CosmosClient(url, server.cosmos.key, **ONCE, **given) as client:
            return list(client.list_databases())

    if trusted:
        assert ask() == []
    else:
        with pytest.raises(ServiceRequestError, match="CERTIFICATE_VERIFY_FAILED"):
            ask()


def test_the_asynchronous_client_reads_another(server: RunningServer, url: str) -> None:
    """aiohttp reads it when it is imported, so the client has a process of its own."""
    found = {name: value for name, value in os.environ.items() if name not in LISTS}
    environment = found | {"SSL_CERT_FILE": str(server.cosmos.ca_file), "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", ASYNCHRONOUS, url, server.cosmos.key]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, cwd=Path(os.sep))
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr
