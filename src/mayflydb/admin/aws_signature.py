"""The signature of requests to S3 and to servers that speak its protocol: AWS Signature Version 4. Pure.

https://docs.aws.amazon.com/AmazonS3/latest/API/sig-v4-header-based-auth.html
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

import msgspec

ALGORITHM: Final = "AWS4-HMAC-SHA256"


class Credentials(msgspec.Struct, frozen=True):
    """Keys of an account. `token`: of a session, whose keys are temporary."""

    key: str
    secret: str
    token: str = ""


def encode_path(path: str) -> str:
    """Encode the path of an object as the signature has it."""
    return quote(path, safe="/~-._")


def sign(
    method: str, path: str, headers: Mapping[str, str], body: bytes, moment: str, region: str, credentials: Credentials
) -> dict[str, str]:
    """Return the headers of a signed request: the given ones, `host` among them, and those of the signature.

    `path`: encoded. `moment`: the time of the request, as `20130524T000000Z`.
    """
    digest = hashlib.sha256(body).hexdigest()
    signed = {name.lower(): " ".join(value.split()) for name, value in headers.items()}
    signed |= {"x-amz-content-sha256": digest, "x-amz-date": moment}
    if credentials.token:
        signed["x-amz-security-token"] = credentials.token
    names = ";".join(sorted(signed))
    lines = "".join(f"{name}:{signed[name]}\n" for name in sorted(signed))
    request = f"{method}\n{path}\n\n{lines}\n{names}\n{digest}"
    scope = f"{moment[:8]}/{region}/s3/aws4_request"
    text = "\n".join((ALGORITHM, moment, scope, hashlib.sha256(request.encode()).hexdigest()))
    signature = hmac.new(_signing_key(credentials.secret, scope), text.encode(), hashlib.sha256).hexdigest()
    value = f"{ALGORITHM} Credential={credentials.key}/{scope},SignedHeaders={names},Signature={signature}"
    return {**signed, "authorization": value}


def _signing_key(secret: str, scope: str) -> bytes:
    key = f"AWS4{secret}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    return key
