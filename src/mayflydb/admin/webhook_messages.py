"""Messages of webhooks: their text, their signature, and the wait after one that was not accepted. Pure.

The headers are those of the Standard Webhooks specification (standardwebhooks.com): `webhook-id`, `webhook-timestamp`, and
`webhook-signature`, which is `v1,` and the HMAC-SHA256 of `id.timestamp.body` in base64. A secret is `whsec_` and base64.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import msgspec

from mayflydb.model.errors import BadRequest

PREFIX: Final = "whsec_"

SECRET_BYTES: Final = range(24, 65)
"""The sizes of a secret that the specification allows."""

MOST_EVENTS: Final = 100
"""Events in one message."""

MOST_BYTES: Final = 256 * 1024
"""Bytes of events in one message; an event that is larger has a message of its own."""

ATTEMPTS: Final = 16
"""Attempts before a message becomes a dead letter: about eight hours."""

LONGEST_WAIT_SECONDS: Final = 7200.0


class Message(msgspec.Struct, frozen=True):
    """One message: `id` names the events behind `after` and up to `upto`, so that a repeat has the same id."""

    id: str
    body: bytes
    events: int
    after: int
    upto: int


def build_message(webhook: int, name: str, events: Sequence[Mapping[str, Any]], after: int, upto: int) -> Message:
    """Build the message of these events."""
    id = f"{webhook}-{after}-{upto}"
    return Message(id, msgspec.json.encode({"id": id, "webhook": name, "events": events}), len(events), after, upto)


def headers_of(message: Message, secret: str, seconds: int) -> dict[str, str]:
    """Return the headers of a message that is sent at a time, in Unix seconds."""
    signed = f"{message.id}.{seconds}.".encode() + message.body
    digest = hmac.new(base64.b64decode(secret.removeprefix(PREFIX)), signed, hashlib.sha256).digest()
    return {
        "content-type": "application/json",
        "user-agent": "mayfly",
        "webhook-id": message.id,
        "webhook-timestamp": str(seconds),
        "webhook-signature": "v1," + base64.b64encode(digest).decode(),
    }


def encode_secret(key: bytes) -> str:
    """Write a secret as receivers take it."""
    return PREFIX + base64.b64encode(key).decode()


def check_secret(secret: str) -> str:
    """Return a secret. BadRequest if it is none."""
    try:
        size = len(base64.b64decode(secret.removeprefix(PREFIX), validate=True)) if secret.startswith(PREFIX) else 0
    except binascii.Error:
        size = 0
    if size not in SECRET_BYTES:
        raise BadRequest("a secret of a webhook is whsec_ and 24 to 64 bytes in base64")
    return secret


def check_url(url: str) -> str:
    """Return an address. BadRequest if no message can be sent there."""
    try:
        parts = urlsplit(url)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
        fits = fits and parts.username is None and not parts.fragment and url.isprintable() and " " not in url
    except ValueError:
        fits = False
    if not fits:
        raise BadRequest(
            f"{url[:200]!r} is no address of a webhook: http:// or https://, without a user and a fragment"
        )
    return url


def wait_after(attempts: int, chance: float) -> float:
    """Return the seconds to wait after a number of failed attempts. `chance`: from 0 to 1; it spreads webhooks over the time."""
    longest: float = min(LONGEST_WAIT_SECONDS, 2.0**attempts)
    return longest * (0.75 + chance / 4)
