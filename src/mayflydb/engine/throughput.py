"""Provisioned throughput: the grant of an offer, and the amounts that a request may ask for."""

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
        """The largest RU/s, which determines the number of ranges and the budget."""
        return self.manual if self.autoscale_max is None else self.autoscale_max

    @property
    def ranges(self) -> int:
        """The number of partition key ranges of a new container: one for each 6000 RU/s begun."""
        return max(1, -(-self.ceiling // 6000))


STANDARD = Throughput(400)
"""The throughput of a container without an own or a shared offer."""


def encode_offer(offer: Throughput | None) -> dict[str, Any] | None:
    """Convert throughput to the form that a definition stores."""
    return None if offer is None else msgspec.to_builtins(offer)


def decode_offer(offer: Mapping[str, Any]) -> Throughput:
    """Convert a stored offer to throughput."""
    return msgspec.convert(offer, Throughput)


def ceiling(offer: Mapping[str, Any]) -> int:
    """Return the largest RU/s of a stored offer."""
    return decode_offer(offer).ceiling


def manual(value: object) -> Throughput:
    """Check and build fixed throughput. BadRequest for an amount that is not allowed."""
    # Not isinstance: True is an int, too.
    if type(value) is not int or not 400 <= value <= 1_000_000 or value % 100:
        raise BadRequest("The offer throughput must be between 400 and 1000000 in steps of 100.")
    return Throughput(value)


def autoscale(maximum: object, increment: int | None = None) -> Throughput:
    """Check and build autoscale throughput. BadRequest for an amount that is not allowed."""
    if type(maximum) is int and maximum < 1000:
        raise BadRequest(f"Requested throughput {maximum} is less than required minimum throughput 1000")
    if type(maximum) is not int or maximum > 1_000_000 or maximum % 1000:
        raise BadRequest("The autoscale maxThroughput must be between 1000 and 1000000 in steps of 1000.")
    return Throughput(maximum // 10, maximum, increment)
