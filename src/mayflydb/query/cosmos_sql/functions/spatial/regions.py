"""Regions of the sphere: the points to the left of every one of some rings.

A counter-clockwise ring encloses its inside, the same ring clockwise encloses the rest of the Earth, and a hole is a
clockwise ring. The piece of boundary nearest to a point decides whether the point is in a region: nothing lies between the
two, so the point is inside exactly if it is to the left there. No map projection, pole or antimeridian is special.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum
from functools import cached_property
from itertools import pairwise
from typing import Final

from mayflydb.query.cosmos_sql.functions.spatial.arcs import (
    TOUCH,
    Arc,
    Ball,
    Vector,
    build_ball,
    chord,
    closest_point,
    crossing,
    dot,
    minus,
    near_pairs,
    nearest_arcs,
    perpendicular,
    plus,
    scale,
    touch,
    unit,
)
from mayflydb.query.cosmos_sql.functions.spatial.ellipsoid import area


class Side(IntEnum):
    """The position of a point relative to a region."""

    OUTSIDE = -1
    BOUNDARY = 0
    INSIDE = 1


class Region:
    """The points to the left of all of `rings`, closed sequences of arcs; `Arc.path` and `Arc.place` are the indexes of an
    arc.
    """

    def __init__(self, rings: Sequence[Sequence[Arc]]) -> None:
        self.rings: Final = rings
        self.tree: Final = build_ball([line for ring in rings for line in ring])

    def side(self, point: Vector) -> Side:
        """The position of a point: inside, outside or on the boundary."""
        if self.beyond is not None and chord(point, self.tree.centre) > self.tree.radius + TOUCH:
            return self.beyond
        return self._near(point)

    def area(self) -> float:
        """The area in square metres."""
        return area(self.rings)

    def alongside(self, line: Arc, point: Vector) -> bool:
        """True if the region lies to the left of `line` at `point`, where the line runs along the boundary."""
        _, edge, _ = nearest_arcs(self.tree, point)[0]
        return dot(edge.normal, line.normal) > 0

    @cached_property
    def beyond(self) -> Side | None:
        """The side of all points outside the ball around the boundary; None if the ball contains the whole sphere."""
        centre, radius = self.tree.centre, self.tree.radius + TOUCH
        # A point beside the ball is tested, not the opposite point, which is equally far from everything.
        for point in (perpendicular(centre), scale(unit(centre), -1)):
            if chord(point, centre) > radius:
                return self._near(point)
        return None

    def _near(self, point: Vector) -> Side:
        found = nearest_arcs(self.tree, point)
        if found[0][0] <= TOUCH:
            return Side.BOUNDARY
        # Several edges may be equally near, as the two of a corner (`_in_corner`).
        inside = all(self._is_left(edge, foot, point) for _, edge, foot in found)
        return Side.INSIDE if inside else Side.OUTSIDE

    def _is_left(self, edge: Arc, foot: Vector, point: Vector) -> bool:
        ring = self.rings[edge.path]
        if foot == edge.start:
            return _in_corner(ring[edge.place - 1], edge, point)
        if foot == edge.end:
            return _in_corner(edge, ring[(edge.place + 1) % len(ring)], point)
        return edge.height(point) > 0


def _in_corner(arriving: Arc, leaving: Arc, point: Vector) -> bool:
    """True if a point is in the angle to the left of two successive edges."""
    way = minus(point, leaving.start)
    sides = dot(way, arriving.normal) > 0, dot(way, leaving.normal) > 0
    return all(sides) if arriving.height(leaving.end) > 0 else any(sides)


def find_contacts(one: Ball, other: Ball) -> dict[Arc, list[Vector]]:
    """Return, by arc of the first tree, the points where arcs of the second cross, touch or end on it. Raises Unsupported."""
    found: dict[Arc, list[Vector]] = {}
    for left, right in near_pairs(one, other):
        if touch(left, right):
            found.setdefault(left, []).extend(_common_points(left, right))
    return found


def _common_points(line: Arc, other: Arc) -> Iterator[Vector]:
    place = crossing(line, other)
    if place is not None:
        yield place
    for end in (other.start, other.end):
        foot = closest_point(line, end)
        if chord(foot, end) <= TOUCH:
            yield foot


def piece_points(line: Arc, cuts: Iterable[Vector]) -> Iterator[Vector]:
    """A point inside each piece of a line that is cut at some of its points."""
    ends = sorted((line.start, line.end, *cuts), key=lambda cut: chord(line.start, cut))
    for start, end in pairwise(ends):
        if chord(start, end) > 4 * TOUCH:
            yield unit(plus(start, end))


def find_flaw(rings: Sequence[Sequence[Arc]]) -> str | None:
    """The reason why rings do not bound a region; None if they do. The text calls the first ring number 1."""
    for number, ring in enumerate(rings, 1):
        if not _is_simple(ring):
            return f"the ring number {number} crosses, touches or overlaps itself"
    singles = [Region([_as_only_ring(ring)]) for ring in rings]
    for number, one in enumerate(singles):
        for other_number, other in enumerate(singles):
            if number != other_number and not _boundary_is_on(other, one, Side.INSIDE):
                first, second = sorted((number + 1, other_number + 1))
                return (
                    f"the rings number {first} and {second} cross, overlap or disagree about the inside, which must be to the"
                    " left of each: an external ring is counter-clockwise, a hole in it clockwise"
                )
    return None


def find_common_flaw(regions: Sequence[Region]) -> str | None:
    """The reason why regions cannot be the polygons of one figure; None if they can. Polygons may touch at points only."""
    for number, one in enumerate(regions):
        for other_number, other in enumerate(regions):
            if number != other_number and not _boundary_is_on(other, one, Side.OUTSIDE):
                first, second = sorted((number + 1, other_number + 1))
                return f"the polygons number {first} and {second} overlap or share a side"
    return None


def _as_only_ring(ring: Iterable[Arc]) -> list[Arc]:
    return [line._replace(path=0) for line in ring]


def _boundary_is_on(boundary: Region, region: Region, side: Side) -> bool:
    """True if the boundary of one region is on one side of another, except for single points."""
    if region.beyond is side and boundary.tree.gap(region.tree) > TOUCH:
        return True
    found = find_contacts(boundary.tree, region.tree)
    for ring in boundary.rings:
        # A line that nothing touches is on the same side as its neighbours.
        marked = [line for line in ring if line in found] or [ring[0]]
        if any(region.side(point) is not side for line in marked for point in piece_points(line, found.get(line, ()))):
            return False
    return True


def _is_simple(ring: Sequence[Arc]) -> bool:
    tree = build_ball(ring)
    return not any(_overlap(one, other, len(ring)) for one, other in near_pairs(tree, tree))


def _overlap(one: Arc, other: Arc, count: int) -> bool:
    """True if two edges of a ring have more in common than the corner that successive edges share."""
    if other.place == one.place + 1:
        return _folds_back(one, other)
    if one.place == 0 and other.place == count - 1:
        return _folds_back(other, one)
    return touch(one, other)


def _folds_back(arriving: Arc, leaving: Arc) -> bool:
    """True if the second of two successive edges runs back over the first."""
    before, after = arriving.start, leaving.end
    return (
        chord(closest_point(leaving, before), before) <= TOUCH or chord(closest_point(arriving, after), after) <= TOUCH
    )
