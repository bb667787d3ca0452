"""`--drop-in`: what tools that start an emulator expect besides its protocols: alias ports, lines in the log, files."""

from __future__ import annotations

import json
import logging
import os
import socket
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from mayflydb.announcement import StartFailed
from mayflydb.clock import wall_us
from mayflydb.config.settings import Settings
from mayflydb.http.messages import Handler, Request, Response
from mayflydb.model.instant import to_rfc3339
from mayflydb.serving.http_gateway import LIVE, READY
from mayflydb.serving.ports import bind_listening
from mayflydb.serving.private_files import write_private

log = logging.getLogger("mayflydb.server")

PROBES: Final = {b"/ready": READY, b"/alive": LIVE}
"""The paths of the health port, and those that answer them."""

CERTIFICATE_PLACES: Final = (
    Path(
        tempfile.gettempdir(),
        "cosmos/appdata/.system/profiles/Client/AppData/Local/CosmosDBEmulator/emulator.pem",
    ),
    Path("/ydb_certs/ca.pem"),
)
"""The files from which tools copy an emulator's certificate out of its container."""


def bind_alias(host: str, port: int, protocol: str) -> list[socket.socket]:
    """Bind an alias port. Return no sockets if it is off or taken: the server is complete without it."""
    if port == -1:
        return []
    try:
        return bind_listening(host, port, "server.drop_in", "")
    except StartFailed as failed:
        log.warning("%s is not served on its alias port %d: %s", protocol, port, failed.message)
        return []


def answer_aliases(gateway: Handler) -> Handler:
    """Return the handler of HTTP's alias ports: as the gateway, and with the probes of the emulator's health port."""

    def answer(request: Request) -> Coroutine[Any, Any, Response]:
        request.path = PROBES.get(request.path, request.path)
        return gateway(request)

    return answer


def publish_certificate(pem: bytes) -> None:
    """Write the authority's certificate to those places whose directories there are, as in the image, and are this user's."""
    for place in CERTIFICATE_PLACES:
        try:
            if place.parent.stat().st_uid == os.geteuid():
                write_private(place, pem, mode=0o644, replace=True)
        except FileNotFoundError:
            continue
        except OSError as error:
            log.warning("%s cannot be written: %s", place, error.strerror)


def list_wait_lines(http: str, mongo: str | None) -> tuple[str, ...]:
    """Return the lines that tools wait for, each with its end. `http`: an endpoint; `mongo`: `host:port`, None if it is off."""
    parts = urlsplit(http)
    lines = [f"Now listening on: {parts.scheme}://[::]:{parts.port}\n"]
    if mongo is not None:
        waiting = {
            "t": {"$date": to_rfc3339(wall_us())},
            "s": "I",
            "c": "NETWORK",
            "id": 23016,
            "ctx": "listener",
            "msg": "Waiting for connections",
            "attr": {"port": int(mongo.rpartition(":")[2]), "ssl": "off"},
        }
        lines.append(json.dumps(waiting, separators=(",", ":")) + "\n")
    return (*lines, "Started\r\n")


def log_drop_in(settings: Settings) -> None:
    """Log the one warning, and a line about variables that set nothing."""
    drop_in = settings.drop_in
    if drop_in is None:
        return
    opened = "with the well-known key and without logins" if settings.is_open else "without TLS"
    log.warning("--drop-in is for networks of development: every machine that reaches this one can connect %s", opened)
    if drop_in.without_effect:
        log.info("there is nothing to set for %s", ", ".join(drop_in.without_effect))
