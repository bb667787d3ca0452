"""Plain HTTP to a server under test."""

from __future__ import annotations

import http.client
import json
from typing import Any, NamedTuple

from mayflydb.embedded import RunningServer

START = "2030-01-01T00:00:00Z"


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Http:
    """One request per connection, so that a refusal cannot disturb the next."""

    def __init__(self, port: int) -> None:
        self.port = port

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            given = {name.replace("_", "-"): value for name, value in headers.items()}
            payload = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
            connection.request(method, path, payload, given)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, found, answer.read())
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        answer = self("GET", f"/_mayfly/{path}")
        assert answer.status == 200, answer
        return answer.json

    def post(self, path: str, **body: Any) -> Any:
        answer = self("POST", f"/_mayfly/{path}", body)
        assert answer.status == 200, answer
        return answer.json


def port_of(server: RunningServer) -> int:
    return int(server.cosmos.url.rstrip("/").rpartition(":")[2])
