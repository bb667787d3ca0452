"""Session tokens: `<range id>:<version>#<lsn>[#<region>=<lsn>…]`, several joined by commas.

They let a client demand to see its own writes. Ours have version -1 and no regions.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
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


def render(range_id: str, lsn: int) -> str:
    """The token of one range."""
    return f"{range_id}:-1#{lsn}"


def render_all(lsns: Mapping[str, int]) -> str:
    """The token of several ranges."""
    return ",".join([render(range_id, lsn) for range_id, lsn in lsns.items()])


def parse(text: str) -> tuple[SessionToken, ...]:
    """The tokens in a header; an empty one has none. BadRequest for anything that is no session token."""
    parts = text.split(",") if text else []
    if len(parts) > MAX_TOKENS:
        raise BadRequest(f"The header x-ms-session-token holds more than {MAX_TOKENS} tokens.")
    return tuple([_parse_one(part) for part in parts])


def _parse_one(text: str) -> SessionToken:
    # Our own form, which nearly every request brings back.
    range_id, _, number = text.partition(":-1#")
    if text.isascii() and number.isdigit() and range_id.isdigit() and len(text) <= 24:
        return SessionToken(range_id, -1, int(number))
    match = _TOKEN.fullmatch(text.strip(" "))
    if match is None:
        raise BadRequest(f"The header x-ms-session-token holds '{text[:100]}', which is not a session token.")
    range_id, version, lsn, tail = match.groups()
    regions = tuple((int(a), int(b)) for a, b in (pair.split("=") for pair in tail.split("#")[1:])) if tail else ()
    return SessionToken(range_id, int(version or -1), int(lsn), regions)


def demanded_lsn(tokens: Iterable[SessionToken], range_ids: Iterable[str] | None = None) -> int:
    """The highest LSN the tokens ask for, of these ranges (None: of all); -1 if they ask for none.

    `range_ids` should hold the parents of the ranges in scope too, since a parent's token counts for its children.
    """
    wanted = None if range_ids is None else set(range_ids)
    return max((token.lsn for token in tokens if wanted is None or token.range_id in wanted), default=-1)


def check(text: str, lsn: int, range_ids: Iterable[str] | None = None) -> None:
    """NotFound (1002) when a token is ahead of `lsn`, the newest state there is; BadRequest for a malformed one."""
    if not text:
        return
    tokens = (_parse_one(text),) if "," not in text else parse(text)
    if (tokens[0].lsn if range_ids is None and len(tokens) == 1 else demanded_lsn(tokens, range_ids)) > lsn:
        raise NotFound(
            "The read session is not available for the input session token: it names a state that this server has not "
            f"reached (current LSN {lsn}).",
            substatus=1002,
        )
