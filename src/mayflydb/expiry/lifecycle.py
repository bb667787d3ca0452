"""Lifecycle settings: what Mayfly does about a container's expiries beyond the protocols. Data, stored in the catalogue."""

from __future__ import annotations

from typing import Literal

import msgspec

from mayflydb.expiry.guard import GuardLimits


class Lifecycle(msgspec.Struct, frozen=True, omit_defaults=True):
    """The lifecycle settings of one container.

    `guard`: the limits of its guard; `off`: it has no guard; None: the limits of the server's settings.
    """

    guard: GuardLimits | Literal["off"] | None = None
