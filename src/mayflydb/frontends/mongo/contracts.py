"""TTL contracts: the rules of expiry that hold for a server, a database or a collection.

A collection with a TTL index on `_ts` keeps the profile under which the index was created. Another profile would give
its documents other deadlines: https://learn.microsoft.com/azure/cosmos-db/mongodb/time-to-live
"""

from __future__ import annotations

import msgspec

from mayflydb.frontends.mongo.options import Options
from mayflydb.model.errors import MayflyError
from mayflydb.query.mongo.indexes.specs import Profile


class ProfileChanged(MayflyError):
    """The server starts with another profile for a database than the one under which its TTL index on `_ts` was created."""


class Contract(msgspec.Struct, frozen=True):
    """The rules of expiry of one namespace.

    `profile`: the meaning of a TTL index on `_ts`, and the kinds of TTL indexes that exist. `hides`: documents that
    expire by a date are hidden from their deadline on. `custom_path`: a TTL index of profile `cosmos` may be on another
    field than `_ts`.
    """

    profile: Profile
    hides: bool
    custom_path: bool

    @property
    def is_cosmos(self) -> bool:
        """True where replies have Cosmos DB's shape, and features that the service lacks are refused."""
        return self.profile == "cosmos"


class Contracts:
    """All TTL contracts by namespace."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def of(self, database: str, collection: str = "") -> Contract:
        """The contract of a collection; without a name, of a database."""
        options = self._options
        own = options.databases.get(database)
        if own is None:
            return Contract(options.profile, options.expiry == "hide", options.custom_path_ttl)
        profile = own.profile or options.profile
        below = own.collections.get(collection)
        # The nearest level that sets an option decides. `custom_path_ttl` has False as a value, so it is compared to
        # None.
        expiry = (below and below.expiry) or own.expiry or options.expiry
        custom_path = options.custom_path_ttl if own.custom_path_ttl is None else own.custom_path_ttl
        return Contract(profile, expiry == "hide", custom_path)


def check_profile(contract: Contract, created_under: str | None, namespace: str) -> None:
    """Raise ProfileChanged if a collection's TTL index on `_ts` was created under another profile than this contract's."""
    if created_under is not None and created_under != contract.profile:
        raise ProfileChanged(
            f"{namespace} has a TTL index on _ts of profile {created_under}, and {contract.profile} gives it another meaning: "
            "drop the index first"
        )
