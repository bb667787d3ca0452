"""TTL settings: their checks, and the rule that they give.

Texts: `ydb/core/tx/schemeshard/schemeshard_validate_ttl.cpp` of https://github.com/ydb-platform/ydb.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from mayflydb.expiry.rules import Rule, column_rule
from mayflydb.frontends.ydb.schemes.faults import Invalid
from mayflydb.frontends.ydb.schemes.specs import TtlSpec
from mayflydb.frontends.ydb.tables import TtlSettings
from mayflydb.frontends.ydb.ttl_columns import DATE_TYPES, NUMBER_TYPES
from mayflydb.model.instant import SECOND, Instant, Span
from mayflydb.query.yql.types import Primitive, Type, bare

DATE_COLUMN_TYPES: Final = frozenset(map(Primitive, DATE_TYPES))
"""Types of TTL columns whose values are instants."""

NUMBER_COLUMN_TYPES: Final = frozenset(map(Primitive, NUMBER_TYPES))
"""Types of TTL columns whose values count from the epoch in a unit."""

HIDE_ATTRIBUTE: Final = "mayfly_hide_expired"
"""The attribute that hides due rows of a table from their deadline on."""

_DAY: Final = 86400
_YEAR: Final = 365


def _hides(attributes: Mapping[str, str]) -> bool:
    """True if a table's attributes hide its due rows."""
    return attributes.get(HIDE_ATTRIBUTE, "").lower() in ("true", "1", "yes", "on")


def rule_of(ttl: TtlSettings, attributes: Mapping[str, str], hides: bool) -> Rule:
    """Return the rule of TTL settings. `attributes`: those of the table. `hides`: due rows of all tables are hidden."""
    return column_rule(ttl.expire_after, ttl.slot, hides or _hides(attributes))


def check_ttl(
    ttl: TtlSpec, columns: Mapping[str, Type], dropped: Collection[str], now: Instant, min_run_interval: Span
) -> None:
    """Check the TTL of a table with these columns, of which `dropped` are being dropped.

    Invalid: the first violation.
    """
    type = columns.get(ttl.column)
    if type is None:
        raise Invalid(f"Cannot enable TTL on unknown column: '{ttl.column}'")
    if ttl.column in dropped:
        raise Invalid(f"Cannot enable TTL on dropped column: '{ttl.column}'")
    _check_mode(ttl, bare(type))
    now_seconds = now // SECOND
    # Both sides are whole seconds, as in YDB. The comparison concerns the setting alone, not the deadline of a record.
    if ttl.expire_after > now_seconds:
        days = now_seconds // _DAY
        raise Invalid(
            f"TTL should be less than {now_seconds} seconds ({days} days, {days // _YEAR} years). "
            "The ttl behaviour is undefined before 1970."
        )
    min_seconds = min_run_interval // SECOND
    # The limit itself is allowed: 900 is, and 899 is not.
    if ttl.run_interval is not None and ttl.run_interval < min_seconds:
        raise Invalid(f"TTL run interval cannot be less than limit: {min_seconds}")


def _check_mode(ttl: TtlSpec, type: Type) -> None:
    if type in DATE_COLUMN_TYPES:
        if ttl.unit is not None:
            raise Invalid("To enable TTL on date type column 'DateTypeColumnModeSettings' should be specified")
    elif type in NUMBER_COLUMN_TYPES:
        if ttl.unit is None:
            raise Invalid("To enable TTL on integral type column 'ValueSinceUnixEpochModeSettings' should be specified")
    else:
        raise Invalid("Unsupported column type")


def check_tiers(tiers: Sequence[tuple[int, str | None]]) -> None:
    """Check TTL tiers, (seconds, destination or None for DELETE).

    Invalid: tables of rows have a single tier that deletes.
    """
    if any(source is not None for _, source in tiers):
        raise Invalid("Only DELETE via TTL is allowed for row-oriented tables")
    if len(tiers) > 1:
        raise Invalid("Tier 0: only the last tier in TTL settings can have Delete action")
