"""Reports on expiry for the admin API: TTL indexes, the effect of a change, and the dates of a document."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import msgspec
from bson import DatetimeMS, Int64, ObjectId, json_util

from mayflydb.engine.catalog import Node, next_number
from mayflydb.engine.proposals import Change, Proposal
from mayflydb.frontends.mongo import clustered
from mayflydb.frontends.mongo.catalog_rows import parse_index, slots_of, ts_index_of, unpack_document
from mayflydb.frontends.mongo.collections import Collection, identity_of
from mayflydb.frontends.mongo.contracts import Contract
from mayflydb.frontends.mongo.indexing import expiring_indexes
from mayflydb.frontends.mongo.rules import date_rule, ts_rule
from mayflydb.frontends.mongo.time_series.reports import (
    COUNTS_FROM,
    OPTION,
    expire_after,
    name_of_bucket,
    split_key,
    split_text,
    ttl_rows,
)
from mayflydb.frontends.mongo.time_series.restrictions import check_index
from mayflydb.frontends.mongo.time_series.series import Series, bucket_rule, series_in
from mayflydb.model.errors import BadRequest, NotFound
from mayflydb.model.hints import Hint
from mayflydb.model.instant import MILLISECOND, Instant, to_rfc3339
from mayflydb.model.record import IGNORED, Record
from mayflydb.query.mongo.extended_json import encode_pairs, parse_json
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.indexes.changes import modify_index
from mayflydb.query.mongo.indexes.key_values import decode_key
from mayflydb.query.mongo.indexes.keys import compile_keys
from mayflydb.query.mongo.indexes.specs import IndexSpec, parse_spec
from mayflydb.query.mongo.paths import find_values, split_path
from mayflydb.query.mongo.values import INT32_MAX, MISSING, Document, Value, decode, format_value, type_name

TS_FIELD: Final = "_ts"
OBJECT_ID_DIGITS: Final = 24


# --- ids -------------------------------------------------------------------------------------------------------------


def id_text(key: bytes) -> str:
    """An `_id` as text: a string as it is, an ObjectId as its 24 digits, anything else as extended JSON."""
    try:
        value = decode_key(key)
    except ValueError:
        # Of several measurements with one `_id`, all but the first have a number behind it.
        first, number = split_key(key)
        return id_text(first) + number
    if type(value) is str:
        return value
    if type(value) is ObjectId:
        return str(value)
    return json_util.dumps(value, json_options=json_util.RELAXED_JSON_OPTIONS)


def find_identities(id: str) -> list[tuple[bytes, bytes]]:
    """(partition, key) of each document that an id in text may mean: `5` is a number or a string."""
    readings: list[Value] = []
    if len(id) == OBJECT_ID_DIGITS and ObjectId.is_valid(id):
        readings.append(ObjectId(id))
    with suppress(MqlError):
        # The detour over BSON gives values the types of stored ones.
        readings.append(decode(encode_pairs([("_id", parse_json(id))]))["_id"])
    readings.append(id)
    found = [identity_of(each) for each in readings]
    return [(identity.partition, identity.key) for identity in found]


def find_measurements(id: str) -> list[tuple[bytes, bytes]]:
    """The same for a time series, where a text may end with the number of a measurement."""
    text, number = split_text(id)
    numbered = [(partition, key + number) for partition, key in find_identities(text)] if number else []
    return [*numbered, *find_identities(id)]


# --- indexes ---------------------------------------------------------------------------------------------------------


def _specs(node: Node) -> dict[int, IndexSpec]:
    """The specifications of complete indexes by number."""
    return {index.number: parse_index(index).spec for index in node.definition.indexes if index.state == "ready"}


def ttl_indexes(node: Node, contract: Contract) -> list[dict[str, Any]]:
    """All TTL indexes: name, field, seconds (-1: only own ttl), and the anchor as text."""
    ts = ts_index_of(node.definition)
    counted = [] if ts is None else [(ts, "the last write")]
    counted += [(parse_index(index).spec, "a date") for index in expiring_indexes(node.definition, contract)]
    in_series = series_in(node.definition) is not None
    own, seconds = ttl_rows(node), clustered.expire_after(node.definition)
    if seconds is not None:
        own.append({"name": OPTION, "field": "_id", "expire_after_seconds": seconds, "counts_from": "a date"})
    return own + [
        {
            "name": spec.name,
            "field": spec.key[0][0],
            "expire_after_seconds": spec.expire_after,
            "counts_from": COUNTS_FROM if in_series else counts_from,
        }
        for spec, counts_from in counted
    ]


def slot_names(node: Node) -> dict[int, str]:
    """The names of date indexes by the slot that their rules count from."""
    specs, series = _specs(node), series_in(node.definition)
    names = {slot: specs[number].name for number, slot in slots_of(node.definition).items() if number in specs}
    if series is None:
        by_id = clustered.slot_in(node.definition)
        return names if by_id is None else {by_id: OPTION} | names
    return {slot: name_of_bucket(name) for slot, name in ({series.slot: OPTION} | names).items()}


def default_ttl(node: Node) -> int | None:
    """The seconds of the TTL index on `_ts`, or of the collection itself; None: there are none."""
    if series_in(node.definition) is not None:
        return expire_after(node)
    if clustered.slot_in(node.definition) is not None:
        return clustered.expire_after(node.definition)
    ts = ts_index_of(node.definition)
    return None if ts is None else ts.expire_after


# --- changes ---------------------------------------------------------------------------------------------------------


class IndexChange(msgspec.Struct, frozen=True):
    """An index before a change (None: a new one) and after it. `ts`: the last write is the anchor."""

    before: IndexSpec | None
    after: IndexSpec
    ts: bool


def resolve_index(node: Node, change: Change, contract: Contract) -> IndexChange:
    """Resolve the index that a change names.

    Raise NotFound for a missing one, BadRequest for one that cannot be a TTL index.
    """
    collection = Collection(node, "", contract)
    if collection.view_on is not None:
        raise BadRequest(f"{collection.name} is a view: nothing dies there")
    if change.of_default:
        if contract.profile == "native":
            raise BadRequest("_ts is a field as any other in the profile native", hint=Hint("ttl-index"))
        change = msgspec.structs.replace(change, field=TS_FIELD)
    before = _find_index(collection, change)
    if before is None and change.seconds is None:
        raise NotFound(f"{collection.name} has no index on {change.field}")
    try:
        after = _changed_spec(before, change, collection, contract)
    except MqlError as error:
        raise BadRequest(error.message) from None
    profile = contract.profile
    if collection.series is not None:
        _check_series_index(collection.series, after)
    if change.seconds is not None and not after.is_cosmos_ttl(profile) and not after.expires_by_date(profile):
        raise BadRequest(f"{after.name} is a {after.kind} index: no document dies by it")
    return IndexChange(before, after, after.key[0][0] == TS_FIELD and contract.profile != "native")


def _check_series_index(series: Series, spec: IndexSpec) -> None:
    try:
        check_index(series, spec)
    except MqlError as error:
        raise BadRequest(error.message) from None


def _changed_spec(before: IndexSpec | None, change: Change, collection: Collection, contract: Contract) -> IndexSpec:
    if before is None:
        document = {
            "key": {change.field: 1},
            "name": f"{change.field}_1",
            "expireAfterSeconds": Int64(change.seconds or 0),
        }
        return parse_spec(document, contract.profile, collection.options.get("collation"), contract.custom_path)
    if change.seconds is None:
        return msgspec.structs.replace(before, expire_after=None)
    return modify_index(before, {"expireAfterSeconds": Int64(change.seconds)}, contract.profile)[0]


def _find_index(collection: Collection, change: Change) -> IndexSpec | None:
    specs = collection.listed_specs
    if change.index is not None:
        for spec in specs:
            if spec.name == change.index:
                return spec
        names = ", ".join(spec.name for spec in specs)
        raise NotFound(f"{collection.name} has no index {change.index}", hint=Hint("no-such-index", {"names": names}))
    # Of several indexes on the field, a TTL index has priority.
    fitting = [
        spec for spec in specs if len(spec.key) == 1 and spec.key[0][0] == change.field and spec.kind == "ordered"
    ]
    return max(fitting, key=lambda spec: spec.expire_after is not None, default=None)


def propose(node: Node, change: IndexChange, contract: Contract) -> Proposal:
    """The rules as they would be after a change. Unchanged rules keep their `not_before`."""
    current = None if change.before is None else change.before.expire_after
    seconds = change.after.expire_after
    if change.ts:
        others = tuple(rule for rule in node.definition.rules if rule.slot is not None)
        proposed = () if seconds is None else (ts_rule(seconds),)
        return Proposal(proposed + others, current, change.after.name)
    slot, accepts_numbers = _slot_of(node, change.before, contract)
    others = tuple(rule for rule in node.definition.rules if rule.slot is None or rule.slot != slot)
    if seconds is None:
        return Proposal(others, current, change.after.name)
    where = next_number(node.definition) if slot is None else slot
    series = series_in(node.definition)
    if series is not None:
        return Proposal((*others, bucket_rule(series, seconds, where, contract)), current, change.after.name)
    rules = (*others, date_rule(seconds, where, contract, accepts_numbers))
    return Proposal(
        rules, current, change.after.name, _date_adder(change.after, where, accepts_numbers) if slot is None else None
    )


def _slot_of(node: Node, spec: IndexSpec | None, contract: Contract) -> tuple[int | None, bool]:
    """(slot, whether numbers count as dates) of a TTL index. Slot None: the index has none yet."""
    slots = slots_of(node.definition)
    for index in node.definition.indexes:
        ready = parse_index(index) if index.state == "ready" else None
        if ready is not None and ready.spec == spec:
            return slots.get(index.number), ready.accepts_numbers or (index.number not in slots and contract.is_cosmos)
    return None, contract.is_cosmos


def _date_adder(spec: IndexSpec, slot: int, accepts_numbers: bool) -> Callable[[Record], Record]:
    keys = compile_keys(spec)

    def add_date(record: Record) -> Record:
        date = keys.earliest_date(decode(record.value), accepts_numbers)
        return record if date is None else msgspec.structs.replace(record, dates=(*record.dates, (slot, date)))

    return add_date


def build_commands(name: str, change: IndexChange, contract: Contract) -> list[Document]:
    """The commands by which a client would make the change."""
    before, after = change.before, change.after
    if before == after:
        return []
    if after.expire_after is None:
        return [] if before is None or before.expire_after is None else [{"dropIndexes": name, "index": before.name}]
    create: Document = {"createIndexes": name, "indexes": [after.to_document()]}
    if before is None:
        return [create]
    if contract.profile == "cosmos":
        # The profile has no collMod.
        return [{"dropIndexes": name, "index": before.name}, create]
    return [{"collMod": name, "index": {"name": before.name, "expireAfterSeconds": Int64(after.expire_after)}}]


# --- one document ----------------------------------------------------------------------------------------------------


def describe(node: Node, record: Record, contract: Contract) -> dict[str, Any]:
    """A document's own ttl, the reason why it is ignored, and the date that each TTL index finds."""
    document = decode(record.value)
    ts = ts_index_of(node.definition)
    found: dict[str, Any] = {"written": to_rfc3339(record.written)}
    if "ttl" in document:
        found["own_ttl"] = format_value(document["ttl"])
        found["ignored_ttl"] = why_ignored(document["ttl"], record, ts)
    slots, dates = slots_of(node.definition), dict(record.dates)
    series = series_in(node.definition)
    rows: list[dict[str, Any]] = []
    if series is not None and expire_after(node) is not None:
        rows.append({"index": OPTION, "date": _date_text(series.start_of(record))})
    if clustered.expire_after(node.definition) is not None:
        rows.append(_row_of_id(document["_id"]))
    for index in expiring_indexes(node.definition, contract):
        spec = parse_index(index).spec
        date = dates.get(slots.get(index.number, -1))
        without = {} if date is not None else dict(zip(("reason", "text"), _why_no_date(spec, document), strict=True))
        rows.append({"index": spec.name, "date": None if date is None else _date_text(date), **without})
    return {**found, "dates": rows} if rows else found


def _row_of_id(id: Value) -> dict[str, Any]:
    date = clustered.date_of(id)
    if date is not None:
        return {"index": OPTION, "date": _date_text(date)}
    why = "is a date before 1970" if type(id) is DatetimeMS else f"is of type {type_name(id)}, which is no date"
    return {"index": OPTION, "date": None, "reason": "wrong-type", "text": f"_id {why}"}


def find_dates(node: Node, record: Record) -> dict[str, Instant]:
    """The dates in fields of a document that a TTL index may name: in a time series, its time."""
    series = series_in(node.definition)
    if series is not None:
        return {series.time_field: int(series.time_of(decode(record.value))) * MILLISECOND}
    return {
        name: int(value) * MILLISECOND
        for name, value in decode(record.value).items()
        if type(value) is DatetimeMS and name not in ("_id", TS_FIELD) and "." not in name
    }


def _date_text(date: int) -> str:
    try:
        return to_rfc3339(date)
    except (OverflowError, ValueError):
        return "before year 1" if date < 0 else "after 9999"


def _why_no_date(spec: IndexSpec, document: Document) -> tuple[str, str]:
    path, within = spec.key[0][0], compile_keys(spec).filter
    if within is not None and not within.matches(document):
        return "no-anchor", f"the document is outside the partial filter of {spec.name}"
    values = [value for value in find_values(document, split_path(path)) if value is not MISSING]
    if not values:
        return "no-anchor", f"the document has no {path}"
    elements = [value for value in values if type(value) is not list]
    kinds = dict.fromkeys(type_name(value) for value in elements or values)
    return "wrong-type", f"{path} is of type {', '.join(kinds)}, which is no date"


def why_ignored(value: Value, record: Record, ts: IndexSpec | None) -> str | None:
    """The reason why a document's `ttl` is ignored; None: it is effective."""
    if ts is None:
        return "there is no TTL index on _ts: ttl is a field as any other"
    if ts.expire_after == -1 and record.override == IGNORED:
        return f"{_ignored_reason(value)}; the index's -1 counts, so that the document stays"
    if ts.expire_after == -1 or record.override != IGNORED:
        return None
    return f"{_ignored_reason(value)}; the index's {ts.expire_after} s count"


def _ignored_reason(value: Value) -> str:
    if type(value) not in (int, Int64, float):
        return f"its type is {type_name(value)}, which is no whole number"
    if value != value or value in (float("inf"), float("-inf")) or value != int(value):
        return f"{format_value(value)} is no whole number"
    if value > INT32_MAX:
        return f"{format_value(value)} is more than {INT32_MAX}"
    return f"{format_value(value)} is neither -1 nor above 0"


def is_view(node: Node) -> bool:
    """Return True if the node is a collection."""
    return "options" in node.body and "viewOn" in unpack_document(node.body["options"])
