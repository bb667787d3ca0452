"""The address of a server of YDB's protocol, and the credentials for it."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from mayflydb.cli.ydb.faults import Misuse

TLS_PORT: Final = 2135
"""The port of an endpoint without one."""

_ENDPOINT: Final = re.compile(r"(?:(grpcs?)://)?(\[[^\]/]+\]|[^:/\[\]]+)(?::([0-9]{1,5}))?/?")


class Endpoint(msgspec.Struct, frozen=True):
    """A server. `address`: host and port as gRPC takes them. `secure`: the connection uses TLS."""

    address: str
    secure: bool


def parse_endpoint(text: str) -> Endpoint:
    """Parse `[grpc[s]://]HOST[:PORT]`; by default TLS and port 2135. Misuse for anything else."""
    found = _ENDPOINT.fullmatch(text)
    if found is None:
        raise Misuse(f'Endpoint "{text}" is incorrect. It must be [PROTOCOL://]HOST[:PORT], with grpc or grpcs.')
    scheme, host, port = found.groups()
    # Without a protocol YDB's program connects by TLS.
    return Endpoint(f"{host}:{port or TLS_PORT}", scheme != "grpc")


class Login(msgspec.Struct, frozen=True):
    """A token, or a user with a password. All empty: calls carry no credentials."""

    token: str = ""
    user: str = ""
    password: str = ""
