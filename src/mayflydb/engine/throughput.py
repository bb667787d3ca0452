"""Provisioned throughput: what an offer grants, and which amounts may be asked for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from mayflydb.model.errors import BadRequest


class Throughput(msgspec.Struct, frozen=True):
    """RU/s of a container or database. `autoscale_max` None: `manual` RU/s; else it scales up to that.

    `increment_percent` is shown if it was sent.
    """

    manual: int
    autoscale_max: int | None = None
    increment_percent: int | None = None

    @property
    def ceiling(self) -> int:
        """RU/s at most: what the number of ranges and the budget follow."""
        return self.manual if self.autoscale_max is None else self.autoscale_max

    @property
    def ranges(self) -> int:
        """How many partition key ranges a new container gets: one for each 6000 RU/s begun."""
        return max(1, -(-self.ceiling // 6000))


STANDARD = Throughput(400)
"""What a container gets that asked for nothing and shares nothing."""


def encode_offer(offer: Throughput | None) -> dict[str, Any] | None:
    """Throughput as a definition keeps it."""
    return None if offer is None else msgspec.to_builtins(offer)


def decode_offer(offer: Mapping[str, Any]) -> Throughput:
    """What a definition keeps."""
    return msgspec.convert(offer, Throughput)


def ceiling(offer: Mapping[str, Any]) -> int:
    """The RU/s that a definition's offer grants at most."""
    return decode_offer(offer).ceiling


def manual(value: object) -> Throughput:
    """So many RU/s. BadRequest for an amount that nobody may have."""
    if type(value) is not int or not 400 <= value <= 1_000_000 or value % 100:
        raise BadRequest("The offer throughput must be between 400 and 1000000 in steps of 100.")
    return Throughput(value)


def autoscale(maximum: object, increment: int | None = None) -> Throughput:
    """Up to so many RU/s. BadRequest for an amount that nobody may have."""
    if type(maximum) is int and maximum < 1000:
        raise BadRequest(f"Requested throughput {maximum} is less than required minimum throughput 1000")
    if type(maximum) is not int or maximum > 1_000_000 or maximum % 1000:
        raise BadRequest("The autoscale maxThroughput must be between 1000 and 1000000 in steps of 1000.")
    return Throughput(maximum // 10, maximum, increment)
