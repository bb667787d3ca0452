"""Entra ID tokens as Microsoft's emulator takes them: JWTs with the account's key where the issuer's signature would be.

Nobody is asked who issued them: who can make one has the key. They do for code that is written against a token credential, and
open what such a token opens in the service: the data, not the account.
https://github.com/Azure/azure-sdk-for-python/blob/main/sdk/cosmos/azure-cosmos/tests/test_aad.py
"""

from __future__ import annotations

import binascii
import hmac
from base64 import urlsafe_b64decode
from typing import Final

import msgspec

from mayflydb.expiry.deadline import over
from mayflydb.frontends.cosmos.auth import KeyKind, Keys, SigningKey, parse_authorization
from mayflydb.frontends.cosmos.paths import Resource, Target
from mayflydb.model.errors import Forbidden, Unauthenticated
from mayflydb.model.instant import MINUTE, SECOND, Instant

SKEW: Final = 5 * MINUTE
"""How far the clock of whoever made a token may be from ours."""

NOT_SUPPORTED: Final = (
    "Microsoft Entra ID (aad) tokens are not supported by Mayfly, except those that carry the account's key as Microsoft's "
    "emulator takes them: sign requests with the account key (type=master)."
)
_METADATA: Final = frozenset(
    {Resource.ACCOUNT, Resource.DATABASE, Resource.CONTAINER, Resource.RANGE, Resource.CONFLICT}
)
_PROBE: Final = b"whoever has the key signs this alike"


class Claims(msgspec.Struct, frozen=True):
    """What is looked at of the claims: seconds since 1970 from which and until which the token counts."""

    exp: int
    nbf: int = 0


def is_entra_token(header: str) -> bool:
    """Whether an authorization header says that it is an Entra ID token."""
    return header[:8].lower() == "type=aad" or header[:10].lower() == "type%3daad"


def verify(keys: Keys, header: str, now: Instant) -> KeyKind:
    """Which key a token carries. `now` is the host's time, which its maker went by; Unauthenticated for any other token."""
    _, version, token = parse_authorization(header)
    try:
        _, claims, key = [_decode_part(part) for part in token.split(".")]
        given = SigningKey(binascii.a2b_base64(key, strict_mode=True)).sign(_PROBE)
        life = msgspec.json.decode(claims, type=Claims)
    except (ValueError, msgspec.MsgspecError):
        raise Unauthenticated(NOT_SUPPORTED) from None
    holders = [kind for kind, each in keys.pairs if hmac.compare_digest(each.sign(_PROBE), given)]
    if not holders or version != "1.0":
        raise Unauthenticated(NOT_SUPPORTED)
    if over(life.exp * SECOND + SKEW, now) or not over(life.nbf * SECOND - SKEW, now):
        raise Unauthenticated(
            "The Entra ID (aad) token is not valid at the current time: it has expired, or is not valid yet."
        )
    return holders[0]


def _decode_part(part: str) -> bytes:
    return urlsafe_b64decode(part + "=" * (-len(part) % 4))


def check(target: Target, method: str, path: str) -> None:
    """Forbidden for what the service opens to keys alone: all but reading what is there, and everything in containers.

    https://learn.microsoft.com/azure/cosmos-db/reference-data-plane-security
    """
    data = target.resource is Resource.ITEM or target.operation is not None
    runs = target.resource is Resource.STORED_PROCEDURE and not target.is_feed and method == "POST"
    if not (data or runs or (target.resource in _METADATA and method == "GET")):
        raise Forbidden(
            f"Request blocked by Auth mayfly : The given request [{method} {path}] cannot be authorized by AAD token in data "
            "plane. Learn more: https://aka.ms/cosmos-native-rbac.",
            substatus=5300,
        )
