"""Trigonometry of decimals: results of 34 digits, from series computed with more digits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Context, Decimal, localcontext
from typing import Final

from mayflydb.query.mongo.decimal_powers import DECIMAL

# A result has 34 digits. The other digits absorb the rounding of the terms and what subtractions cancel.
_WORK_CONTEXT: Final = Context(prec=80, traps=[])
_PI: Final = Decimal(
    "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706798"
)
_NAN: Final = Decimal("NaN")


def _round_result(function: Callable[[Decimal], Decimal]) -> Callable[[Decimal], Decimal]:
    def outer(value: Decimal) -> Decimal:
        with localcontext(_WORK_CONTEXT):
            return DECIMAL.plus(function(value))

    return outer


def _reduce_angle(value: Decimal) -> Decimal:
    """Reduce an angle to at most half a turn from 0. The precision grows with the angle, so that no digits are lost."""
    # The reduction needs as many digits of pi as the angle has before its point, so the size of angles is limited.
    if value.adjusted() > 300:
        return _NAN
    wide = Context(prec=80 + max(0, value.adjusted()), traps=[])
    turn = wide.multiply(Decimal(2), pi(wide.prec + 10))
    turns = wide.divide(value, turn).to_integral_value(context=wide)
    return wide.subtract(value, wide.multiply(turns, turn))


def pi(digits: int) -> Decimal:
    """Return pi to a number of digits: from the constant up to 90 digits, beyond that by Machin's formula."""
    if digits <= 90:
        return _PI
    # Machin: pi = 16 arctan(1/5) - 4 arctan(1/239). Integers scaled by ten further digits, which absorb the
    # truncations.
    scale: int = 10 ** (digits + 10)

    def inverse(number: int) -> int:
        term = total = scale // number
        divisor, sign = 3, -1
        while term:
            term //= number * number
            total += sign * (term // divisor)
            divisor, sign = divisor + 2, -sign
        return total

    return Decimal(4 * (4 * inverse(5) - inverse(239))).scaleb(-(digits + 10), Context(prec=digits + 20))


def _series(value: Decimal, term: Decimal, first: int) -> Decimal:
    # A term is the one before, times -x^2 / (n (n + 1)): from x with n = 2 this is sin, from 1 with n = 1 cos. The loop
    # ends at the first term that no longer changes the sum.
    total, square, count = term, _WORK_CONTEXT.multiply(value, value), first
    while True:
        term = _WORK_CONTEXT.divide(_WORK_CONTEXT.multiply(-term, square), Decimal(count * (count + 1)))
        grown = _WORK_CONTEXT.add(total, term)
        if grown == total:
            return total
        total, count = grown, count + 2


def _sin(value: Decimal) -> Decimal:
    if not value.is_finite():
        return _NAN
    angle = _reduce_angle(value)
    return _series(angle, angle, 2) if angle.is_finite() and angle else angle


def _cos(value: Decimal) -> Decimal:
    if not value.is_finite():
        return _NAN
    angle = _reduce_angle(value)
    return _series(angle, Decimal(1), 1) if angle.is_finite() else angle


def _tan(value: Decimal) -> Decimal:
    return _WORK_CONTEXT.divide(_sin(value), _cos(value))


def _atan(value: Decimal) -> Decimal:
    """Return the arc tangent: the argument is halved by the half-angle formula until the power series converges quickly."""
    if value.is_nan():
        return value
    if value.is_infinite():
        return (_PI / 2).copy_sign(value)
    if not value:
        return value
    # tan(a / 2) = tan a / (1 + sqrt(1 + tan^2 a)). Below 0.05 the series needs about 30 terms for 80 digits.
    small, doublings = value, 0
    while abs(small) > Decimal("0.05"):
        root = _WORK_CONTEXT.sqrt(_WORK_CONTEXT.add(1, _WORK_CONTEXT.multiply(small, small)))
        small = _WORK_CONTEXT.divide(small, _WORK_CONTEXT.add(1, root))
        doublings += 1
    power = total = small
    square, count = _WORK_CONTEXT.multiply(small, small), 1
    while True:
        power = _WORK_CONTEXT.multiply(-power, square)
        count += 2
        grown = _WORK_CONTEXT.add(total, _WORK_CONTEXT.divide(power, Decimal(count)))
        if grown == total:
            return _WORK_CONTEXT.multiply(total, Decimal(1 << doublings))
        total = grown


def atan2(y: Decimal, x: Decimal) -> Decimal:
    """Return the angle of the point (x, y), from -pi to pi."""
    with localcontext(_WORK_CONTEXT):
        return DECIMAL.plus(_atan2(y, x))


def _atan2(y: Decimal, x: Decimal) -> Decimal:
    if y.is_nan() or x.is_nan():
        return _NAN
    # As in C: two infinities are of equal length, and the sign of a zero x chooses between 0 and pi.
    if x.is_infinite() and y.is_infinite():
        angle = _PI / 4 if x > 0 else 3 * _PI / 4
    elif not x and not y:
        angle = _PI if x.is_signed() else Decimal(0)
    elif not x:
        angle = _PI / 2
    else:
        angle = abs(_atan(_WORK_CONTEXT.divide(y, x)))
        angle = angle if x > 0 else _WORK_CONTEXT.subtract(_PI, angle)
    return angle.copy_sign(y)


def _asin(value: Decimal) -> Decimal:
    # (1 - x)(1 + x) keeps the digits that 1 - x^2 cancels near 1.
    other = _WORK_CONTEXT.sqrt(_WORK_CONTEXT.multiply(_WORK_CONTEXT.subtract(1, value), _WORK_CONTEXT.add(1, value)))
    return _atan(_WORK_CONTEXT.divide(value, other)) if other else (_PI / 2).copy_sign(value)


def _acos(value: Decimal) -> Decimal:
    return _WORK_CONTEXT.subtract(_PI / 2, _asin(value)) if not value.is_nan() else value


def _sinh(value: Decimal) -> Decimal:
    return _WORK_CONTEXT.divide(_WORK_CONTEXT.subtract(_exp(value), _exp(-value)), 2) if value else value


def _cosh(value: Decimal) -> Decimal:
    return _WORK_CONTEXT.divide(_WORK_CONTEXT.add(_exp(value), _exp(-value)), 2)


def _tanh(value: Decimal) -> Decimal:
    # The difference from 1 is below 1E-86 here.
    if abs(value) > 100:
        return Decimal(1).copy_sign(value)
    return _WORK_CONTEXT.divide(_sinh(value), _cosh(value))


def _exp(value: Decimal) -> Decimal:
    return Context(prec=120, Emax=999999, Emin=-999999, traps=[]).exp(value)


def _asinh(value: Decimal) -> Decimal:
    if not value.is_finite() or not value:
        return value
    # For a negative x the sum x + sqrt(x^2 + 1) would cancel its digits.
    size = abs(value)
    root = _WIDE_CONTEXT.sqrt(_WIDE_CONTEXT.add(1, _WIDE_CONTEXT.multiply(size, size)))
    return _WIDE_CONTEXT.ln(_WIDE_CONTEXT.add(size, root)).copy_sign(value)


def _acosh(value: Decimal) -> Decimal:
    if not value.is_finite():
        return value
    root = _WIDE_CONTEXT.sqrt(_WIDE_CONTEXT.multiply(_WIDE_CONTEXT.subtract(value, 1), _WIDE_CONTEXT.add(value, 1)))
    return _WIDE_CONTEXT.ln(_WIDE_CONTEXT.add(value, root))


def _atanh(value: Decimal) -> Decimal:
    if value.is_nan() or not value:
        return value
    return _WIDE_CONTEXT.divide(
        _WIDE_CONTEXT.ln(_WIDE_CONTEXT.divide(_WIDE_CONTEXT.add(1, value), _WIDE_CONTEXT.subtract(1, value))), 2
    )


_WIDE_CONTEXT: Final = Context(prec=120, Emax=999999, Emin=-999999, traps=[])

FUNCTIONS: Final[Mapping[str, Callable[[Decimal], Decimal]]] = {
    name: _round_result(function)
    for name, function in {
        "$sin": _sin,
        "$cos": _cos,
        "$tan": _tan,
        "$asin": _asin,
        "$acos": _acos,
        "$atan": _atan,
        "$sinh": _sinh,
        "$cosh": _cosh,
        "$tanh": _tanh,
        "$asinh": _asinh,
        "$acosh": _acosh,
        "$atanh": _atanh,
        "$degreesToRadians": lambda value: _WORK_CONTEXT.divide(_WORK_CONTEXT.multiply(value, _PI), 180),
        "$radiansToDegrees": lambda value: _WORK_CONTEXT.divide(_WORK_CONTEXT.multiply(value, Decimal(180)), _PI),
    }.items()
}
"""The functions by operator. Arguments must lie within the function's domain."""


def remainder(one: Decimal, other: Decimal) -> Decimal:
    """Return the remainder of a truncating division, also where the quotient has more digits than a decimal holds."""
    rest = DECIMAL.remainder(one, other)
    if not rest.is_nan() or not (one.is_finite() and other.is_finite()):
        return rest
    (sign, digits, power), (_, divisor, place) = one.as_tuple(), other.as_tuple()
    assert isinstance(power, int)
    assert isinstance(place, int)
    # The quotient is large, so the dividend's last digit stands higher, or both stand near each other.
    least = min(power, place)
    whole = _whole(divisor) * 10 ** (place - least)
    found = _whole(digits) * pow(10, power - least, whole) % whole
    return Decimal(found).scaleb(least, DECIMAL).copy_sign(Decimal(-1 if sign else 1))


def _whole(digits: tuple[int, ...]) -> int:
    return int("".join(map(str, digits)))
