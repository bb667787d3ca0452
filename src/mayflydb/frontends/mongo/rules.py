"""Rules of expiry from TTL indexes, for changes and for previews of them.

A rule is only data here. `expiry/deadline` decides by it, with both boundaries inclusive: a document of `ts_rule` is expired
once its last write + seconds <= now, a document of `date_rule` once its earliest date + seconds <= now.
"""

from __future__ import annotations

from typing import Final

from mayflydb.expiry.rules import Rule, default_rule, index_rule
from mayflydb.frontends.mongo.contracts import Contract

NO_DEFAULT: Final = -1
"""`expireAfterSeconds: -1` of an index on `_ts`: documents without a ttl of their own never expire.

https://learn.microsoft.com/azure/cosmos-db/mongodb/time-to-live
"""


def ts_rule(expire_after: int) -> Rule:
    """The rule of a TTL index on `_ts`, which counts from the last write."""
    return default_rule(None if expire_after == NO_DEFAULT else expire_after)


def date_rule(expire_after: int, slot: int, contract: Contract, accepts_numbers: bool) -> Rule:
    """The rule of a TTL index on dates.

    `accepts_numbers`: the index takes numbers for dates too, as Cosmos DB's do, and hides expired documents.
    """
    return index_rule(expire_after, slot, contract.hides or accepts_numbers)
