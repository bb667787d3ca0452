"""The WGS-84 ellipsoid: its mapping to the unit sphere, distances between its points, areas of its rings.

A point of latitude `phi` is mapped to its parametric latitude, `tan(beta) = b / a * tan(phi)`. The map stretches the
ellipsoid along its axis, so planes through the centre stay such planes: the edge between two points, a great elliptic arc,
becomes a great circle, and the sphere answers all questions of position without error. The service's documented area shows
that it has such edges (this module gives that area to ten digits), and so do public reports of points that it finds beyond a
parallel.

* Distances are geodesics by Vincenty's inverse formula (Survey Review 23, 1975), exact to a millimetre. The formula does not
  converge for points that are nearly antipodal; their geodesic is computed in two parts, over the best point half-way. Cosmos
  DB's documented examples differ from the results by less than 1e-7.
* Areas are the spherical excess, by the authalic radius, corrected by an integral along the edges for the flattening.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from mayflydb.query.cosmos_sql.functions.spatial.arcs import (
    Arc,
    Vector,
    chord,
    cross,
    dot,
    minus,
    perpendicular,
    plus,
    scale,
    unit,
)

EQUATORIAL: Final = 6378137.0
FLATTENING: Final = 1 / 298.257223563
POLAR: Final = EQUATORIAL * (1 - FLATTENING)
LENGTH_RATIO: Final = 1.004
"""On the sphere a degree is longer by less than this factor in one direction than in another."""

_ECCENTRICITY: Final = math.sqrt(FLATTENING * (2 - FLATTENING))
_SECOND_ECCENTRICITY_SQUARED: Final = (EQUATORIAL / POLAR) ** 2 - 1
_ANTIPODAL: Final = 1.9998
"""From this chord on, 178.4 degrees, Vincenty's formula may not converge."""

_MAX_ITERATIONS: Final = 100
_TOLERANCE: Final = 1e-13
_GOLDEN: Final = (math.sqrt(5) - 1) / 2
_SPHERE_AREA: Final = 4 * math.pi


def to_vector(longitude: float, latitude: float) -> Vector:
    """The point of the unit sphere for degrees of longitude and geodetic latitude."""
    along, up = math.radians(longitude), math.radians(latitude)
    return unit((math.cos(up) * math.cos(along), math.cos(up) * math.sin(along), (1 - FLATTENING) * math.sin(up)))


def distance(one: Vector, other: Vector) -> float:
    """The length of the geodesic between two points, in metres."""
    if one == other:
        return 0.0
    return _by_half_way(one, other) if chord(one, other) > _ANTIPODAL else _vincenty(one, other)


def _vincenty(one: Vector, other: Vector) -> float:
    # In Vincenty's letters: `spread` is lambda, `angle` sigma, `azimuth` sin(alpha), `slope` cos^2(alpha),
    # `middle` cos(2 sigma_m), `part` C. The vectors have the sines and cosines of the reduced latitudes U1 and U2.
    sin1, sin2 = one[2], other[2]
    cos1, cos2 = math.hypot(one[0], one[1]), math.hypot(other[0], other[1])
    longitude = math.atan2(one[0] * other[1] - one[1] * other[0], one[0] * other[0] + one[1] * other[1])
    spread = longitude
    angle = sine = cosine = middle = slope = 0.0
    for _ in range(_MAX_ITERATIONS):
        sine = math.hypot(cos2 * math.sin(spread), cos1 * sin2 - sin1 * cos2 * math.cos(spread))
        if not sine:
            return 0.0
        cosine = sin1 * sin2 + cos1 * cos2 * math.cos(spread)
        angle = math.atan2(sine, cosine)
        azimuth = cos1 * cos2 * math.sin(spread) / sine
        slope = 1 - azimuth * azimuth
        # On the equator cos^2(alpha) is 0, and the term vanishes.
        middle = cosine - 2 * sin1 * sin2 / slope if slope > _TOLERANCE else 0.0
        part = FLATTENING / 16 * slope * (4 + FLATTENING * (4 - 3 * slope))
        bend = angle + part * sine * (middle + part * cosine * (2 * middle * middle - 1))
        before, spread = spread, longitude + (1 - part) * FLATTENING * azimuth * bend
        if abs(spread - before) < _TOLERANCE:
            break
    return _geodesic_length(slope * _SECOND_ECCENTRICITY_SQUARED, angle, sine, cosine, middle)


def _geodesic_length(square: float, angle: float, sine: float, cosine: float, middle: float) -> float:
    """Vincenty's series for the length of an angle on the auxiliary sphere."""
    # `square` is u^2 of the paper, `scale` A and `part` B.
    scale = 1 + square / 16384 * (4096 + square * (square * (320 - 175 * square) - 768))
    part = square / 1024 * (256 + square * (square * (74 - 47 * square) - 128))
    third = part / 6 * middle * (4 * sine * sine - 3) * (4 * middle * middle - 3)
    return POLAR * scale * (angle - part * sine * (middle + part / 4 * (cosine * (2 * middle * middle - 1) - third)))


def _by_half_way(one: Vector, other: Vector) -> float:
    """The length of the geodesic between two nearly antipodal points, over a point half-way.

    Every way to the far side crosses the circle of points 90 degrees from `one`; the geodesic crosses it where the sum is
    least.
    """
    east = perpendicular(one)
    north = cross(one, east)

    def length(azimuth: float) -> float:
        station = plus(scale(east, math.cos(azimuth)), scale(north, math.sin(azimuth)))
        return _vincenty(one, station) + _vincenty(station, other)

    step = math.pi / 18
    # Every 10 degrees first: the function of the whole circle may have several minima, and golden section needs a part
    # with one.
    nearest = min((number * step for number in range(36)), key=length)
    return length(_find_minimum(length, nearest - step, nearest + step))


def _find_minimum(function: Callable[[float], float], low: float, high: float) -> float:
    """The argument between `low` and `high` at which a function with one minimum is least, by golden section."""
    for _ in range(40):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        if function(left) < function(right):
            high = right
        else:
            low = left
    return (low + high) / 2


_AUTHALIC_RADIUS_SQUARED: Final = (EQUATORIAL**2 + POLAR**2 * math.atanh(_ECCENTRICITY) / _ECCENTRICITY) / 2
"""The square of the radius of the sphere that has the surface of the ellipsoid."""

SURFACE: Final = _SPHERE_AREA * _AUTHALIC_RADIUS_SQUARED
"""The surface of the whole ellipsoid, in square metres."""


def area(rings: Sequence[Sequence[Arc]]) -> float:
    """The area to the left of all the rings, in square metres. A ring is closed and does not cross itself."""
    parts = [
        _AUTHALIC_RADIUS_SQUARED * _excess([line.start for line in ring]) - sum(map(_correction, ring))
        for ring in rings
    ]
    # A negative excess, as of a hole, lacks the whole surface. No small area is computed as the difference of large numbers.
    return math.fsum(parts) + SURFACE * (sum(part < 0 for part in parts) - len(parts) + 1)


def _excess(points: Sequence[Vector]) -> float:
    """The area to the left on the unit sphere, by triangles from one point; less the whole sphere if it is more than half."""
    apex = _apex(points)
    total = 0.0
    for number, point in enumerate(points):
        start, end = minus(points[number - 1], apex), minus(point, apex)
        volume = dot(apex, cross(start, end))
        # 1 + a.b + b.c + c.a for unit vectors, from the squares of the sides.
        base = 4 - (dot(start, start) + dot(end, end) + chord(points[number - 1], point) ** 2) / 2
        total += 2 * math.atan2(volume, base)
    return math.remainder(total, _SPHERE_AREA)


def _apex(points: Sequence[Vector]) -> Vector:
    """The mean of the points, or a point that is antipodal to none of them if they have no mean."""
    middle = unit(tuple(map(math.fsum, zip(*points, strict=True))))  # type: ignore[arg-type]
    others: list[Vector] = [(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0), (-0.6, 0.48, -0.64)]
    return max([middle, *others], key=lambda apex: min(0.1, *(2 - chord(apex, point) for point in points)))


_NODES: Final = (
    (0.0, 128 / 225),
    *((sign * math.sqrt(5 - 2 * math.sqrt(10 / 7)) / 3, (322 + 13 * math.sqrt(70)) / 900) for sign in (-1, 1)),
    *((sign * math.sqrt(5 + 2 * math.sqrt(10 / 7)) / 3, (322 - 13 * math.sqrt(70)) / 900) for sign in (-1, 1)),
)
"""The rule of Gauss and Legendre with five points for [-1, 1]."""


def _correction(line: Arc) -> float:
    """The amount by which the area below an edge is larger on the ellipsoid than on its sphere; zero along a meridian."""
    angle = 2 * math.asin(min(1.0, chord(line.start, line.end) / 2))
    count = math.ceil(angle * 2)
    half = angle / count / 2
    total = 0.0
    for piece in range(count):
        for node, weight in _NODES:
            along = half * (2 * piece + 1 + node)
            total += weight * _difference(line.start[2] * math.cos(along) + line.forward[2] * math.sin(along))
    return half * line.normal[2] * total


def _difference(sine: float) -> float:
    """The area beyond a parametric latitude on the sphere, less that on the ellipsoid, divided by the square of the
    latitude's cosine.

    The integral along an edge divides by that square, because longitude changes faster near the pole. Both vanish at the
    pole; the quotient is computed without dividing one by the other.
    """
    height = abs(sine)
    width = (1 - FLATTENING) ** 2 / (height * height + (1 - FLATTENING) ** 2 * (1 - height * height))
    geodetic = height * math.sqrt(width) / (1 - FLATTENING)
    middle, half = (1 + geodetic) / 2, (1 - geodetic) / 2
    mean = sum(weight / (1 - (_ECCENTRICITY * (middle + half * node)) ** 2) ** 2 for node, weight in _NODES) / 2
    return math.copysign(1.0, sine) * (
        _AUTHALIC_RADIUS_SQUARED / (1 + height) - POLAR**2 * width * mean / (1 + geodetic)
    )
