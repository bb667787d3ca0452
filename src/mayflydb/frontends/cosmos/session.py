"""Session tokens: `<range id>:<version>#<lsn>[#<region>=<lsn>…]`, several joined by commas.

They let a client demand to see its own writes. The version of ours is the container's id, which no later container has: a client
keeps tokens by name, and one of a container that was deleted must not be taken for one of its successor. No regions.
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
    """How far one range was seen. `regions`: (region, lsn) pairs, which only foreign tokens have."""

    range_id: str
    version: int
    lsn: int
    regions: tuple[tuple[int, int], ...] = ()


ANY_VERSION: Final = -1
"""The version of tokens that name no container."""


def render(range_ids: Iterable[bytes], container: int, lsn: int) -> bytes:
    """The token of these ranges, all of which have come to `lsn`."""
    return b",".join([b"%b:%d#%d" % (range_id, container, lsn) for range_id in range_ids])


def parse(text: str) -> tuple[SessionToken, ...]:
    """The tokens in a header; an empty one has none. BadRequest for anything that is no session token."""
    parts = text.split(",") if text else []
    if len(parts) > MAX_TOKENS:
        raise BadRequest(f"The header x-ms-session-token holds more than {MAX_TOKENS} tokens.")
    return tuple([_parse_one(part) for part in parts])


def _parse_one(text: str) -> SessionToken:
    # Our own form, which nearly every request brings back.
    range_id, _, rest = text.partition(":")
    version, _, number = rest.partition("#")
    if text.isascii() and range_id.isdigit() and version.isdigit() and number.isdigit() and len(text) <= 22:
        return SessionToken(range_id, int(version), int(number))
    match = _TOKEN.fullmatch(text.strip(" "))
    if match is None:
        raise BadRequest(f"The header x-ms-session-token holds '{text[:100]}', which is not a session token.")
    range_id, version, lsn, tail = match.groups()
    regions = tuple((int(a), int(b)) for a, b in (pair.split("=") for pair in tail.split("#")[1:])) if tail else ()
    return SessionToken(range_id, int(version or ANY_VERSION), int(lsn), regions)


def demanded_lsn(tokens: Iterable[SessionToken], container: int) -> int:
    """The highest LSN the tokens ask for of this container; -1 if they ask for none."""
    return max((token.lsn for token in tokens if token.version in (container, ANY_VERSION)), default=-1)


def check(text: str, container: int, lsn: int) -> None:
    """NotFound (1002) when a token is ahead of `lsn`, the newest state there is; BadRequest for a malformed one."""
    if demanded_lsn(parse(text), container) > lsn:
        raise NotFound(
            "The read session is not available for the input session token: it names a state that this server has not "
            f"reached (current LSN {lsn}).",
            substatus=1002,
        )
