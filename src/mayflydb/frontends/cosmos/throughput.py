"""Provisioned throughput in the REST API: headers and offers, parsed and formatted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from mayflydb.engine.throughput import Throughput, autoscale, manual
from mayflydb.model.errors import BadRequest

_UPGRADE = "autoUpgradePolicy"


def content_of(throughput: Throughput) -> dict[str, Any]:
    """Return the `content` of an offer."""
    maximum = throughput.autoscale_max
    content: dict[str, Any] = {"offerThroughput": throughput.manual, "offerIsRUPerMinuteThroughputEnabled": False}
    if maximum is not None:
        settings: dict[str, Any] = {"maxThroughput": maximum, "tier": 0, "maximumTierThroughput": maximum}
        if throughput.increment_percent is not None:
            settings[_UPGRADE] = {"throughputPolicy": {"incrementPercent": throughput.increment_percent}}
        content["offerAutopilotSettings"] = settings
    return content


def parse_headers(amount: str | None, autopilot: str | None) -> Throughput | None:
    """Parse `x-ms-offer-throughput` and `x-ms-cosmos-offer-autopilot-settings`; None without both. BadRequest if wrong."""
    if amount is not None and autopilot is not None:
        raise BadRequest("x-ms-offer-throughput and x-ms-cosmos-offer-autopilot-settings exclude each other.")
    if autopilot is not None:
        try:
            return _parse_autoscale(msgspec.json.decode(autopilot))
        except (ValueError, RecursionError):
            raise BadRequest("The header x-ms-cosmos-offer-autopilot-settings is not JSON.") from None
    if amount is None:
        return None
    if not re.fullmatch(r"[0-9]{1,10}", amount, re.ASCII):
        raise BadRequest("The header x-ms-offer-throughput is not a whole number.")
    return manual(int(amount))


def parse_content(content: object, previous: Throughput, to_autoscale: bool, to_manual: bool) -> Throughput:
    """Parse the `content` of an offer that is replaced. Only a migration header changes its kind (manual, autoscale)."""
    if to_autoscale and to_manual:
        raise BadRequest("An offer cannot be migrated to autoscale and to manual throughput at once.")
    if to_autoscale:
        return (
            # Autoscale begins at 1,000 RU/s and goes in steps of 1,000.
            previous if previous.autoscale_max is not None else autoscale(max(1000, -(-previous.manual // 1000) * 1000))
        )
    if to_manual:
        return previous if previous.autoscale_max is None else manual(previous.autoscale_max)
    if not isinstance(content, Mapping):
        raise BadRequest("The property 'content' of an offer must be an object.")
    settings = content.get("offerAutopilotSettings")
    if (settings is None) != (previous.autoscale_max is None):
        kind = "manual" if settings is None else "autoscale"
        raise BadRequest(f"The offer cannot change to {kind} throughput without a migration header.")
    return manual(content.get("offerThroughput")) if settings is None else _parse_autoscale(settings)


def _parse_autoscale(settings: object) -> Throughput:
    wanted = autoscale(settings.get("maxThroughput") if isinstance(settings, Mapping) else None)
    assert isinstance(settings, Mapping)
    upgrade = settings.get(_UPGRADE)
    if upgrade is None:
        return wanted
    policy = upgrade.get("throughputPolicy") if isinstance(upgrade, Mapping) else None
    increment = policy.get("incrementPercent", 0) if isinstance(policy, Mapping) else None
    if type(increment) is not int or not 0 <= increment <= 1_000_000:
        raise BadRequest(f'The property \'{_UPGRADE}\' must be like {{"throughputPolicy":{{"incrementPercent":0}}}}.')
    return autoscale(wanted.autoscale_max, increment)
