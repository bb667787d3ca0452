"""An issuer of tokens, as Entra ID is one: its keys, its key set, and the tokens that it signs."""

from __future__ import annotations

import json
from functools import cache
from typing import Any, Final

import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm

from mayflydb.clock import wall_us

NAME: Final = "https://login.example/tenant/v2.0"
AUDIENCE: Final = "https://cosmos.example"


@cache
def private_key(id: str) -> Any:
    """Return a private key that stays the same for its id: of RSA for ids that begin with `rsa`."""
    if id.startswith("rsa"):
        return rsa.generate_private_key(65537, 2048)
    return ec.generate_private_key(ec.SECP256R1())


def public_jwk(id: str) -> dict[str, Any]:
    """Return the public key of an id as a JSON Web Key."""
    algorithm = RSAAlgorithm if id.startswith("rsa") else ECAlgorithm
    key: dict[str, Any] = json.loads(algorithm.to_jwk(private_key(id).public_key()))
    return {**key, "kid": id, "use": "sig"}


def key_set(*ids: str) -> str:
    """Return the key set with the public keys of some ids."""
    return json.dumps({"keys": [public_jwk(id) for id in ids]})


def sign(kid: str = "ec1", *, signer: str | None = None, algorithm: str | None = None, **changed: Any) -> str:
    """Return a token of `alice` for a day. `changed`: other claims, None to leave one out. `signer`: the id of the key."""
    now = wall_us() // 1_000_000
    claims = {"iss": NAME, "aud": AUDIENCE, "oid": "alice", "nbf": now - 10, "exp": now + 86_400, **changed}
    left = {name: value for name, value in claims.items() if value is not None}
    used = "RS256" if kid.startswith("rsa") else "ES256"
    return jwt.encode(left, private_key(signer or kid), algorithm or used, headers={"kid": kid})


def header(token: str) -> str:
    """Return the authorization header that clients make of a token."""
    return f"type%3Daad%26ver%3D1.0%26sig%3D{token}"
