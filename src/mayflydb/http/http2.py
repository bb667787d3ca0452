"""The refusal of HTTP/2: a client that begins with it is told, in frames of HTTP/2, to use HTTP/1.1 (RFC 9113).

Clients that try HTTP/2 first continue with HTTP/1.1 at once when their request is reset with HTTP_1_1_REQUIRED. A connection that
is closed, or an answer in HTTP/1.1, is a failure to them.
"""

from __future__ import annotations

import struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
METHOD = b"PRI"

FRAMES = 16
"""Frames to wait for until one of them is a request."""

_HEAD = struct.Struct(">BHBBL")
"""The head of a frame (RFC 9113, 4.1), of 9 bytes: length of the payload (24 bits, in two fields), type, flags, stream.

    | length: 8 + 16 | type: 8 | flags: 8 | reserved: 1, stream: 31 |
"""

_HEADERS, _RST_STREAM, _SETTINGS, _GOAWAY = 1, 3, 4, 7
_ACK = 1
_HTTP_1_1_REQUIRED = 0xD
_STREAM = 0x7FFFFFFF


def after_preface(data: bytes) -> bytes | None:
    """The bytes behind the end of the preface, with which `data` begins in whole or in part; None where it does not."""
    for length in range(min(len(PREFACE), len(data)), 0, -1):
        if data.startswith(PREFACE[-length:]):
            return data[length:]
    return None


def _frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    return _HEAD.pack(0, len(payload), kind, flags, stream) + payload


SETTINGS = _frame(_SETTINGS, 0, 0)
"""The server's preface: every setting has its default."""


class Declining:
    """The answer to a client of HTTP/2: acknowledge its settings, reset its first request, and close.

    GOAWAY names no stream as processed, so that a client may repeat its request elsewhere, whatever it asks for.
    """

    def __init__(self) -> None:
        self._head = b""
        self._left = 0  # Bytes of a payload that are still to come.
        self._frames = 0
        self._ended = False

    def feed(self, data: bytes) -> bytes:
        """The frames to send in answer to these bytes of the client; none once GOAWAY was sent."""
        answers = []
        while data and not self._ended:
            if self._left:
                passed = min(self._left, len(data))
                self._left -= passed
                data = data[passed:]
                continue
            missing = _HEAD.size - len(self._head)
            self._head, data = self._head + data[:missing], data[missing:]
            if len(self._head) == _HEAD.size:
                answers.append(self._answer(*_HEAD.unpack(self._head)))
                self._head = b""
        return b"".join(answers)

    def _answer(self, high: int, low: int, kind: int, flags: int, stream: int) -> bytes:
        self._left = high << 16 | low
        self._frames += 1
        stream &= _STREAM
        if kind == _SETTINGS and not flags & _ACK and self._frames < FRAMES:
            return _frame(_SETTINGS, _ACK, 0)
        if kind != _HEADERS and self._frames < FRAMES:
            return b""
        self._ended = True
        reset = _frame(_RST_STREAM, 0, stream, struct.pack(">L", _HTTP_1_1_REQUIRED)) if kind == _HEADERS else b""
        return reset + _frame(_GOAWAY, 0, 0, struct.pack(">LL", 0, _HTTP_1_1_REQUIRED))
