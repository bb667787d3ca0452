"""GeoJSON geometries as Cosmos DB accepts them: parsing and validation.

Point, LineString, Polygon and MultiPolygon in degrees, longitude first. Further numbers of a position are ignored, and so are
further members, `crs` among them. Errors have the service's texts where those are public.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, Final, TypeAlias

import msgspec

from mayflydb.query.cosmos_sql.functions.spatial.arcs import (
    TOUCH,
    Arc,
    Ball,
    Vector,
    build_arc,
    build_ball,
    chord,
    plus,
)
from mayflydb.query.cosmos_sql.functions.spatial.ellipsoid import to_vector
from mayflydb.query.cosmos_sql.functions.spatial.regions import Region, find_common_flaw, find_flaw
from mayflydb.query.cosmos_sql.values import NUMBERS, Value

MAX_POINTS: Final = 4096
"""The service's limit for a polygon; Mayfly applies it to every geometry."""

_CACHE_SIZE: Final = 8
"""The number of cached geometries of each kind; a large polygon takes some megabytes."""

Path: TypeAlias = tuple[tuple[float, float], ...]


class Invalid(Exception):
    """The geometry is not valid; the text says why."""


class Shape(msgspec.Struct, frozen=True):
    """A geometry on the unit sphere.

    `paths` are its arcs: a point, a line, or the rings of its polygons, `regions`. `tree` contains all arcs; None for a
    MultiPolygon without polygons.
    """

    paths: list[list[Arc]]
    tree: Ball | None
    regions: list[Region] = []


def parse_shape(value: dict[str, Any]) -> Shape:
    """Build the geometry of a GeoJSON object; raises Invalid."""
    kind = value.get("type")
    build = _BUILDERS.get(kind) if type(kind) is str else None
    if build is None:
        raise Invalid("The type of a geometry must be Point, LineString, Polygon or MultiPolygon.")
    return build(value.get("coordinates"))


def _require_list(value: Value, what: str) -> list[Any]:
    if type(value) is not list:
        raise Invalid(f"The coordinates of a {what} are not valid.")
    return value


def _parse_position(value: Value, kind: str) -> tuple[float, float]:
    numbers = _require_list(value, kind)
    if len(numbers) < 2 or not all(type(number) in NUMBERS for number in numbers):
        raise Invalid(f"The {kind} input is not valid because a position must be an array of two or more numbers.")
    longitude, latitude = numbers[:2]
    if not -180 <= longitude <= 180:
        raise Invalid("Longitude values must be between -180 and 180 degrees.")
    if not -90 <= latitude <= 90:
        raise Invalid("Latitude values must be between -90 and 90 degrees.")
    return float(longitude), float(latitude)


def _parse_path(value: Value, kind: str) -> Path:
    return tuple([_parse_position(item, kind) for item in _require_list(value, kind)])


def _check_point_count(paths: Sequence[Path]) -> None:
    if sum(map(len, paths)) > MAX_POINTS:
        raise Invalid(
            "Maximum allowed point count per geometry is exceeded."
            f" Currently maximum supported number of points is {MAX_POINTS}."
        )


def _build_point(coordinates: Value) -> Shape:
    place = to_vector(*_parse_position(coordinates, "Point"))
    only = build_arc(place, place)
    return Shape([[only]], build_ball([only]))


def _build_line(coordinates: Value) -> Shape:
    path = _parse_path(coordinates, "LineString")
    _check_point_count([path])
    return _build_shape(_line_of, path)


def _build_polygon(coordinates: Value) -> Shape:
    rings = _parse_rings(coordinates, "Polygon")
    _check_point_count(rings)
    return _build_shape(_polygon_of, rings)


def _build_multipolygon(coordinates: Value) -> Shape:
    polygons = tuple(_parse_rings(item, "MultiPolygon") for item in _require_list(coordinates, "MultiPolygon"))
    _check_point_count([ring for rings in polygons for ring in rings])
    return _build_shape(_multipolygon_of, polygons)


def _parse_rings(coordinates: Value, kind: str) -> tuple[Path, ...]:
    return tuple([_parse_path(ring, kind) for ring in _require_list(coordinates, kind)])


_BUILDERS: Final[dict[str, Callable[[Value], Shape]]] = {
    "Point": _build_point,
    "LineString": _build_line,
    "Polygon": _build_polygon,
    "MultiPolygon": _build_multipolygon,
}


def _build_shape(build: Callable[[Any], Shape | str], coordinates: Any) -> Shape:
    """Return the shape that `build` gives for the coordinates; raises Invalid for the text of an error.

    `build` is cached: a query compares one polygon with every record, and most of the work is to validate that polygon.
    """
    made = build(coordinates)
    # A cache keeps results and no exceptions, so builders return the text of an error.
    if isinstance(made, str):
        raise Invalid(made)
    return made


@lru_cache(_CACHE_SIZE)
def _line_of(path: Path) -> Shape | str:
    try:
        arcs = _build_arcs(path, 0, "line")
    except Invalid as problem:
        return f"The LineString input is not valid because {problem}."
    if not arcs:
        return "The LineString input is not valid because it must have at least two distinct points."
    return Shape([arcs], build_ball(arcs))


@lru_cache(_CACHE_SIZE)
def _polygon_of(rings: tuple[Path, ...]) -> Shape | str:
    try:
        region = _build_region(rings, "Polygon", "")
    except Invalid as problem:
        return f"The Polygon input is not valid because {problem}."
    return Shape(list(map(list, region.rings)), region.tree, [region])


@lru_cache(_CACHE_SIZE)
def _multipolygon_of(polygons: tuple[tuple[Path, ...], ...]) -> Shape | str:
    try:
        regions = [
            _build_region(rings, "MultiPolygon", f" of the polygon number {number}")
            for number, rings in enumerate(polygons, 1)
        ]
    except Invalid as problem:
        return f"The MultiPolygon input is not valid because {problem}."
    overlap = find_common_flaw(regions)
    if overlap is not None:
        return f"The MultiPolygon input is not valid because {overlap}."
    paths = [list(ring) for region in regions for ring in region.rings]
    return Shape(paths, build_ball([line for path in paths for line in path]) if paths else None, regions)


def _build_region(rings: Sequence[Path], kind: str, where: str) -> Region:
    if not rings:
        raise Invalid(f"it must have at least one ring{where}")
    arcs = [_build_ring(ring, number, kind, where) for number, ring in enumerate(rings)]
    problem = find_flaw(arcs)
    if problem is not None:
        raise Invalid(problem + where)
    return Region(arcs)


def _build_ring(ring: Path, number: int, kind: str, where: str) -> list[Arc]:
    name = f"the ring number {number + 1}{where}"
    if not ring or chord(to_vector(*ring[0]), to_vector(*ring[-1])) > TOUCH:
        raise Invalid(
            f"the start and end points of {name} are not the same."
            f" Each ring of a {kind} must have the same start and end points"
        )
    arcs = _build_arcs(ring, number, name)
    if len(ring) < 4 or len(arcs) < 3:
        raise Invalid(f"{name} must have at least four points, three of them distinct")
    return arcs


def _build_arcs(path: Path, number: int, name: str) -> list[Arc]:
    """The arcs of a line or ring, without points that repeat the one before."""
    points: list[Vector] = []
    for place in path:
        point = to_vector(*place)
        if not points or chord(points[-1], point) > TOUCH:
            points.append(point)
        if len(points) > 1 and chord(plus(points[-2], points[-1]), (0.0, 0.0, 0.0)) < TOUCH:
            raise Invalid(f"two successive points of {name} are antipodal, so that no shortest edge joins them")
    return [build_arc(start, end, number, order) for order, (start, end) in enumerate(pairwise(points))]
