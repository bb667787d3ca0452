"""Options of time series collections: those of `create`, `$out` and collMod, as the catalogue stores them.

Rules: https://www.mongodb.com/docs/manual/reference/command/create/ and
https://www.mongodb.com/docs/manual/reference/command/collMod/
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from bson import Int64

from mayflydb.frontends.mongo import arguments
from mayflydb.frontends.mongo.collections import Collection
from mayflydb.frontends.mongo.contracts import Contract
from mayflydb.frontends.mongo.time_series.series import SPANS
from mayflydb.model.instant import SECOND, Instant
from mayflydb.query.mongo.faults import MqlError, bad_value, type_mismatch
from mayflydb.query.mongo.stages.source import Out
from mayflydb.query.mongo.values import Document, Value, is_number, type_name

FIELDS: Final = ("timeField", "metaField", "granularity", "bucketMaxSpanSeconds", "bucketRoundingSeconds")
BUCKETS: Final = FIELDS[2:]

MAX_SPAN: Final = 31_536_000
"""The longest span of a bucket in seconds: 365 days."""

NEVER_BESIDE: Final = (
    *("size", "max", "validator", "validationLevel", "validationAction", "viewOn", "pipeline", "idIndex"),
    *("autoIndexId", "clusteredIndex", "changeStreamPreAndPostImages"),
)
"""Options of `create` that no time series collection can have, whatever their value."""


def parse_create(body: Mapping[str, Any], namespace: str, now: Instant) -> Document:
    """The options of a new collection. Raise MqlError 2, 14, 72, 40414, 40415, and 6346401 for encrypted fields."""
    for name in NEVER_BESIDE:
        if body.get(name) is not None:
            raise _not_beside(namespace, name)
    if arguments.flag(body, "capped", "create"):
        raise _not_beside(namespace, "capped")
    if body.get("encryptedFields") is not None:
        raise MqlError(6346401, "Encrypted fields cannot be used with views or timeseries collections")
    options: Document = {}
    if body.get("expireAfterSeconds") is not None:
        options["expireAfterSeconds"] = parse_expire_after(body["expireAfterSeconds"], "create", now)
    options["timeseries"] = parse_series(body["timeseries"], "create.timeseries", namespace)
    if body.get("collation") is not None:
        options["collation"] = body["collation"]
    return options


def _not_beside(namespace: str, name: str) -> MqlError:
    return MqlError(72, f"{namespace}: 'timeseries' is not allowed with '{name}'")


def parse_expire_after(value: Value, command: str, now: Instant) -> Int64:
    """`expireAfterSeconds` of a collection. Raise MqlError 14 for another type, 72 for a negative or too large number."""
    if not is_number(value):
        raise type_mismatch(f"{command}.expireAfterSeconds", type_name(value), *arguments.NUMERIC)
    seconds = arguments.round_number(value)
    is_negative = str(value).startswith("-") if seconds is None else seconds < 0
    # The server takes NaN for 0, which lets everything expire at once. It is refused here, as for indexes.
    if is_negative or "nan" in str(value).lower():
        raise MqlError(72, "TTL index 'expireAfterSeconds' option cannot be less than 0")
    # Nothing may expire before 1970: the server computes with unsigned seconds.
    if seconds is None or seconds > now // SECOND:
        raise MqlError(
            72, "TTL index 'expireAfterSeconds' option must be within an acceptable range, try a lower number"
        )
    return Int64(seconds)


def parse_series(given: Value, where: str, namespace: str) -> Document:
    """The document `timeseries` with its defaults. `where`: its place in the command, for messages.

    `$out` does not compare the names of the two fields, as the server.
    """
    if type(given) is not dict:
        raise type_mismatch(where, type_name(given), "object")
    check_members(given, FIELDS, where)
    parsed: Document = {"timeField": _parse_name(given, "timeField", where, namespace)}
    if given.get("metaField") is not None:
        parsed["metaField"] = _parse_name(given, "metaField", where, namespace)
    if "metaField" in parsed and not where.startswith("$out"):
        if parsed["metaField"] == "_id":
            raise MqlError(72, "'metaField' cannot be \"_id\"")
        if parsed["metaField"] == parsed["timeField"]:
            raise MqlError(72, "'metaField' cannot be the same as 'timeField'")
    return {**parsed, **_parse_buckets(given, where)}


def check_members(given: Document, known: tuple[str, ...], where: str) -> None:
    """Raise MqlError 40415 for a member that is not known."""
    for name in given:
        if name not in known:
            raise MqlError(40415, f"BSON field '{where}.{name}' is an unknown field.")


def _parse_name(given: Document, field: str, where: str, namespace: str) -> str:
    name = arguments.text(given, field, where)
    if "\0" in name:
        raise bad_value(f"'{field}' cannot contain NUL bytes")
    if "." in name:
        raise MqlError(72, f"{namespace}: '{field}' must be a top-level field and not contain a '.'")
    return name


def _parse_buckets(given: Document, where: str) -> Document:
    """Granularity and span, or span and rounding."""
    granularity = parse_granularity(given, where)
    span = parse_span(given, "bucketMaxSpanSeconds", where)
    rounding = parse_span(given, "bucketRoundingSeconds", where)
    if granularity is None and (span, rounding) != (None, None):
        return custom_buckets(span, rounding)
    granularity = granularity or "seconds"
    if rounding is not None:
        raise MqlError(72, "'bucketRoundingSeconds' cannot be set together with 'granularity'")
    if span not in (None, SPANS[granularity]):
        text = f"Timeseries 'bucketMaxSpanSeconds' is not configurable to a value other than {SPANS[granularity]}"
        raise MqlError(72, f"{text} for the granularity '{granularity}'")
    return {"granularity": granularity, "bucketMaxSpanSeconds": SPANS[granularity]}


def parse_granularity(given: Document, where: str) -> str | None:
    """`granularity`; None: it is absent. Raise MqlError 14, 2."""
    name = given.get("granularity")
    if name is None:
        return None
    if type(name) is not str:
        raise type_mismatch(f"{where}.granularity", type_name(name), "string")
    if name not in SPANS:
        raise bad_value(f"Enumeration value '{name}' for field '{where}.granularity' is not a valid value.")
    return name


def parse_span(given: Document, field: str, where: str) -> int | None:
    """The seconds of a bucket; None: they are absent. Doubles are cut, decimals rounded half to even. Raise MqlError 14, 2."""
    value = given.get(field)
    if value is None:
        return None
    if not is_number(value):
        raise type_mismatch(f"{where}.{field}", type_name(value), *arguments.NUMERIC)
    seconds = arguments.round_number(value)
    if seconds is None or seconds < 1:
        raise bad_value(f"BSON field '{field}' value must be >= 1, actual value '{value}'")
    if seconds > MAX_SPAN:
        raise bad_value(f"BSON field '{field}' value must be <= {MAX_SPAN}, actual value '{value}'")
    return seconds


def custom_buckets(span: int | None, rounding: int | None) -> Document:
    """Span and rounding without a granularity. Raise MqlError 72 unless both are there, and equal."""
    if span is None or rounding is None:
        raise MqlError(72, "'bucketMaxSpanSeconds' and 'bucketRoundingSeconds' must be set together")
    if span != rounding:
        raise MqlError(72, "'bucketRoundingSeconds' must be equal to 'bucketMaxSpanSeconds'")
    return {"bucketRoundingSeconds": rounding, "bucketMaxSpanSeconds": span}


def choose_options(target: Out, old: Collection | None, contract: Contract) -> Document:
    """The options of the collection that `$out` fills, in place of another one or new. Raise MqlError 72, 7268700, 7406103, 238,
    and those of `parse_series`.
    """
    options = {} if old is None else old.options
    if target.series is None:
        return options
    if contract.is_cosmos:
        raise MqlError(238, "$out: 'timeseries' is not supported in the profile cosmos")
    namespace = ".".join(target.target)
    given = parse_series(target.series, "$out.timeseries", namespace)
    if old is None:
        return {"timeseries": given}
    if old.series is None:
        raise MqlError(7268700, f"$out cannot replace the collection {namespace} by a time-series collection")
    if options["timeseries"] != given:
        raise MqlError(7406103, f"$out cannot change the options of the time-series collection {namespace}")
    return options


# --- collMod ---------------------------------------------------------------------------------------------------------


def change_expire_after(options: Document, value: Value, now: Instant) -> Document:
    """The options after `expireAfterSeconds: n | "off"`. Raise MqlError 14, 72."""
    if type(value) is str:
        if value != "off":
            text = "Invalid string value for the 'clusteredIndex::expireAfterSeconds' option."
            raise MqlError(72, f"{text} Got: '{value}'. Accepted value is 'off'")
        return {name: kept for name, kept in options.items() if name != "expireAfterSeconds"}
    others = {name: kept for name, kept in options.items() if name != "expireAfterSeconds"}
    return {"expireAfterSeconds": parse_expire_after(value, "collMod", now), **others}


_ORDER: Final = tuple(SPANS)


def change_buckets(options: Document, given: Value) -> Document:
    """The options after `timeseries: {..}`: buckets only become longer. Raise MqlError 2, 14, 72, 40415."""
    where = "collMod.timeseries"
    if type(given) is not dict:
        raise type_mismatch(where, type_name(given), "object")
    check_members(given, BUCKETS, where)
    before = options["timeseries"]
    granularity = parse_granularity(given, where)
    span = parse_span(given, "bucketMaxSpanSeconds", where)
    rounding = parse_span(given, "bucketRoundingSeconds", where)
    if granularity is None and span is None and rounding is None:
        return options
    if granularity is None:
        changed = custom_buckets(span, rounding)
    else:
        changed = _parse_buckets({name: given[name] for name in BUCKETS if name in given}, where)
    _check_not_shorter(before, changed)
    kept = {name: value for name, value in before.items() if name not in BUCKETS}
    return {**options, "timeseries": {**kept, **changed}}


def _check_not_shorter(before: Document, after: Document) -> None:
    names = before.get("granularity"), after.get("granularity")
    if None not in names and _ORDER.index(names[1]) < _ORDER.index(names[0]):
        raise MqlError(72, f"Invalid transition for timeseries.granularity from '{names[0]}' to '{names[1]}'")
    if after["bucketMaxSpanSeconds"] < before["bucketMaxSpanSeconds"]:
        text = "'bucketMaxSpanSeconds' cannot become less than"
        raise MqlError(72, f"{text} {before['bucketMaxSpanSeconds']}, which it is now")
