"""--drop-in: the waits of tools that start emulators in containers, replayed against the real program."""

from __future__ import annotations

import http.client
import json
import os
import re
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from azure.cosmos import CosmosClient
from click.testing import CliRunner
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from mayflydb.announcement import StartFailed
from mayflydb.cli.main import mayfly
from mayflydb.embedded import serve
from mayflydb.frontends.cosmos.auth import WELL_KNOWN_KEY
from mayflydb.serving import drop_in
from serving.test_process import PATIENCE, PROGRAM

OWN = "Y2FuYXJ5" * 11
PYTHON_COSMOS = {
    "AZURE_COSMOS_EMULATOR_PARTITION_COUNT": "10",
    "AZURE_COSMOS_EMULATOR_IP_ADDRESS_OVERRIDE": "127.0.0.1",
    "AZURE_COSMOS_EMULATOR_ENABLE_DATA_PERSISTENCE": "False",
}
MONGO = {"MONGO_INITDB_ROOT_USERNAME": "test", "MONGO_INITDB_ROOT_PASSWORD": "canary-password"}
NODE_COSMOS = {"PORT": "0", "PROTOCOL": "https", "ENABLE_EXPLORER": "false"}


class Container(NamedTuple):
    """A server off loopback with the output of its start, the log of which is read when it has ended."""

    process: subprocess.Popen[bytes]
    out: str
    log: Path

    @property
    def ready(self) -> Any:
        return json.loads(self.out.splitlines()[0])

    @property
    def port(self) -> int:
        return int(self.ready["admin"].removesuffix("/_mayfly").rpartition(":")[2])

    def get(self, path: str, port: int | None = None, **headers: str) -> tuple[int, str]:
        """Ask over TLS, as the modules do."""
        context = ssl._create_unverified_context()
        connection = http.client.HTTPSConnection("127.0.0.1", port or self.port, timeout=PATIENCE, context=context)
        connection.request("GET", path, headers=headers)
        answer = connection.getresponse()
        found = answer.status, answer.read().decode()
        connection.close()
        return found

    @property
    def ports(self) -> dict[str, int]:
        found: dict[str, int] = json.loads(self.get("/_mayfly/info")[1])["ports"]
        return found


def start(directory: Path, **environ: str) -> Container:
    log = directory / "log"
    places = {"XDG_DATA_HOME": str(directory), "HOME": str(directory), "PYTHONPATH": os.pathsep.join(sys.path)}
    with log.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, "serve", "--drop-in", "--host", "0.0.0.0"],
            stdout=subprocess.PIPE,
            stderr=errors,
            cwd=directory,
            env=os.environ | places | {"PORT": "0", "TMPDIR": str(directory)} | environ,
        )
    assert process.stdout is not None
    out = b""
    while b"Started" not in out:
        line = process.stdout.readline()
        assert line, (out, log.read_text())
        out += line
    return Container(process, out.decode(), log)


def end(container: Container) -> None:
    container.process.terminate()
    assert container.process.stdout is not None
    rest = container.process.stdout.read()
    container.process.stdout.close()
    assert (container.process.wait(PATIENCE), rest) == (0, b"")


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    directory = tmp_path_factory.mktemp("plain")
    (directory / "cosmos/appdata/.system/profiles/Client/AppData/Local/CosmosDBEmulator").mkdir(parents=True)
    container = start(directory, **PYTHON_COSMOS, AZURE_COSMOS_EMULATOR_KEY=WELL_KNOWN_KEY)
    yield container
    end(container)


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    container = start(
        tmp_path_factory.mktemp("closed"), **MONGO, **NODE_COSMOS, AZURE_COSMOS_EMULATOR_KEY=OWN, ENABLE_TELEMETRY="0"
    )
    yield container
    end(container)


@pytest.mark.parametrize("name", ["plain", "closed"])
@pytest.mark.parametrize(
    "waits",
    [
        lambda out: re.fullmatch(r"(?s).*Started\r\n", out),
        lambda out: re.search(r"Started\s*$", out, re.MULTILINE),
        lambda out: re.search("Now listening on: ", out),
        lambda out: re.search("waiting for connections", out, re.IGNORECASE),
        lambda out: re.search("[Ww]aiting for connections", out),
    ],
    ids=["java-cosmos", "python-cosmos", "node-cosmos", "python-mongo", "java-mongo"],
)
def test_the_lines_that_modules_wait_for(request: pytest.FixtureRequest, name: str, waits: Any) -> None:
    assert waits(request.getfixturevalue(name).out)


def test_what_is_printed_after_the_ready_document(plain: Container, closed: Container) -> None:
    _, listening, mongo, started = plain.out.splitlines(keepends=True)
    assert listening == f"Now listening on: http://[::]:{plain.port}\n"
    assert f"Now listening on: https://[::]:{closed.port}\n" in closed.out
    assert (json.loads(mongo)["msg"], started) == ("Waiting for connections", "Started\r\n")
    assert json.loads(mongo)["attr"]["port"] == int(plain.ready["mongo"]["uri"].split(":")[2].partition("/")[0])


def test_what_modules_of_cosmos_ask_next(plain: Container, closed: Container) -> None:
    for path in ("/", "/_explorer/index.html"):
        assert plain.get(path)[0] == closed.get(path)[0] == 200
    for container in (plain, closed):
        status, pem = container.get("/_explorer/emulator.pem")
        assert status == 200 and pem.startswith("-----BEGIN CERTIFICATE-----")
    copied = plain.log.parent / "cosmos/appdata/.system/profiles/Client/AppData/Local/CosmosDBEmulator/emulator.pem"
    assert copied.read_text() == plain.get("/_explorer/emulator.pem")[1]
    client = CosmosClient(f"http://127.0.0.1:{plain.port}", WELL_KNOWN_KEY)
    assert list(client.list_databases()) == []


def test_the_alias_ports(plain: Container) -> None:
    ports = plain.ports
    assert plain.get("/ready", ports["health"])[1] == plain.get("/_mayfly/ready")[1]
    assert plain.get("/alive", ports["health"]) == (200, '{"live":true}')
    for name in ("explorer", "monitoring"):
        assert "<title>Overview - Mayfly</title>" in plain.get("/", ports[name], accept="text/html")[1]
    assert plain.get("/ready")[0] == 400
    with MongoClient[dict[str, Any]]("127.0.0.1", ports["mongo_alias"]) as client:
        assert client.admin.command("ping")["ok"] == 1


def test_ydb_and_mongo_need_no_login(plain: Container) -> None:
    with MongoClient[dict[str, Any]](plain.ready["mongo"]["uri"]) as client:
        assert client.shop.c.insert_one({"_id": 1}).inserted_id == 1
    listed = CliRunner().invoke(mayfly, ["ydb", "-e", plain.ready["ydb"]["endpoint"], "-d", "/local", "scheme", "ls"])
    assert listed.exit_code == 0, listed.output
    assert plain.ready["storage"] == "memory"


def test_the_first_user_of_mongo_logs_in(closed: Container) -> None:
    port = int(closed.ready["mongo"]["uri"].rpartition(":")[2].partition("/")[0])
    password = MONGO["MONGO_INITDB_ROOT_PASSWORD"]
    with MongoClient[dict[str, Any]]("127.0.0.1", port, username="test", password=password) as client:
        assert client.list_database_names() == ["admin"]
    with MongoClient[dict[str, Any]]("127.0.0.1", port) as client, pytest.raises(OperationFailure):
        client.list_database_names()


def test_a_key_of_its_own_is_told_by_its_file(closed: Container) -> None:
    told = closed.ready["cosmos"]
    assert told["key"] is None and Path(told["key_file"]).read_text().strip() == OWN
    client = CosmosClient(f"http://127.0.0.1:{closed.port}", OWN)
    assert list(client.list_databases()) == []
    assert closed.get("/_mayfly/info")[0] == 401
    log = closed.log.read_text()
    assert OWN not in closed.out + log and "canary" not in closed.out + log


def test_without_the_explorer_one_line_stands_in_for_the_portal(plain: Container, closed: Container) -> None:
    token = (closed.log.parent / "mayfly/admin.token").read_text().strip()
    asked: Any = {"accept": "text/html", "authorization": f"Bearer {token}"}
    assert closed.get("/_explorer/index.html", **asked) == closed.get("/_explorer/index.html") == closed.get("/")
    assert closed.get("/_explorer/clock", **asked)[0] == 404
    assert plain.get("/", accept="text/html") != plain.get("/")


def test_one_warning_and_one_line_about_what_sets_nothing(plain: Container, closed: Container) -> None:
    for container, opened, names in (
        (plain, "well-known key", "AZURE_COSMOS_EMULATOR_PARTITION_COUNT, AZURE_COSMOS_EMULATOR_IP_ADDRESS_OVERRIDE"),
        (closed, "without TLS", "ENABLE_TELEMETRY"),
    ):
        entries = [json.loads(line) for line in container.log.read_text().splitlines()]
        warnings = [entry["msg"] for entry in entries if entry["level"] == "warning"]
        assert len(warnings) == 1, warnings
        (warning,) = warnings
        assert warning.startswith("--drop-in") and opened in warning
        assert [entry["msg"] for entry in entries if "nothing to set" in entry["msg"]] == [
            f"there is nothing to set for {names}"
        ]


def test_a_taken_alias_port_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    with serve(memory=True, port=0, drop_in=True) as first:
        taken = json.loads(json.dumps(first.announcement.wait_lines))
        assert taken[-1] == "Started\r\n"
        port = int(first.cosmos.url.rstrip("/").rpartition(":")[2])
        assert drop_in.bind_alias("127.0.0.1", port, "health") == []
    assert f"alias port {port}" in caplog.text
    with pytest.raises(StartFailed, match="well-known key"), serve(memory=True, port=0, host="0.0.0.0"):
        pass
