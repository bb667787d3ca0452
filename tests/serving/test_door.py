"""Where other machines can connect: TLS or `--insecure`, keys that protect, dates that are checked.

The tests listen on 127.0.0.1, which counts as an address of the network here.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import importlib
import json
import re
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import pytest
from azure.cosmos import CosmosClient
from pymongo import MongoClient
from pymongo.errors import AutoReconnect, ServerSelectionTimeoutError
from starlette.routing import Route

from mayflydb.admin.routes import admin_routes
from mayflydb.announcement import StartFailed
from mayflydb.cli.announce import banner
from mayflydb.clock import wall_us
from mayflydb.embedded import RunningServer, serve
from mayflydb.frontends.cosmos.auth import WELL_KNOWN_KEY, Keys, authorization_header, rfc_1123
from mayflydb.model.instant import SECOND
from mayflydb.portal.routes import pages_app
from served import Http, port_of

PROGRAM = "from mayflydb.cli.main import main; main()"
FREE: dict[str, Any] = {"memory": True, "port": 0}
TLS: dict[str, Any] = {**FREE, "scheme": "https", "generate_key": True}
INSECURE: dict[str, Any] = {**FREE, "insecure": True, "generate_key": True}


def treat_as_far(patch: pytest.MonkeyPatch) -> None:
    for module in ("config.settings", "config.load", "serving.ports"):
        patch.setattr(importlib.import_module(f"mayflydb.{module}"), "is_loopback", lambda host: False)


@pytest.fixture
def far(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Nothing is loopback. Returns the directory of secrets."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    treat_as_far(monkeypatch)
    return tmp_path / "mayfly"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """A server with TLS alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("far")))
        treat_as_far(patch)
        with serve(**TLS, host="127.0.0.1") as server:
            yield server


def failure(**settings: Any) -> StartFailed:
    with pytest.raises(StartFailed) as caught, serve(**settings):
        pass
    return caught.value


@pytest.mark.usefixtures("far")
@pytest.mark.parametrize(
    ("settings", "setting", "ways"),
    [
        ({**FREE}, "server.host", ("--generate-key", "--key-file", "--scheme https", "--insecure")),
        ({**FREE, "generate_key": True}, "server.scheme", ("--scheme https", "--insecure")),
        ({**FREE, "scheme": "https"}, "server.host", ("--generate-key",)),
        ({**TLS, "ydb_port": 0}, "ydb.port", ("--ydb-tls-port", "--insecure")),
        ({**TLS, "check_date": False}, "cosmos.check_date", ("--no-check-date",)),
        ({**INSECURE, "check_date": False}, "cosmos.check_date", ("--no-check-date",)),
        ({**TLS, "mongo_auth": False}, "mongo.auth", ("--no-mongo-auth",)),
        ({**TLS, "ydb_auth": False}, "ydb.auth", ("--no-ydb-auth",)),
    ],
)
def test_open_doors_are_refused(settings: dict[str, Any], setting: str, ways: tuple[str, ...]) -> None:
    failed = failure(**settings)
    assert (failed.setting, failed.exit_code) == (setting, 4)
    assert all(way in failed.hint for way in ways)


def test_what_has_no_effect_on_loopback_is_refused() -> None:
    failed = failure(**FREE, insecure=True)
    assert (failed.setting, failed.exit_code) == ("server.insecure", 2)


@pytest.mark.parametrize(("size", "code"), [(1, 2), (63, 2), (64, None), (65, None)])
def test_a_key_has_its_full_length(tmp_path: Path, size: int, code: int | None) -> None:
    place = tmp_path / "key"
    place.write_text(base64.b64encode(b"k" * size).decode())
    settings = {**FREE, "key_file": str(place), "mongo_port": -1, "ydb_port": -1, "ydb_tls_port": -1}
    if code is None:
        with serve(**settings) as server:
            assert list(server.cosmos.client().list_databases()) == []
    else:
        failed = failure(**settings)
        assert (failed.setting, failed.exit_code) == ("cosmos.key_file", code)


@pytest.mark.parametrize("written", [WELL_KNOWN_KEY, f"\n{WELL_KNOWN_KEY}\n"])
def test_the_well_known_key_opens_nothing_to_other_machines(far: Path, tmp_path: Path, written: str) -> None:
    place = tmp_path / "key"
    place.write_text(written)
    for settings in ({"scheme": "https"}, {"insecure": True}):
        failed = failure(**FREE, **settings, key_file=str(place))
        assert (failed.setting, failed.exit_code) == ("cosmos.key_file", 4)


def test_without_tls_a_request_is_refused(guarded: RunningServer) -> None:
    http = Http(port_of(guarded))
    for path in ("/", "/dbs", "/_mayfly/info", "/_mayfly/cert", "/metrics", "/_explorer/index.html"):
        refused = http("GET", path)
        assert refused.status == 403
        assert "TLS alone" in refused.json["message"] and "https" in refused.json["hint"]
    assert http("POST", "/_mayfly/live").status == 403
    # Containers are probed without certificates.
    assert (http("GET", "/_mayfly/live").status, http("GET", "/_mayfly/ready").status) == (200, 200)


def test_without_tls_mongodb_closes(guarded: RunningServer) -> None:
    address = guarded.mongo.uri.rpartition("@")[2].partition("/")[0]
    with (
        MongoClient[dict[str, Any]](
            f"mongodb://{address}/?directConnection=true", serverSelectionTimeoutMS=300
        ) as plain,
        pytest.raises((AutoReconnect, ServerSelectionTimeoutError)),
    ):
        plain.admin.command("ping")
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), 10) as client:
        client.sendall(b"\x3a\0\0\0")
        with contextlib.suppress(ConnectionResetError):
            assert client.recv(100) == b""


# The vendor's client does not verify what is on 127.0.0.1, and warns about that.
@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_with_tls_every_client_connects(guarded: RunningServer) -> None:
    told = guarded.announcement
    assert told.cosmos_endpoint is not None and told.cosmos_endpoint.startswith("https://")
    assert (told.ydb_endpoint or "").startswith("grpcs://") and told.ydb_tls_endpoint == told.ydb_endpoint
    ca = str(guarded.cosmos.ca_file)
    client = CosmosClient(guarded.cosmos.url, guarded.cosmos.key, connection_verify=ca)
    assert list(client.list_databases()) == []
    with guarded.mongo.client() as mongo:
        assert mongo.list_database_names() == ["admin"]
    with guarded.ydb.driver() as driver:
        assert [each.name for each in driver.scheme_client.list_directory("/local").children] == [".sys"]


def test_the_command_line_reaches_its_own_server(
    guarded: RunningServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """By the authority and the token of the same user; no other server is sent the token."""
    command = [sys.executable, "-c", PROGRAM, "--url", guarded.admin_url, "-o", "json", "status"]
    monkeypatch.setenv("XDG_DATA_HOME", str(guarded.cosmos.ca_file.parents[1]))
    status = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    assert status["info"]["mongo"]["password_file"] == guarded.announcement.mongo_password_path
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    strange = subprocess.run(command, check=False, capture_output=True, text=True)
    assert strange.returncode != 0 and "CERTIFICATE_VERIFY_FAILED" in strange.stderr


def test_insecure_is_named(far: Path, caplog: pytest.LogCaptureFixture) -> None:
    with serve(**INSECURE, host="127.0.0.1") as server:
        told = server.announcement
        assert told.insecure and "--insecure" in banner(told)
        assert (told.ydb_endpoint or "").startswith("grpc://")
        assert Http(port_of(server))("GET", "/").status == 200
        assert list(server.cosmos.client().list_databases()) == []
        with server.mongo.client() as client:
            assert client.list_database_names() == ["admin"]
    assert [each.levelname for each in caplog.records if "--insecure" in each.message] == ["WARNING"]


@pytest.mark.parametrize(("minutes", "status"), [(-16, 403), (-14, 200), (14, 200), (16, 403)])
def test_the_date_of_a_signature_is_checked(guarded: RunningServer, minutes: int, status: int) -> None:
    date = rfc_1123(wall_us() / SECOND + 60 * minutes)
    signed = authorization_header(Keys.from_base64(guarded.cosmos.key), "GET", "", "", date.lower())
    context = ssl.create_default_context(cafile=str(guarded.cosmos.ca_file))
    connection = http.client.HTTPSConnection("127.0.0.1", port_of(guarded), context=context, timeout=10)
    connection.request("GET", "/", headers={"authorization": signed, "x-ms-date": date, "x-ms-version": "2018-12-31"})
    answer = connection.getresponse()
    assert (answer.status, b"token expiry time" in answer.read()) == (status, status == 403)
    connection.close()


def test_the_certificate_has_the_host(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    treat_as_far(monkeypatch)
    quiet: dict[str, Any] = {"mongo_port": -1, "ydb_port": -1, "ydb_tls_port": -1}
    with serve(**TLS, host="127.0.0.2", **quiet) as server:
        context = ssl.create_default_context(cafile=str(server.cosmos.ca_file))
        with (
            socket.create_connection(("127.0.0.2", port_of(server)), 10) as raw,
            context.wrap_socket(raw, server_hostname="127.0.0.2") as encrypted,
        ):
            assert encrypted.version() in ("TLSv1.2", "TLSv1.3")


# --- the admin API, metrics and pages --------------------------------------------------------------------------------

WITHOUT_TOKEN = {"/_mayfly/cert", "/_explorer/emulator.pem", "/", "/_explorer/index.html"}
"""Paths that have no data for those without a token: the certificate, and one line that says that Mayfly runs."""


def own_routes(server: RunningServer) -> list[tuple[str, str]]:
    """(method, path) of every route beside Cosmos DB's."""
    admin = server._admin
    pages = pages_app(admin, MagicMock()).routes  # type: ignore[attr-defined]
    routes = [each for each in (*admin_routes(admin), *pages) if isinstance(each, Route)]
    found = {(method, re.sub(r"{[^}]*}", "x", each.path)) for each in routes for method in each.methods or ()}
    return sorted({*found, ("GET", "/metrics"), ("GET", "/_mayfly/nothing"), ("POST", "/_explorer/nothing")})


def test_every_own_path_needs_the_token(guarded: RunningServer) -> None:
    secrets = guarded.cosmos.ca_file.parent
    token = (secrets / "admin.token").read_text().strip()
    context = ssl.create_default_context(cafile=str(guarded.cosmos.ca_file))
    connection = http.client.HTTPSConnection("127.0.0.1", port_of(guarded), context=context, timeout=30)

    def status(method: str, path: str, authorization: str | None) -> int:
        headers = {"accept": "text/html"} | ({} if authorization is None else {"authorization": authorization})
        connection.request(method, path, None if method in ("GET", "HEAD") else b"{}", headers)
        answer = connection.getresponse()
        # The stream of events has no end.
        if answer.getheader("content-type", "").startswith("text/event-stream"):
            connection.close()
            return answer.status
        body = answer.read()
        assert path not in ("/", "/_explorer/index.html") or authorization or b"TreeNode" not in body
        return answer.status

    routes = own_routes(guarded)
    assert len(routes) > 40 and ("POST", "/_mayfly/reset") in routes
    for method, path in routes:
        free = path in WITHOUT_TOKEN and method in ("GET", "HEAD")
        for wrong in (None, "Bearer wrong", f"Basic {token}", f"Bearer {token[:-1]}"):
            # At `/` a header of authorization belongs to Cosmos DB.
            wanted = (200,) if free and (path != "/" or wrong is None) else (401,)
            assert status(method, path, wrong) in wanted, (method, path, wrong)
        if path != "/":
            assert status(method, path, f"Bearer {token}") != 401, (method, path)
    connection.close()
