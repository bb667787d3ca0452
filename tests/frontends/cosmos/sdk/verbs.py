"""The ways to write one item, through the vendor's clients and as plain HTTP."""

from __future__ import annotations

import json
from typing import Any, Protocol

from azure.cosmos import ContainerProxy
from azure.cosmos.exceptions import CosmosBatchOperationError, CosmosHttpResponseError

from frontends.cosmos.service import Async, Raw, Service, Sync, path_of

VERBS = ("create", "upsert", "replace", "patch", "batch")
NEUTRAL = {"id": "1", "pk": "p", "kind": "before"}
"""What stands there before a verb that needs an item."""


class Refused(Exception):
    """A write was refused with this status and message."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"{status}: {message}")
        self.status = status
        self.message = message


class Writer(Protocol):
    def write(self, verb: str, members: str) -> None:
        """Write item `1` of partition `p` with these further members, a JSON object as text. Refused if it is."""


class ByClient:
    """Through a client, which makes its own JSON of the values."""

    def __init__(self, container: Sync | Async) -> None:
        self._call = container.call

    def write(self, verb: str, members: str) -> None:
        given = json.loads(members)
        body = {"id": "1", "pk": "p", **given}
        try:
            match verb:
                case "replace":
                    self._call("replace_item", "1", body)
                case "patch":
                    steps = [{"op": "add", "path": f"/{name}", "value": value} for name, value in given.items()]
                    self._call("patch_item", "1", "p", steps or [{"op": "set", "path": "/n", "value": 1}])
                case "batch":
                    self._call("execute_item_batch", [("create", (body,))], partition_key="p")
                case _:
                    self._call(f"{verb}_item", body)
        except CosmosBatchOperationError as error:
            (answer,) = error.operation_responses
            raise Refused(int(answer["statusCode"]), answer["message"]) from None
        except CosmosHttpResponseError as error:
            raise Refused(int(error.status_code or 0), json.loads(_body(error))["message"]) from None


def _body(error: CosmosHttpResponseError) -> str:
    assert error.response is not None
    return str(error.response.text())


class ByHand:
    """As plain HTTP: the text of the values arrives as it is."""

    def __init__(self, raw: Raw, proxy: ContainerProxy) -> None:
        self._raw = raw
        self._items = path_of(proxy, "docs")

    def write(self, verb: str, members: str) -> None:
        inside = members.strip()[1:-1].strip()
        body = f'{{"id":"1","pk":"p"{"," if inside else ""}{inside}}}'.encode()
        headers: dict[str, str | bytes | None] = {}
        method, path = "POST", self._items
        match verb:
            case "upsert":
                headers["x-ms-documentdb-is-upsert"] = "True"
            case "replace":
                method, path = "PUT", f"{self._items}/1"
            case "patch":
                method, path = "PATCH", f"{self._items}/1"
                body = (
                    b'{"operations":[%b]}'
                    % ",".join(
                        f'{{"op":"add","path":"/{name}","value":{value}}}' for name, value in _members(members)
                    ).encode()
                )
            case "batch":
                headers |= {"x-ms-cosmos-is-batch-request": "True", "x-ms-cosmos-batch-atomic": "True"}
                body = b'[{"operationType":"Create","resourceBody":%b}]' % body
        answer = self._raw(method, path, body, headers, pk="p")
        if answer.status == 207:
            (result,) = answer.json
            raise Refused(result["statusCode"], result["message"])
        if answer.status >= 300:
            raise Refused(answer.status, answer.json["message"])


def _members(text: str) -> list[tuple[str, str]]:
    """Name and text of each member; enough for one member, or for values that Python writes as they were."""
    names = list(json.loads(text))
    if len(names) == 1:
        return [(names[0], text.partition(":")[2].rpartition("}")[0].strip())]
    return [(name, json.dumps(value)) for name, value in json.loads(text).items()]


def writer(service: Service, proxy: ContainerProxy, members: str, flavour: str = "sync") -> Writer:
    """A client where it can say what is to be said, else by hand."""
    if json.dumps(json.loads(members)).replace(" ", "") != members.replace(" ", ""):
        return ByHand(service.raw, proxy)
    return ByClient(service.sync(proxy) if flavour == "sync" else service.aio(proxy))


def prepare(proxy: ContainerProxy, verb: str) -> dict[str, Any] | None:
    """The item that `replace` and `patch` need; None for the other verbs."""
    return proxy.create_item(dict(NEUTRAL)) if verb in ("replace", "patch") else None
