"""The form of a container's settings: the stored settings, the wanted ones, and the check before they are saved. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, get_args

import msgspec

from mayflydb.admin.requests import MAX_TTL
from mayflydb.portal.forms import parse_whole_number
from mayflydb.portal.results import format_json

TimeToLive = Literal["off", "no-default", "on"]
Mode = Literal["manual", "autoscale"]


class Range(msgspec.Struct, frozen=True):
    """Whole numbers from `low` to `high` in steps."""

    low: int
    high: int
    step: int

    def has(self, value: int) -> bool:
        return self.low <= value <= self.high and value % self.step == 0


AMOUNTS: Mapping[str, Range] = {"manual": Range(400, 1_000_000, 100), "autoscale": Range(1000, 1_000_000, 1000)}
"""RU/s that the service allows. The front end checks them too; the form checks before it saves its first part."""


class Offer(msgspec.Struct, frozen=True):
    """The throughput of a container: `amount` is RU/s, with autoscale the maximum."""

    mode: Mode
    amount: int


class Fields(msgspec.Struct, frozen=True):
    """The fields of the form, as text. `agreed`: the question that a second click answered."""

    time_to_live: str = "off"
    seconds: str = ""
    geospatial: str = "Geography"
    indexing: str = ""
    computed: str = "[]"
    mode: str = ""
    manual: str = ""
    autoscale: str = ""
    etag: str = ""
    agreed: str = ""

    @property
    def default_ttl(self) -> int | None:
        """The default that the form asks for; 0 if it asks for a number and has none."""
        if self.time_to_live == "on":
            return read_seconds(self.seconds)
        return -1 if self.time_to_live == "no-default" else None

    @property
    def offer(self) -> Offer | None:
        """The throughput that the form asks for; an amount of 0 for text that is no number."""
        if self.mode == "autoscale":
            return Offer("autoscale", parse_whole_number(self.autoscale))
        return Offer("manual", parse_whole_number(self.manual)) if self.mode == "manual" else None


NAMES: Mapping[str, str] = {
    "time_to_live": "timeToLive",
    "seconds": "timeToLiveSeconds",
    "geospatial": "geoSpatialConfig",
    "indexing": "indexingPolicy",
    "computed": "computedProperties",
    "mode": "throughputMode",
    "manual": "manualThroughput",
    "autoscale": "autoscaleThroughput",
    "etag": "etag",
    "agreed": "agreed",
}
"""Fields and their names in the form."""


def read_fields(sent: Mapping[str, str], loaded: Fields) -> Fields:
    """Return the submitted fields. A field that the form did not show keeps its stored value."""
    return Fields(**{field: sent.get(name, getattr(loaded, field)) for field, name in NAMES.items()})


def with_valid_seconds(fields: Fields) -> Fields:
    """Replace the typed seconds by the number that they were read as."""
    return msgspec.structs.replace(fields, seconds=str(read_seconds(fields.seconds))) if fields.seconds else fields


def read_seconds(text: str) -> int:
    """Parse the field of seconds: 0 for text that is no number, MAX_TTL for a larger one."""
    return min(max(parse_whole_number(text), 0), MAX_TTL)


def stored_fields(body: Mapping[str, Any], etag: str, offer: Offer | None) -> Fields:
    """Return the form of a container as it is stored."""
    default = body.get("defaultTtl")
    state: TimeToLive = "off" if default is None else "no-default" if default == -1 else "on"
    return Fields(
        time_to_live=state,
        seconds=str(default) if state == "on" else "",
        geospatial=body.get("geospatialConfig", {}).get("type", "Geography"),
        indexing=format_json(body["indexingPolicy"]),
        computed=format_json(body.get("computedProperties", [])),
        mode="" if offer is None else offer.mode,
        manual=str(offer.amount) if offer and offer.mode == "manual" else "",
        autoscale=str(offer.amount) if offer and offer.mode == "autoscale" else "",
        etag=etag,
    )


def apply_fields(body: Mapping[str, Any], wanted: Fields) -> dict[str, Any]:
    """Return the container's body with the fields applied. It equals `body` if nothing changes. ValueError for invalid JSON."""
    after = dict(body)
    if wanted.default_ttl is None:
        after.pop("defaultTtl", None)
    else:
        after["defaultTtl"] = wanted.default_ttl
    if wanted.geospatial != after.get("geospatialConfig", {}).get("type", "Geography"):
        after["geospatialConfig"] = {"type": wanted.geospatial}
    after["indexingPolicy"] = indexing_policy(wanted.indexing)
    if (computed := computed_properties(wanted.computed)) != after.get("computedProperties", []):
        after["computedProperties"] = computed
    return after


def computed_properties(text: str) -> list[Any]:
    """Parse computed properties. ValueError with a sentence for text that is no JSON array."""
    found = _parse_json(text, "The field of computed properties")
    if not isinstance(found, list):
        raise ValueError('Computed properties are a JSON array of objects with "name" and "query".')
    return found


def indexing_policy(text: str) -> dict[str, Any]:
    """Parse an indexing policy. ValueError with a sentence for text that is no JSON object."""
    policy = _parse_json(text, "The indexing policy")
    if not isinstance(policy, dict):
        raise ValueError("The indexing policy must be a JSON object.")
    return policy


def _parse_json(text: str, name: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise ValueError(f"{name} is not JSON: {error}") from None


def find_faults(wanted: Fields) -> list[str]:
    """Return the reasons why the form cannot be saved, as far as the form alone shows them."""
    found: list[str] = []
    if wanted.time_to_live not in get_args(TimeToLive):
        found.append("Time to Live is Off, On (no default) or On.")
    if wanted.time_to_live == "on" and wanted.default_ttl == 0:
        found.append(f"Time to Live is On: it needs a whole number of seconds from 1 to {MAX_TTL}.")
    elif wanted.time_to_live == "on" and parse_whole_number(wanted.seconds) > MAX_TTL:
        found.append(f"{MAX_TTL} seconds is the longest Time to Live; the field now says so. Save to take it.")
    try:
        policy = indexing_policy(wanted.indexing)
    except ValueError as error:
        found.append(str(error))
    else:
        mode = policy.get("indexingMode")
        if isinstance(mode, str) and mode.lower() == "none" and wanted.default_ttl is not None:
            found.append(
                "Time to Live needs an index: expired items are found through it. Set indexingMode to consistent, or "
                "Time to Live to Off."
            )
    try:
        computed_properties(wanted.computed)
    except ValueError as error:
        found.append(str(error))
    offer = wanted.offer
    if offer is None and wanted.mode:
        found.append("Throughput is Manual or Autoscale.")
    if offer is not None and not AMOUNTS[offer.mode].has(offer.amount):
        amounts = AMOUNTS[offer.mode]
        found.append(f"Throughput is {amounts.low} to {amounts.high} RU/s in steps of {amounts.step}.")
    return found


class TruthTableRow(msgspec.Struct, frozen=True):
    """A line of the truth table: when items expire whose own ttl is missing, -1, or a number."""

    missing: str
    never: str
    own: str


def truth_table_row(default: int | None, reading: str) -> TruthTableRow:
    """Return the line for a default. `reading`: the default as a span."""
    if default is None:
        return TruthTableRow("never expires", "never expires", "never expires")
    return TruthTableRow(
        "never expires" if default == -1 else f"expires after {reading}", "never expires", "expires after n seconds"
    )
