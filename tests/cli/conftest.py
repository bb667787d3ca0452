"""The command line in process, and a stand-in for the running server that records what it is asked."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from click.testing import CliRunner, Result

from mayflydb.cli.main import mayfly


class AdminStub:
    """Answers from `answers[(method, path)]` = (status, body), paths without the query; records (method, target, body).

    It waits for `gate` before it answers what is not in `quick`.
    """

    def __init__(self) -> None:
        self.answers: dict[tuple[str, str], tuple[int, Any]] = {}
        self.asked: list[tuple[str, str, Any]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.quick: frozenset[tuple[str, str]] = frozenset()
        stub = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.answer(None)

            def do_POST(self) -> None:
                self.answer(json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"null"))

            def do_PUT(self) -> None:
                self.answer(len(self.rfile.read(int(self.headers.get("Content-Length", 0)))))

            def do_DELETE(self) -> None:
                self.answer(None)

            def answer(self, body: Any) -> None:
                stub.asked.append((self.command, self.path, body))
                if (self.command, self.path.partition("?")[0]) not in stub.quick:
                    stub.gate.wait(10)
                status, reply = stub.answers.get(
                    (self.command, self.path.partition("?")[0]), (404, {"title": "no such path"})
                )
                payload = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(payload)))
                self.end_headers()
                self.wfile.write(payload)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                """Quiet."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def server() -> Iterator[AdminStub]:
    stub = AdminStub()
    yield stub
    stub.close()


@pytest.fixture(autouse=True)
def without_settings(alone: None) -> None:
    """Each test starts without settings of the machine."""


@pytest.fixture
def run() -> Callable[..., Result]:
    """Run `mayfly` with these arguments; standard input is not a terminal."""

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(mayfly, arguments, catch_exceptions=False)

    return invoke
