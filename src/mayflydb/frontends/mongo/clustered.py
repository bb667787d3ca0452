"""Clustered collections: the catalogue's row, the options of `create` and collMod, and expiry by the date in `_id`.

A clustered collection has its ordered index on `_id` from the beginning, and what scans it walks over that index. A document
whose `_id` is a date since 1970 has this date in a slot of the collection, whether the collection expires or not: so to set or
change `expireAfterSeconds` changes one row of the catalogue.

Rules: https://www.mongodb.com/docs/manual/core/clustered-collections/
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from bson import DatetimeMS

from mayflydb.engine.catalog import Definition, Index, Node, Slot, next_number
from mayflydb.engine.proposals import Proposal
from mayflydb.expiry.rules import Rule
from mayflydb.frontends.mongo import arguments
from mayflydb.frontends.mongo.catalog_rows import pack_document, unpack_document
from mayflydb.frontends.mongo.contracts import Contract
from mayflydb.frontends.mongo.rules import date_rule
from mayflydb.model.errors import BadRequest
from mayflydb.model.instant import MILLISECOND, Instant
from mayflydb.query.mongo.faults import MqlError, type_mismatch
from mayflydb.query.mongo.indexes.key_bytes import id_key
from mayflydb.query.mongo.indexes.specs import IndexSpec
from mayflydb.query.mongo.values import Document, Value, equal, format_value, is_number, is_truthy, type_name

BODY: Final = "clustered"
"""The field in the body of a clustered collection: the number of its date slot. It is stored in catalogues and cannot change."""

MAX_KEY_BYTES: Final = 8 * 1024 * 1024
"""The most bytes of an `_id` by which documents are ordered."""

FIELDS: Final = ("v", "key", "name", "unique")
EXPIRE_AFTER: Final = "expireAfterSeconds"


# --- options -----------------------------------------------------------------------------------------------------------


def parse_clustered_index(body: Mapping[str, Any]) -> Document | None:
    """The option `clusteredIndex` of `create` as the catalogue stores it; None: an ordinary collection.

    Raise MqlError 14, 72, 197, 40414, 40415, 5979700, 5979703, 5979704, 6026500, 6026501, 6049200, 6049204, 6127800.
    """
    given = body.get("clusteredIndex")
    if given is not None:
        # Even `false` excludes them.
        _check_sizes(body)
    if given is None or ((type(given) is bool or is_number(given)) and not is_truthy(given)):
        return None
    _check_beside(body)
    if type(given) is bool or is_number(given):
        text = "The 'clusteredIndex' legacy format {clusteredIndex: <bool>} is only supported for specific internal"
        raise MqlError(5979703, f"{text} collections and vice versa")
    if type(given) is not dict:
        raise type_mismatch("create.clusteredIndex", type_name(given), "bool", "object")
    return _parse_spec(given)


def _parse_spec(given: Document) -> Document:
    for field in given:
        if field not in FIELDS:
            raise MqlError(40415, f"BSON field 'create.clusteredIndex.{field}' is an unknown field.")
    for field in ("key", "unique"):
        if given.get(field) is None:
            raise arguments.missing_argument(field, "create.clusteredIndex")
    if type(given["key"]) is not dict:
        raise type_mismatch("create.clusteredIndex.key", type_name(given["key"]), "object")
    if not arguments.flag(given, "unique", "create.clusteredIndex"):
        raise MqlError(5979700, "The clusteredIndex option requires unique: true to be specified")
    if not equal(given["key"], {"_id": 1}):
        raise MqlError(197, "The clusteredIndex option is only supported for key: {_id: 1}")
    version = 2 if given.get("v") is None else given["v"]
    if not is_number(version):
        raise type_mismatch("create.clusteredIndex.v", type_name(version), *arguments.NUMERIC)
    if arguments.round_number(version) != 2:
        text = f"Invalid clusteredIndex specification {format_value(given)}; cannot create a clusteredIndex with"
        raise MqlError(5979704, f"{text} v={format_value(version)}")
    name = arguments.text(given, "name", "create.clusteredIndex") if given.get("name") is not None else "_id_"
    return {"v": 2, "key": {"_id": 1}, "name": name, "unique": True}


_BESIDE: Final = {
    "size": (6049200, "'size' field for capped collections is not allowed on clustered collections."),
    "max": (6049204, "'max' field for capped collections is not allowed on clustered collections."),
}


def _check_sizes(body: Mapping[str, Any]) -> None:
    for name, (code, text) in _BESIDE.items():
        if body.get(name) is not None:
            raise MqlError(code, f"{text} Did you mean 'capped: true' with 'expireAfterSeconds'?")


def _check_beside(body: Mapping[str, Any]) -> None:
    if arguments.flag(body, "capped", "create"):
        text = "Clustered capped collection only available with 'enableTestCommands' server parameter"
        raise MqlError(6127800, text)
    if body.get("viewOn") is not None:
        raise MqlError(6026500, "The 'clusteredIndex' option is not supported with views")
    if body.get("autoIndexId") is False:
        raise MqlError(6026501, "The 'clusteredIndex' option does not support {autoIndexId: false}")
    if body.get("idIndex") is not None:
        raise MqlError(72, "The 'clusteredIndex' option is not supported with the 'idIndex' option")


# --- the catalogue -----------------------------------------------------------------------------------------------------


def spec_of(options: Document) -> IndexSpec | None:
    """The index on `_id` of a clustered collection with these options; None: the collection is not clustered."""
    given = options.get("clusteredIndex")
    return None if given is None else IndexSpec(given["name"], (("_id", 1),), unique=True, clustered=True)


def slot_in(definition: Definition) -> int | None:
    """The date slot of `_id`; None: the collection is not clustered."""
    found: int | None = definition.body.get(BODY)
    return found


def define_with_order(definition: Definition, options: Document, contract: Contract) -> Definition:
    """Return the definition of a new, empty collection as a clustered one, with its index, its slot and its rule."""
    spec = spec_of(options)
    assert spec is not None
    first = next_number(definition)
    # Identities are unique by themselves: the index only orders.
    index = Index(first, (), "ready", spec={"document": pack_document(spec.to_document())})
    defined = msgspec.structs.replace(
        definition,
        body={**definition.body, BODY: first + 1},
        indexes=(index,),
        slots=(Slot(first + 1, "ready"),),
        numbered=first + 1,
    )
    return msgspec.structs.replace(defined, rules=clustered_rules(defined, contract))


def expire_after(definition: Definition) -> int | None:
    """`expireAfterSeconds` of a clustered collection; None: it is off, or the collection is not clustered."""
    if slot_in(definition) is None:
        return None
    seconds = unpack_document(definition.body["options"]).get(EXPIRE_AFTER)
    return None if seconds is None else int(seconds)


def clustered_rules(definition: Definition, contract: Contract) -> tuple[Rule, ...]:
    """The rule of `expireAfterSeconds` of the collection; none where it is off."""
    slot, seconds = slot_in(definition), expire_after(definition)
    return () if slot is None or seconds is None else (date_rule(seconds, slot, contract, False),)


def propose(node: Node, seconds: int | None, contract: Contract) -> Proposal:
    """The rules as they would be with another `expireAfterSeconds` of the collection; None: off. BadRequest for -1."""
    slot, current = slot_in(node.definition), expire_after(node.definition)
    assert slot is not None
    others = tuple(rule for rule in node.definition.rules if rule.slot != slot)
    if seconds is None:
        return Proposal(others, current)
    if seconds < 0:
        raise BadRequest("documents of a clustered collection have no ttl of their own: say how long they live, or off")
    return Proposal((date_rule(seconds, slot, contract, False), *others), current)


def check_key_size(id: Value) -> None:
    """Raise MqlError 5894900 for an `_id` by which no clustered collection can be ordered."""
    # Only these types can be long. The server's keys of binary values have an end, too.
    if isinstance(id, str | bytes | dict) and len(id_key(id)) + isinstance(id, bytes) > MAX_KEY_BYTES:
        raise MqlError(5894900, f"The _id of a clustered collection has at most {MAX_KEY_BYTES} bytes")


def date_of(id: Value) -> Instant | None:
    """The date by which a document with this `_id` expires; None: it never does."""
    return int(id) * MILLISECOND if type(id) is DatetimeMS and int(id) >= 0 else None


# --- createIndexes -----------------------------------------------------------------------------------------------------


def without_clustered(documents: list[Document], clustered: IndexSpec | None) -> list[Document]:
    """The specifications of createIndexes without those that name the clustered index itself, which is there.

    Raise MqlError 6243700, 6492800.
    """
    found = []
    for each in documents:
        if "clustered" in each:
            if each["clustered"] is False:
                raise MqlError(6492800, "Value 'false' for field 'clustered' is invalid")
            if clustered is None or not equal(each.get("key"), clustered.pattern):
                text = "Cannot create index with option 'clustered' that does not match an existing clustered index"
                raise MqlError(6243700, text)
            continue
        if clustered is not None and type(each.get("key")) is dict and equal(each["key"], clustered.pattern):
            continue
        found.append(each)
    return found
