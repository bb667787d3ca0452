"""Authentication by account key: every request carries an HMAC signature.

StringToSign and the form of the header: https://learn.microsoft.com/rest/api/cosmos-db/access-control-on-cosmosdb-resources.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
from collections.abc import Sequence
from datetime import UTC, datetime
from email.utils import format_datetime, parsedate_to_datetime
from enum import Enum
from functools import lru_cache
from typing import Final
from urllib.parse import quote, unquote

import msgspec

from mayflydb.model.errors import Forbidden, Unauthenticated

WELL_KNOWN_KEY: Final = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="
"""The key that all emulators accept. It is public, so it protects nothing beyond a loopback address."""

MAX_SKEW_SECONDS: Final = 15 * 60
_MAX_HEADER = 8192


class KeyKind(Enum):
    """The account keys by their rights."""

    PRIMARY = "primary"
    SECONDARY = "secondary"
    PRIMARY_READ_ONLY = "primary read-only"
    SECONDARY_READ_ONLY = "secondary read-only"

    def __init__(self, text: str) -> None:
        # Every request asks for it.
        self.may_write = not text.endswith("read-only")


class SigningKey:
    """HMAC-SHA256 with one key (RFC 2104).

    The two key blocks are hashed beforehand, which takes less than half the time of a one-shot call.
    """

    __slots__ = ("_inner", "_outer")

    def __init__(self, key: bytes) -> None:
        # SHA-256 works on blocks of 64 bytes: a longer key is hashed first. 36 and 5C fill the inner and the outer
        # block.
        block = (key if len(key) <= 64 else hashlib.sha256(key).digest()).ljust(64, b"\0")
        self._inner = hashlib.sha256(bytes([byte ^ 0x36 for byte in block]))
        self._outer = hashlib.sha256(bytes([byte ^ 0x5C for byte in block]))

    def sign(self, text: bytes) -> bytes:
        """Return the 32 bytes of the MAC."""
        inner, outer = self._inner.copy(), self._outer.copy()
        inner.update(text)
        outer.update(inner.digest())
        return outer.digest()


class Keys(msgspec.Struct, frozen=True):
    """The account's keys, ready to sign, in the order in which `verify` tries them."""

    pairs: tuple[tuple[KeyKind, SigningKey], ...]

    @classmethod
    def from_base64(
        cls,
        primary: str,
        secondary: str | None = None,
        primary_read_only: str | None = None,
        secondary_read_only: str | None = None,
    ) -> Keys:
        """Decode the keys. ValueError for a key that is empty or not base64."""
        texts = zip(KeyKind, (primary, secondary, primary_read_only, secondary_read_only), strict=True)
        return cls(tuple((kind, _decode_key(text)) for kind, text in texts if text is not None))

    def __repr__(self) -> str:
        return f"Keys({', '.join(kind.value for kind, _ in self.pairs)})"


def _decode_key(text: str) -> SigningKey:
    key = binascii.a2b_base64(text, strict_mode=True)
    if not key:
        raise ValueError("an account key is empty")
    return SigningKey(key)


def string_to_sign(verb: str, resource_type: str, resource_link: str, x_ms_date: str, date: str = "") -> str:
    """Return the text that a client signs. Everything is lower case except the link."""
    return f"{verb}\n{resource_type}\n".lower() + f"{resource_link}\n" + f"{x_ms_date}\n{date}\n".lower()


def authorization_header(keys: Keys, verb: str, resource_type: str, resource_link: str, x_ms_date: str) -> str:
    """Return the authorization header that a client with the first of these keys sends."""
    text = string_to_sign(verb, resource_type, resource_link, x_ms_date).encode("utf-8", "surrogatepass")
    signature = binascii.b2a_base64(keys.pairs[0][1].sign(text), newline=False).decode()
    return quote(f"type=master&ver=1.0&sig={signature}", safe="")


def parse_authorization(header: str) -> tuple[str, str, str]:
    """Split `type=master&ver=1.0&sig=…`, percent-encoded or raw, into (type, version, signature). Else Unauthenticated."""
    if not header:
        raise Unauthenticated("Required Header authorization is missing. Ensure a valid Authorization token is passed.")
    if len(header) <= _MAX_HEADER:
        kind, version, signature = [*unquote(header).split("&", 2), "", ""][:3]
        if kind.startswith("type=") and version.startswith("ver=") and signature.startswith("sig="):
            return kind[5:].lower(), version[4:], signature[4:]
    raise Unauthenticated("The authorization header is not of the form type=…&ver=…&sig=….")


COMMON_PREFIX: Final = "type%3Dmaster%26ver%3D1.0%26sig%3D"
"""The beginning of nearly every authorization header."""

_COMMON = COMMON_PREFIX.encode()
_SHORT_LINK: Final = 512
"""Characters of a link whose part of the signed text is kept."""


def _parse_signature(header: str) -> bytes:
    """Return the 32 bytes of a master signature; Unauthenticated for anything else."""
    # The form that clients send is split without the general decoder, in a fifth of its time.
    if header.startswith(COMMON_PREFIX):
        text = header[len(COMMON_PREFIX) :].replace("%2F", "/").replace("%2B", "+").replace("%3D", "=")
        try:
            signature = binascii.a2b_base64(text, strict_mode=True)
        except ValueError:
            signature = b""
        if len(signature) == 32:
            return signature
    return _parse_general_signature(header)


def _parse_general_signature(header: str) -> bytes:
    kind, version, text = parse_authorization(header)
    if kind != "master":
        raise Unauthenticated(
            "These tokens are not supported by Mayfly: sign requests with the account key (type=master)."
        )
    try:
        signature = binascii.a2b_base64(text, strict_mode=True) if version == "1.0" else b""
    except ValueError:
        signature = b""
    if len(signature) != 32:
        raise Unauthenticated(
            "The signature in the authorization header is not 32 bytes in base64, or its version not 1.0."
        )
    return signature


def verify(
    keys: Keys, header: str, verb: str, links: Sequence[tuple[str, str]], x_ms_date: str, date: str = ""
) -> KeyKind:
    """Return the kind of the key that signed a request.

    `links`: the (resource type, resource link) pairs that its path allows; Unauthenticated if no key signed one of them.
    """
    signature = _parse_signature(header)
    # A client signs the path by names or by rids, with any of the account's keys.
    for resource_type, link in links:
        text = string_to_sign(verb, resource_type, link, x_ms_date, date).encode("utf-8", "surrogatepass")
        for kind, key in keys.pairs:
            # The comparison takes the same time for every signature: a refusal does not tell how much of a guess was
            # right.
            if hmac.compare_digest(key.sign(text), signature):
                return kind
    # Developers compare this payload with that of their client, and the difference is the mistake.
    payload = string_to_sign(verb, *links[0], x_ms_date, date).replace("\n", "\\n")
    raise Unauthenticated(
        "The input authorization token can't serve the request. Please check that the expected payload is built as per the "
        f"protocol, and check the key being used. Server used the following payload to sign: '{payload}'"
    )


@lru_cache(maxsize=2048)
def _encode_beginning(verb: str, link: tuple[str, str]) -> bytes:
    return f"{verb}\n{link[0]}\n".lower().encode() + f"{link[1]}\n".encode("utf-8", "surrogatepass")


def verify_common(
    keys: Keys, header: bytes, verb: str, link: tuple[str, str], x_ms_date: bytes, date: bytes
) -> KeyKind | None:
    """Return the kind of the key that signed a request in the way of nearly all clients; None: `verify` tells.

    `link`: the first pair of (resource type, resource link) that the path allows.
    """
    if not header.startswith(_COMMON) or len(link[1]) > _SHORT_LINK:
        return None
    text = header[len(_COMMON) :].replace(b"%2F", b"/").replace(b"%2B", b"+").replace(b"%3D", b"=")
    try:
        signature = binascii.a2b_base64(text, strict_mode=True)
    except ValueError:
        return None
    signed = b"%b%b\n%b\n" % (_encode_beginning(verb, link), x_ms_date.lower(), date.lower())
    for kind, key in keys.pairs:
        if hmac.compare_digest(key.sign(signed), signature):
            return kind
    return None


def check_write(kind: KeyKind, verb: str, path: str) -> None:
    """Raise Forbidden if a read-only key signed a write."""
    if not kind.may_write:
        raise Forbidden(f"The request {verb} {path} writes, and the {kind.value} key may only read.")


def check_token_issue(kind: KeyKind, verb: str, path: str) -> None:
    """Raise Forbidden if a read-only key asks for resource tokens, since a token may permit writes."""
    if not kind.may_write:
        raise Forbidden(f"The answer to {verb} {path} holds resource tokens, which the {kind.value} key does not open.")


def check_request_date(x_ms_date: str, now_seconds: float) -> None:
    """Raise Forbidden if the request's date is over 15 minutes away from the host's real time (seconds since 1970)."""
    sent = _parse_date(x_ms_date)
    if abs(now_seconds - sent) > MAX_SKEW_SECONDS:
        raise validity_error(sent - MAX_SKEW_SECONDS, sent + MAX_SKEW_SECONDS, now_seconds)


def validity_error(start: float, end: float, now: float) -> Forbidden:
    """Build the refusal of a token outside of its validity; all in seconds since 1970."""
    first, last, present = rfc_1123(start), rfc_1123(end), rfc_1123(now)
    return Forbidden(
        "The authorization token is not valid at the current time. Please create another token and retry "
        f"(token start time: {first}, token expiry time: {last}, current server time: {present})."
    )


@lru_cache(maxsize=256)
def _parse_date(text: str) -> float:
    try:
        moment = parsedate_to_datetime(text[:64])
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError, AttributeError):
        raise Unauthenticated(
            "The header x-ms-date is missing or not a date like 'Tue, 01 Jan 2030 00:00:00 GMT'."
        ) from None


def rfc_1123(seconds: float) -> str:
    """Format seconds since 1970 as clients send and sign a date."""
    try:
        return format_datetime(datetime.fromtimestamp(int(seconds), UTC), usegmt=True)
    except (ValueError, OverflowError, OSError):
        return f"{int(seconds)} s"
