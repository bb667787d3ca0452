"""The HTTP request of a webhook."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import ssl
import threading
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

TIMEOUT_SECONDS: Final = 10.0
"""The longest wait for a connection, and for each part of an answer."""

ANSWER_BYTES: Final = 1024
"""Bytes of an answer that are read, for the log."""


async def send(url: str, headers: Mapping[str, str], body: bytes) -> str:
    """Post a message on a thread of its own. The answer is that of `post`.

    A thread of the loop's pool would keep others from it for as long as the receiver is silent, and the process from its end.
    """
    loop = asyncio.get_running_loop()
    answered: asyncio.Future[str] = loop.create_future()

    def end(error: str) -> None:
        if not answered.done():
            answered.set_result(error)

    def work() -> None:
        error = post(url, headers, body)
        # The loop may have been closed meanwhile.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(end, error)

    threading.Thread(target=work, daemon=True, name="webhook").start()
    return await answered


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
