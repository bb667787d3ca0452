"""Options of collections and views that `create` and collMod share: their types, ranges and combinations.

Rules: https://www.mongodb.com/docs/manual/reference/command/create/,
https://www.mongodb.com/docs/manual/reference/command/collMod/
"""

from __future__ import annotations

from typing import Any, Final

from mayflydb.frontends.mongo import arguments
from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.documents import to_milliseconds
from mayflydb.frontends.mongo.services import Services
from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError, bad_value, failed_to_parse, type_mismatch
from mayflydb.query.mongo.filter import compile_filter
from mayflydb.query.mongo.values import Document, Value, is_number, type_name

MAX_CAPPED_BYTES: Final = 1 << 50
MAX_CAPPED_DOCUMENTS: Final = (1 << 31) - 1

LEVELS: Final = ("off", "strict", "moderate")
ACTIONS: Final = ("error", "warn", "errorAndLog")

_INTERNAL: Final = ("admin", "config", "local")
"""Databases whose collections have no validators."""


# --- capped collections ------------------------------------------------------------------------------------------------


def parse_size(value: Value, field: str, command: str) -> int:
    """The most bytes of a capped collection. Raise MqlError 14, and 2 outside of 1 to MAX_CAPPED_BYTES."""
    size = _parse_bound(value, field, command, MAX_CAPPED_BYTES)
    if size < 1:
        raise bad_value(f"BSON field '{field}' value must be >= 1, actual value '{size}'")
    if size > MAX_CAPPED_BYTES:
        raise bad_value(f"BSON field '{field}' value must be <= {MAX_CAPPED_BYTES}, actual value '{size}'")
    return size


def parse_max(value: Value, field: str, command: str) -> int:
    """The most documents of a capped collection; 0: any number. Raise MqlError 14, and 2 above MAX_CAPPED_DOCUMENTS."""
    most = _parse_bound(value, field, command, MAX_CAPPED_DOCUMENTS)
    if most > MAX_CAPPED_DOCUMENTS:
        raise bad_value("max in a capped collection has to be < 2^31 or not set")
    return max(0, most)


def _parse_bound(value: Value, field: str, command: str, most: int) -> int:
    if not is_number(value):
        raise type_mismatch(f"{command}.{field}", type_name(value), *arguments.NUMERIC)
    number = arguments.round_number(value)
    if number is None:
        # Infinity is beyond every bound, NaN counts as 0.
        return most + 1 if "inf" in str(value).lower() and not str(value).startswith("-") else 0
    return number


# --- change streams ----------------------------------------------------------------------------------------------------


def parse_images(call: Call, given: Document) -> Document:
    """The setting of pre-images and post-images. Raise MqlError 14, 40414 and 40415."""
    place = f"{call.name}.changeStreamPreAndPostImages"
    images = arguments.document(given, "changeStreamPreAndPostImages", call.name) or {}
    for name in images:
        if name != "enabled":
            raise MqlError(40415, f"BSON field '{place}.{name}' is an unknown field.")
    if images.get("enabled") is None:
        raise arguments.missing_argument("enabled", place)
    # Unlike other flags of commands, this one is no number.
    if type(images["enabled"]) is not bool:
        raise type_mismatch(f"{place}.enabled", type_name(images["enabled"]), "bool")
    return {"enabled": images["enabled"]}


# --- validators --------------------------------------------------------------------------------------------------------


async def check_validator(services: Services, call: Call, name: str, options: Document) -> None:
    """Raise MqlError 14, 2, 72 and the errors of filters for an invalid validator, level or action."""
    validator = arguments.document(options, "validator", call.name)
    if validator:
        if call.database in _INTERNAL:
            raise MqlError(72, f"Document validators are not allowed on collections in the {call.database} database")
        if name.startswith("system."):
            raise MqlError(72, f"Document validators not allowed on system collection {call.database}.{name}")
        _check_operators(validator)
        env = Env(to_milliseconds(call.now))
        await services.evaluation_of(call).compute(True, call.size, compile_filter, validator, env)
    for field, allowed in (("validationLevel", LEVELS), ("validationAction", ACTIONS)):
        value = options.get(field)
        if value is None:
            continue
        if type(value) is not str:
            raise type_mismatch(f"{call.name}.{field}", type_name(value), "string")
        if value not in allowed:
            raise bad_value(f"Enumeration value '{value}' for field '{call.name}.{field}' is not a valid value.")


_NEVER_IN_VALIDATORS: Final = {
    "$text": (2, "$text is not allowed in a document validator"),
    "$where": (2, "$where is not allowed in a document validator"),
    "$near": (5626500, "$near is not allowed in a document validator"),
    "$nearSphere": (5626500, "$nearSphere is not allowed in a document validator"),
    "$geoNear": (5626500, "$geoNear is not allowed in a document validator"),
}


def _check_operators(query: Any) -> None:
    """Raise MqlError 2 and 5626500 for an operator that no validator has."""
    for name, operand in query.items():
        if name in _NEVER_IN_VALIDATORS:
            raise MqlError(*_NEVER_IN_VALIDATORS[name])
        if name in ("$and", "$or", "$nor") and type(operand) is list:
            for each in operand:
                if type(each) is dict:
                    _check_operators(each)
        elif not name.startswith("$") and type(operand) is dict:
            _check_operators(operand)


# --- storage -----------------------------------------------------------------------------------------------------------

ENGINE: Final = "wiredTiger"
"""The storage engine whose options clients may send. They tune its files, which are not there: they are kept and listed."""


def parse_storage_engine(call: Call, given: Document) -> Document | None:
    """The option `storageEngine`; None: it is absent. Raise MqlError 14, and those of its engine."""
    value = arguments.document(given, "storageEngine", call.name)
    if value:
        _check_engine(value, f"{call.name}.storageEngine")
    return value or None


def parse_index_defaults(call: Call, given: Document) -> Document | None:
    """The option `indexOptionDefaults`; None: it is absent. Raise MqlError 14, 40415, and those of its engine."""
    value = arguments.document(given, "indexOptionDefaults", call.name)
    for name in value or ():
        if name != "storageEngine":
            raise MqlError(40415, f"BSON field '{call.name}.indexOptionDefaults.{name}' is an unknown field.")
    if value and value.get("storageEngine"):
        inner = arguments.document(value, "storageEngine", f"{call.name}.indexOptionDefaults")
        _check_engine(inner or {}, f"{call.name}.indexOptionDefaults.storageEngine")
    return value or None


def _check_engine(given: Document, place: str) -> None:
    for name, options in given.items():
        if type(options) is not dict:
            raise bad_value(f"'{place}.{name}' has to be an embedded document.")
        if name != ENGINE:
            raise MqlError(72, f"{name} is not a registered storage engine for this server")
        for field, value in options.items():
            if field != "configString":
                raise MqlError(72, f"'{field}' is not a supported option in {ENGINE}")
            if type(value) is not str:
                raise type_mismatch(f"{place}.{ENGINE}.configString", type_name(value), "string")
            if "\0" in value:
                raise failed_to_parse("configString cannot contain a NUL byte")
            if any("=" not in part for part in value.split(",") if part):
                raise bad_value(f"cannot parse the configString: {value}")
