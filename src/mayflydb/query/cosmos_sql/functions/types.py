"""Type checks, which give a result for undefined too, IIF and DOCUMENTID."""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable
from typing import Any, Final

from mayflydb.query.cosmos_sql.functions.date import to_ticks
from mayflydb.query.cosmos_sql.functions.signature import BuiltinFunction, function
from mayflydb.query.cosmos_sql.numbers import to_whole
from mayflydb.query.cosmos_sql.values import NUMBERS, UNDEFINED, Value

_PRIMITIVES: Final = frozenset({type(None), bool, int, float, str})
_ITEM_RID_BYTES: Final = 16


def _is(*types: type) -> Callable[[Value], bool]:
    wanted = frozenset(types)
    return lambda value: type(value) in wanted


def _is_integer(value: Value) -> bool:
    return type(value) in NUMBERS and to_whole(value) is not None


def _is_finite(value: Value) -> bool:
    return type(value) is int or (type(value) is float and math.isfinite(value))


def _is_datetime(value: Value) -> bool:
    return type(value) is str and to_ticks(value) is not None


def _document_id(document: dict[str, Any]) -> Value:
    """The number of the item: the last 8 bytes of its rid, least significant first."""
    rid = document.get("_rid")
    if type(rid) is not str:
        return UNDEFINED
    try:
        decoded = base64.b64decode(rid.replace("-", "/"), validate=True)
    except (binascii.Error, ValueError):
        return UNDEFINED
    return int.from_bytes(decoded[8:], "little") if len(decoded) == _ITEM_RID_BYTES else UNDEFINED


FUNCTIONS: Final[tuple[BuiltinFunction, ...]] = (
    function("IS_ARRAY", "*", _is(list)),
    function("IS_BOOL", "*", _is(bool)),
    # Clients write this spelling in the filters that resume ORDER BY (`OrderByDocumentQueryExecutionContext` of
    # azure-cosmos).
    function("IS_BOOLEAN", "*", _is(bool)),
    function("IS_DATETIME", "*", _is_datetime),
    function("IS_DEFINED", "*", lambda value: value is not UNDEFINED),
    function("IS_FINITE_NUMBER", "*", _is_finite),
    function("IS_INTEGER", "*", _is_integer),
    function("IS_NULL", "*", lambda value: value is None),
    function("IS_NUMBER", "*", _is(int, float)),
    function("IS_OBJECT", "*", _is(dict)),
    function("IS_PRIMITIVE", "*", lambda value: type(value) in _PRIMITIVES),
    function("IS_STRING", "*", _is(str)),
    function("IIF", "***", lambda test, chosen, otherwise: chosen if test is True else otherwise),
    function("DOCUMENTID", "o", _document_id),
)
