"""Questions to the admin API of a server."""

from __future__ import annotations

import json
from http.client import HTTPConnection
from typing import Any

PATIENCE = 120.0


def ask(port: int, method: str, path: str, **body: Any) -> Any:
    """Return the decoded answer of `/_mayfly/...`; RuntimeError for another status than 200 and 202."""
    connection = HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request(method, path, json.dumps(body) if body else None, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        found = json.loads(answer.read())
    finally:
        connection.close()
    if answer.status not in (200, 202):
        raise RuntimeError(f"{path} answered {answer.status}: {found}")
    return found
