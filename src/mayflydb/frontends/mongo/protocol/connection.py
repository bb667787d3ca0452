"""One client's connection: bytes to messages, answers to bytes, strictly in order.

A command that waits for nothing is answered within the turn of the event loop in which its last byte arrived. Any other
continues as a task, and later messages wait.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from itertools import count
from weakref import ref

import msgspec

from mayflydb.frontends.mongo.app import Hangup, MongoApp
from mayflydb.frontends.mongo.errors import error_document
from mayflydb.frontends.mongo.protocol import messages as wire
from mayflydb.frontends.mongo.protocol.compression import Codecs
from mayflydb.frontends.mongo.protocol.messages import Message
from mayflydb.frontends.mongo.state import ConnectionState
from mayflydb.query.mongo.values import encode
from mayflydb.sockets.connection import MAX_ANSWERS_PER_TURN, PROGRESS_BYTES, PROGRESS_SECONDS, OrderedConnection
from mayflydb.sockets.in_flight import HEAVY_COPIES, HEAVY_MESSAGE, SMALL, SMALL_ANSWER
from mayflydb.sockets.work import Work

log = logging.getLogger(__name__)

MAX_PIPELINED = 64
"""Maximum messages of one connection that wait for an answer to the message before them."""

GRACE_SECONDS = 0.05
"""The time for the present answer when a client has closed its sending side: it may wait for the answer, or have left."""

MAX_UNAUTHENTICATED_BYTES = 16 * 1024
"""Maximum bytes of a message before a login, where logins are needed."""

MIN_COMPRESSIBLE_BYTES = 1024
"""Minimum bytes of an answer that is worth compressing."""


class ConnectionLimits(msgspec.Struct, frozen=True):
    """Limits of a connection.

    `first`: seconds until the first message must be complete. `idle`: seconds between messages. `message`: bytes.
    """

    first: float = 10.0
    idle: float = 600.0
    message: int = wire.MAX_MESSAGE_BYTES


class ConnectionFactory:
    """Builds the connections of one server, and holds what they share: application, compressors, counters of ids."""

    def __init__(self, app: MongoApp, codecs: Codecs, limits: ConnectionLimits, work: Work) -> None:
        self.app = app
        self.codecs = codecs
        self.limits = limits
        self.work = work
        self.connection_ids = count(1)
        self.reply_ids = count(1)

    def next_reply(self) -> int:
        """The id of an answer: increasing, within an int32."""
        # The id is a signed int32: the mask keeps it positive after 2^31 answers.
        return next(self.reply_ids) & 0x7FFF_FFFF

    def build_connection(self, tls: bool, deadline: float) -> Connection:
        """The protocol of a new connection."""
        return Connection(self, tls, deadline, asyncio.get_running_loop())


class Connection(OrderedConnection[Message, bytes, Message]):
    """The protocol of one connection. `deadline`: the loop's time at which the first message must be complete."""

    def __init__(self, factory: ConnectionFactory, tls: bool, deadline: float, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(factory.work, loop, deadline)
        self._factory = factory
        self._counters = factory.app.services.counters
        # Weak: otherwise a closed connection and its state refer to each other until a full garbage collection.
        cancel = partial(_cancel_answer, ref(self))
        self.state = ConnectionState(next(factory.connection_ids), tls=tls, cancel=cancel)
        self._framer = wire.Framer(factory.codecs.inflate)
        self._set_frame_limits()
        self._answering: Message | None = None
        self._next_progress = 0  # Bytes of an incomplete message from which on its client has more time.

    # --- the transport's calls -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._factory.app.on_connect()
        peer = transport.get_extra_info("peername") or ("", 0)
        self.state.peer = f"{peer[0]}:{peer[1]}"

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        # The answer that is under way keeps this object, and without this the bytes too.
        self._framer.drop()
        self._abandon(self._answering)
        self.state.lock_waits.cancel()
        self._factory.app.on_disconnect(self.state)

    def data_received(self, data: bytes) -> None:
        if self._ended or self._framer.broken is not None:
            return
        self._counters.received += len(data)
        self._take(self._framer.feed(data))

    def _take(self, messages: list[Message]) -> None:
        """Answer messages that are complete, and account for those that are not answered at once."""
        framer = self._framer
        if messages:
            self._counters.requests += len(messages)
            # Only a complete message counts: a client that sends single bytes runs out of time.
            self._expires = self._loop.time() + self._factory.limits.idle
            self._next_progress = 0
            self._waiting.extend(messages)
        self._advance()
        held = framer.held_bytes
        if held and held >= self._next_progress:
            self._expect_progress(held)
        answering = self._answering
        if self._charged or held > SMALL or self._waiting or (answering is not None and answering.size > SMALL):
            self._charge(self._count_held_bytes())
            if held > SMALL and not framer.has_more and not self._await_room(framer.needed_bytes):
                self.abort()
                return
        self._throttle()

    def _count_held_bytes(self) -> int:
        """Return the bytes to charge: of the incomplete message, and of those that wait or are being answered."""
        held = self._framer.held_bytes
        waiting = sum([message.size for message in self._waiting if message.size > SMALL])
        return waiting + self._answering_bytes() + (held if held > SMALL else 0)

    def _expect_progress(self, held: int) -> None:
        """Give the client of an incomplete message a deadline for the next part of it."""
        expires = self._loop.time() + PROGRESS_SECONDS
        if self._next_progress:
            self._expires = expires
        elif expires < self._expires:
            self._expires = expires
            if self._timer is not None and self._timer.when() > expires:
                self._timer.cancel()
                self._timer = self._loop.call_at(expires, self._check_deadline)
        self._next_progress = held + PROGRESS_BYTES

    def _continue(self) -> None:
        self._continuing = None
        if self._may_parse():
            self._take(self._framer.feed())
        else:
            self._advance()
            self._throttle()

    def _may_parse(self) -> bool:
        """Return whether more is to be parsed of what has arrived."""
        framer = self._framer
        ready = framer.has_more and framer.broken is None and not self._ended
        return ready and not self._blocked and len(self._waiting) <= MAX_PIPELINED

    def _answering_bytes(self) -> int:
        answering = self._answering
        if answering is None or answering.size <= SMALL:
            return 0
        return answering.size if answering.size < HEAVY_MESSAGE else answering.size * HEAVY_COPIES

    def eof_received(self) -> bool:
        """Still answer a client that has closed its sending side, and end its waits for locks.

        With TLS, the end concerns both ways.
        """
        self.state.lock_waits.cancel()
        self.shutdown()
        if self.state.tls:
            return False
        if self._answering is not None:
            self._loop.call_later(GRACE_SECONDS, self._abandon, self._answering)
        # True keeps the transport open for the answers. `_end_if_done` closes it after the last one.
        return self._answering is not None or bool(self._waiting) or bool(self._outgoing)

    def cancel_answer(self) -> None:
        """Cancel the task of the message that is being answered, if there is one."""
        if self._task is not None and self._answering is not None:
            self._task.cancel()

    def _abandon(self, message: Message | None) -> None:
        """Stop what the answer to a message computes, if it is still being answered, and its client expects an answer."""
        if message is not None and message is self._answering and not message.without_reply:
            self._factory.app.services.operations.abandon(self.state.id)

    def shutdown(self) -> None:
        self._closing = True
        self._end_if_done()

    def flush(self) -> None:
        outgoing = self._outgoing
        if outgoing and not self._transport.is_closing():
            sent = outgoing[0] if len(outgoing) == 1 else b"".join(outgoing)
            self._counters.sent += len(sent)
            self._transport.write(sent)
        outgoing.clear()
        if self._unread:
            self._resume_answers()
        if self._ended:
            self._transport.close()

    # --- in and out ------------------------------------------------------------------------------------------------------

    def _set_frame_limits(self) -> None:
        """Limit the messages of a client that is not logged in."""
        # Called after each answer, because the command may have logged the client in or out.
        is_known = self.state.user is not None or not self._factory.app.services.options.auth
        limit = self._factory.limits.message
        self._framer.accepts_compressed, self._framer.limit = (
            is_known,
            limit if is_known else min(MAX_UNAUTHENTICATED_BYTES, limit),
        )

    def _throttle(self) -> None:
        """Stop reading while too many messages wait, or while the client does not read its answers."""
        full = self._blocked or self._starved or self._framer.has_more or len(self._waiting) > MAX_PIPELINED
        if full != self._paused:
            self._set_paused(full)
            if not full and self._framer.held_bytes:
                self._expires = self._loop.time() + PROGRESS_SECONDS

    def _advance(self) -> None:
        allowance = MAX_ANSWERS_PER_TURN
        while self._waiting and not (self._answering or self._blocked or self._ended):
            if not allowance:
                self._continue_later()
                return
            allowance -= 1
            message = self._waiting.popleft()
            # Before `_run`: an answer without waits resets it within that call.
            self._answering = message
            answering = self._factory.app.answer(message, self.state)
            self._run(
                message, answering if message.size < HEAVY_MESSAGE else self._work.in_flight.work_in_turn(answering)
            )
        if self._framer.has_more and self._may_parse():
            self._continue_later()
        self._end_if_done()

    def _end_if_done(self) -> None:
        if self._answering or self._waiting or self._ended or self._framer.has_more:
            return
        broken = self._framer.broken
        # Messages before the broken bytes are answered first: the client counts answers.
        if broken is not None:
            log.debug("the connection of %s ends: %s", self.state.peer, broken.text)
            if broken.code:
                message = Message(broken.request, wire.OP_MSG, b"", {})
                self._send(message, encode(error_document(broken.code, broken.text)))
            self._end()
        elif self._closing:
            self._end()

    def _fail(self, request: Message, error: Exception) -> None:
        """End the connection where the application hangs up. The application answers all other errors itself."""
        if not isinstance(error, Hangup):
            raise error
        self._finish_answering()
        self._end()

    def _finish_answering(self) -> None:
        self._answering = None
        if self._charged:
            self._charge_rest()

    def _charge_rest(self) -> None:
        """Charge what is held after an answer, which makes room for the messages of others."""
        self._charge(self._count_held_bytes())
        if not self._charged:
            self._work.in_flight.leave(self)

    def _respond(self, request: Message, answer: bytes) -> None:
        self._answering = None
        if self._charged:
            self._charge_rest()
        if self._ended or self._transport.is_closing():
            return
        self._set_frame_limits()
        if not request.without_reply:
            self._send(request, answer)
        if self.state.closing:
            self._end()

    def _send(self, message: Message, document: bytes) -> None:
        frame = wire.build_reply(message, document, self._factory.next_reply())
        if message.compressor and len(frame) >= MIN_COMPRESSIBLE_BYTES:
            frame = self._factory.codecs.compress(frame, message.compressor)
        if not self._outgoing:
            self._work.post(self)
        self._outgoing.append(frame)
        if len(frame) > SMALL_ANSWER:
            self._await_taking(len(frame))

    def _check_deadline(self) -> None:
        now = self._loop.time()
        # The timer is not moved with each message, which would cost more than most messages: it looks again when it
        # fires. A client whose message is not read, for its messages before that one, is not late with it.
        waits = self._answering is not None and not self._framer.held_bytes
        if self._expires > now or waits or (self._paused and not self._starved):
            self._timer = self._loop.call_at(max(self._expires, now + 1.0), self._check_deadline)
        else:
            self.abort()


def _cancel_answer(connection: ref[Connection]) -> None:
    # While an answer is under way, its task keeps the connection.
    found = connection()
    if found is not None:
        found.cancel_answer()
