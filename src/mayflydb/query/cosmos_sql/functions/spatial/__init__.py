"""Spatial functions on GeoJSON geometries, for containers of geography: the Earth is the WGS-84 ellipsoid, lengths are in
metres.

An argument that is no object makes the result undefined, and so does an invalid geometry, except in tests of validity.
Source: Microsoft's reference of the six functions, its introduction to geospatial data and its article on querying them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from mayflydb.query.cosmos_sql.functions.signature import BuiltinFunction, function
from mayflydb.query.cosmos_sql.functions.spatial.relations import intersects, separation, within
from mayflydb.query.cosmos_sql.functions.spatial.shapes import Invalid, Shape, parse_shape
from mayflydb.query.cosmos_sql.numbers import normalize_number
from mayflydb.query.cosmos_sql.values import UNDEFINED, Value


def _of_shapes(compute: Callable[..., Value]) -> Callable[..., Value]:
    """Build a function of valid geometries; undefined for others."""

    def evaluate(*geometries: dict[str, Any]) -> Value:
        try:
            return compute(*map(parse_shape, geometries))
        except Invalid:
            return UNDEFINED

    return evaluate


def _validity(geometry: dict[str, Any]) -> dict[str, Any]:
    try:
        parse_shape(geometry)
    except Invalid as problem:
        return {"valid": False, "reason": str(problem)}
    return {"valid": True}


def _area(held: Shape) -> Value:
    return normalize_number(sum(region.area() for region in held.regions))


def _distance(one: Shape, other: Shape) -> Value:
    metres = separation(one, other)
    return UNDEFINED if metres is None else normalize_number(metres)


FUNCTIONS: Final[tuple[BuiltinFunction, ...]] = (
    function("ST_AREA", "o", _of_shapes(_area)),
    function("ST_DISTANCE", "oo", _of_shapes(_distance)),
    function("ST_INTERSECTS", "oo", _of_shapes(intersects)),
    function("ST_ISVALID", "o", lambda geometry: _validity(geometry)["valid"]),
    function("ST_ISVALIDDETAILED", "o", _validity),
    function("ST_WITHIN", "oo", _of_shapes(within)),
)
