"""Changes of indexes: `index` of collMod, and the indexes that dropIndexes names.

Rules and texts: https://github.com/mongodb/mongo `src/mongo/db/catalog/coll_mod.cpp`, `drop_indexes.cpp`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec
from bson import Int64

from mayflydb.query.mongo.faults import MqlError, bad_value, type_mismatch
from mayflydb.query.mongo.indexes.options import parse_modified_ttl
from mayflydb.query.mongo.indexes.specs import IndexSpec, Profile, check_cosmos_ttl
from mayflydb.query.mongo.values import Document, Value, equal, format_value, is_number, is_truthy, type_name

_CHANGES: Final = ("expireAfterSeconds", "hidden", "prepareUnique", "unique")
_FIELDS: Final = ("name", "keyPattern", *_CHANGES)


def resolve_target(change: Document, existing: Sequence[IndexSpec], namespace: str) -> IndexSpec:
    """Return the index that `index` of collMod names. MqlError 14, 27, 72, 181, 40415."""
    for field in change:
        if field not in _FIELDS:
            raise MqlError(40415, f"BSON field 'collMod.index.{field}' is an unknown field.")
    name, pattern = change.get("name"), change.get("keyPattern")
    if name is not None and pattern is not None:
        raise MqlError(72, "Cannot specify both key pattern and name.")
    if name is None and pattern is None:
        raise MqlError(72, "Must specify either index name or key pattern.")
    if name is not None:
        if type(name) is not str:
            raise type_mismatch("collMod.index.name", type_name(name), "string")
        found = [each for each in existing if each.name == name]
    else:
        if type(pattern) is not dict:
            raise type_mismatch("collMod.index.keyPattern", type_name(pattern), "object")
        found = [each for each in existing if equal(each.pattern, pattern)]
    if not found:
        raise MqlError(27, f"cannot find index {name or format_value(pattern)} for ns {namespace}")
    if len(found) > 1:
        names = ", ".join(each.name for each in found)
        raise MqlError(
            181, f"index keyPattern {format_value(pattern)} matches {len(found)} indexes, must use index name: {names}"
        )
    return found[0]


def modify_index(spec: IndexSpec, change: Document, profile: Profile = "both") -> tuple[IndexSpec, Document]:
    """Return the index after a collMod, and the fields of the reply.

    The caller checks beforehand that the keys of an index that becomes unique are unique. MqlError 2, 14, 72.
    """
    given = {field: change[field] for field in _CHANGES if change.get(field) is not None}
    if not given:
        raise MqlError(72, "no expireAfterSeconds, hidden, unique, or prepareUnique field")
    if len(given) > 1 and "prepareUnique" in given and is_truthy(given["prepareUnique"]) != spec.prepare_unique:
        raise MqlError(72, "prepareUnique cannot be set together with other options of an index")
    reply: Document = {}
    if "expireAfterSeconds" in given:
        spec = _change_ttl(spec, given["expireAfterSeconds"], profile, reply)
    if "hidden" in given:
        spec = _change_hidden_flag(spec, _parse_boolean("hidden", given["hidden"]), reply)
    if "prepareUnique" in given:
        spec = _change_prepare_unique(spec, _parse_boolean("prepareUnique", given["prepareUnique"]), reply)
    if "unique" in given:
        spec = _change_unique(spec, _parse_boolean("unique", given["unique"]), reply)
    return spec, reply


def _change_ttl(spec: IndexSpec, value: Value, profile: Profile, reply: Document) -> IndexSpec:
    if not is_number(value):
        raise type_mismatch("collMod.index.expireAfterSeconds", type_name(value), "long", "int", "decimal", "double")
    cosmos = profile != "native" and spec.key[0][0] == "_ts"
    if spec.is_id:
        raise MqlError(72, "the _id field does not support TTL indexes")
    if len(spec.key) > 1 or spec.kind == "text":
        raise MqlError(72, "TTL indexes are single-field indexes, compound indexes do not support TTL")
    if spec.kind == "wildcard":
        raise MqlError(72, "wildcard indexes do not support TTL")
    seconds = parse_modified_ttl(value, least=-1 if cosmos else 0)
    if cosmos:
        check_cosmos_ttl(spec, seconds, 72)
        if spec.unique or spec.sparse or spec.partial is not None:
            raise MqlError(72, "A TTL index on '_ts' is neither unique nor sparse nor partial")
    if spec.expire_after is not None:
        reply["expireAfterSeconds_old"] = Int64(spec.expire_after)
    reply["expireAfterSeconds_new"] = Int64(seconds)
    return msgspec.structs.replace(spec, expire_after=seconds)


def _parse_boolean(field: str, value: Value) -> bool:
    if type(value) is not bool and not is_number(value):
        raise type_mismatch(f"collMod.index.{field}", type_name(value), "bool", "long", "int", "decimal", "double")
    return is_truthy(value)


def _change_hidden_flag(spec: IndexSpec, hidden: bool, reply: Document) -> IndexSpec:
    if spec.clustered:
        raise MqlError(6011800, "Cannot hide the clusteredIndex")
    if spec.is_id:
        raise bad_value("can't hide _id index")
    if hidden != spec.hidden:
        reply |= {"hidden_old": spec.hidden, "hidden_new": hidden}
    return msgspec.structs.replace(spec, hidden=hidden)


def _change_prepare_unique(spec: IndexSpec, prepared: bool, reply: Document) -> IndexSpec:
    if spec.is_id or spec.kind != "ordered":
        raise MqlError(72, f"index '{spec.name}' cannot be made unique")
    if prepared and spec.unique:
        return spec
    if prepared != spec.prepare_unique:
        reply |= {"prepareUnique_old": spec.prepare_unique, "prepareUnique_new": prepared}
    return msgspec.structs.replace(spec, prepare_unique=prepared)


def _change_unique(spec: IndexSpec, unique: bool, reply: Document) -> IndexSpec:
    if not unique:
        raise bad_value("Cannot make index non-unique")
    if spec.unique:
        return spec
    # prepareUnique refuses new duplicates, so that the keys remain unique between the check and this change.
    if not spec.prepare_unique:
        raise MqlError(72, "Cannot make index unique with 'prepareUnique=false'. Run collMod to set it first.")
    reply["unique_new"] = True
    return msgspec.structs.replace(spec, unique=True, prepare_unique=False)


def indexes_to_drop(which: Any, existing: Sequence[IndexSpec]) -> tuple[IndexSpec, ...]:
    """Return the indexes that `index` of dropIndexes names: by name, key pattern, list of names, or "*". MqlError 14,
    27, 72, 181.
    """
    if which == "*":
        return tuple(each for each in existing if not each.is_id)
    if type(which) is str:
        return (_get_by_name(which, existing),)
    if type(which) is list:
        if not all(type(each) is str for each in which):
            raise type_mismatch("dropIndexes.index", "array", "string", "object")
        return tuple(_get_by_name(each, existing) for each in dict.fromkeys(which))
    if type(which) is not dict:
        raise type_mismatch("dropIndexes.index", type_name(which), "string", "object")
    found = [each for each in existing if equal(each.pattern, which)]
    if not found:
        raise MqlError(27, f"can't find index with key: {format_value(which)}")
    if len(found) > 1:
        names = ", ".join(each.name for each in found)
        raise MqlError(
            181, f"{len(found)} indexes found for key: {format_value(which)}, identify by name instead: {names}"
        )
    return (_check_droppable(found[0]),)


def _get_by_name(name: str, existing: Sequence[IndexSpec]) -> IndexSpec:
    found = next((each for each in existing if each.name == name), None)
    if found is None:
        raise MqlError(27, f"index not found with name [{name}]")
    return _check_droppable(found)


def _check_droppable(spec: IndexSpec) -> IndexSpec:
    if spec.clustered:
        raise MqlError(5979800, "It is illegal to drop the clusteredIndex")
    if spec.is_id:
        raise MqlError(72, "cannot drop _id index")
    return spec
