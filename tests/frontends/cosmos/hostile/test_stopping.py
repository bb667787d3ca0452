"""A server ends when it is told to, whoever is still connected."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from threading import Thread

import pytest

from frontends.cosmos.service import START, Raw
from mayflydb.embedded import serve

PATIENCE = 20


@pytest.mark.parametrize("scheme", ["http", "https"])
@pytest.mark.parametrize("asked", [False, True])
def test_clients_that_stay(scheme: str, asked: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With TLS a client would have to say goodbye too, which one that sits there does not."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    server = serve(memory=True, port=0, clock="virtual", clock_start=START, scheme=scheme)
    running = server.__enter__()
    clients = [Raw(running.cosmos.url) for _ in range(3)]
    for client in clients:
        assert client("GET", "/dbs").status == 200
        if asked:
            connection = client._connection
            assert connection is not None
            connection.putrequest("GET", "/dbs")
    stop: Callable[..., object] = server.__exit__
    stopping = Thread(target=stop, args=(None, None, None), daemon=True)
    stopping.start()
    stopping.join(PATIENCE)
    assert not stopping.is_alive()
    for client in clients:
        client.close()
