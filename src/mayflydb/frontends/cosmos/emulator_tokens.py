"""Entra ID tokens as Microsoft's emulator accepts them: JWTs that carry the account's key in the place of a signature.

The issuer is not checked: only a holder of the key can make such a token. The tokens serve code that is written against a token
credential. They permit what Entra ID tokens permit in the service: access to data, not to the account.
https://github.com/Azure/azure-sdk-for-python/blob/main/sdk/cosmos/azure-cosmos/tests/test_aad.py
"""

from __future__ import annotations

import binascii
import hmac
from base64 import urlsafe_b64decode
from typing import Final

import msgspec

from mayflydb.expiry.deadline import has_passed
from mayflydb.frontends.cosmos.auth import KeyKind, Keys, SigningKey, parse_authorization
from mayflydb.frontends.cosmos.paths import Resource, Target
from mayflydb.model.errors import Forbidden, Unauthenticated
from mayflydb.model.instant import MINUTE, SECOND, Instant

MAX_SKEW: Final = 5 * MINUTE
"""The allowed difference between the clock of a token's maker and the host's."""

NOT_SUPPORTED: Final = (
    "Microsoft Entra ID (aad) tokens are not supported by Mayfly, except those that carry the account's key as Microsoft's "
    "emulator takes them: sign requests with the account key (type=master)."
)
_READABLE_METADATA: Final = frozenset(
    {
        Resource.ACCOUNT,
        Resource.ADDRESS,
        Resource.DATABASE,
        Resource.CONTAINER,
        Resource.RANGE,
        Resource.CONFLICT,
    }
)
_PROBE: Final = b"whoever has the key signs this alike"


class Claims(msgspec.Struct, frozen=True):
    """The claims that are checked: the validity of the token, from `nbf` to `exp`, in seconds since 1970."""

    exp: int
    nbf: int = 0


def is_entra_token(header: str) -> bool:
    """Return True for an authorization header of the type of Entra ID tokens."""
    return header[:8].lower() == "type=aad" or header[:10].lower() == "type%3daad"


def verify(keys: Keys, header: str, now: Instant) -> KeyKind:
    """Return the kind of the key that a token carries; Unauthenticated for any other token.

    `now`: the host's time, since the token was made by a real clock.
    """
    _, version, token = parse_authorization(header)
    try:
        # A signing key keeps no copy of its bytes. Two keys are the same if they sign the same text alike.
        _, payload, key = [_decode_part(part) for part in token.split(".")]
        proof = SigningKey(binascii.a2b_base64(key, strict_mode=True)).sign(_PROBE)
        claims = msgspec.json.decode(payload, type=Claims)
    except (ValueError, msgspec.MsgspecError):
        raise Unauthenticated(NOT_SUPPORTED) from None
    matching_kinds = [kind for kind, each in keys.pairs if hmac.compare_digest(each.sign(_PROBE), proof)]
    if not matching_kinds or version != "1.0":
        raise Unauthenticated(NOT_SUPPORTED)
    # Valid while nbf - skew <= now < exp + skew.
    if has_passed(claims.exp * SECOND + MAX_SKEW, now) or not has_passed(claims.nbf * SECOND - MAX_SKEW, now):
        raise Unauthenticated(
            "The Entra ID (aad) token is not valid at the current time: it has expired, or is not valid yet."
        )
    return matching_kinds[0]


def _decode_part(part: str) -> bytes:
    return urlsafe_b64decode(part + "=" * (-len(part) % 4))


def check_permitted(target: Target, method: str, path: str) -> None:
    """Raise Forbidden for requests that the service permits with keys alone: changes of databases, containers and users.

    https://learn.microsoft.com/azure/cosmos-db/reference-data-plane-security
    """
    # The execution of a stored procedure is access to data. Its definition is not.
    data = target.resource is Resource.ITEM or target.operation is not None
    runs = target.resource is Resource.STORED_PROCEDURE and not target.is_feed and method == "POST"
    if not (data or runs or (target.resource in _READABLE_METADATA and method in ("GET", "HEAD"))):
        raise refuse(method, path)


def refuse(method: str, path: str) -> Forbidden:
    """Return the refusal of a request that needs a key."""
    return Forbidden(
        f"Request blocked by Auth mayfly : The given request [{method} {path}] cannot be authorized by AAD token in data "
        "plane. Learn more: https://aka.ms/cosmos-native-rbac.",
        substatus=5300,
    )
