"""Seeds are applied before any port answers; those of a new store once."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from pathlib import Path
from typing import Any

import pytest
import uvloop

from mayflydb.admin.apply import Applier
from mayflydb.admin.resources import Resources
from mayflydb.announcement import StartFailed
from mayflydb.embedded import serve, settings_from
from mayflydb.http.messages import Request
from mayflydb.serving.server import Server
from served import Http, port_of

LOCAL: dict[str, Any] = {"port": 0, "mongo_port": 0, "ydb_port": 0, "ydb_tls_port": -1}
MONGO = {"databases": [{"name": "app", "collections": [{"name": "seeded", "documents": [{"_id": 1}]}]}]}


def cosmos(*ids: str) -> dict[str, Any]:
    items = [{"id": id, "k": id} for id in ids]
    return {"databases": [{"id": "shop", "containers": [{"id": "c", "partition_key": "/k", "items": items}]}]}


def is_heard(port: int, seconds: float) -> bool:
    """Whether a port answers the first bytes of gRPC, or ends the connection, as MongoDB's does."""
    with socket.socket() as client:
        client.settimeout(seconds)
        try:
            client.connect(("127.0.0.1", port))
            client.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0")
            client.recv(1)
        except (TimeoutError, ConnectionRefusedError):
            return False
    return True


def test_no_port_answers_before_the_seed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "seed.json").write_text(json.dumps(cosmos("a") | {"mongo": MONGO}))
    applied = Applier.apply
    seen: list[Any] = []

    async def look(self: Applier, document: Resources) -> Any:
        answer = await applied(self, document)
        port: Any = server._http
        handle = port._listener._work.handler
        for path in (b"/_mayfly/ready", b"/_mayfly/stats", b"/dbs"):
            found = await handle(Request("GET", path, {b"host": b"localhost"}))
            seen.append(found.status)
        seen.append(json.loads((await handle(Request("GET", b"/_mayfly/ready", {b"host": b"localhost"}))).body)["seed"])
        seen.extend([await asyncio.to_thread(is_heard, each, 0.05) for each in ports()])
        seen.append("Waiting for connections" in caplog.text)
        return answer

    def ports() -> list[int]:
        assert server._mongo is not None
        assert server._ydb is not None
        addresses = (server._mongo.address, server._ydb.address or "")
        return [int(each.rpartition(":")[2]) for each in addresses]

    async def start() -> None:
        await server.start()
        try:
            seen.append([await asyncio.to_thread(is_heard, each, 10) for each in ports()])
        finally:
            await server.stop(0)

    monkeypatch.setattr(Applier, "apply", look)
    caplog.set_level(logging.INFO)
    server = Server(settings_from(None, True, {"seed": [str(tmp_path)]} | LOCAL), {"XDG_DATA_HOME": str(tmp_path)})
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(start())
    assert seen == [503, 503, 503, "seeding", False, False, False, [True, True]]
    assert "Waiting for connections" in caplog.text


def test_a_new_store_is_filled_once(tmp_path: Path, file: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "initdb"
    folder.mkdir()
    (folder / "2.json").write_text("{")
    (folder / "1.json").write_text(json.dumps(cosmos("a")))
    (folder / "0.sh").write_text("exit 1")
    given: dict[str, Any] = {"port": 0, "mongo_port": -1, "ydb_port": -1, "ydb_tls_port": -1, "initdb": [str(folder)]}
    with pytest.raises(StartFailed, match=r"2\.json") as failed, serve(file, **given):
        pass
    assert failed.value.setting == "server.initdb"
    assert "0.sh" in caplog.text
    # The failed start is continued, though there is a container by now.
    (folder / "2.json").write_text(json.dumps(cosmos("b")))
    with serve(file, **given) as server:
        assert Http(port_of(server)).get("stats")["records"] == 2
        Http(port_of(server)).post("reset", target="cosmos:shop")
    # What was deleted does not come back, nor is a store filled that has something already.
    with serve(file, **given) as server:
        assert Http(port_of(server)).get("stats")["records"] == 0
        Http(port_of(server)).post("apply", **cosmos("c"))
    (folder / "3.json").write_text(json.dumps(cosmos("d")))
    with serve(file, **given, seed=[str(folder / "3.json")]) as server:
        assert Http(port_of(server)).get("stats")["records"] == 2


def test_a_store_of_before_is_not_filled(tmp_path: Path, file: Path) -> None:
    (tmp_path / "a.json").write_text(json.dumps(cosmos("a")))
    given: dict[str, Any] = {"port": 0, "mongo_port": -1, "ydb_port": -1, "ydb_tls_port": -1}
    with serve(file, **given) as server:
        Http(port_of(server)).post("apply", **cosmos())
    with serve(file, **given, initdb=[str(tmp_path)]) as server:
        assert Http(port_of(server)).get("stats")["records"] == 0
