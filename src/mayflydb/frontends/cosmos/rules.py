"""From a container's `defaultTtl` to the rules its items die by."""

from __future__ import annotations

from mayflydb.expiry.rules import Rule, default_rule

NO_DEFAULT = -1
"""`defaultTtl: -1`: items may have a ttl of their own, and those without one live for ever."""


def rules_of(default_ttl: int | None) -> tuple[Rule, ...]:
    """No rule while ttl is off (None); else one that hides at the deadline and lets an item's own ttl count."""
    if default_ttl is None:
        return ()
    after = None if default_ttl == NO_DEFAULT else default_ttl
    return (default_rule(after),)
