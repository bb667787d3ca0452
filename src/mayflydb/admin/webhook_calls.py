"""The HTTP request of a webhook."""

from __future__ import annotations

import http.client
import ssl
from collections.abc import Mapping
from functools import partial
from typing import Final
from urllib.parse import urlsplit

from mayflydb.admin.own_threads import run_apart

TIMEOUT_SECONDS: Final = 10.0
"""The longest wait for a connection, and for each part of an answer."""

ANSWER_BYTES: Final = 1024
"""Bytes of an answer that are read, for the log."""


async def send(url: str, headers: Mapping[str, str], body: bytes) -> str:
    """Post a message on a thread of its own. The answer is that of `post`."""
    return await run_apart(partial(post, url, headers, body), "webhook")


def post(url: str, headers: Mapping[str, str], body: bytes) -> str:
    """Post a message. Return an empty text if the receiver accepts it, or the reason why it does not. Redirects are refused."""
    parts = urlsplit(url)
    host, port = parts.hostname or "", parts.port
    connection: http.client.HTTPConnection
    if parts.scheme == "https":
        connection = http.client.HTTPSConnection(
            host, port, timeout=TIMEOUT_SECONDS, context=ssl.create_default_context()
        )
    else:
        connection = http.client.HTTPConnection(host, port, timeout=TIMEOUT_SECONDS)
    try:
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connection.request("POST", path, body, dict(headers))
        answer = connection.getresponse()
        text = answer.read(ANSWER_BYTES).decode(errors="replace")
        return "" if 200 <= answer.status < 300 else f"{answer.status} {answer.reason}: {text[:200]}"
    except (OSError, http.client.HTTPException, ValueError) as error:
        return f"{type(error).__name__}: {error}"
    finally:
        connection.close()
