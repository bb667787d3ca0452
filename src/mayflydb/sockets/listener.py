"""A protocol with and without TLS on one port: the listener accepts connections and tells them apart by the first byte.

Whoever connects has a few seconds for everything up to the end of the first request, handshake included, so that half-open
and slow clients cost a socket for a moment and nothing more.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import resource
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from mayflydb.sockets.work import Served, Work

log = logging.getLogger(__name__)

TLS_HANDSHAKE = 0x16
BACKLOG = 1024
CLOSING_TURNS, LAST_TURNS = 100, 5
ACCEPTS_PER_TURN = 64
OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

CertificateSource = Callable[[], Awaitable[ssl.SSLContext]]
"""Gives the TLS context; asked at each handshake, so that the first one makes it."""

Introduce = Callable[[bool, float], Served]
"""Makes the protocol of one connection: whether it is encrypted, and until when (the loop's time) the client is waited for."""


class Room(msgspec.Struct, frozen=True):
    """`connections` at once (the rest are reset), seconds of `patience` with a new one, and of `pause` when there is no room."""

    connections: int = 1000
    patience: float = 5.0
    pause: float = 1.0


def affordable(connections: int) -> int:
    """At most three quarters of the descriptors the process may have: the store needs some too."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return connections if soft == resource.RLIM_INFINITY else min(connections, soft * 3 // 4)


class Listener:
    """Serves a protocol on sockets that are already bound."""

    def __init__(self, introduce: Introduce, work: Work, certificate: CertificateSource, room: Room) -> None:
        self._introduce = introduce
        self._certificate = certificate
        self._room = msgspec.structs.replace(room, connections=affordable(room.connections))
        self._work = work
        self._sockets: list[socket.socket] = []
        self._doors: set[Door] = set()
        self._admissions: set[asyncio.Task[None]] = set()

    @property
    def connections(self) -> int:
        """The number of connected clients, silent ones included."""
        return len(self._work.connections) + len(self._doors) + len(self._admissions)

    def serve(self, sockets: Sequence[socket.socket]) -> None:
        """Take connections from now on."""
        self._loop = asyncio.get_running_loop()
        self._sockets = list(sockets)
        for each in sockets:
            each.setblocking(False)
            self._loop.add_reader(each, self._accept, each)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                client, _ = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno in OUT_OF_DESCRIPTORS:
                    self._pause(listening, error)
                    return
                raise
            if self.connections >= self._room.connections:
                reset(client)
            else:
                client.setblocking(False)
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._doors.add(Door(self, client, self._loop, self._room.patience))

    def _pause(self, listening: socket.socket, error: OSError) -> None:
        log.warning("no more connections for a moment: %s", error)
        self._loop.remove_reader(listening)
        self._loop.call_later(self._room.pause, self._take_up, listening)

    def _take_up(self, listening: socket.socket) -> None:
        if listening in self._sockets:
            self._loop.add_reader(listening, self._accept, listening)

    def left(self, door: Door) -> None:
        """Forget a client that has left."""
        self._doors.discard(door)

    def admit(self, door: Door, first: int, deadline: float) -> None:
        """The client has sent its first byte."""
        self._doors.discard(door)
        task = self._loop.create_task(self._admit(door.socket, first == TLS_HANDSHAKE, deadline))
        self._admissions.add(task)

        def ended(task: asyncio.Task[None]) -> None:
            self._admissions.discard(task)
            if task.cancelled():
                # Before its first step, where it could not close anything itself.
                door.socket.close()

        task.add_done_callback(ended)

    async def _admit(self, client: socket.socket, tls: bool, deadline: float) -> None:
        def connection() -> Served:
            return self._introduce(tls, deadline)

        try:
            if not tls:
                await self._loop.connect_accepted_socket(connection, client)
                return
            context = await self._certificate()
            left = max(0.001, deadline - self._loop.time())
            await self._loop.connect_accepted_socket(connection, client, ssl=context, ssl_handshake_timeout=left)
        except (OSError, asyncio.CancelledError) as error:
            # A client that does not trust the certificate ends here, as does one that speaks another TLS.
            log.debug("a connection came to nothing: %s", error)
            client.close()
        except Exception:
            log.exception("a connection could not be served")
            client.close()

    async def close(self, grace: float) -> None:
        """Take no more connections, let requests in work finish for up to `grace` seconds, then drop what is left."""
        for each in self._sockets:
            self._loop.remove_reader(each)
            each.close()
        self._sockets.clear()
        for door in list(self._doors):
            door.shut()
        for admission in list(self._admissions):
            admission.cancel()
        work = self._work
        for connection in list(work.connections):
            connection.shutdown()
        if work.tasks:
            await asyncio.wait(work.tasks, timeout=grace)
        work.flush()
        for connection in list(work.connections):
            # TLS goes on closing until the client has said goodbye too, which may be never.
            connection.abort()
        for task in list(work.tasks):
            task.cancel()
        await asyncio.gather(*work.tasks, *self._admissions, return_exceptions=True)
        # A transport lets go of its socket some turns of the loop after its protocol is told; the loop may end with this call.
        turns = CLOSING_TURNS
        while turns:
            turns = min(turns - 1, CLOSING_TURNS if work.connections else LAST_TURNS)
            await asyncio.sleep(0)


class Door:
    """A connection that has said nothing yet."""

    def __init__(
        self, listener: Listener, client: socket.socket, loop: asyncio.AbstractEventLoop, patience: float
    ) -> None:
        self.socket = client
        self._listener = listener
        self._loop = loop
        self._deadline = loop.time() + patience
        self._timer = loop.call_at(self._deadline, self._expire)
        loop.add_reader(client, self._look)

    def _look(self) -> None:
        try:
            first = self.socket.recv(1, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            first = b""
        if not first:
            self.shut()
            return
        self._leave()
        self._listener.admit(self, first[0], self._deadline)

    def _leave(self) -> None:
        self._timer.cancel()
        self._loop.remove_reader(self.socket)
        self._listener.left(self)

    def _expire(self) -> None:
        self._leave()
        reset(self.socket)

    def shut(self) -> None:
        """Close without a word."""
        self._leave()
        self.socket.close()


def reset(client: socket.socket) -> None:
    """Abort: the client hears of it at once, and nothing of the connection stays behind here."""
    with contextlib.suppress(OSError):
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def bind(host: str, port: int, *, listening: bool = True) -> list[socket.socket]:
    """Listening sockets, or such that only hold the port; OSError when it is taken.

    `localhost` is 127.0.0.1, and ::1 where that exists and the port is free there; port 0 is the same free port on both.
    """
    if host == "localhost":
        first = _bind_socket(socket.AF_INET, "127.0.0.1", port, listening)
        with contextlib.suppress(OSError):
            return [first, _bind_socket(socket.AF_INET6, "::1", first.getsockname()[1], listening)]
        return [first]
    found = {(int(info[0]), str(info[4][0])) for info in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)}
    bound: list[socket.socket] = []
    try:
        for family, address in sorted(found):
            bound.append(_bind_socket(family, address, bound[0].getsockname()[1] if bound else port, listening))
    except OSError:
        for each in bound:
            each.close()
        raise
    return bound


def _bind_socket(family: int, address: str, port: int, listening: bool) -> socket.socket:
    bound = socket.socket(family, socket.SOCK_STREAM)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            # `::` alone means every address of both kinds.
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(address != "::"))
        bound.bind((address, port))
        if listening:
            bound.listen(BACKLOG)
    except BaseException:
        bound.close()
        raise
    return bound
