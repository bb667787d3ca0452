"""Certificates that clients of TLS check a server with."""

from __future__ import annotations

from typing import Final, NamedTuple

CERTIFICATE_NAME: Final = "localhost"
"""A name in every certificate of Mayfly's authority."""


class Trust(NamedTuple):
    """The certificates that a client trusts (PEM), and a name that the server's certificate is made out to."""

    pem: bytes
    name: str = CERTIFICATE_NAME
