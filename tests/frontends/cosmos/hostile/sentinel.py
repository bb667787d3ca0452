"""What must hold after every attack: the server answers, and nothing was lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from azure.cosmos import ContainerProxy

from frontends.cosmos.service import Answer, Raw, Service, path_of


class Target:
    """A container with an item that every attack must leave as it is."""

    def __init__(self, service: Service) -> None:
        self.service = service
        self.raw: Raw = service.raw
        self.proxy: ContainerProxy = service.container(1000)
        self.items = path_of(self.proxy, "docs")
        self.sentinel = self.proxy.create_item({"id": "sentinel", "pk": "p", "n": 1})

    def attack(
        self,
        method: str,
        path: str | None = None,
        body: Any = None,
        headers: Mapping[str, str | bytes | None] | None = None,
        **options: Any,
    ) -> Answer:
        """A request, whose answer must be well-formed whatever it says."""
        options.setdefault("pk", "p")
        answer = self.raw(method, self.items if path is None else path, body, headers, **options)
        well_formed(answer)
        return answer

    def check(self) -> None:
        """The sentinel still reads as it was written."""
        answer = self.raw("GET", f"{self.items}/sentinel", pk="p")
        assert (answer.status, answer.json) == (200, self.sentinel)


def well_formed(answer: Answer) -> None:
    """Never a 500; an error is JSON with code and message, and has the headers that clients look for."""
    assert answer.status < 500, answer
    assert answer.headers.get("x-ms-activity-id"), answer
    assert float(answer.headers["x-ms-request-charge"]) >= 0
    if answer.status >= 400:
        assert answer.headers["content-type"] == "application/json"
        body = answer.json
        assert isinstance(body["code"], str) and body["code"]
        assert isinstance(body["message"], str) and body["message"]
        assert "Traceback" not in body["message"]
