"""Continuation tokens: the position in a feed or query, signed and bound to the request.

A token is valid for its own query alone; an edited or foreign token is refused.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
from typing import Any, Final, TypeAlias

import msgspec

from mayflydb.model.errors import BadRequest

Scalar: TypeAlias = str | bytes | int | float | bool | None
Payload: TypeAlias = tuple[Scalar, ...]
"""The content of a token: a few scalars, such as partition bytes and a number."""

MAX_CHARACTERS: Final = 12_000
"""Enough for a position at the longest hierarchical key. Tokens of keys up to 600 bytes stay below the 1 KB that
clients ask for."""

_MAC_BYTES = 16
_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(list[Any])


def binding(container: int, query: str, parameters: object, scope: object) -> bytes:
    """Return a digest of container, query text ("" for a feed), parameters and scope, all in plain JSON types."""
    material = msgspec.msgpack.encode((container, query, msgspec.json.encode((parameters, scope), order="sorted")))
    return hashlib.blake2b(material, digest_size=16).digest()


def seal(secret: bytes, bound: bytes, payload: Payload) -> str:
    """Return the token, printable ASCII. ValueError if the payload is too large."""
    data = _encoder.encode(payload)
    # Layout: 16 bytes of MAC, then the payload in MessagePack; the whole in base64.
    token = binascii.b2a_base64(_mac(secret, bound, data) + data, newline=False).decode()
    if len(token) > MAX_CHARACTERS:
        raise ValueError(f"a continuation token of {len(token)} characters is over the limit of {MAX_CHARACTERS}")
    return token


def unseal(secret: bytes, bound: bytes, token: str) -> Payload:
    """Return the payload that was sealed with this secret for this binding; BadRequest for any other token."""
    try:
        sealed = binascii.a2b_base64(token, strict_mode=True) if len(token) <= MAX_CHARACTERS else b""
    except ValueError:
        sealed = b""
    mac, data = sealed[:_MAC_BYTES], sealed[_MAC_BYTES:]
    # The binding is part of the MAC and not of the token: a token of another query fails here like an edited one.
    if not hmac.compare_digest(mac, _mac(secret, bound, data)):
        raise BadRequest("The header x-ms-continuation is not a token that was issued for this request.")
    return tuple(_decoder.decode(data))


def _mac(secret: bytes, bound: bytes, data: bytes) -> bytes:
    # 128 bits suffice against forgery and keep tokens short, since they travel in headers.
    return hmac.digest(secret, bound + data, "sha256")[:_MAC_BYTES]
