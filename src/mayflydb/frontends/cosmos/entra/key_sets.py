"""The public keys of an issuer: a JSON Web Key Set in a file or at a URL, read again as keys change.

https://www.rfc-editor.org/rfc/rfc7517
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from mayflydb.expiry.deadline import has_passed
from mayflydb.model.instant import HOUR, SECOND, Instant

if TYPE_CHECKING:
    from jwt import PyJWK

log = logging.getLogger("mayflydb.cosmos")

MAX_BYTES: Final = 1 << 20
"""Bytes of a key set. Entra ID's has some ten kilobytes."""

TIMEOUT_SECONDS: Final = 5.0
"""The time for each step of a download; a download as a whole has twice as much."""

MAX_AGE: Final = HOUR
"""The age at which keys are read anew, while the old ones still count."""

MIN_INTERVAL: Final = 30 * SECOND
"""The time between two attempts, whatever key ids clients name."""

Stopwatch = Callable[[], Instant]
Keys = Mapping[str, "PyJWK"]


class KeySetError(Exception):
    """A key set could not be read; the message says why."""


class KeySet:
    """The keys of one issuer by their ids. `place`: a path, or a URL of http or https."""

    def __init__(self, place: str, stopwatch: Stopwatch) -> None:
        self._place = place
        self._stopwatch = stopwatch
        self._keys: Keys = {}
        self._read_at: Instant | None = None
        self._tried_at: Instant | None = None
        self._reading: asyncio.Task[None] | None = None

    async def find(self, id: str) -> PyJWK | None:
        """Return the key of an id; None if the issuer has none.

        The set is read again for an id that is not in it, since issuers change their keys, but not more often than every half
        a minute.
        """
        now = self._stopwatch()
        if id not in self._keys:
            if self._reading is not None or self._may_try(now):
                await asyncio.shield(self._start_reading(now))
        elif self._read_at is not None and has_passed(self._read_at + MAX_AGE, now) and self._may_try(now):
            self._start_reading(now)
        return self._keys.get(id)

    def _may_try(self, now: Instant) -> bool:
        return self._tried_at is None or has_passed(self._tried_at + MIN_INTERVAL, now)

    def _start_reading(self, now: Instant) -> asyncio.Task[None]:
        if self._reading is None:
            self._tried_at = now
            self._reading = asyncio.get_running_loop().create_task(self._read(now))
        return self._reading

    async def _read(self, now: Instant) -> None:
        try:
            async with asyncio.timeout(2 * TIMEOUT_SECONDS):
                self._keys = await asyncio.to_thread(read_keys, self._place)
            self._read_at = now
        except (KeySetError, TimeoutError) as error:
            log.warning("the keys at %s cannot be read: %s", self._place, str(error) or "no answer in time")
        finally:
            self._reading = None


def read_keys(place: str) -> Keys:
    """Read a key set and return its signing keys that have an id. KeySetError."""
    from jwt import PyJWKSet
    from jwt.exceptions import PyJWTError

    try:
        text = _download(place) if place.startswith(("http://", "https://")) else Path(place).read_bytes()
        if len(text) > MAX_BYTES:
            raise KeySetError(f"a key set has at most {MAX_BYTES >> 20} MiB")
        found = PyJWKSet.from_json(text.decode())
    except (OSError, ValueError, RecursionError, PyJWTError, AttributeError, TypeError) as error:
        raise KeySetError(str(getattr(error, "reason", error))) from error
    return {
        key.key_id: key
        for key in found.keys
        # A symmetric key would let its readers sign.
        if key.key_id and key.key_type != "oct" and key.public_key_use in (None, "sig")
    }


def _download(url: str) -> bytes:
    # Two megabytes of modules, which a server without a policy does not load.
    from urllib.error import HTTPError
    from urllib.request import Request, urlopen

    # The administrator names the URL, and its scheme is one of the two that `place` may have.
    request = Request(url, headers={"accept": "application/json"})  # noqa: S310
    try:
        with urlopen(request, timeout=TIMEOUT_SECONDS) as answer:  # noqa: S310
            text: bytes = answer.read(MAX_BYTES + 1)
    except HTTPError as error:
        with error:
            raise KeySetError(f"the answer has the status {error.code}") from error
    return text
