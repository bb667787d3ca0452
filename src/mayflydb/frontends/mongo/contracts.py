"""Whose rules of expiry hold where: what the server is told, and what of it databases and collections have otherwise.

A collection with a TTL index on `_ts` keeps the profile it got that under, since another one would give its documents other
lives: https://learn.microsoft.com/azure/cosmos-db/mongodb/time-to-live
"""

from __future__ import annotations

import msgspec

from mayflydb.frontends.mongo.options import Options
from mayflydb.model.errors import MayflyError
from mayflydb.query.mongo.indexes.specs import Profile


class ProfileChanged(MayflyError):
    """A server is started with another profile for a database than a TTL index on `_ts` was made under."""


class Contract(msgspec.Struct, frozen=True):
    """`profile`: what a TTL index on `_ts` means, and whether there are others. `hides`: whether what has died by a date is gone
    at its deadline already. `custom_path`: whether a TTL index of profile `cosmos` may lie on another field than `_ts`."""

    profile: Profile
    hides: bool
    custom_path: bool

    @property
    def is_cosmos(self) -> bool:
        """Whether replies have Cosmos DB's shape throughout, and what that service has not is refused."""
        return self.profile == "cosmos"


class Contracts:
    """All of them, by namespace."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def of(self, database: str, collection: str = "") -> Contract:
        """What holds for a collection, or for a database in general."""
        options = self._options
        own = options.databases.get(database)
        if own is None:
            return Contract(options.profile, options.expiry == "hide", options.custom_path_ttl)
        profile = own.profile or options.profile
        below = own.collections.get(collection)
        expiry = (below and below.expiry) or own.expiry or options.expiry
        custom_path = options.custom_path_ttl if own.custom_path_ttl is None else own.custom_path_ttl
        return Contract(profile, expiry == "hide", custom_path)


def check_profile(contract: Contract, made_under: str | None, namespace: str) -> None:
    """ProfileChanged unless a collection's TTL index on `_ts`, if it has one, was made under this contract's profile."""
    if made_under is not None and made_under != contract.profile:
        raise ProfileChanged(
            f"{namespace} has a TTL index on _ts of profile {made_under}, and {contract.profile} gives it another meaning: "
            "drop the index first"
        )
