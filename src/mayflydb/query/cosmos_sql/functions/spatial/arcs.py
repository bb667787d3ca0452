"""The geometry of the unit sphere: vectors, arcs of great circles, and a tree of bounding balls over arcs.

Lengths are chords, straight through the sphere: they order as angles do, and unlike cosines they are exact for short
distances.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import combinations_with_replacement
from typing import Final, NamedTuple, TypeAlias

from mayflydb.model.errors import Unsupported

Vector: TypeAlias = tuple[float, float, float]

TOUCH: Final = 1e-11
"""Points no further apart than this touch: 64 micrometres on the Earth, far above rounding and below any measurement."""


def dot(left: Vector, right: Vector) -> float:
    """The scalar product."""
    return left[0] * right[0] + left[1] * right[1] + left[2] * right[2]


def cross(left: Vector, right: Vector) -> Vector:
    """The vector product."""
    a, b, c = left
    x, y, z = right
    return b * z - c * y, c * x - a * z, a * y - b * x


def plus(left: Vector, right: Vector) -> Vector:
    """The sum."""
    return left[0] + right[0], left[1] + right[1], left[2] + right[2]


def minus(left: Vector, right: Vector) -> Vector:
    """The difference."""
    return left[0] - right[0], left[1] - right[1], left[2] - right[2]


def scale(vector: Vector, factor: float) -> Vector:
    """The product with a number."""
    return vector[0] * factor, vector[1] * factor, vector[2] * factor


def unit(vector: Vector) -> Vector:
    """The vector of length 1 in the same direction; the zero vector stays as it is."""
    length = math.hypot(*vector)
    return scale(vector, 1 / length) if length else vector


def perpendicular(vector: Vector) -> Vector:
    """A unit vector at right angles to this one."""
    axis: Vector = (1.0, 0.0, 0.0) if abs(vector[0]) <= abs(vector[1]) else (0.0, 1.0, 0.0)
    return unit(cross(axis, vector))


chord = math.dist
"""The length of the straight line between two points."""


MAX_PAIRS: Final = 300_000
"""The limit of pairs of edges that are compared because the tree cannot separate them.

So many pairs take about a second; a coast of 4096 points has a tenth of them.
"""


class Arc(NamedTuple):
    """The shorter arc of a great circle from `start` to `end`; a point if the two are equal.

    `normal` is the pole to the left of the arc, `forward` its direction at `start`, `back` the direction at `end` that leads
    back along the arc; all three are zero vectors for a point. `path` and `place` are the arc's indexes in its figure.
    """

    start: Vector
    end: Vector
    normal: Vector
    forward: Vector
    back: Vector
    path: int
    place: int

    def height(self, point: Vector) -> float:
        """The sine of the angle by which a point is to the left of the whole great circle."""
        x, y, z = self.start
        a, b, c = self.normal
        return (point[0] - x) * a + (point[1] - y) * b + (point[2] - z) * c


def build_arc(start: Vector, end: Vector, path: int = 0, place: int = 0) -> Arc:
    """Build the arc between two points that are not antipodal."""
    # For points near each other, the product with the difference keeps digits that the product with `end` loses.
    normal = unit(cross(start, minus(end, start)))
    return Arc(start, end, normal, cross(normal, start), cross(end, normal), path, place)


def closest_point(line: Arc, point: Vector) -> Vector:
    """The point of the arc that is nearest to `point`; exactly `start` or `end` if that is nearest."""
    if dot(line.forward, point) > 0 and dot(line.back, point) > 0:
        return unit(minus(point, scale(line.normal, line.height(point))))
    return line.start if chord(point, line.start) <= chord(point, line.end) else line.end


def crossing(one: Arc, other: Arc) -> Vector | None:
    """The point at which two arcs cross; None if they do not.

    None also if an end of one arc touches the other: the directions there would be mere rounding.
    """
    c, d = one.height(other.start), one.height(other.end)
    a, b = other.height(one.start), other.height(one.end)
    # Each arc has its ends on both sides of the other's circle. The third sign leaves out arcs that meet the circles at
    # opposite points.
    if not (c * d < 0 and a * b < 0 and a * d > 0) or min(abs(a), abs(b), abs(c), abs(d)) <= TOUCH:
        return None
    place = unit(cross(one.normal, other.normal))
    # Two great circles cross at two opposite points. The arc contains the one on its own side of the sphere.
    return place if dot(place, plus(one.start, one.end)) > 0 else scale(place, -1)


def end_chords(one: Arc, other: Arc) -> Iterator[tuple[float, Vector, Vector]]:
    """The chords from each end of either arc to the other arc; the shortest is their distance if the arcs do not cross."""
    for end in {one.start, one.end}:
        foot = closest_point(other, end)
        yield chord(end, foot), end, foot
    for end in {other.start, other.end}:
        foot = closest_point(one, end)
        yield chord(foot, end), foot, end


def touch(one: Arc, other: Arc) -> bool:
    """True if the arcs have a point in common."""
    start, end = other.height(one.start), other.height(one.end)
    if start * end > 0 and min(abs(start), abs(end)) > TOUCH:
        return False  # This is the case of most pairs: one arc is on one side of the other.
    return any(length <= TOUCH for length, _, _ in end_chords(one, other)) or crossing(one, other) is not None


class Ball(NamedTuple):
    """A bounding ball of some arcs: a leaf with one arc, or a node with two smaller balls."""

    centre: Vector
    radius: float
    only: Arc | None
    halves: tuple[Ball, ...]

    def gap(self, other: Ball) -> float:
        """A lower bound of the distance between the arcs of two balls; negative if the balls overlap."""
        return chord(self.centre, other.centre) - self.radius - other.radius


def build_ball(arcs: Sequence[Arc]) -> Ball:
    """Build the tree over arcs in the order of a path, so that neighbours share a ball."""
    if len(arcs) == 1:
        middle = unit(plus(arcs[0].start, arcs[0].end))
        return Ball(middle, max(chord(middle, arcs[0].start), chord(middle, arcs[0].end)), arcs[0], ())
    halves = build_ball(arcs[: len(arcs) // 2]), build_ball(arcs[len(arcs) // 2 :])
    centre = scale(plus(halves[0].centre, halves[1].centre), 0.5)
    return Ball(centre, max(chord(centre, half.centre) + half.radius for half in halves), None, halves)


def near_pairs(one: Ball, other: Ball) -> Iterator[tuple[Arc, Arc]]:
    """Yield all pairs of arcs that touch, and further ones that may. For a tree with itself: each pair once and in order.

    Raises Unsupported if there are more than MAX_PAIRS.
    """
    stack = [(one, other)]
    count = 0
    while stack:
        left, right = stack.pop()
        if left is right:
            # Each half with itself and the halves with each other, so that no pair comes twice.
            stack += combinations_with_replacement(left.halves, 2)
        elif left.gap(right) > TOUCH:
            continue
        elif left.only is not None and right.only is not None:
            count = _count_pair(count)
            yield left.only, right.only
        else:
            stack += _split(left, right)


def _split(left: Ball, right: Ball) -> list[tuple[Ball, Ball]]:
    """Divide a pair of balls, of which one at least is no leaf: the larger one into its halves."""
    if left.only is None and (right.only is not None or left.radius >= right.radius):
        return [(half, right) for half in left.halves]
    return [(left, half) for half in right.halves]


def _count_pair(count: int) -> int:
    if count == MAX_PAIRS:
        raise Unsupported(
            f"A geometry with more than {MAX_PAIRS} pairs of edges near each other is not supported by Mayfly."
        )
    return count + 1


def nearest_arcs(tree: Ball, point: Vector) -> list[tuple[float, Arc, Vector]]:
    """The arcs nearest to a point as (chord, arc, nearest point of the arc); several if they are equally near."""
    best = math.inf
    found: list[tuple[float, Arc, Vector]] = []
    stack = [(0.0, tree)]
    while stack:
        least, held = stack.pop()
        if least > best + TOUCH:
            continue
        if held.only is not None:
            foot = closest_point(held.only, point)
            length = chord(point, foot)
            best = min(best, length)
            found.append((length, held.only, foot))
        else:
            # The nearer half goes last and is taken first: it lowers `best`, and more of the tree is skipped.
            nearer = [(chord(point, half.centre) - half.radius, half) for half in held.halves]
            stack += sorted(nearer, key=lambda entry: -entry[0])
    return [entry for entry in found if entry[0] <= best + TOUCH]


def shortest_chords(one: Ball, other: Ball, slack: float) -> list[tuple[Vector, Vector]]:
    """The shortest links between arcs that do not touch, and those longer by less than the factor `slack`.

    Raises Unsupported if too many arcs are about equally near each other.
    """
    best = math.inf
    found: list[tuple[float, Vector, Vector]] = []
    count = 0
    stack = [(0.0, one, other)]
    while stack:
        least, left, right = stack.pop()
        if least > best * slack:
            continue
        if left.only is not None and right.only is not None:
            count = _count_pair(count)
            found += [link for link in end_chords(left.only, right.only) if link[0] <= best * slack]
            # A pair of arcs has at most four such chords.
            best = min(best, *(length for length, _, _ in found[-4:]), math.inf)
        else:
            nearer = [(a.gap(b), a, b) for a, b in _split(left, right)]
            stack += sorted(nearer, key=lambda entry: -entry[0])
    return [(start, end) for length, start, end in found if length <= best * slack]
