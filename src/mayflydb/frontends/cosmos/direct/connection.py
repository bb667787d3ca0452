"""One client's connection in direct mode: frames to requests, answers to frames, in the order in which answers are ready.

A client sends up to some thirty requests without waiting, and gives each of them a few seconds. So a slow query must not hold
the reads behind it: requests are answered side by side, while all limits are those of a connection by HTTP.
"""

from __future__ import annotations

import asyncio
import logging
from math import inf
from typing import Final

import msgspec

from mayflydb.frontends.cosmos.direct import answers, frames
from mayflydb.frontends.cosmos.direct.frames import Addressee, RequestHead
from mayflydb.frontends.cosmos.direct.requests import Entry, to_http
from mayflydb.frontends.cosmos.direct.shapes import KnownShapes
from mayflydb.frontends.cosmos.direct.tokens import Malformed
from mayflydb.frontends.cosmos.errors import ANSWERS
from mayflydb.frontends.cosmos.headers import CONTENT_LENGTH
from mayflydb.http.connection import MAX_UNREAD_BODY, HttpWork
from mayflydb.http.messages import Request, Response
from mayflydb.http.refusals import FAILED, OVERLOADED_ANSWER
from mayflydb.model.errors import MayflyError
from mayflydb.sockets.connection import MAX_ANSWERS_PER_TURN, OrderedConnection
from mayflydb.sockets.in_flight import SMALL, SMALL_ANSWER
from mayflydb.sockets.work import Served
from mayflydb.version import __version__

log = logging.getLogger(__name__)

MAX_IN_WORK: Final = 64
"""Requests of one connection that are answered side by side. Clients send 30 unless they are told otherwise."""

MAX_WAITING: Final = 64
"""Requests that may wait for those."""

UNCHARGED: Final = SMALL // 8
"""Bytes of a payload that are not charged. By HTTP they are more, and a connection has fewer requests at a time."""

IDLE_SECONDS: Final = 1800
"""Seconds without a request after which a connection is closed. Clients keep connections, and open another one silently."""

AGENT: Final = b"Mayfly"
VERSION: Final = f"mayfly/{__version__}".encode()


def build_if_direct(head: bytes, work: HttpWork, deadline: float) -> Served | None:
    """Return the protocol of a client in direct mode; None if the first bytes are not those of one."""
    if not frames.begins_context(head):
        return None
    return DirectConnection(work, asyncio.get_running_loop(), deadline)


_SHAPES: Final = KnownShapes()


class DirectConnection(OrderedConnection[Entry, Response, Entry]):
    """The protocol of one connection. `deadline`: the time of the loop at which its first frame must be complete."""

    __slots__ = (
        "_buffer", "_frames", "_handler", "_in_work", "_limits", "_more", "_opened", "_receiving", "_timed", "_unread_body",
    )  # fmt: skip

    def __init__(self, work: HttpWork, loop: asyncio.AbstractEventLoop, deadline: float) -> None:
        super().__init__(work, loop, deadline)
        self._handler = work.handler
        self._limits = work.limits
        self._buffer = bytearray()
        self._opened = False
        self._more = False  # What has arrived is not parsed, for the requests before it.
        self._receiving: Request | None = None  # Its payload has not arrived.
        self._unread_body = 0  # Bytes of the payload that are to come.
        self._in_work: set[Request] = set()
        self._frames = 0  # Frames and payloads that are complete.
        self._timed: tuple[str, int] = ("", 0)  # That for which the deadline is set.

    # --- the transport's calls -------------------------------------------------------------------------------------------

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._receiving is not None:
            self._receiving.cut()
            self._receiving.wanted = None
            self._receiving = None
        for request in self._in_work:
            if request.on_leave is not None:
                request.on_leave()
        self._buffer.clear()

    def data_received(self, data: bytes) -> None:
        if self._ended:
            return
        if not self._buffer:
            self._take(data)
        else:
            self._buffer += data
            if not self._more:
                self._take(self._buffer)
        self._throttle()

    def shutdown(self) -> None:
        """Close the connection after the requests so far are answered."""
        self._closing = True
        self._end_if_done()

    def flush(self) -> None:
        """Send the answers that are ready."""
        outgoing = self._outgoing
        if not self._transport.is_closing():
            # Each in a TLS record of its own: of two answers in one record, Java's client writes the second over the payload of
            # the first (`discardReadBytes` in RntbdResponseDecoder of azure-cosmos 4.81). A TLS transport encrypts each of these
            # by itself, and sends the records together.
            self._transport.writelines(outgoing)
        outgoing.clear()
        if self._unread:
            self._resume_answers()
        if self._ended:
            self._transport.close()

    # --- in --------------------------------------------------------------------------------------------------------------

    def _continue(self) -> None:
        self._continuing = None
        self._take(self._buffer)
        self._throttle()

    def _take(self, source: bytes | bytearray) -> None:
        """Parse what has arrived, as far as there is room for requests, and begin to answer them. Keep the rest."""
        self._more = False
        allowance = MAX_ANSWERS_PER_TURN
        position = 0
        try:
            while not self._ended and not self._closing:
                if not allowance or self._blocked or len(self._waiting) >= MAX_WAITING:
                    self._more = position < len(source)
                    break
                taken = self._take_one(source, position)
                if taken is None:
                    break
                position += taken
                self._frames += self._receiving is None
                allowance -= 1
                self._begin_waiting()
        except Malformed as broken:
            log.debug("the connection of %s ends: %s", self.address, broken)
            # Nothing more is answered: where the next frame would begin is not known. Requests in work lose their client.
            position = len(source)
            self._end()
        if source is self._buffer:
            del self._buffer[:position]
        else:
            self._buffer += source[position:]
        self._set_deadline()
        if self._more and not allowance:
            self._continue_later()

    def _take_one(self, source: bytes | bytearray, position: int) -> int | None:
        """Take the next frame, or a part of the payload that is under way. Return its bytes; None if they have not arrived."""
        if self._receiving is not None:
            return self._take_payload(self._receiving, source, position)
        size = frames.frame_size(source, position)
        if size is None or len(source) - position < size:
            return None
        frame = bytes(source[position : position + size])
        if not self._opened:
            self._open(frames.parse_request(frame))
            return size
        entry = _SHAPES.translate(frame) or _translate(frame)
        payload = 0
        if entry.has_payload:
            announced = frames.payload_size(source, position + size)
            if announced is None:
                return None
            payload = announced
            size += frames.LENGTH.size
        self._begin(entry, payload)
        return size

    def _open(self, head: RequestHead) -> None:
        if not frames.is_context(head):
            raise Malformed("a request comes before the connection is opened")
        self._write(frames.build_context_answer(head, AGENT, VERSION, IDLE_SECONDS))
        self._opened = True

    def _begin(self, entry: Entry, payload: int) -> None:
        """Queue a request whose payload is to come."""
        request = entry.request
        if entry.refusal is not None:
            self._refuse(entry.addressee, entry.refusal)
        else:
            if entry.has_payload:
                request.headers[CONTENT_LENGTH] = b"%d" % payload
            request.peer = self
            self._waiting.append(entry)
        if payload:
            self._receiving, self._unread_body = request, payload
        else:
            request.end()

    def _take_payload(self, request: Request, source: bytes | bytearray, position: int) -> int | None:
        part = bytes(source[position : position + min(self._unread_body, MAX_UNREAD_BODY)])
        if not part:
            return None
        self._unread_body -= len(part)
        request.feed(part)
        if request.size > UNCHARGED:
            self._charge(self._charged + request.size - request.charged)
            request.charged = request.size
        if not self._unread_body:
            self._receiving = None
            request.wanted = None
            request.end()
            if request.charged:
                self._work.in_flight.leave(self)
        elif request.charged and not self._await_room(request.size):
            self._drop_payload(request)
        return len(part)

    def _drop_payload(self, request: Request) -> None:
        """Refuse a request, for which the server has no room, and read the rest of its payload without keeping it."""
        self._charge(self._charged - request.charged)
        request.charged = 0
        request.wanted = None
        request.cut(overloaded=True)
        request.drop()
        self._receiving = _build_sink()
        self._work.in_flight.leave(self)

    def _on_body_wanted(self) -> None:
        self._throttle()

    def _throttle(self) -> None:
        """Read on, unless the client is ahead with requests or behind in taking answers."""
        receiving = self._receiving
        full = (
            self._blocked
            or self._starved
            or self._more
            or (receiving is not None and receiving.backlog > MAX_UNREAD_BODY)
        )
        if full != self._paused:
            self._set_paused(full)
            self._set_deadline()

    # --- out -------------------------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        self._begin_waiting()
        self._set_deadline()
        if self._more and not self._blocked and len(self._waiting) < MAX_WAITING:
            self._continue_later()
        self._end_if_done()

    def _begin_waiting(self) -> None:
        """Begin to answer the requests for which there is room."""
        waiting, in_work = self._waiting, self._in_work
        while waiting and len(in_work) < MAX_IN_WORK and not (self._blocked or self._ended):
            entry = waiting.popleft()
            request = entry.request
            in_work.add(request)
            if not request.ended:
                request.wanted = self._on_body_wanted
            self._run(entry, self._handler(request))

    def _end_if_done(self) -> None:
        if self._closing and not self._ended and not self._in_work and not self._waiting:
            self._end()

    def _answering_bytes(self) -> int:
        return sum([request.charged for request in self._in_work])

    def hold(self, request: Request, size: int) -> bool:
        """See `Peer.hold`. Nothing is charged for the answer of a connection that has ended."""
        if request not in self._in_work or not self._work.in_flight.may_hold(size):
            return False
        request.charged += size
        self._charge(self._charged + size)
        return True

    def release(self, request: Request, size: int) -> None:
        """See `Peer.release`. The bytes of a request that is answered are not charged any more."""
        if request in self._in_work:
            request.charged -= size
            self._charge(self._charged - size)

    def release_body(self, request: Request, size: int) -> None:
        """See `Peer.release_body`."""
        if request.charged and request in self._in_work:
            self._charge(self._charged - request.charged)
            request.charged = 0

    @property
    def turns(self) -> asyncio.Semaphore:
        return self._work.in_flight.turns

    def _fail(self, request: Entry, error: Exception) -> Response:
        log.error("a request was not answered: %s", request.request.method, exc_info=error)
        return FAILED

    def _refuse(self, addressee: Addressee, error: MayflyError) -> None:
        """Answer a request that could not be translated."""
        answer = ANSWERS[type(error)]
        body = msgspec.json.encode({"code": answer.code, "message": error.message})
        self._send(addressee, Response(answer.status, body))

    def _respond(self, request: Entry, answer: Response) -> None:
        arrived = request.request
        self._in_work.discard(arrived)
        if arrived.charged:
            self._charge(self._charged - arrived.charged)
            arrived.charged = 0
        if self._ended or self._transport.is_closing():
            return
        if not arrived.ended:
            arrived.drop()
        if len(answer.body) > SMALL_ANSWER and not self._work.in_flight.may_hold(len(answer.body)):
            if arrived.method not in ("GET", "HEAD"):
                # It may have changed something, so that no answer would be true.
                self.abort()
                return
            answer = OVERLOADED_ANSWER
        self._send(request.addressee, answer)

    def _send(self, addressee: Addressee, answer: Response) -> None:
        try:
            data = answers.build(addressee, answer)
        except ValueError:
            log.exception("an answer has a header that no token can carry")
            data = answers.build(addressee, FAILED)
        self._write(data)

    def _write(self, data: bytes) -> None:
        if not self._outgoing:
            self._work.post(self)
        self._outgoing.append(data)
        if len(data) > SMALL_ANSWER:
            self._await_taking(len(data))

    # --- patience --------------------------------------------------------------------------------------------------------

    def _set_deadline(self) -> None:
        """Give a frame or a payload that has begun the time of one by HTTP as a whole, and a silent client IDLE_SECONDS."""
        if not self._opened:
            return  # The deadline of a new connection stays.
        deadlines = self._limits.deadlines
        if self._paused or self._more:
            state, seconds = "waits", inf
        elif self._receiving is not None:
            state, seconds = "payload", deadlines.body
        elif self._buffer:
            state, seconds = "frame", deadlines.head
        else:
            state, seconds = ("answers", inf) if self._in_work else ("idle", IDLE_SECONDS)
        if (state, self._frames) != self._timed:
            self._timed = (state, self._frames)
            self._expires = self._loop.time() + seconds

    def _check_deadline(self) -> None:
        now = self._loop.time()
        if self._expires <= now:
            self.abort()
        else:
            self._timer = self._loop.call_at(
                min(self._expires, now + self._limits.deadlines.head), self._check_deadline
            )


def _translate(frame: bytes) -> Entry:
    """Translate a request whose shape is not known. Malformed if the frame is no request."""
    head = frames.parse_request(frame)
    if frames.is_context(head):
        raise Malformed("a connection is opened twice")
    try:
        request = to_http(head)
    except MayflyError as error:
        return Entry(head.addressee, _build_sink(), head.has_payload, error)
    _SHAPES.learn(frame, head, request)
    return Entry(head.addressee, request, head.has_payload)


def _build_sink() -> Request:
    """Return a request that keeps nothing of the payload it is given."""
    sink = Request("POST", b"/", {})
    sink.drop()
    return sink
