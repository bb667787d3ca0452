"""A server whose process may have 64 descriptors, and more clients than that."""

from __future__ import annotations

import http.client
import socket
from dataclasses import dataclass
from pathlib import Path
from time import monotonic

from reliability.kill9.process import Server

DESCRIPTORS = 64
CLIENTS = 100
PATIENCE = 20.0


@dataclass
class Measured:
    """Of CLIENTS that connect and stay: `served`, and `refused` within `slowest` seconds. `waiting` were told nothing.

    `after`: a newcomer was served once the others had left.
    """

    served: int = 0
    refused: int = 0
    waiting: int = 0
    slowest: float = 0.0
    after: bool = False


class PoorServer(Server):
    """A server that has few descriptors."""

    def start(self) -> None:
        limited = self.start_through("prlimit", f"--nofile={DESCRIPTORS}:{DESCRIPTORS}")
        assert limited, self.stderr()


def few_descriptors(directory: Path) -> Measured:
    """More clients come than there are descriptors: newcomers are refused at once, and served when others have left."""
    measured = Measured()
    with PoorServer(directory) as server:
        server.start()
        clients = []
        for _ in range(CLIENTS):
            began = monotonic()
            client = socket.socket()
            client.settimeout(PATIENCE)
            clients.append(client)
            _note(measured, client, server.port)
            measured.slowest = max(measured.slowest, monotonic() - began)
        for client in clients:
            client.close()
        deadline = monotonic() + PATIENCE
        while not measured.after and monotonic() < deadline:
            measured.after = _is_served(server.port)
    return measured


def _note(measured: Measured, client: socket.socket, port: int) -> None:
    try:
        client.connect(("127.0.0.1", port))
        client.sendall(b"GET /_mayfly/live HTTP/1.1\r\nhost: localhost\r\n\r\n")
        answer = client.recv(1000)
    except TimeoutError:
        measured.waiting += 1
    except OSError:
        measured.refused += 1
    else:
        measured.served += answer.startswith(b"HTTP/1.1 200")
        measured.refused += not answer


def _is_served(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("GET", "/_mayfly/live")
        return connection.getresponse().status == 200
    except OSError:
        return False
    finally:
        connection.close()
