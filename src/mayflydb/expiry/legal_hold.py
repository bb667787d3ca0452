"""Legal holds: records that match a filter are preserved when they leave their container. Data, stored in the catalogue."""

from __future__ import annotations

from typing import Final

import msgspec

from mayflydb.model.instant import Instant

MOST: Final = 50
"""Holds on one container."""

MAX_FILTER: Final = 2_048
"""Characters of a filter."""

MAX_WORDS: Final = 1_000
"""Characters of a reason, of a person's name, or of the name of a matter."""

RELEASED: Final = "hold released"
"""The trigger of purges that waited for the release of a hold."""


class LegalHold(msgspec.Struct, frozen=True, omit_defaults=True):
    """A hold on one container. `number`: that of its line in the record of holds; no other hold ever has it.

    `where`: a condition in the language of the container's protocol, which is `language`; None: every record. `versions`: what a
    write replaces is preserved, too; else only where the new version does not match. `released`: the instant of the release,
    from which on nothing more is preserved and what was preserved is removed.
    """

    number: int
    name: str
    language: str
    why: str
    by: str
    added: Instant
    where: str | None = None
    versions: bool = True
    matter: str | None = None
    released: Instant | None = None


def find_in_force(holds: tuple[LegalHold, ...]) -> tuple[LegalHold, ...]:
    """Return the holds that are not released."""
    return tuple([hold for hold in holds if hold.released is None])
