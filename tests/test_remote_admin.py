"""The client of the admin API, against servers that misbehave."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from mayflydb.admin.hints import hint_of, word_hint
from mayflydb.cli import admin as commands
from mayflydb.cli.admin import CommandFailed
from mayflydb.model.errors import Conflict, MayflyError, OutcomeUnknown, TimedOut, Unavailable
from mayflydb.model.hints import Hint
from mayflydb.remote_admin import AdminClient, NoServer, NotMayfly, Patience
from mayflydb.testing.remote import RemoteControls

SHORT = Patience(0.2, 0.2, 0.3)
OK = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"


@contextmanager
def server(*answers: bytes | None) -> Iterator[str]:
    """Serve one connection for each answer, which is closed after it; None: no answer, and the connection stays open."""
    kept = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for answer in answers:
                connection, _ = listener.accept()
                kept.append(connection)
                if answer is not None:
                    connection.recv(65536)
                    connection.sendall(answer)
                    connection.shutdown(socket.SHUT_WR)

        thread = threading.Thread(target=serve)
        thread.start()
        yield "http://{}:{}".format(*listener.getsockname())
        thread.join()
        for connection in kept:
            connection.close()


def answer(status: int, document: Any) -> bytes:
    body = json.dumps(document).encode()
    return b"HTTP/1.1 %d X\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)


def get(client: AdminClient) -> object:
    return client.get("clock")


def post(client: AdminClient) -> object:
    return client.post("clock/advance", {"by": "1h"})


Ask = Callable[[AdminClient], object]


@pytest.mark.parametrize(
    ("said", "ask", "kind", "words"),
    [
        (None, get, NoServer, "has not answered for 0.2 seconds"),
        (None, post, OutcomeUnknown, "has not answered for 0.3 seconds; what was asked may be done or not"),
        (None, lambda client: client.call("PUT", "snapshots/a"), OutcomeUnknown, "0.3 seconds"),
        (None, lambda client: list(client.stream("events", {})), NoServer, "0.2 seconds"),
        (None, lambda client: client.read_metrics(), NoServer, "0.2 seconds"),
        (b"", get, NoServer, "broke off"),
        (b"", post, OutcomeUnknown, "broke off"),
        (OK + b"Content-Length: 100\r\n\r\n{", get, NoServer, "broke off"),
        (OK + b"Content-Length: 100\r\n\r\n{", post, OutcomeUnknown, "broke off"),
        (
            OK + b"Content-Length: 100\r\n\r\n{",
            lambda client: list(client.download("snapshots/a")),
            NoServer,
            "broke off",
        ),
        (OK + b"Content-Length: 6\r\n\r\n<html>", get, NotMayfly, "is not Mayfly"),
        (OK + b"Content-Length: 6\r\n\r\n<html>", post, NotMayfly, "is not Mayfly"),
        (b"SSH-2.0-OpenSSH\r\n", get, NoServer, "broke off"),
    ],
)
def test_a_server_that_does_not_answer(said: bytes | None, ask: Ask, kind: type[MayflyError], words: str) -> None:
    with server(said) as url, pytest.raises(kind, match=words) as failed:
        ask(AdminClient(url, SHORT))
    assert hint_of(failed.value)


def test_nothing_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    for ask in (get, post):
        # Nothing was sent: nothing was done.
        with pytest.raises(NoServer, match="no server answers"):
            ask(AdminClient(f"http://127.0.0.1:{port}", SHORT))


def test_a_handshake_that_hangs() -> None:
    with server(None) as url, pytest.raises(NoServer, match="no server answers"):
        post(AdminClient(url.replace("http:", "https:"), SHORT))


@pytest.mark.parametrize("url", ["ftp://x", "http://", "http://127.0.0.1:port", "http://127.0.0.1:1/a b"])
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises((NotMayfly, NoServer)):
        get(AdminClient(url, SHORT))


REFUSED = {"title": "Conflict", "status": 409, "detail": "that is in the past", "hint": "x", "hint_key": "clock-back"}


@pytest.mark.parametrize(
    ("status", "document", "kind", "message"),
    [
        (409, REFUSED, Conflict, "that is in the past"),
        (503, {"title": "Timed out", "detail": "it took too long"}, TimedOut, "it took too long"),
        (503, {"title": "Another", "detail": "starting"}, Unavailable, "starting"),
        (418, {"title": "A teapot"}, MayflyError, "A teapot"),
        (500, ["no problem"], MayflyError, "the server answered 500"),
        (302, {}, MayflyError, "the server answered 302"),
    ],
)
def test_problems_are_typed(status: int, document: Any, kind: type[MayflyError], message: str) -> None:
    with server(answer(status, document)) as url, pytest.raises(MayflyError) as failed:
        post(AdminClient(url, SHORT))
    assert (type(failed.value), failed.value.message) == (kind, message)


def test_hints_are_worded_where_they_are_shown() -> None:
    hint = Hint("clock-back")
    with server(answer(409, REFUSED)) as url, pytest.raises(Conflict) as failed:
        RemoteControls(url, SHORT).ask("POST", "clock/set", to="2020-01-01T00:00:00Z")
    assert failed.value.__notes__ == [f"Try: {word_hint(hint, 'python')}"]
    with server(answer(409, REFUSED)) as url, pytest.raises(CommandFailed) as refused:
        post(commands.AdminClient(url, 0.2))
    assert (refused.value.message, refused.value.hint) == ("Conflict: that is in the past", word_hint(hint, "cli"))


@pytest.mark.parametrize(
    ("said", "ask", "code"),
    [(None, get, 3), (None, post, 1), (answer(503, {"detail": "starting"}), get, 3), (answer(403, {}), post, 4)],
)
def test_exit_codes(said: bytes | None, ask: Ask, code: int) -> None:
    with server(said) as url, pytest.raises(CommandFailed) as failed:
        ask(commands.AdminClient(url, 0.2))
    assert failed.value.exit_code == code


def test_tests_do_not_wait_for_ever() -> None:
    with server(None, None) as url:
        controls = RemoteControls(url, SHORT)
        with pytest.raises(NoServer, match=r"not answered for 0\.2 seconds"):
            controls.now()
        with pytest.raises(OutcomeUnknown, match=r"not answered for 0\.3 seconds"):
            controls.ask("POST", "purge")
