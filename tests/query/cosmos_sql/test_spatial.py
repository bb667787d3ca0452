"""Spatial functions against plane geometry, on all parts of the Earth and at all scales from metres to continents.

Seen from the centre, the great circles of half a sphere are straight lines on a plane that touches it. So figures are drawn at
random on such a plane, judged there by schoolbook rules, and put on the Earth: at a pole, across the antimeridian, anywhere.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any, NamedTuple

import pytest

from mayflydb.model.errors import Unsupported
from mayflydb.query.cosmos_sql.functions import FUNCTIONS
from mayflydb.query.cosmos_sql.functions.spatial import arcs
from mayflydb.query.cosmos_sql.functions.spatial.ellipsoid import FLATTENING, SURFACE, distance, to_vector
from mayflydb.query.cosmos_sql.functions.spatial.shapes import MAX_POINTS

Spot = tuple[float, float]

ROUNDS = 120

st_area, st_distance, st_intersects, st_isvalid, st_within = (
    FUNCTIONS[f"ST_{name}"].compute for name in ("AREA", "DISTANCE", "INTERSECTS", "ISVALID", "WITHIN")
)


class Plane(NamedTuple):
    """A plane that touches the sphere at `centre`."""

    centre: arcs.Vector
    east: arcs.Vector
    north: arcs.Vector

    def place(self, spot: Spot) -> list[float]:
        """Longitude and latitude of a spot of the plane."""
        x, y, z = arcs.plus(self.centre, arcs.plus(arcs.scale(self.east, spot[0]), arcs.scale(self.north, spot[1])))
        return [
            math.degrees(math.atan2(y, x)),
            math.degrees(math.atan2(z, (1 - FLATTENING) * math.hypot(x, y))),
        ]

    def point(self, spot: Spot) -> dict[str, Any]:
        return {"type": "Point", "coordinates": self.place(spot)}

    def line(self, spots: list[Spot]) -> dict[str, Any]:
        return {"type": "LineString", "coordinates": [self.place(spot) for spot in spots]}

    def polygon(self, *rings: list[Spot]) -> dict[str, Any]:
        return {"type": "Polygon", "coordinates": [[self.place(spot) for spot in [*ring, ring[0]]] for ring in rings]}


def planes(chance: random.Random) -> Iterator[tuple[Plane, float]]:
    """Planes at poles, at the antimeridian and anywhere, each with a scale in Earth radii."""
    for number in range(ROUNDS):
        centre = (
            to_vector(0, 90),
            to_vector(0, -90),
            to_vector(180, 0),
            arcs.unit((chance.gauss(0, 1), chance.gauss(0, 1), chance.gauss(0, 1))),
        )[number % 4]
        east = arcs.perpendicular(centre)
        yield Plane(centre, east, arcs.cross(centre, east)), 10 ** chance.uniform(-6, 0.3)


def star(chance: random.Random, centre: Spot, radius: float, count: int) -> list[Spot]:
    """A ring that is seen from its centre as a whole, counter-clockwise."""
    angles = [(number + chance.uniform(0.3, 0.7)) * 2 * math.pi / count for number in range(count)]
    lengths = [radius * chance.uniform(0.3, 1) for _ in angles]
    return [
        (centre[0] + length * math.cos(angle), centre[1] + length * math.sin(angle))
        for angle, length in zip(angles, lengths, strict=True)
    ]


def edges(ring: list[Spot]) -> list[tuple[Spot, Spot]]:
    return list(zip(ring, [*ring[1:], ring[0]], strict=True))


def holds(ring: list[Spot], spot: Spot) -> bool:
    """By the number of edges that a ray to the right crosses."""
    x, y = spot
    return sum((b > y) != (d > y) and x < (c - a) * (y - b) / (d - b) + a for (a, b), (c, d) in edges(ring)) % 2 == 1


def turn(a: Spot, b: Spot, c: Spot) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0])


def cross(one: list[tuple[Spot, Spot]], other: list[tuple[Spot, Spot]]) -> bool:
    return any(
        turn(a, b, c) * turn(a, b, d) < 0 and turn(c, d, a) * turn(c, d, b) < 0
        for (a, b), (c, d) in product(one, other)
    )


def clear(ring: list[Spot], spots: list[Spot], scale: float) -> bool:
    """Whether no spot is in line with an edge, where the answer is one of rounding."""
    return all(
        abs(turn(start, end, spot)) > 1e-4 * scale * math.dist(start, end)
        for (start, end), spot in product(edges(ring), spots)
    )


def test_points_are_in_polygons_as_on_the_plane(chance: random.Random) -> None:
    for plane, scale in planes(chance):
        ring = star(chance, (0, 0), scale, chance.randint(3, 12))
        hole = [(x * 0.2, y * 0.2) for x, y in reversed(ring)]
        polygon, holed, rest = plane.polygon(ring), plane.polygon(ring, hole), plane.polygon(ring[::-1])
        assert st_isvalid(polygon) and st_isvalid(holed) and st_isvalid(rest)
        assert st_within(plane.point((0, 0)), polygon) and not st_intersects(plane.point((0, 0)), holed)
        for _ in range(10):
            spot = chance.uniform(-1.2, 1.2) * scale, chance.uniform(-1.2, 1.2) * scale
            if not clear(ring, [spot], scale) or not clear(hole, [spot], scale):
                continue
            point, inside = plane.point(spot), holds(ring, spot)
            assert st_within(point, polygon) is st_intersects(point, polygon) is inside, (point, polygon)
            assert (st_distance(point, polygon) == 0) is inside, (point, polygon)
            assert st_within(point, rest) is not inside, (point, rest)
            assert st_within(point, holed) is (inside and not holds(hole, spot)), (point, holed)


def test_polygons_and_lines_lie_as_on_the_plane(chance: random.Random) -> None:
    met: set[tuple[bool, bool, bool]] = set()
    for plane, scale in planes(chance):
        ring = star(chance, (0, 0), scale, chance.randint(3, 10))
        hole = [(x * 0.2, y * 0.2) for x, y in reversed(ring)]
        far = scale * chance.choice((0.5, 1.5))
        centre = chance.uniform(-far, far), chance.uniform(-far, far)
        other = star(chance, centre, scale * 10 ** chance.uniform(-1.5, 0.3), chance.randint(3, 8))
        if not clear(ring, other, scale) or not clear(hole, other, scale) or not clear(other, ring + hole, scale):
            continue
        one, two, rest, holed = (
            plane.polygon(ring), plane.polygon(other), plane.polygon(ring[::-1]), plane.polygon(ring, hole)
        )  # fmt: skip
        crossed = cross(edges(ring), edges(other))
        inner = not crossed and holds(ring, other[0])
        outer = not crossed and holds(other, ring[0])
        met.add((crossed, inner, outer))
        assert st_intersects(one, two) is st_intersects(two, one) is (crossed or inner or outer), (one, two)
        assert (st_within(two, one), st_within(one, two)) == (inner, outer), (one, two)
        assert (st_within(two, rest), st_intersects(two, rest)) == (not crossed and not inner and not outer, not inner)
        free = not cross(edges(hole), edges(other)) and not holds(hole, other[0]) and not holds(other, hole[0])
        assert st_within(two, holed) is (inner and free), (two, holed)
        line, crossed = plane.line(other), cross(edges(ring), edges(other)[:-1])
        assert st_intersects(line, one) is (crossed or holds(ring, other[0])), (line, one)
        assert st_within(line, one) is (not crossed and holds(ring, other[0])), (line, one)
    assert {(True, False, False), (False, True, False), (False, False, False)} <= met


def test_halves_of_a_polygon(chance: random.Random) -> None:
    for plane, scale in planes(chance):
        ring = star(chance, (0, 0), scale, chance.randint(5, 12))
        cut = chance.randint(2, len(ring) - 2)
        halves = [*ring[: cut + 1], (0.0, 0.0)], [*ring[cut:], ring[0], (0.0, 0.0)]
        whole, left, right = plane.polygon(ring), *map(plane.polygon, halves)
        assert st_within(left, whole) and st_within(right, whole) and st_within(whole, whole)
        assert not st_within(whole, left) and not st_within(left, right) and st_intersects(left, right)
        assert not st_isvalid({"type": "MultiPolygon", "coordinates": [left["coordinates"], right["coordinates"]]})
        assert st_area(left) + st_area(right) == pytest.approx(st_area(whole), rel=1e-6)
        assert st_area(whole) + st_area(plane.polygon(ring[::-1])) == pytest.approx(SURFACE, rel=1e-12)
        for spot in ring:
            corner = plane.point(spot)
            assert st_intersects(corner, whole) and not st_within(corner, whole) and st_distance(corner, whole) == 0


# Longitude and latitude of two points; metres by C. Karney, GeographicLib.
GEODESICS = [
    ((-73.8, 40.6), (-0.5, 51.6), 5551759.400),
    ((174.81, -41.32), (-5.50, 40.96), 19959679.267),
    ((0, 0), (179.5, 0.5), 19936288.579),
    ((0, -30), (179.8, 29.9), 19989832.828),
    ((0, 30), (180, -30), 20003931.459),
]


@pytest.mark.parametrize(("start", "end", "metres"), GEODESICS)
def test_distances_are_those_of_geodesics(start: Spot, end: Spot, metres: float) -> None:
    assert distance(to_vector(*start), to_vector(*end)) == pytest.approx(metres, abs=0.002)
    assert distance(to_vector(*end), to_vector(*start)) == pytest.approx(metres, abs=0.002)


def test_distances_are_symmetrical_and_those_of_the_nearest_points(chance: random.Random) -> None:
    for plane, scale in planes(chance):
        one = star(chance, (0, 0), scale, 5)
        other = star(chance, (3 * scale, chance.uniform(-1, 1) * scale), scale, 5)
        shapes: list[tuple[Callable[..., dict[str, Any]], Callable[..., dict[str, Any]]]] = [
            (plane.polygon, plane.polygon), (plane.line, plane.polygon), (plane.line, plane.line)
        ]  # fmt: skip
        for left, right in shapes:
            metres = st_distance(left(one), right(other))
            assert metres == pytest.approx(st_distance(right(other), left(one)), rel=1e-9)
        spots = [
            (a + (c - a) * part / 100, b + (d - b) * part / 100)
            for (a, b), (c, d) in edges(one)[:-1]
            for part in range(101)
        ]
        end = to_vector(*plane.place(other[0]))
        sampled = min(distance(to_vector(*plane.place(spot)), end) for spot in spots)
        assert st_distance(plane.line(one), plane.point(other[0])) == pytest.approx(sampled, rel=1e-4)


def circle(count: int) -> dict[str, Any]:
    angles = [2 * math.pi * number / (count - 1) for number in range(count - 1)]
    ring = [[10 * math.cos(angle), 10 * math.sin(angle)] for angle in angles]
    return {"type": "Polygon", "coordinates": [[*ring, ring[0]]]}


def test_the_number_of_points_is_bounded() -> None:
    assert st_within({"type": "Point", "coordinates": [9, 0]}, circle(MAX_POINTS)) is True
    assert st_isvalid(circle(MAX_POINTS + 1)) is False
    path = [[number % 100, number % 80] for number in range(MAX_POINTS + 1)]
    assert st_isvalid({"type": "LineString", "coordinates": path[1:]}) is True
    assert st_isvalid({"type": "LineString", "coordinates": path}) is False


def test_edges_in_a_tangle_are_refused() -> None:
    ways = [[[number / 1e4 + 40, 40], [number / 1e4, 0]] for number in range(1001)]
    comb = [place for number, way in enumerate(ways) for place in (way[::-1] if number % 2 else way)]
    ring = [*comb, [0.1, -10], [-20, -10], [-20, 40], comb[0]]
    assert st_isvalid({"type": "Polygon", "coordinates": [[*comb[:202], *ring[-4:]]]}) is True
    with pytest.raises(Unsupported, match="pairs of edges"):
        st_isvalid({"type": "Polygon", "coordinates": [ring]})
