"""One client's connection: bytes to requests, responses to bytes, in the order they came, with deadlines and limits.

The parser is httptools (llhttp). Whatever can be answered without waiting is answered at once, in the turn of the event loop
in which its last byte came; the rest goes on as a task.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from math import inf

import msgspec
from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from mayflydb.http import http2
from mayflydb.http.heads import line_size, split_absolute_target
from mayflydb.http.messages import Handler, Request, Response, render
from mayflydb.http.refusals import FAILED, HEAD_TOO_LARGE, OVERLOADED_ANSWER, Refused, refusal_of, refuse_doubled
from mayflydb.sockets.connection import MAX_ANSWERS_PER_TURN, OrderedConnection
from mayflydb.sockets.in_flight import SMALL, SMALL_ANSWER, BytesInFlight
from mayflydb.sockets.work import Work

log = logging.getLogger(__name__)

MAX_UNREAD_BODY = 64 * 1024
"""Unread bytes of a body at which reading from the socket pauses."""

PACE = 256 * 1024
"""Bytes of a body in parts that a client must send within the time of a body."""

FRAMING = frozenset({b"content-length", b"transfer-encoding"})
"""Headers that say how long a body is."""

SINGLE_HEADERS = frozenset({b"authorization", b"content-length", b"host", b"origin"})
"""Headers of which a request has one: of two, a proxy may go by one and this server by the other (RFC 9112, 3.2 and 11.2)."""

MAX_PIPELINED = 16
"""Requests that may wait for the one before them."""

SLICE = 4 * 1024
"""Bytes that are parsed at a time: many requests may be in what one read of the socket has returned."""

BODY_SLICE = 64 * 1024
"""Bytes that are parsed at a time within a body."""

MAX_NAMES, MAX_NAME_BYTES = 256, 64
"""The names of headers that are kept with their lower case, and their length: clients choose them."""

_LOWER_CASE: dict[bytes, bytes] = {}


class Deadlines(msgspec.Struct, frozen=True):
    """Seconds a client may take; `head` counts from the connection's start for the first request."""

    head: float = 5.0
    body: float = 30.0
    idle: float = 120.0
    pause: float = 1.0


class Limits(msgspec.Struct, frozen=True):
    """`connections` at once and `per_address` (the rest are reset), bytes of one request's headers.

    `listeners`: those of the process, which share its descriptors.
    """

    connections: int = 1000
    per_address: int = 1000
    listeners: int = 1
    head: int = 32 * 1024
    deadlines: Deadlines = Deadlines()


class HttpWork(Work):
    """The handler and the limits that the connections of one listener share."""

    def __init__(self, handler: Handler, limits: Limits, in_flight: BytesInFlight | None = None) -> None:
        super().__init__(in_flight)
        self.handler = handler
        self.limits = limits


IDLE, HEAD, BODY = range(3)


class Connection(OrderedConnection[Request, Response, Request | Response]):
    """The protocol of one connection. `deadline`: the time of the loop at which the first request's headers must be complete."""

    __slots__ = (
        "_arrived", "_current", "_declining", "_due", "_fields", "_handler", "_head", "_limits", "_parser", "_receiving",
        "_refused", "_room", "_scheme", "_stage", "_taken", "_timed", "_unparsed", "_url",
    )  # fmt: skip

    def __init__(self, work: HttpWork, scheme: str, deadline: float, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(work, loop, deadline)
        self._handler = work.handler
        self._limits = work.limits
        self._scheme = scheme
        # What comes in.
        self._parser = HttpRequestParser(self)
        self._url = b""
        self._fields: dict[bytes, bytes] = {}
        self._arrived = 0  # Bytes since the last message, or part of a body, was complete.
        self._head = 0  # Bytes of headers and trailers; counted from the first trailer on.
        self._stage = HEAD
        self._receiving: Request | None = None
        self._taken = 0  # Bytes of a body that its handler has taken since its time began.
        self._refused = False
        self._declining: http2.Declining | None = None
        self._unparsed = b""  # What has arrived behind the requests that are answered first.
        # What goes out.
        self._current: Request | None = None
        self._room: asyncio.Future[None] | None = None  # A stream waits for its client.
        # The stage whose deadline is set. The timer is moved only to an earlier time; one that fires too early is set again.
        self._timed = HEAD
        self._due = deadline

    # --- the transport's calls -------------------------------------------------------------------------------------------

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._receiving is not None:
            self._receiving.cut()
            # The request refers back to this object: without the cycle both are freed at once, with the bytes of the body.
            self._receiving.wanted = None
            self._receiving = None
        if self._current is not None and self._current.on_leave is not None:
            self._current.on_leave()
        # The parser refers back to this object: without the cycle both are freed at once, with the bytes of a header in work.
        del self._parser

    def data_received(self, data: bytes) -> None:
        if self._refused:
            if self._declining is not None:
                self._decline(self._declining, data)
            return
        if self._unparsed:
            self._unparsed += data
            return
        if len(data) <= SLICE:
            self._take(data)
        else:
            self._take_slices(data)
        receiving = self._receiving
        if receiving is not None and receiving.charged and not self._await_room(receiving.size):
            self._refuse(OVERLOADED_ANSWER, overloaded=True)
        if self._stage != self._timed:
            self._start_stage(self._stage)
        if receiving is not None or self._waiting or self._paused or self._unparsed:
            self._throttle()

    def _take(self, data: bytes) -> None:
        """Parse, and answer what can be answered."""
        if self._arrived > self._limits.head:
            # The parser keeps headers and trailers that never end, so it gets no more of them.
            self._refuse(HEAD_TOO_LARGE)
            return
        self._arrived += len(data)
        try:
            self._parser.feed_data(data)
        except HttpParserUpgrade as upgrade:
            self._ignore_upgrade(data[upgrade.args[0] :])
        except HttpParserError as error:
            self._stop_parsing(error, data)
        if self._waiting:
            self._advance()

    def _take_slices(self, data: bytes) -> None:
        """Take the first requests, or a body. Requests behind them wait for a later turn of the loop."""
        while data and not self._refused:
            size = SLICE if self._receiving is None else BODY_SLICE
            part, data = data[:size], data[size:]
            self._take(part)
            if data and self._receiving is None and not self._refused:
                self._unparsed = data
                self._continue_later()
                return
        if data and self._declining is not None:
            self._decline(self._declining, data)

    def _continue(self) -> None:
        self._continuing = None
        self._advance()
        if self._may_parse():
            data, self._unparsed = self._unparsed, b""
            self.data_received(data)
        self._throttle()

    def _may_parse(self) -> bool:
        """Return whether more is to be parsed of what has arrived."""
        return bool(self._unparsed) and not (self._blocked or self._refused or len(self._waiting) > MAX_PIPELINED)

    def shutdown(self) -> None:
        """Close the connection after the requests so far are answered."""
        self._closing = True
        if self._current is None and not self._waiting:
            self._end()

    def flush(self) -> None:
        """Send the answers that are ready."""
        outgoing = self._outgoing
        if not self._transport.is_closing():
            self._transport.write(outgoing[0] if len(outgoing) == 1 else b"".join(outgoing))
        outgoing.clear()
        if self._unread:
            self._resume_answers()
        if self._ended:
            self._transport.close()

    # --- in --------------------------------------------------------------------------------------------------------------

    def _stop_parsing(self, error: HttpParserError, data: bytes) -> None:
        """Refuse what the parser has stopped at in `data`."""
        rest = self._after_preface(data)
        if rest is None:
            self._refuse(refusal_of(error))
            return
        self._refused = True
        self._write(http2.SETTINGS)
        self._declining = http2.Declining()
        self._decline(self._declining, rest)

    def _after_preface(self, data: bytes) -> bytes | None:
        """The bytes behind the preface of HTTP/2 in `data`, at which the parser has stopped; None without a preface."""
        asked = self._current is not None or self._waiting
        return None if asked or self._parser.get_method() != http2.METHOD else http2.after_preface(data)

    def _decline(self, declining: http2.Declining, data: bytes) -> None:
        """Tell a client of HTTP/2 to use HTTP/1.1. The client closes; until then it has the time of a request's head."""
        answer = declining.feed(data)
        if answer:
            self._write(answer)

    def _ignore_upgrade(self, rest: bytes) -> None:
        """Stay with HTTP/1.1 after a request to upgrade (RFC 9110, 7.8), for which the parser has stopped."""
        self._parser = HttpRequestParser(self)
        if self._receiving is not None:
            # To the new parser the body is that of a request which it sees only now.
            framing = [(name, value) for name, value in self._fields.items() if name in FRAMING]
            rest = b"\r\n".join([b"POST / HTTP/1.1", *map(b": ".join, framing), b"", rest])
        if rest:
            self._arrived -= len(rest)  # It is counted already.
            self._take(rest)

    def on_message_begin(self) -> None:
        """The parser's call, as the five that follow."""
        if self._receiving is not None:
            return
        self._url = b""
        self._fields = {}
        self._head = 0
        self._stage = HEAD

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        name = _LOWER_CASE.get(name) or _to_lower_case(name)
        if self._receiving is not None:
            self._drop_trailer(name, value)
            return
        fields = self._fields
        if name in fields and name in SINGLE_HEADERS:
            raise Refused(refuse_doubled(name))
        fields[name] = value

    def _drop_trailer(self, name: bytes, value: bytes) -> None:
        """None has a meaning here (RFC 9110, 6.5.1); together with the headers they have the head's limit."""
        if not self._head:
            self._head = self._head_size()
        self._head += line_size(name, value)
        if self._head > self._limits.head:
            raise Refused(HEAD_TOO_LARGE)

    def _head_size(self) -> int:
        size = len(self._parser.get_method()) + len(self._url) + len("  HTTP/1.1\r\n\r\n")
        return size + sum(line_size(name, value) for name, value in self._fields.items())

    def on_headers_complete(self) -> None:
        if self._receiving is not None:
            return
        parser, url, fields = self._parser, self._url, self._fields
        method = parser.get_method()
        if self._arrived > self._limits.head and self._head_size() > self._limits.head:
            raise Refused(HEAD_TOO_LARGE)
        keep_alive = parser.should_keep_alive()
        # Before 1.1 a connection is kept only where a header asks for it. To ask for the version formats a text.
        if not keep_alive or b"connection" in fields:
            version = parser.get_http_version()
            if version not in ("1.1", "1.0"):
                raise HttpParserError(f"HTTP/{version}")
            keep_alive = keep_alive and version == "1.1"
        path, _, query = url.partition(b"?")
        if not url.startswith(b"/"):
            path, query = split_absolute_target(url)
        self._stage = BODY
        self._taken = 0
        request = self._receiving = Request(method.decode(), path, fields, query, self._scheme)
        request.keep_alive = keep_alive
        request.peer = self
        self._waiting.append(request)

    def on_body(self, data: bytes) -> None:
        request = self._receiving
        assert request is not None
        self._arrived = 0
        request.feed(data)
        if request.size > SMALL:
            self._charge(self._charged + request.size - request.charged)
            request.charged = request.size

    def on_message_complete(self) -> None:
        assert self._receiving is not None
        if self._parser.should_upgrade() and not FRAMING.isdisjoint(self._fields):
            return
        self._receiving.end()
        if self._receiving.charged:
            self._work.in_flight.leave(self)
        self._receiving = None
        self._stage = IDLE
        self._arrived = 0

    def _on_body_wanted(self) -> None:
        request = self._receiving
        if request is not None and request is self._current:
            if request.headers.get(b"expect", b"").lower() == b"100-continue":
                self._write(b"HTTP/1.1 100 Continue\r\n\r\n")
                request.headers.pop(b"expect")
            self._throttle()

    def _throttle(self) -> None:
        """Read on, unless the client is ahead with requests or behind in taking answers."""
        receiving = self._receiving
        full = (
            self._blocked
            or self._starved
            or self._unparsed != b""
            or len(self._waiting) > MAX_PIPELINED
            or (receiving is not None and receiving.backlog > MAX_UNREAD_BODY)
        )
        if full != self._paused:
            self._set_paused(full)

    def _refuse(self, response: Response, *, overloaded: bool = False) -> None:
        """Refuse the request that cannot be taken: answer those before it, then send `response`, then close."""
        self._refused = True
        request, self._receiving = self._receiving, None
        if request is None:
            self._waiting.append(response)
            self._advance()
        elif request is self._current or request in self._waiting:
            # The handler that reads the body gets an error from `read` and answers with it.
            request.keep_alive = False
            request.cut(overloaded=overloaded)
        else:
            self._end()

    # --- out -------------------------------------------------------------------------------------------------------------

    def _advance(self) -> None:
        if self._room is not None and not self._blocked and not self._room.done():
            self._room.set_result(None)
        allowance = MAX_ANSWERS_PER_TURN
        while self._waiting and self._current is None and not self._blocked:
            if not allowance:
                self._continue_later()
                return
            allowance -= 1
            following = self._waiting.popleft()
            if isinstance(following, Response):
                self._send(following, close=True)
            else:
                self._current = following
                if self._stage == IDLE:
                    self._expires = inf  # What is missing now is the answer.
                if not following.ended:
                    following.wanted = self._on_body_wanted
                self._run(following, self._handler(following))
        if self._unparsed and self._may_parse():
            self._continue_later()

    def _answering_bytes(self) -> int:
        return 0 if self._current is None else self._current.charged

    def hold(self, request: Request, size: int) -> bool:
        """See `Peer.hold`. Nothing is charged for the answer of a connection that has ended."""
        if request is not self._current or not self._work.in_flight.may_hold(size):
            return False
        request.charged += size
        self._charge(self._charged + size)
        return True

    def release(self, request: Request, size: int) -> None:
        """See `Peer.release`. The bytes of a request that is answered are not charged any more."""
        if request is self._current:
            request.charged -= size
            self._charge(self._charged - size)

    def release_body(self, request: Request, size: int) -> None:
        """See `Peer.release_body`. The rest of a body has the time of a body anew with each PACE bytes."""
        self._taken += size
        if self._taken >= PACE:
            self._taken = 0
            if self._stage == BODY and request is self._receiving:
                self._expires = self._loop.time() + self._limits.deadlines.body
        if request.charged and request is self._current:
            self._charge(self._charged - request.charged)
            request.charged = 0
            self._work.in_flight.leave(self)

    @property
    def turns(self) -> asyncio.Semaphore:
        return self._work.in_flight.turns

    def _fail(self, request: Request, error: Exception) -> Response:
        log.error("a request was not answered: %s", request.method, exc_info=error)
        return FAILED

    def _respond(self, request: Request, answer: Response) -> None:
        self._current = None
        if request.charged:
            self._charge(self._charged - request.charged)
            request.charged = 0
        if self._ended or self._transport.is_closing():
            return
        close = self._closing or not request.keep_alive
        if not request.ended:
            request.drop()
            # A client that waits to be told to go on with its body will not send it now.
            close = close or b"expect" in request.headers
        if self._stage == IDLE:
            self._expire_at(self._loop.time() + self._limits.deadlines.idle)
        if answer.stream is not None and request.method != "HEAD":
            self._begin_stream(request, answer, answer.stream, close)
            return
        if len(answer.body) > SMALL_ANSWER and not self._work.in_flight.may_hold(len(answer.body)):
            if request.method not in ("GET", "HEAD"):
                # It may have changed something, so that no answer would be true.
                self.abort()
                return
            answer = OVERLOADED_ANSWER
        self._send(answer, close, request.method == "HEAD")

    def _send(self, response: Response, close: bool, head_only: bool = False) -> None:
        try:
            data = render(response, head_only=head_only, close=close)
        except ValueError:
            log.exception("an answer has a header that cannot be sent")
            data = render(FAILED, close=close)
        self._write(data)
        if close:
            self._end()

    def _begin_stream(
        self, request: Request, answer: Response, stream: AsyncGenerator[bytes, None], close: bool
    ) -> None:
        """Send the head, and the parts of the body as they are made. The request is in work until the last of them."""
        self._current, self._expires = request, inf
        self._write(render(answer, close=close))
        task = self._loop.create_task(self._send_stream(stream, close))
        self._work.tasks.add(task)
        task.add_done_callback(self._work.tasks.discard)
        request.on_leave = lambda: _cancel(task)

    async def _send_stream(self, stream: AsyncGenerator[bytes, None], close: bool) -> None:
        try:
            async for part in stream:
                if not part:
                    # As a chunk it would end the body, and the end after it would begin the next answer.
                    continue
                self._write(part if close else b"%x\r\n%b\r\n" % (len(part), part))
                # The transport is given the part at the end of this turn, and says then whether the client is behind.
                await asyncio.sleep(0)
                while self._blocked:
                    self._room = self._loop.create_future()
                    await self._room
        except asyncio.CancelledError:
            self.abort()
            raise
        except Exception:
            log.exception("the rest of an answer could not be sent")
            # Without its end the client knows that something is missing.
            self.abort()
            return
        finally:
            await stream.aclose()
        self._current = None
        if close:
            self._end()
            return
        self._write(b"0\r\n\r\n")
        self._expire_at(self._loop.time() + self._limits.deadlines.idle)
        if self._closing:
            self._end()
        self._advance()
        self._throttle()

    def _write(self, data: bytes) -> None:
        if not self._outgoing:
            self._work.post(self)
        self._outgoing.append(data)
        if len(data) > SMALL_ANSWER:
            self._await_taking(len(data))

    def _end(self) -> None:
        """Close as soon as everything is sent; further requests are ignored."""
        self._refused = True
        super()._end()

    # --- patience --------------------------------------------------------------------------------------------------------

    def _start_stage(self, stage: int) -> None:
        self._timed = stage
        deadlines = self._limits.deadlines
        if stage != IDLE:
            self._expire_at(self._loop.time() + (deadlines.head if stage == HEAD else deadlines.body))
        elif self._current is None:
            self._expire_at(self._loop.time() + deadlines.idle)
        else:
            self._expires = inf  # The body has come: what is missing now is the answer.

    def _expire_at(self, moment: float) -> None:
        self._expires = moment
        if moment < self._due and self._timer is not None:
            self._timer.cancel()
            self._set_timer(moment)

    def _set_timer(self, moment: float) -> None:
        self._due = moment
        self._timer = self._loop.call_at(moment, self._check_deadline)

    def _check_deadline(self) -> None:
        if self._expires <= self._loop.time():
            self.abort()
        else:
            self._set_timer(min(self._expires, self._loop.time() + self._limits.deadlines.idle))


def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()


def _to_lower_case(name: bytes) -> bytes:
    lower = name.lower()
    if len(_LOWER_CASE) < MAX_NAMES and len(name) <= MAX_NAME_BYTES:
        _LOWER_CASE[name] = lower
    return lower
