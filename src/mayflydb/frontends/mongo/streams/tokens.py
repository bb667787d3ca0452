"""Resume tokens: the position of a change stream in each history that it reads.

Tokens sort as text in the order of their events, since they begin with the instant and the stamp of the last event.
"""

from __future__ import annotations

import binascii
from collections.abc import Mapping
from struct import Struct, error
from typing import Any, Final, Literal

import msgspec

from mayflydb.engine.ordered_histories import STAMP
from mayflydb.model.instant import Instant
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.values import Document

Purpose = Literal["event", "idle", "last", "invalidate"]
"""`event`: the token of an event. `idle`: the position after all lines so far. `last`: the token of an event that only the
invalidation follows. `invalidate`: the token of that."""

_PURPOSES: Final[tuple[Purpose, ...]] = ("event", "idle", "last", "invalidate")
"""Tokens store the position in this tuple."""
# A token, in hexadecimal digits:
#     version u8 | instant u64 | stamp (12 bytes) | scope (8 bytes) | purpose u8 |
#     varints: known_up_to, then (id, lsn) of each container, the id as difference to the one before | CRC-32 u32
# Numbers are big-endian, and the instant is moved by 2^63, so that the text order of tokens is the order of events.
_HEAD: Final = Struct(">BQ12s8sB")
_CHECK: Final = Struct(">I")
"""The check finds tokens that were cut or mistyped. It is no signature."""
_VERSION: Final = 0x82
"""The first byte of MongoDB's tokens, too."""
_BIAS: Final = 1 << 63


class ResumeToken(msgspec.Struct, frozen=True):
    """The position of a change stream.

    `scope`: eight bytes that identify the scope and the number of restores. `at`, `stamp`: those of the last event.
    `lsns`: the last lsn of each container. `known_up_to`: containers with ids up to this one that are not in `lsns` do not belong
    to the stream.
    """

    scope: bytes
    at: Instant
    stamp: bytes
    known_up_to: int
    lsns: Mapping[int, int]
    purpose: Purpose = "event"

    @property
    def document(self) -> Document:
        """The token in the form that clients get."""
        data = bytearray(_HEAD.pack(_VERSION, self.at + _BIAS, self.stamp, self.scope, _PURPOSES.index(self.purpose)))
        _append_varint(data, self.known_up_to)
        last = 0
        for id, lsn in sorted(self.lsns.items()):
            _append_varint(data, id - last)
            _append_varint(data, lsn)
            last = id
        return {"_data": (bytes(data) + _CHECK.pack(binascii.crc32(data))).hex().upper()}

    @classmethod
    def parse(cls, given: Any) -> ResumeToken:
        """Decode a token. Raise MqlError 40647 for one without text, 260 for another invalid one."""
        text = given.get("_data") if isinstance(given, dict) else None
        if not isinstance(text, str):
            raise MqlError(40647, "Bad resume token: _data of missing or of wrong type")
        try:
            data = bytes.fromhex(text)
            body, check = data[: -_CHECK.size], data[-_CHECK.size :]
            if _CHECK.pack(binascii.crc32(body)) != check:
                raise ValueError("it was not made here")
            version, at, stamp, scope, purpose = _HEAD.unpack_from(body)
            if version != _VERSION:
                raise ValueError("another version")
            numbers = _parse_varints(body[_HEAD.size :])
            known, pairs = numbers[0], numbers[1:]
            lsns: dict[int, int] = {}
            id = 0
            for delta, lsn in zip(pairs[::2], pairs[1::2], strict=True):
                id += delta
                lsns[id] = lsn
            return cls(scope, at - _BIAS, stamp, known, lsns, _PURPOSES[purpose])
        except (ValueError, IndexError, error) as fault:
            raise invalid_token(f"KeyString format error: resume token string was not a valid one: {fault}") from None


NO_STAMP: Final = STAMP.pack(0, 0)


def invalid_token(text: str) -> MqlError:
    """The error 260 InvalidResumeToken."""
    return MqlError(260, text)


def _append_varint(data: bytearray, number: int) -> None:
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)


def _parse_varints(data: bytes) -> list[int]:
    found: list[int] = []
    number = shift = 0
    for byte in data:
        number |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            found.append(number)
            number = shift = 0
    return found
