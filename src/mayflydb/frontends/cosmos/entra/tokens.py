"""JSON Web Tokens of the issuers that the administrator names: signature, audience and time are checked by PyJWT.

https://learn.microsoft.com/entra/identity-platform/access-token-claims-reference
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

import msgspec

from mayflydb.expiry.deadline import has_passed
from mayflydb.frontends.cosmos.entra.key_sets import KeySet, Stopwatch
from mayflydb.model.errors import Unauthenticated
from mayflydb.model.instant import MINUTE, SECOND, Instant

ALGORITHMS: Final = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
"""Signatures with a private key. A token names its own, so neither `none` nor a shared secret may be among them."""

MAX_SKEW: Final = 5 * MINUTE
"""The allowed difference between the issuer's clock and the host's."""

MAX_TOKEN: Final = 16 * 1024
MAX_GROUPS: Final = 200
"""Groups of a token. Entra ID writes no more into one; further ones grant nothing here."""

KEPT_TOKENS: Final = 1024
"""Tokens whose signature is not checked again. A check takes some 100 us."""

_INVALID: Final = "The Entra ID (aad) token is not valid: {}."


class Issuer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An issuer, the audiences of its tokens for this account, and the place of its keys (a path or a URL)."""

    issuer: str
    audiences: tuple[str, ...]
    keys: str


class Principal(msgspec.Struct, frozen=True):
    """The holder of a token. `ids`: its object id first, then those of its groups. `ends`: the end of the token."""

    ids: tuple[str, ...]
    starts: Instant
    ends: Instant


class TokenVerifier:
    """Verifies tokens of some issuers."""

    def __init__(self, issuers: Sequence[Issuer], stopwatch: Stopwatch) -> None:
        self._issuers = {each.issuer: (each, KeySet(each.keys, stopwatch)) for each in issuers}
        self._kept: OrderedDict[bytes, Principal] = OrderedDict()

    async def verify(self, token: str, now: Instant) -> Principal:
        """Return the holder of a token. Unauthenticated, saying why, for a token that is not valid.

        `now`: the host's time. The issuer's clock is a real one, so a virtual clock does not make tokens old.
        """
        digest = sha256(token.encode("utf-8", "surrogatepass")).digest()
        principal = self._kept.get(digest)
        if principal is None:
            principal = await self._verify_signature(token)
            self._kept[digest] = principal
            if len(self._kept) > KEPT_TOKENS:
                self._kept.popitem(last=False)
        if has_passed(principal.ends + MAX_SKEW, now):
            raise _refuse("it has expired")
        if not has_passed(principal.starts - MAX_SKEW, now):
            raise _refuse("it is not valid yet")
        return principal

    async def _verify_signature(self, token: str) -> Principal:
        import jwt

        if len(token) > MAX_TOKEN:
            raise _refuse(f"it has more than {MAX_TOKEN} bytes")
        try:
            head = jwt.get_unverified_header(token)
            named = jwt.decode(token, options={"verify_signature": False})
        except (jwt.PyJWTError, ValueError, RecursionError):
            raise _refuse("it is no JSON Web Token") from None
        algorithm, key_id, name = head.get("alg"), head.get("kid"), named.get("iss")
        if algorithm not in ALGORITHMS:
            raise _refuse(f"its algorithm is none of {', '.join(ALGORITHMS)}")
        known = self._issuers.get(name) if isinstance(name, str) else None
        if known is None:
            raise _refuse("its issuer is not one that this account accepts")
        issuer, keys = known
        key = await keys.find(key_id) if isinstance(key_id, str) else None
        if key is None:
            raise _refuse("it is signed with a key that its issuer does not publish")
        # PyJWT would compare with its own reading of the clock, so times are left to `verify`.
        options: Any = {"require": ["exp"], "verify_exp": False, "verify_nbf": False, "verify_iat": False}
        try:
            claims = jwt.decode(
                token, key.key, [algorithm], options=options, audience=issuer.audiences, issuer=issuer.issuer
            )
        except jwt.InvalidAudienceError:
            raise _refuse("it is for another audience") from None
        except (jwt.PyJWTError, ValueError, TypeError):
            raise _refuse("its signature or its claims are wrong") from None
        return _read_principal(claims)


def _read_principal(claims: Mapping[str, Any]) -> Principal:
    ends, starts, groups = claims["exp"], claims.get("nbf", 0), claims.get("groups", [])
    # Entra ID names a holder by its object id in all applications; others have the subject alone.
    holder = claims.get("oid", claims.get("sub"))
    if type(ends) not in (int, float) or type(starts) not in (int, float):
        raise _refuse("its times are no numbers")
    if not isinstance(holder, str) or not holder:
        raise _refuse("it names no principal (oid or sub)")
    ids = [each for each in groups if isinstance(each, str)][:MAX_GROUPS] if isinstance(groups, list) else []
    return Principal((holder, *ids), _instant(starts), _instant(ends))


def _instant(seconds: float) -> Instant:
    try:
        return int(seconds) * SECOND
    except (OverflowError, ValueError):
        raise _refuse("its times are no numbers") from None


def _refuse(reason: str) -> Unauthenticated:
    return Unauthenticated(_INVALID.format(reason))
