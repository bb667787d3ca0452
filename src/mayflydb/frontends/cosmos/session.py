"""Session tokens: `<range id>:<version>#<lsn>[#<region>=<lsn>…]`, several joined by commas.

With a token a client demands to see its own writes. The version in Mayfly's tokens is the container's id: clients keep tokens by
the container's name, and a token of a deleted container must not count for its successor. The tokens have no regions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

import msgspec

from mayflydb.model.errors import BadRequest, NotFound

_TOKEN: Final = re.compile(
    r"([0-9]{1,18}):(?:(-?[0-9]{1,18})#)?(-?[0-9]{1,18})((?:#[0-9]{1,18}=-?[0-9]{1,18})*)", re.ASCII
)
MAX_TOKENS: Final = 1000


class SessionToken(msgspec.Struct, frozen=True, gc=False):
    """The lsn that a client has seen of one range. `regions`: (region, lsn) pairs, which only foreign tokens have."""

    range_id: str
    version: int
    lsn: int
    regions: tuple[tuple[int, int], ...] = ()


ANY_VERSION: Final = -1
"""The version of tokens that name no container."""


def render(range_ids: Iterable[bytes], container: int, lsn: int) -> bytes:
    """Return the token of these ranges, all of which have reached `lsn`."""
    return b",".join([b"%b:%d#%d" % (range_id, container, lsn) for range_id in range_ids])


def parse(text: str) -> tuple[SessionToken, ...]:
    """Parse the tokens in a header, which may be empty. BadRequest for anything else."""
    parts = text.split(",") if text else []
    if len(parts) > MAX_TOKENS:
        raise BadRequest(f"The header x-ms-session-token holds more than {MAX_TOKENS} tokens.")
    return tuple([_parse_token(part) for part in parts])


def _parse_token(text: str) -> SessionToken:
    # A short cut for the form of Mayfly's own tokens, which nearly every request has.
    range_id, _, rest = text.partition(":")
    version, _, number = rest.partition("#")
    # 22 characters with two separators leave at most 18 digits for a number, as the general form does.
    if text.isascii() and range_id.isdigit() and version.isdigit() and number.isdigit() and len(text) <= 22:
        return SessionToken(range_id, int(version), int(number))
    match = _TOKEN.fullmatch(text.strip(" "))
    if match is None:
        raise BadRequest(f"The header x-ms-session-token holds '{text[:100]}', which is not a session token.")
    range_id, version, lsn, tail = match.groups()
    regions = tuple((int(a), int(b)) for a, b in (pair.split("=") for pair in tail.split("#")[1:])) if tail else ()
    return SessionToken(range_id, int(version or ANY_VERSION), int(lsn), regions)


def demanded_lsn(tokens: Iterable[SessionToken], container: int) -> int:
    """Return the highest lsn that the tokens demand of this container; -1 if they demand none."""
    return max((token.lsn for token in tokens if token.version in (container, ANY_VERSION)), default=-1)


def check(text: str, container: int, lsn: int) -> None:
    """Raise NotFound (1002) if a token demands more than `lsn`, the newest one; BadRequest for a malformed token."""
    if demanded_lsn(parse(text), container) > lsn:
        raise NotFound(
            "The read session is not available for the input session token: it names a state that this server has not "
            f"reached (current LSN {lsn}).",
            substatus=1002,
        )
