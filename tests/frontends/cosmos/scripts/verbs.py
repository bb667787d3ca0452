"""How the tests of scripts reach them: through the vendor's client, and over the plain wire where the status matters."""

from __future__ import annotations

from typing import Any

import msgspec
from azure.cosmos import ContainerProxy

from frontends.cosmos.service import Answer, Raw, Service, path_of
from mayflydb.frontends.cosmos.scripting.sandbox import ScriptLimits

LOGGING = {"x-ms-documentdb-script-enable-logging": "true"}


def procedure(proxy: ContainerProxy, body: str, id: str = "p") -> None:
    """A stored procedure, the one of this id replaced."""
    proxy.scripts.create_stored_procedure({"id": id, "body": body})


def run(service: Service, proxy: ContainerProxy, body: str, *args: Any, pk: Any = "k", **headers: str) -> Answer:
    """Execute a text as a stored procedure."""
    path = path_of(proxy, "sprocs", "p")
    answer = service.raw("PUT", path, {"id": "p", "body": body})
    if answer.status == 404:
        answer = service.raw("POST", path_of(proxy, "sprocs"), {"id": "p", "body": body})
    assert answer.status in (200, 201), answer
    return service.raw("POST", path, list(args), headers, pk=pk)


def elsewhere(service: Service, proxy: ContainerProxy, *args: Any) -> Answer:
    """Execute the stored procedure `p` over a connection of its own."""
    raw = Raw(service.url)
    try:
        return raw("POST", path_of(proxy, "sprocs", "p"), list(args), pk="k")
    finally:
        raw.close()


def trigger(proxy: ContainerProxy, id: str, kind: str, body: str, on: str = "All") -> None:
    proxy.scripts.create_trigger({"id": id, "body": body, "triggerType": kind, "triggerOperation": on})


def hurry(service: Service, **limits: Any) -> None:
    """Other limits for scripts, which no setting reaches."""
    app: Any = service.cosmos_app()
    app._account = msgspec.structs.replace(app._account, scripts=ScriptLimits(**limits))


def message(answer: Answer) -> str:
    return str(answer.json["message"])
