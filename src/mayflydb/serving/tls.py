"""One server's TLS: its context and the authority's certificate, created on a thread at the first use."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from mayflydb.serving.certificates import Authority

if TYPE_CHECKING:
    import ssl

log = logging.getLogger("mayflydb.server")


class TlsContext:
    """The TLS settings of one server, the same for all its listeners."""

    def __init__(self, authority: Authority) -> None:
        self._authority = authority
        self._context: asyncio.Future[ssl.SSLContext] | None = None

    async def get(self) -> ssl.SSLContext:
        """Return the context. OSError if no certificate can be made; the next call tries again."""
        if self._context is None:
            self._context = asyncio.ensure_future(asyncio.to_thread(self._authority.context))
        try:
            # Connections share one future: one that is cancelled while it waits must not cancel it for the others.
            return await asyncio.shield(self._context)
        except (OSError, ValueError) as error:
            self._context = None
            log.error("there is no certificate, so https does not work: %s", error)
            raise OSError(str(error)) from error

    async def ca_pem(self) -> bytes:
        """Return the authority's certificate (PEM). Create it if there is none. OSError or ValueError if that fails."""
        return await asyncio.to_thread(self._authority.ca_pem)
