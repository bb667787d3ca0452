"""Bytes to messages and back: OP_MSG, the OP_QUERY that opens a connection, and OP_COMPRESSED around either.

BSON is not decoded here. https://github.com/mongodb/specifications/blob/master/source/message/OP_MSG.md
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

OP_REPLY, OP_QUERY, OP_COMPRESSED, OP_MSG = 1, 2004, 2012, 2013

HEADER_BYTES: Final = 16
MAX_MESSAGES: Final = 64
"""Messages that one call of `Framer.feed` returns: one read of a socket may have brought thousands."""

MAX_MESSAGE_BYTES: Final = 48_000_000
"""Maximum bytes of a message: `maxMessageSizeBytes` of hello."""

CHECKSUM, MORE_TO_COME = 1, 2
REQUIRED_FLAGS: Final = 0xFFFF
"""Flag bits that a receiver must understand. Higher bits may be ignored."""

# All numbers are little-endian. Every message begins with a header of 16 bytes:
#     length i32 (header included) | request id i32 | id of the answered request i32 | opcode i32
# and goes on by its opcode:
#     OP_MSG         flags u32 | sections | CRC-32C u32 where the flags have CHECKSUM
#       section 0    00 | document: the command
#       section 1    01 | size i32 (itself included) | argument name, NUL | documents
#     OP_COMPRESSED  original opcode i32 | original size i32 (without header) | compressor u8 | compressed rest
#     OP_QUERY       flags i32 | full collection name, NUL | skip i32 | limit i32 | document | projection (optional)
#     OP_REPLY       flags i32 | cursor id i64 | starting from i32 | number of documents i32 | documents
_HEADER = struct.Struct("<iiii")
_COMPRESSION = struct.Struct("<iiB")
_REPLY_HEAD = struct.Struct("<iiiiIB")
_OLD_REPLY_HEAD = struct.Struct("<iiiiiqii")
_AWAIT_CAPABLE = 8
"""A flag of every OP_REPLY, which says that awaitData is supported."""

Inflate: TypeAlias = Callable[[int, bytes, int], bytes]
"""(compressor, bytes, length of the result) -> the result. Raises BadFrame for anything else."""


class BadFrame(Exception):
    """The bytes that follow have no meaning, so the connection ends. `code`: an error to send first; 0: none."""

    def __init__(self, message: str, code: int = 0, request: int = 0) -> None:
        super().__init__(message)
        self.code = code
        self.request = request


class FramingFailure(msgspec.Struct, frozen=True):
    """The reason for the end of a connection: a BadFrame without its traceback, whose frames would keep the message's
    bytes."""

    text: str
    code: int
    request: int


class Message(msgspec.Struct, gc=False):
    """One request.

    `request`: its id. `body`: the command's document. `sequences`: the documents of sections of kind 1, by the argument that
    they stand for. `without_reply`: the client wants no answer. `collection`: the full name in an OP_QUERY, empty for OP_MSG.
    `compressor`: that of the message, which its answer uses too; 0: the message was not compressed. `size`: the bytes that it
    holds, decompressed.
    """

    request: int
    opcode: int
    body: bytes
    sequences: dict[str, list[bytes]]
    without_reply: bool = False
    collection: str = ""
    compressor: int = 0
    size: int = 0


class Framer:
    """Splits incoming bytes into messages.

    `limit`: maximum bytes of one message. `accepts_compressed`: compressed messages are accepted. Both may change between
    two calls, when the client logs in or out. `held_bytes`: bytes held of an incomplete message. `needed_bytes`: the size of the
    incomplete message, or of its header.
    """

    def __init__(self, inflate: Inflate, limit: int = MAX_MESSAGE_BYTES, accepts_compressed: bool = True) -> None:
        self.limit = limit
        self.accepts_compressed = accepts_compressed
        self._inflate = inflate
        self._chunks: list[bytes] = []
        self.held_bytes = 0
        self.needed_bytes = HEADER_BYTES
        self.has_more = False
        self.broken: FramingFailure | None = None

    def drop(self) -> None:
        """Free the incomplete message, whose end does not come any more."""
        self._chunks.clear()
        self.held_bytes = 0
        self.has_more = False

    def feed(self, data: bytes = b"") -> list[Message]:
        """The messages that are complete with these bytes, up to MAX_MESSAGES. Once `broken` is set, nothing more may be fed.

        `has_more` is set afterwards if more may be complete: call it again.
        """
        found: list[Message] = []
        self.has_more = False
        try:
            self._split(data, found)
        except BadFrame as error:
            self.broken = FramingFailure(str(error), error.code, error.request)
        return found

    def _split(self, data: bytes, found: list[Message]) -> None:
        if self.held_bytes:
            self._chunks.append(data)
            self.held_bytes += len(data)
            # Chunks are joined once, when the message is complete. Joining them at each arrival would copy a message of
            # 48 MB, in pieces of a few kB, thousands of times.
            if self.held_bytes < self.needed_bytes:
                return
            data = b"".join(self._chunks)
            self._chunks.clear()
            self.held_bytes = 0
        position, size = 0, len(data)
        while size - position >= HEADER_BYTES:
            length, request, _, opcode = _HEADER.unpack_from(data, position)
            if not HEADER_BYTES <= length <= self.limit:
                raise BadFrame(f"a message of {length} bytes")
            if size - position < length:
                self.needed_bytes = length
                break
            if len(found) == MAX_MESSAGES:
                self.has_more, self.needed_bytes = True, HEADER_BYTES
                break
            found.append(self._parse_message(opcode, request, data, position + HEADER_BYTES, position + length, 0))
            position += length
        else:
            self.needed_bytes = HEADER_BYTES
        if position < size:
            self._chunks.append(data[position:] if position else data)
            self.held_bytes = size - position

    def _parse_message(self, opcode: int, request: int, data: bytes, start: int, end: int, compressor: int) -> Message:
        """Parse the message behind its header, which is in `data` from `start` to `end`. Not cut out first: it may be large."""
        if opcode == OP_MSG:
            return _parse_op_msg(request, data, start, end, compressor)
        if opcode == OP_QUERY:
            return _parse_op_query(request, data, start, end, compressor)
        # A compressed message within a compressed one is refused: each level could multiply the size again.
        if opcode == OP_COMPRESSED and not compressor:
            return self._decompress(request, data[start:end])
        raise BadFrame(f"opcode {opcode} is not served")

    def _decompress(self, request: int, data: bytes) -> Message:
        if len(data) < _COMPRESSION.size:
            raise BadFrame("a compressed message is cut off")
        # Some kB can inflate to 48 MB, so a client without a login may not send them.
        if not self.accepts_compressed:
            raise BadFrame("nothing is decompressed before a login")
        opcode, size, compressor = _COMPRESSION.unpack_from(data)
        if not 0 <= size <= self.limit - HEADER_BYTES:
            raise BadFrame(f"a compressed message of {size} bytes")
        payload = self._inflate(compressor, data[_COMPRESSION.size :], size)
        # The promised size bounds the decompression, so it must also be the true one.
        if len(payload) != size:
            raise BadFrame("a compressed message is not as long as it says")
        # A message under compressor 0 (no compression) must differ from a plain message, which is 0 in Message.
        return self._parse_message(opcode, request, payload, 0, size, compressor or NOOP_COMPRESSOR)


NOOP_COMPRESSOR: Final = 256
"""Represents compressor 0 in a Message, where 0 stands for a message without compression."""


def _parse_op_msg(request: int, data: bytes, first: int, last: int, compressor: int) -> Message:
    # Flags, the kind of one section, and the shortest document (its size and the final NUL).
    if last - first < 4 + 1 + 5:
        raise BadFrame("a message is cut off")
    flags = int.from_bytes(data[first : first + 4], "little")
    if flags & REQUIRED_FLAGS & ~(CHECKSUM | MORE_TO_COME):
        raise BadFrame("Message contains illegal flags value", 223, request)
    # The checksum is cut off and not verified: TCP and TLS detect changed bytes by themselves.
    end = last - 4 if flags & CHECKSUM else last
    body = b""
    sequences: dict[str, list[bytes]] = {}
    position = first + 4
    while position < end:
        kind = data[position]
        start = position + 1
        if start + 4 > end:
            raise BadFrame("a section is cut off")
        size = int.from_bytes(data[start : start + 4], "little", signed=True)
        # The size is that of the document (kind 0) or of the section after its kind (kind 1). Both count their own 4
        # bytes.
        position = start + size
        if size < 5 or position > end:
            raise BadFrame(f"a section of {size} bytes")
        if kind == 0 and not body:
            body = data[start:position]
        elif kind == 1:
            _add_sequence(sequences, data, start + 4, position)
        else:
            raise BadFrame("a section that may not be here")
    if not body:
        raise BadFrame("a message without a command")
    return Message(request, OP_MSG, body, sequences, bool(flags & MORE_TO_COME), "", compressor, last - first)


def _add_sequence(sequences: dict[str, list[bytes]], data: bytes, start: int, end: int) -> None:
    name_end = data.find(b"\0", start, end)
    # Latin-1 decodes any byte. A wrong name is refused later, as an unknown argument.
    name = data[start:name_end].decode("latin-1")
    if name_end < 0 or name in sequences:
        raise BadFrame("a sequence that may not be here")
    found = sequences[name] = []
    position = name_end + 1
    while position < end:
        size = int.from_bytes(data[position : position + 4], "little", signed=True)
        if size < 5 or position + size > end:
            raise BadFrame(f"a document of {size} bytes in a sequence")
        found.append(data[position : position + size])
        position += size


def _parse_op_query(request: int, data: bytes, first: int, end: int, compressor: int) -> Message:
    name_end = data.find(b"\0", first + 4, end)
    # Behind the name: its NUL, skip and limit. Drivers send 0 and -1, which a single document does not need.
    start = name_end + 9
    if name_end < 0 or end < start + 5:
        raise BadFrame("a query is cut off")
    size = int.from_bytes(data[start : start + 4], "little", signed=True)
    # A second document, with a projection, may follow. The commands that are accepted here do not use it.
    if size < 5 or start + size > end:
        raise BadFrame(f"a query of {size} bytes")
    collection = data[first + 4 : name_end].decode("utf-8", "replace")
    return Message(request, OP_QUERY, data[start : start + size], {}, False, collection, compressor, size)


def build_reply(message: Message, document: bytes, id: int) -> bytes:
    """Build the frame of an answer: OP_REPLY for an OP_QUERY, otherwise OP_MSG."""
    if message.opcode == OP_QUERY:
        length = _OLD_REPLY_HEAD.size + len(document)
        # A reply has no cursor, begins at 0 and holds one document.
        return _OLD_REPLY_HEAD.pack(length, id, message.request, OP_REPLY, _AWAIT_CAPABLE, 0, 0, 1) + document
    return _REPLY_HEAD.pack(_REPLY_HEAD.size + len(document), id, message.request, OP_MSG, 0, 0) + document


def compress(frame: bytes, compressor: int, deflate: Callable[[bytes], bytes]) -> bytes:
    """Wrap a frame into OP_COMPRESSED."""
    _, id, request, opcode = _HEADER.unpack_from(frame)
    payload = deflate(frame[HEADER_BYTES:])
    length = HEADER_BYTES + _COMPRESSION.size + len(payload)
    head = _HEADER.pack(length, id, request, OP_COMPRESSED)
    return head + _COMPRESSION.pack(opcode, len(frame) - HEADER_BYTES, compressor) + payload
