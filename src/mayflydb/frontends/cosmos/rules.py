"""Translates a container's `defaultTtl` to the rules by which its items expire."""

from __future__ import annotations

from mayflydb.expiry.rules import Rule, default_rule

NO_DEFAULT = -1
"""`defaultTtl: -1`: an item may have its own ttl, and an item without one never expires."""


def rules_of(default_ttl: int | None) -> tuple[Rule, ...]:
    """Return no rule while ttl is off (None), else the default rule, which an item's own ttl overrides."""
    if default_ttl is None:
        return ()
    after = None if default_ttl == NO_DEFAULT else default_ttl
    return (default_rule(after),)
