"""The page that says how clients connect: addresses, the certificate, and the first lines of a program in each language."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from mayflydb.admin.operations import Admin
from mayflydb.connecting import FORMATS, Access, access_of
from mayflydb.portal.shell import Shell, json_response


class Snippet(msgspec.Struct, frozen=True):
    """Lines of a program or command. `form`: its name in `mayfly connect --format`. `trust`: what a client with TLS is given."""

    form: str
    label: str
    text: str
    trust: str


LABELS: Final[Mapping[str, str]] = {
    "python": "Python",
    "node": "Node",
    "java": "Java",
    "csharp": "C#",
    "mongosh": "mongosh",
    "ydb": "YDB's command line",
    "env": "Shell",
    "dotenv": ".env file",
}
"""The forms that the page shows."""

TRUST: Final[Mapping[str, str]] = {
    "python": """Cosmos DB: the variable REQUESTS_CA_BUNDLE=mayfly.pem, for other names than localhost.
        MongoDB: tlsCAFile=mayfly.pem. YDB: root_certificates, the contents of the file.""",
    "node": """Cosmos DB: the variable NODE_EXTRA_CA_CERTS=mayfly.pem. MongoDB: tlsCAFile=mayfly.pem.
        YDB: secureOptions, with the contents of the file as ca.""",
    "java": "a truststore. mayfly cert export mayfly.p12, then -Djavax.net.ssl.trustStore=mayfly.p12.",
    "csharp": "the store of the system, which mayfly cert trust fills.",
    "mongosh": "tls=true&tlsCAFile=mayfly.pem in the address.",
    "ydb": "--ca-file mayfly.pem",
}
"""The way in which clients with TLS trust the certificate, by form."""


class ConnectPage:
    """The addresses are those that the browser used, as in the admin API."""

    def __init__(self, admin: Admin, shell: Shell) -> None:
        self._admin = admin
        self._shell = shell

    async def show(self, request: Request) -> Response:
        """Show the page."""
        info = self._read_info(request)
        access = access_of(info)
        content = {"addresses": _list_addresses(info, access), "snippets": _list_snippets(access)}
        return await self._shell.page(request, "connect.html", content)

    async def show_json(self, request: Request) -> Response:
        """Return the same as JSON."""
        info = self._read_info(request)
        access = access_of(info)
        return json_response({"addresses": dict(_list_addresses(info, access)), "snippets": _list_snippets(access)})

    def _read_info(self, request: Request) -> Mapping[str, Any]:
        return self._admin.info(f"{request.url.scheme}://{request.headers['host']}")


def _list_addresses(info: Mapping[str, Any], access: Access) -> list[tuple[str, str]]:
    """Return (label, text) of each address and of what goes with it. A secret is told by its file."""
    rows = [
        ("Cosmos DB", access.endpoint),
        ("Account key", access.key or f"in {access.key_file}"),
        ("Connection string", info["cosmos"]["connection_string"]),
        ("MongoDB", access.mongo),
        ("MongoDB's password", access.mongo_password_file and f"in {access.mongo_password_file}"),
        ("YDB", access.ydb_url if access.ydb != access.ydb_tls else ""),
        ("YDB with TLS", access.ydb_tls_url),
        ("YDB's password of root", access.ydb_password_file and f"in {access.ydb_password_file}"),
        ("Admin API", info["admin"]),
        ("Metrics", info["metrics"]),
    ]
    return [(label, text) for label, text in rows if text]


def _list_snippets(access: Access) -> list[Snippet]:
    """Return the snippets of what is served."""
    found = [Snippet(form, label, FORMATS[form](access), TRUST.get(form, "")) for form, label in LABELS.items()]
    return [each for each in found if each.text]
