"""A receiver of webhooks and a reader of the stream of events, each on a thread of its own."""

from __future__ import annotations

import http.client
import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from mayflydb.clock import wall_us
from mayflydb.model.instant import Instant

PATIENCE = 120.0


class Received(NamedTuple):
    """One event, and the host's instant of its arrival."""

    at: Instant
    event: dict[str, Any]


class Receiver:
    """Accepts every message. A context manager."""

    def __init__(self) -> None:
        self.received: list[Received] = []
        self._came = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver._take(wall_us(), body)
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}/expired"

    def _take(self, at: Instant, body: bytes) -> None:
        with self._came:
            self.received += [Received(at, event) for event in json.loads(body)["events"]]
            self._came.notify_all()

    def wait(self, number: int) -> None:
        """Wait until so many events are there; RuntimeError when they do not come."""
        with self._came:
            if not self._came.wait_for(lambda: len(self.received) >= number, PATIENCE):
                raise RuntimeError(f"{len(self.received)} of {number} events came")

    def __enter__(self) -> Receiver:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


class Listener:
    """Reads the events `expired` of a server as they come, and counts them. A context manager."""

    def __init__(self, port: int) -> None:
        self.count = 0
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
        self._connection.request("GET", "/_mayfly/events?types=expired")
        self._answer = self._connection.getresponse()

    def _read(self) -> None:
        try:
            while line := self._answer.readline():
                self.count += line.startswith(b"event: expired")
        except (OSError, http.client.HTTPException, ValueError, AttributeError):
            return  # The server has ended. http.client has no other error for a connection that is closed on another thread.

    def __enter__(self) -> Listener:
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()
