"""Provisioned throughput: what an offer grants, and the rules for asking for it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from mayflydb.model.errors import BadRequest

_UPGRADE = "autoUpgradePolicy"


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

    def to_json(self) -> dict[str, Any]:
        """The `content` of an offer."""
        maximum = self.autoscale_max
        content: dict[str, Any] = {"offerThroughput": self.manual, "offerIsRUPerMinuteThroughputEnabled": False}
        if maximum is not None:
            settings: dict[str, Any] = {"maxThroughput": maximum, "tier": 0, "maximumTierThroughput": maximum}
            if self.increment_percent is not None:
                settings[_UPGRADE] = {"throughputPolicy": {"incrementPercent": self.increment_percent}}
            content["offerAutopilotSettings"] = settings
        return content


def stored(offer: Throughput | None) -> dict[str, Any] | None:
    """Throughput as a definition keeps it."""
    return None if offer is None else msgspec.to_builtins(offer)


def loaded(offer: Mapping[str, Any]) -> Throughput:
    """What a definition keeps."""
    return msgspec.convert(offer, Throughput)


def ceiling(offer: Mapping[str, Any]) -> int:
    """The RU/s that a definition's offer grants at most."""
    return loaded(offer).ceiling


def parse_headers(manual: str | None, autopilot: str | None) -> Throughput | None:
    """From `x-ms-offer-throughput` and `x-ms-cosmos-offer-autopilot-settings`; None without either. BadRequest if wrong."""
    if manual is not None and autopilot is not None:
        raise BadRequest("x-ms-offer-throughput and x-ms-cosmos-offer-autopilot-settings exclude each other.")
    if autopilot is not None:
        try:
            return _autoscale(msgspec.json.decode(autopilot))
        except (ValueError, RecursionError):
            raise BadRequest("The header x-ms-cosmos-offer-autopilot-settings is not JSON.") from None
    if manual is None:
        return None
    if not re.fullmatch(r"[0-9]{1,10}", manual, re.ASCII):
        raise BadRequest("The header x-ms-offer-throughput is not a whole number.")
    return _manual(int(manual))


def parse_content(content: object, previous: Throughput, to_autoscale: bool, to_manual: bool) -> Throughput:
    """From the `content` of an offer that is replaced. The kind changes only where a migration header says so."""
    if to_autoscale and to_manual:
        raise BadRequest("An offer cannot be migrated to autoscale and to manual throughput at once.")
    if to_autoscale:
        return (
            previous if previous.autoscale_max is not None else _scaled(max(1000, -(-previous.manual // 1000) * 1000))
        )
    if to_manual:
        return previous if previous.autoscale_max is None else _manual(previous.autoscale_max)
    if not isinstance(content, Mapping):
        raise BadRequest("The property 'content' of an offer must be an object.")
    settings = content.get("offerAutopilotSettings")
    if (settings is None) != (previous.autoscale_max is None):
        kind = "manual" if settings is None else "autoscale"
        raise BadRequest(f"The offer cannot change to {kind} throughput without a migration header.")
    return _manual(content.get("offerThroughput")) if settings is None else _autoscale(settings)


def _manual(value: object) -> Throughput:
    if type(value) is not int or not 400 <= value <= 1_000_000 or value % 100:
        raise BadRequest("The offer throughput must be between 400 and 1000000 in steps of 100.")
    return Throughput(value)


def _scaled(maximum: int, increment: int | None = None) -> Throughput:
    return Throughput(maximum // 10, maximum, increment)


def _autoscale(settings: object) -> Throughput:
    maximum = settings.get("maxThroughput") if isinstance(settings, Mapping) else None
    if type(maximum) is int and maximum < 1000:
        raise BadRequest(f"Requested throughput {maximum} is less than required minimum throughput 1000")
    if type(maximum) is not int or maximum > 1_000_000 or maximum % 1000:
        raise BadRequest("The autoscale maxThroughput must be between 1000 and 1000000 in steps of 1000.")
    assert isinstance(settings, Mapping)
    upgrade = settings.get(_UPGRADE)
    if upgrade is None:
        return _scaled(maximum)
    policy = upgrade.get("throughputPolicy") if isinstance(upgrade, Mapping) else None
    increment = policy.get("incrementPercent", 0) if isinstance(policy, Mapping) else None
    if type(increment) is not int or not 0 <= increment <= 1_000_000:
        raise BadRequest(f'The property \'{_UPGRADE}\' must be like {{"throughputPolicy":{{"incrementPercent":0}}}}.')
    return _scaled(maximum, increment)
