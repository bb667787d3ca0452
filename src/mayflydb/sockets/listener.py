"""One port for a protocol with and without TLS: the listener accepts connections and tells the two apart by their first bytes.

A new client has a few seconds for the time up to the end of its first request, handshake included. So half-open and slow clients
use one socket for that time.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from mayflydb.model.quota import Quotas
from mayflydb.sockets.seats import Seat, Seats, share_descriptors
from mayflydb.sockets.work import Served, Work

log = logging.getLogger(__name__)

# The head of a handshake's first record (RFC 8446, 5.1): the content type, and the version 3.1 to 3.4.
TLS_HANDSHAKE = 0x16
TLS_HEADS = tuple(bytes((TLS_HANDSHAKE, 3, minor)) for minor in (1, 2, 3, 4))
HEAD_BYTES = 3
BACKLOG = 1024
CLOSING_TURNS, FINAL_TURNS = 100, 5
# A burst of new connections must not keep the event loop from those that are served.
ACCEPTS_PER_TURN = 64
OUT_OF_DESCRIPTORS = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)

CertificateSource = Callable[[], Awaitable[ssl.SSLContext]]
"""Returns the TLS context. The listener asks at each handshake, so that the first handshake creates the certificate."""

Preparation = Callable[[bool], Awaitable[None]]
"""Makes ready what a connection needs; True for TLS. A connection waits for it after its first bytes."""

ProtocolFactory = Callable[[bool, float], Served]
"""Builds the protocol of one connection, from: True for TLS; the deadline of the first request, in the loop's time."""


class ListenerLimits(msgspec.Struct, frozen=True):
    """The most `connections` at once, and those `per_address` (further ones are reset); seconds of `patience` with a new one, and
    of `pause` without descriptors. `listeners`: those of the process, which share its descriptors. `name`: that of the quota.
    `descriptors`: those that one connection takes.
    """

    connections: int = 1000
    patience: float = 5.0
    pause: float = 1.0
    per_address: int = 1000
    listeners: int = 1
    name: str = "connections"
    descriptors: int = 1


class Listener:
    """Serves a protocol on sockets that are already bound."""

    def __init__(
        self,
        build_protocol: ProtocolFactory,
        work: Work,
        certificate: CertificateSource | None,
        limits: ListenerLimits,
        quotas: Quotas | None = None,
        prepare: Preparation | None = None,
    ) -> None:
        """`certificate`: None where the protocol encrypts by itself. `prepare`: awaited before a protocol is built.

        `quotas`: the quotas of the server; the listener has one of them.
        """
        self._build_protocol = build_protocol
        self._certificate = certificate
        self._prepare = prepare
        self._limits = limits
        most = min(limits.connections, max(1, share_descriptors(limits.listeners) // limits.descriptors))
        self.seats = Seats((quotas or Quotas()).get(limits.name, most), limits.per_address)
        self._work = work
        self._spare: int | None = None
        self._sockets: list[socket.socket] = []
        self._silent: set[SilentConnection] = set()
        self._admissions: set[asyncio.Task[None]] = set()

    @property
    def connections(self) -> int:
        """The number of connected clients, silent ones included."""
        return len(self._work.connections) + len(self._silent) + len(self._admissions)

    def serve(self, sockets: Sequence[socket.socket]) -> None:
        """Accept connections from now on."""
        self._loop = asyncio.get_running_loop()
        self._sockets = list(sockets)
        self._open_spare()
        for each in sockets:
            each.setblocking(False)
            self._loop.add_reader(each, self._accept, each)

    def _accept(self, listening: socket.socket) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                client, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in OUT_OF_DESCRIPTORS:
                    raise
                if not self._turn_away(listening):
                    self._pause(listening, error)
                    return
                continue
            seat = self.seats.take(address[0])
            if seat is None:
                reset(client)
            else:
                client.setblocking(False)
                client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._silent.add(SilentConnection(self, client, seat, self._loop, self._limits.patience))

    def _turn_away(self, listening: socket.socket) -> bool:
        """Accept a client with the spare descriptor, and reset it: it would wait for ever. Return False without a spare one."""
        if self._spare is None:
            return False
        os.close(self._spare)
        self._spare = None
        try:
            reset(listening.accept()[0])
        except OSError:
            return False
        finally:
            self._open_spare()
        self.seats.quota.refused += 1
        return True

    def _open_spare(self) -> None:
        with contextlib.suppress(OSError):
            self._spare = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)

    def _pause(self, listening: socket.socket, error: OSError) -> None:
        # The socket stays readable while clients wait: without a pause the loop would spin on accept.
        log.warning("no more connections for a moment: %s", error)
        self._loop.remove_reader(listening)
        self._loop.call_later(self._limits.pause, self._take_up, listening)

    def _take_up(self, listening: socket.socket) -> None:
        if listening in self._sockets:
            self._loop.add_reader(listening, self._accept, listening)

    def forget(self, silent: SilentConnection) -> None:
        """Forget a connection that ended before its protocol was known."""
        self._silent.discard(silent)

    def admit(self, silent: SilentConnection, tls: bool, deadline: float) -> None:
        """Hand over a connection whose client has begun to send."""
        self._silent.discard(silent)
        task = self._loop.create_task(self._admit(silent.socket, silent.seat, tls, deadline))
        self._admissions.add(task)

        def forget_admission(task: asyncio.Task[None]) -> None:
            self._admissions.discard(task)
            if task.cancelled():
                # Cancelled before its first step, the coroutine never ran and could not close the socket.
                silent.socket.close()
                silent.seat.release()

        task.add_done_callback(forget_admission)

    async def _admit(self, client: socket.socket, seat: Seat, tls: bool, deadline: float) -> None:
        def connection() -> Served:
            served = self._build_protocol(tls, deadline)
            served.seat = seat
            return served

        try:
            if self._prepare is not None:
                await self._prepare(tls)
            if not tls or self._certificate is None:
                await self._loop.connect_accepted_socket(connection, client)
                return
            context = await self._certificate()
            left = max(0.001, deadline - self._loop.time())
            await self._loop.connect_accepted_socket(connection, client, ssl=context, ssl_handshake_timeout=left)
        except (OSError, asyncio.CancelledError) as error:
            # A client that does not trust the certificate ends here, as does one that speaks another TLS.
            log.debug("a connection came to nothing: %s", error)
            client.close()
            seat.release()
        except Exception:
            log.exception("a connection could not be served")
            client.close()
            seat.release()

    async def close(self, grace: float) -> None:
        """Accept no more connections, let requests in work finish for up to `grace` seconds, then drop the rest."""
        for each in self._sockets:
            self._loop.remove_reader(each)
            each.close()
        self._sockets.clear()
        if self._spare is not None:
            os.close(self._spare)
            self._spare = None
        for silent in list(self._silent):
            silent.shut()
        for admission in list(self._admissions):
            admission.cancel()
        work = self._work
        for connection in list(work.connections):
            connection.shutdown()
        if work.tasks:
            await asyncio.wait(work.tasks, timeout=grace)
        work.flush()
        for connection in list(work.connections):
            # A TLS transport closes only after the client's close_notify, which may never come.
            connection.abort()
        for task in list(work.tasks):
            task.cancel()
        await asyncio.gather(*work.tasks, *self._admissions, return_exceptions=True)
        # A transport lets go of its socket some turns of the loop after its protocol is told; the loop may end with this call.
        turns = CLOSING_TURNS
        while turns:
            turns = min(turns - 1, CLOSING_TURNS if work.connections else FINAL_TURNS)
            await asyncio.sleep(0)


def is_tls(head: bytes) -> bool | None:
    """Return True if a connection that begins with these bytes uses TLS; None if more bytes are needed.

    One byte is not enough: a message of MongoDB begins with its length, lowest byte first, so one of 278 bytes begins with 0x16.
    Three bytes are enough: a message that begins like a handshake has over 64 KiB, and no client begins with such a message.
    """
    if head[0] != TLS_HANDSHAKE:
        return False
    return None if len(head) < HEAD_BYTES else head in TLS_HEADS


class SilentConnection:
    """A connection whose client has not sent enough bytes to tell TLS from a plain protocol."""

    def __init__(
        self, listener: Listener, client: socket.socket, seat: Seat, loop: asyncio.AbstractEventLoop, patience: float
    ) -> None:
        self.socket = client
        self.seat = seat
        self._listener = listener
        self._loop = loop
        self._deadline = loop.time() + patience
        self._timer = loop.call_at(self._deadline, self._expire)
        self._waits_for_head = False
        loop.add_reader(client, self._peek)

    def _peek(self) -> None:
        try:
            # Peeked, not read: the protocol, or the TLS handshake, must still find the bytes.
            head = self.socket.recv(HEAD_BYTES, socket.MSG_PEEK)
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            head = b""
        if not head:
            self.shut()
            return
        tls = is_tls(head)
        if tls is None:
            self._wait_for_head()
            return
        if self._waits_for_head:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, 1)
        self._leave()
        self._listener.admit(self, tls, self._deadline)

    def _wait_for_head(self) -> None:
        """Have the kernel wait for the rest of the head: a socket with fewer bytes is readable only once the client ends."""
        if self._waits_for_head:
            self.shut()
            return
        # Otherwise the socket would stay readable, and the loop would spin on it.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, HEAD_BYTES)
        self._waits_for_head = True

    def _leave(self) -> None:
        self._timer.cancel()
        self._loop.remove_reader(self.socket)
        self._listener.forget(self)

    def _expire(self) -> None:
        self._leave()
        self.seat.release()
        reset(self.socket)

    def shut(self) -> None:
        """Close without an answer."""
        self._leave()
        self.seat.release()
        self.socket.close()


def reset(client: socket.socket) -> None:
    """Abort with a TCP reset: the client learns of it at once, and no TIME_WAIT stays behind here."""
    with contextlib.suppress(OSError):
        # l_onoff = 1, l_linger = 0: close sends RST instead of FIN.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()


def bind(host: str, port: int, *, listening: bool = True) -> list[socket.socket]:
    """Listening sockets, or with `listening` False ones that only reserve the port. OSError when it is taken.

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
