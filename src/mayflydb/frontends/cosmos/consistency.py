"""Consistency levels: that of the account, and those that a request may ask for.

Every read is strong, whatever the level; the level decides what clients may ask and what they do by themselves, such as keeping
session tokens. https://learn.microsoft.com/azure/cosmos-db/consistency-levels
"""

from __future__ import annotations

from typing import Any, Final

from mayflydb.model.errors import BadRequest

LEVELS: Final = ("Strong", "BoundedStaleness", "Session", "ConsistentPrefix", "Eventual")
"""The levels, the strongest first."""

DEFAULT: Final = "Session"

_BY_LOWER_CASE: Final = {level.lower(): level for level in LEVELS}
_STALENESS: Final = {"maxStalenessPrefix": 100, "maxIntervalInSeconds": 5}
"""The bounds that the .NET client takes for an account that names none."""


def policy(level: str) -> dict[str, Any]:
    """Return `userConsistencyPolicy` of the account document."""
    return {"defaultConsistencyLevel": level} | (_STALENESS if level == "BoundedStaleness" else {})


def check_requested(sent: bytes, level: str) -> None:
    """Raise BadRequest for a level that does not exist, or is stronger than that of the account."""
    text = sent[:100].decode("latin-1")
    wanted = _BY_LOWER_CASE.get(text.lower())
    if wanted is None:
        raise BadRequest(f"The value '{text}' specified for the header 'x-ms-consistency-level' is invalid.")
    if LEVELS.index(wanted) < LEVELS.index(level):
        raise BadRequest(
            f"ConsistencyLevel {wanted} specified in the request is invalid when service is configured with consistency level "
            f"{level}. Ensure the request consistency level is not stronger than the service consistency level."
        )
