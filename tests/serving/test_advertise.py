"""server.advertise: the address that clients of Cosmos are given, wherever they are given one."""

from __future__ import annotations

import socket
import ssl
from pathlib import Path
from typing import Any

import pytest
from azure.cosmos import CosmosClient
from cryptography import x509

from frontends.cosmos.service import KEY, Raw
from mayflydb.embedded import serve
from served import Http


def locations(account: Any) -> set[str]:
    return {
        each["databaseAccountEndpoint"] for name in ("writable", "readable") for each in account[f"{name}Locations"]
    }


@pytest.mark.parametrize(
    ("advertise", "scheme", "asked_as", "told"),
    [
        ("", "https", "localhost", "https://localhost:{port}"),
        ("127.0.0.1", "https", "localhost", "https://127.0.0.1:{port}"),
        ("https://db.test:99", "http", "localhost", "https://db.test:99"),
    ],
)
def test_the_account_document(advertise: str, scheme: str, asked_as: str, told: str) -> None:
    with serve(memory=True, port=0, advertise=advertise) as server:
        port = int(server.admin_url.split(":")[2].partition("/")[0])
        raw = Raw(f"{scheme}://127.0.0.1:{port}")
        expected = told.format(port=port)
        account = raw("GET", "/", None, {"host": f"{asked_as}:{port}"})
        assert locations(account.json) == {f"{expected}/"}
        assert account.headers["content-location"] == f"{expected}/"
        missing = raw("GET", "/dbs/none", None, {"host": f"{asked_as}:{port}"})
        assert (missing.status, missing.headers.get("content-location")) == (404, None)
        raw.close()


def test_what_is_printed(tmp_path: Path) -> None:
    with serve(memory=True, port=0, advertise="https://db.test") as server:
        port = int(server.admin_url.split(":")[2].partition("/")[0])
        assert server.cosmos.url == "https://db.test/"
        assert not server.announcement.either_scheme
        # Whoever looks after the server is beside it.
        assert server.admin_url == f"http://127.0.0.1:{port}/_mayfly"
        told = Http(port).get("info")
    assert told["cosmos"]["endpoint"] == "https://db.test/"
    assert told["cosmos"]["connection_string"].startswith("AccountEndpoint=https://db.test/;")
    assert told["admin"] == f"http://127.0.0.1:{port}/_mayfly"


def test_who_comes_by_the_advertised_name_is_let_in() -> None:
    with serve(memory=True, port=0, advertise="https://db.test") as server:
        port = int(server.admin_url.split(":")[2].partition("/")[0])
        raw = Raw(f"http://127.0.0.1:{port}")
        found = [raw("GET", "/", None, {"host": host}).status for host in ("db.test", "DB.test:443", "other.test")]
        raw.close()
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(server.cosmos.ca_file)
        with (
            socket.create_connection(("127.0.0.1", port)) as plain,
            context.wrap_socket(plain, server_hostname="db.test") as tls,
        ):
            certificate = x509.load_der_x509_certificate(tls.getpeercert(binary_form=True) or b"")
    assert found == [200, 200, 403]
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert "db.test" in names.get_values_for_type(x509.DNSName)


@pytest.mark.filterwarnings("ignore:Unverified HTTPS request")
def test_clients_go_where_they_are_told() -> None:
    """Asked by one name, the vendor's client sends all else to the other."""
    with serve(memory=True, port=0, advertise="127.0.0.1") as server:
        port = int(server.admin_url.split(":")[2].partition("/")[0])
        seen: list[str] = []
        client = CosmosClient(f"http://localhost:{port}", KEY)
        client.create_database("d", raw_response_hook=lambda answer: seen.append(answer.http_request.url))
    assert seen == [f"http://127.0.0.1:{port}/dbs"]
