"""Relations of two shapes: distance, intersection, containment.

The definitions are those of OGC, which the service names as its source: shapes that touch intersect; a shape is within
another if no part of it is outside and the interiors meet. So a point on the boundary of a polygon, or at an end of a line,
is not within it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mayflydb.query.cosmos_sql.functions.spatial.arcs import (
    TOUCH,
    Arc,
    Ball,
    Vector,
    chord,
    near_pairs,
    nearest_arcs,
    shortest_chords,
    touch,
)
from mayflydb.query.cosmos_sql.functions.spatial.ellipsoid import LENGTH_RATIO, distance
from mayflydb.query.cosmos_sql.functions.spatial.regions import Region, Side, find_contacts, piece_points
from mayflydb.query.cosmos_sql.functions.spatial.shapes import Shape


def separation(one: Shape, other: Shape) -> float | None:
    """The least distance between two shapes in metres, 0 if they intersect; None if one of them is empty."""
    if one.tree is None or other.tree is None:
        return None
    if intersects(one, other):
        return 0.0
    return min(distance(start, end) for start, end in shortest_chords(one.tree, other.tree, LENGTH_RATIO))


def intersects(one: Shape, other: Shape) -> bool:
    """True if two shapes have a point in common."""
    if one.tree is None or other.tree is None:
        return False
    if _is_point(one) or _is_point(other):
        point, shape = (one, other) if _is_point(one) else (other, one)
        return _contains_point(shape, point.paths[0][0].start)
    if any(touch(left, right) for left, right in near_pairs(one.tree, other.tree)):
        return True
    # The boundaries do not meet: each path is wholly inside or wholly outside of the other shape.
    return _contains_a_path(one, other) or _contains_a_path(other, one)


def within(one: Shape, other: Shape) -> bool:
    """True if the first shape is within the second."""
    if one.tree is None or other.tree is None:
        return False
    if _is_point(one):
        return _has_in_interior(other, one.paths[0][0].start)
    if other.regions:
        return _in_regions(one, other)
    # A shape with an area cannot be within a line, a shape with a length not within a point.
    return not one.regions and not _is_point(other) and _covers(other.tree, one, other)


def _is_point(shape: Shape) -> bool:
    return shape.paths[0][0].start == shape.paths[0][0].end


def side(regions: Sequence[Region], point: Vector) -> Side:
    """The position of a point relative to the union of a shape's polygons."""
    return max((region.side(point) for region in regions), default=Side.OUTSIDE)


def _contains_point(shape: Shape, point: Vector) -> bool:
    if shape.regions:
        return side(shape.regions, point) is not Side.OUTSIDE
    return shape.tree is not None and nearest_arcs(shape.tree, point)[0][0] <= TOUCH


def _contains_a_path(one: Shape, other: Shape) -> bool:
    return any(side(other.regions, path[0].start) is not Side.OUTSIDE for path in one.paths)


def _has_in_interior(shape: Shape, point: Vector) -> bool:
    """True if a point is in the interior of a shape. The interior of a line is without its two ends, unless the line is
    closed.
    """
    if shape.regions:
        return side(shape.regions, point) is Side.INSIDE
    if _is_point(shape):
        return _contains_point(shape, point)
    ends = shape.paths[0][0].start, shape.paths[0][-1].end
    is_end = chord(*ends) > TOUCH and any(chord(point, end) <= TOUCH for end in ends)
    return not is_end and _contains_point(shape, point)


def _covers(tree: Ball, line: Shape, other: Shape) -> bool:
    return all(nearest_arcs(tree, point)[0][0] <= TOUCH for _, point in _points(line, other))


def _points(one: Shape, other: Shape) -> Iterator[tuple[Arc, Vector]]:
    """A point of each piece into which the arcs of the second shape cut those of the first, with the arc that the point is
    on.
    """
    found = find_contacts(one.tree, other.tree) if one.tree is not None and other.tree is not None else {}
    return ((line, point) for path in one.paths for line in path for point in piece_points(line, found.get(line, ())))


def _in_regions(one: Shape, other: Shape) -> bool:
    if any(side(other.regions, path[0].start) is Side.OUTSIDE for path in one.paths):
        return False
    meets = bool(one.regions)
    for line, point in _points(one, other):
        place = side(other.regions, point)
        if place is Side.OUTSIDE or (
            place is Side.BOUNDARY and one.regions and not _lie_on_one_side(other, line, point)
        ):
            return False
        meets = meets or place is Side.INSIDE
    if not one.regions:
        return meets
    # The boundary is inside. So is the whole polygon, unless it contains a piece of the other shape's boundary.
    return not any(side(one.regions, point) is Side.INSIDE for _, point in _points(other, one))


def _lie_on_one_side(shape: Shape, line: Arc, point: Vector) -> bool:
    """True if two polygons are on the same side of the piece of boundary that they share."""
    return any(region.side(point) is Side.BOUNDARY and region.alongside(line, point) for region in shape.regions)
