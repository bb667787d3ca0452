"""One server's TLS: its context and the authority's certificate, created on a thread at the first use."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from mayflydb.serving.trust import Trust

if TYPE_CHECKING:
    import ssl

log = logging.getLogger("mayflydb.server")


class Certificates(Protocol):
    """The certificate of a server: of Mayfly's authority, or a person's own."""

    @property
    def ca_path(self) -> Path:
        """The file of the certificate that clients have to trust. `ca_pem` makes it."""
        ...

    def has_changed(self) -> bool:
        """Return whether `context` and `pair` would give another certificate than before."""
        ...

    def ca_pem(self) -> bytes:
        """Return that certificate (PEM). OSError or ValueError if there is none and none can be made."""
        ...

    def trust(self) -> Trust:
        """Return what a client of this machine checks the server's certificate with. Errors as of `ca_pem`."""
        ...

    def context(self) -> ssl.SSLContext:
        """Return a server's TLS settings. Errors as of `ca_pem`."""
        ...

    def pair(self) -> tuple[bytes, bytes]:
        """Return a server's private key and its chain of certificates, both PEM. Errors as of `ca_pem`."""
        ...


class TlsContext:
    """The TLS settings of one server, the same for all its listeners."""

    def __init__(self, certificates: Certificates) -> None:
        self._certificates = certificates
        self._context: asyncio.Future[ssl.SSLContext] | None = None

    async def get(self) -> ssl.SSLContext:
        """Return the context. OSError if no certificate can be made; the next call tries again."""
        # One connection reads a replaced certificate, and those that come meanwhile wait for it.
        if self._context is None or (self._context.done() and self._certificates.has_changed()):
            self._context = asyncio.ensure_future(asyncio.to_thread(self._certificates.context))
        try:
            # Connections share one future: one that is cancelled while it waits must not cancel it for the others.
            return await asyncio.shield(self._context)
        except (OSError, ValueError) as error:
            self._context = None
            log.error("there is no certificate, so https does not work: %s", error)
            raise OSError(str(error)) from error

    async def ca_pem(self) -> bytes:
        """Return the certificate (PEM) that clients have to trust. OSError or ValueError if none can be made."""
        return await asyncio.to_thread(self._certificates.ca_pem)

    async def trust(self) -> Trust:
        """Return what a client of this machine checks the server's certificate with. Errors as of `ca_pem`."""
        return await asyncio.to_thread(self._certificates.trust)
