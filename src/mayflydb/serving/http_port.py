"""The HTTP port: Cosmos DB's front end, the admin API, metrics and pages behind one gateway."""

from __future__ import annotations

import asyncio
import base64
import hmac
import secrets
import socket
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from mayflydb.admin.operations import Admin
from mayflydb.admin.wires import Wires
from mayflydb.announcement import StartFailed
from mayflydb.config.settings import Settings, StorageKind
from mayflydb.engine.engine import Engine
from mayflydb.frontends.cosmos.app import CosmosApp
from mayflydb.frontends.cosmos.auth import Keys
from mayflydb.frontends.cosmos.caller import Caller
from mayflydb.frontends.cosmos.calls import Account
from mayflydb.frontends.cosmos.direct.connection import build_if_direct
from mayflydb.frontends.cosmos.entra.policy import PolicyError, PolicyFile
from mayflydb.http.connection import Limits
from mayflydb.http.listener import Listener
from mayflydb.http.messages import Handler
from mayflydb.serving.drop_in import answer_aliases, bind_alias
from mayflydb.serving.http_gateway import Hosts, HttpGateway, Readiness
from mayflydb.serving.keys import load_admin_token
from mayflydb.serving.listener_checks import ListenAddress, ListenerCheck, ask_http
from mayflydb.serving.options import options_from
from mayflydb.serving.ports import address_of, bind_listening, checked_addresses, is_reachable
from mayflydb.serving.shared_limits import SharedLimits
from mayflydb.serving.trust import Trust
from mayflydb.sockets.listener import CertificateSource
from mayflydb.version import __version__

STORE_NAMES: Final[Mapping[StorageKind, str]] = {"memory": "memory", "sqlite": "a file", "postgresql": "PostgreSQL"}
"""The names of the stores on the page at `/`."""


class HttpPort:
    """The listening sockets for HTTP, and the gateway that answers on them."""

    def __init__(self, settings: Settings) -> None:
        """Bind the port. Raise StartFailed if that fails, or if other machines could reach the well-known key."""
        self._settings = settings
        self._sockets = _take_sockets(settings)
        self._aliases = _bind_aliases(settings)
        self.reachable = is_reachable(self._sockets)
        self.requires_tls = self.reachable and not settings.server.insecure
        self._gateway: HttpGateway | None = None
        self._listener: Listener | None = None
        self._alias_listener: Listener | None = None
        self.secret: str | None = None
        self.endpoint = f"{settings.server.scheme}://{address_of(self._sockets[0])}"

    def listen(self, data: Path, readiness: Readiness, certificate: CertificateSource, shared: SharedLimits) -> None:
        """Accept connections. Until `open`, requests are told that the server is starting. `data`: the directory of secrets."""
        server, tls = self._settings.server, self._settings.tls
        names = (socket.gethostname(), *tls.names, *server.allow_hosts, *server.advertised_names)
        token = None if self._settings.is_open else load_admin_token(self._sockets, data, server.secure)
        self.secret = None if token is None else token.decode("ascii", "replace")
        self._gateway = HttpGateway(Hosts(names), readiness, token, self.requires_tls)
        limits = Limits(server.max_connections, shared.per_address, shared.listeners)
        self._listener = Listener(self._gateway, certificate, limits, shared.in_flight, shared.quotas, build_if_direct)
        self._listener.serve(self._sockets)
        if self.alias_addresses:
            handler = answer_aliases(self._gateway)
            self._alias_listener = Listener(handler, certificate, limits, shared.in_flight, shared.quotas)
            self._alias_listener.serve([each for sockets in self._aliases.values() for each in sockets])

    @property
    def alias_addresses(self) -> dict[str, str]:
        """By name: the addresses of the alias ports that are open."""
        return {name: address_of(sockets[0]) for name, sockets in self._aliases.items() if sockets}

    def open(self, cosmos: Handler, admin: Admin, wires: Wires) -> None:
        """Let requests through to Cosmos DB's front end, and to the admin API, metrics and pages."""
        assert self._gateway is not None
        page, drop_in = _page(self._settings), self._settings.drop_in
        web = load_web_app_once(admin, wires, None if drop_in is None or drop_in.pages else page)
        engine = admin.engine
        self._gateway.observe(engine.access_log, engine.requests.stopwatch)
        self._gateway.open(cosmos, web, admin.maintenance.health, page)

    def checks(self, caller: Caller, trusted: Trust | None) -> list[ListenerCheck]:
        """Checks that the port answers. `trusted`: given where TLS is to be checked as well."""
        at = checked_addresses(self._sockets, trusted, self.requires_tls)
        return [_http_check(each, caller) for each in at]

    async def close(self, grace: float) -> None:
        """Let requests in work finish within `grace` seconds, and release the port."""
        listeners = [each for each in (self._listener, self._alias_listener) if each is not None]
        await asyncio.gather(*(each.close(grace) for each in listeners))
        self.release()

    def release(self) -> None:
        """Release the port, also if it was never served."""
        for sockets in (self._sockets, *self._aliases.values()):
            for each in sockets:
                each.close()


def build_cosmos(engine: Engine, settings: Settings, key: str, reachable: bool) -> CosmosApp:
    """The front end of Cosmos DB. `key`: the account's, in base64. `reachable`: other machines can connect."""
    cosmos = settings.cosmos
    # Derived from the key, so that continuation tokens outlive a restart.
    secret = hmac.digest(base64.b64decode(key), b"continuation tokens", "sha256")
    account = options_from(
        Account,
        cosmos,
        keys=Keys.from_base64(key),
        secret=secret,
        check_date=cosmos.check_date or reachable,
        merges_queries=cosmos.cross_partition == "direct",
        resolve_address=settings.server.endpoint_for,
        serverless=cosmos.capacity == "serverless",
        lenient=cosmos.query_rules == "lenient",
        entra_policy=_load_entra_policy(engine, cosmos.entra_file),
        consistency_level=cosmos.consistency.title().replace("-", ""),
    )
    # Each activity id contains these random bytes, so the ids of two processes differ.
    return CosmosApp(engine, account, secrets.token_hex(16).encode())


def _load_entra_policy(engine: Engine, path: Path | None) -> PolicyFile | None:
    if path is None:
        return None
    if find_spec("jwt") is None:
        raise StartFailed(
            "tokens of Entra ID need PyJWT",
            setting="cosmos.entra_file",
            hint='pip install "mayflydb[entra]"',
            exit_code=2,
        )
    try:
        return PolicyFile(path, engine.requests.stopwatch)
    except PolicyError as error:
        raise StartFailed(str(error), setting="cosmos.entra_file", exit_code=2) from error


def _take_sockets(settings: Settings) -> list[socket.socket]:
    server = settings.server
    sockets = bind_listening(server.host, server.port, "server.port", "-p")
    # The settings were checked by the name of the host. `localhost` may be an address of the network nevertheless.
    if is_reachable(sockets) and server.loopback:
        for each in sockets:
            each.close()
        raise StartFailed(
            f"{server.host} is {sockets[0].getsockname()[0]} here, which other machines can reach",
            setting="server.host",
            hint="--host 127.0.0.1",
            exit_code=4,
        )
    return sockets


def _bind_aliases(settings: Settings) -> dict[str, list[socket.socket]]:
    drop_in = settings.drop_in
    if drop_in is None:
        return {}
    ports = {
        "explorer": drop_in.explorer_port,
        "health": drop_in.health_port,
        "monitoring": drop_in.monitoring_port,
    }
    return {name: bind_alias(settings.server.host, port, name) for name, port in ports.items()}


def load_web_app_once(admin: Admin, wires: Wires, page: str | None) -> Callable[[], Handler]:
    apps: list[Handler] = []

    # Importing Starlette takes time and memory that a server without requests for it does not spend.
    def web() -> Handler:
        if not apps:
            from mayflydb.serving.web_app import web_app

            apps.append(web_app(admin, wires, page))
        return apps[0]

    return web


def _http_check(place: ListenAddress, caller: Caller) -> ListenerCheck:
    async def ask() -> None:
        await ask_http(place, caller.sign_headers("GET", b"/"))

    return ListenerCheck(
        "cosmos", "server.port", f"{'HTTP' if place.trusted is None else 'HTTPS'} on {place.address}", ask
    )


def _page(settings: Settings) -> str:
    return (
        "<!doctype html><html lang=en><title>Mayfly</title>"
        f"<p>Mayfly {__version__} is running and keeps its data in {STORE_NAMES[settings.storage.kind]}."
        ' <a href="/_explorer/">Portal</a></p></html>'
    )
