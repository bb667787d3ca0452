"""Powers and logarithms of Decimal128 with the last digits of the server's own.

Its library (Intel's, https://www.netlib.org/misc/intel/) goes by way of binary numbers of 113 bits, so that not every result is
the decimal nearest to the exact one. Each step that rounds there rounds here, to 113 bits or to 34 digits.
"""

from __future__ import annotations

from decimal import ROUND_DOWN, ROUND_HALF_EVEN, Context, Decimal
from functools import lru_cache
from typing import Final

DECIMAL: Final = Context(prec=34, rounding=ROUND_HALF_EVEN, Emin=-6143, Emax=6144, capitals=1, clamp=1, traps=[])
"""Decimal128's own: 34 digits, half to even, nothing raises."""

_EXACT: Final = Context(prec=100, rounding=ROUND_HALF_EVEN, Emin=-999999, Emax=999999, traps=[])
"""Digits enough for a number of 113 bits and for the distance of two of them."""
_BITS: Final = 113
_ZERO, _ONE, _TWO, _TEN = Decimal(0), Decimal(1), Decimal(2), Decimal(10)
_INFINITY: Final = Decimal("Infinity")
_NAN: Final = Decimal("NaN")
_LEAST_ZERO: Final = Decimal("0E-6176")
_HALF: Final = Decimal("0.5")


@lru_cache(maxsize=4096)
def _power_of_two(power: int) -> Decimal:
    return _EXACT.power(_TWO, power)


def _round_to_binary(value: Decimal) -> Decimal:
    """The nearest number of 113 bits."""
    if not value or not value.is_finite():
        return value
    power = int(value.adjusted() * 3.3219280948873626) - _BITS
    power += int(_EXACT.divide(value, _power_of_two(power))).bit_length() - _BITS
    unit = _power_of_two(power)
    return _EXACT.multiply(_EXACT.divide(value, unit).to_integral_value(ROUND_HALF_EVEN, _EXACT), unit)


def _round_to_decimal(value: Decimal) -> Decimal:
    """A number of 113 bits as a decimal of 34 digits, of fewer if they tell all of it."""
    near = DECIMAL.plus(value)
    if near != value:
        return near
    return near.quantize(_ONE, context=DECIMAL) if near == near.to_integral_value() else near.normalize(DECIMAL)


# --- exponentials ----------------------------------------------------------------------------------------------------

_EXPONENT_LIMIT: Final = Decimal(11000)
"""Where the library's binary numbers end: powers beyond are computed with an exponent that is this much smaller."""
_LN_2: Final = _round_to_binary(_EXACT.ln(_TWO))


def exponential(value: Decimal, base: Decimal | None = None) -> Decimal:
    """e to that power, or 2 if `base` is 2."""
    if value.is_nan():
        return _NAN
    if value.is_infinite():
        return _ZERO if value < 0 else _INFINITY
    if not value:
        return _ONE
    if value.copy_abs() > 25000:
        return _LEAST_ZERO if value < 0 else _INFINITY
    high = _round_to_binary(value)
    low = _round_to_binary(_EXACT.subtract(value, high))
    away = _EXPONENT_LIMIT.copy_sign(value) if high.copy_abs() > _EXPONENT_LIMIT else _ZERO
    high = _round_to_binary(_EXACT.subtract(high, away))
    if base is None:
        raised = _round_to_binary(_EXACT.exp(high))
        rest = _round_to_binary(_EXACT.multiply(raised, low))
    else:
        raised = _round_to_binary(_EXACT.power(base, high))
        rest = _round_to_binary(_EXACT.multiply(_round_to_binary(_EXACT.multiply(raised, _LN_2)), low))
    result = _round_to_decimal(_round_to_binary(_EXACT.add(raised, rest)))
    if not away:
        return result
    return DECIMAL.multiply(result, DECIMAL.plus(_EXACT.exp(away) if base is None else _EXACT.power(base, away)))


def _power_of_ten(value: Decimal) -> Decimal:
    """The whole part of the exponent moves the point, and only the rest is computed."""
    if value.is_nan():
        return _NAN
    if value.copy_abs() > 6400:
        return _LEAST_ZERO if value < 0 else _INFINITY
    places = value.to_integral_value(ROUND_HALF_EVEN)
    rest = _round_to_binary(DECIMAL.subtract(value, places))
    return DECIMAL.scaleb(_round_to_decimal(_round_to_binary(_EXACT.power(_TEN, rest))), places)


# --- logarithms ------------------------------------------------------------------------------------------------------

_SHIFT: Final = 4464
"""Powers of ten beyond this one are none of the library's binary numbers: larger and smaller ones are moved by so many places."""
_SHIFT_LN: Final = _round_to_binary(_EXACT.multiply(Decimal(_SHIFT), _EXACT.ln(_TEN)))
_ONE_BY_LN_10: Final = _round_to_binary(_EXACT.divide(_ONE, _EXACT.ln(_TEN)))


def natural_log(value: Decimal) -> Decimal:
    """Of a positive number."""
    if value.is_infinite():
        return value
    log, shift = _log(value)
    return _round_to_decimal(_round_to_binary(_EXACT.add(log, _SHIFT_LN.copy_sign(shift))) if shift else log)


def decimal_log(value: Decimal) -> Decimal:
    """To base 10, of a positive number."""
    if value.is_infinite():
        return value
    log, shift = _log(value)
    log = _round_to_binary(_EXACT.multiply(log, _ONE_BY_LN_10))
    return _round_to_decimal(_round_to_binary(_EXACT.add(log, shift)))


def _log(value: Decimal) -> tuple[Decimal, Decimal]:
    """(natural logarithm in 113 bits, places by which the number was moved before)."""
    shift = 0
    if value > Decimal((0, (1,), _SHIFT)):
        shift = _SHIFT
    elif value < Decimal((0, (1,), -_SHIFT)):
        shift = -_SHIFT
    near = _round_to_binary(_EXACT.scaleb(value, -shift))
    log = _round_to_binary(_EXACT.ln(near))
    distance = _EXACT.subtract(near, _ONE)
    if not shift and distance.copy_abs() < _HALF:
        # Close to 1 the rounding of the number itself counts, and is taken back.
        error = _round_to_binary(_EXACT.subtract(distance, _round_to_binary(DECIMAL.subtract(value, _ONE))))
        log = _round_to_binary(_EXACT.subtract(log, _round_to_binary(_EXACT.divide(error, near))))
    return log, Decimal(shift)


# --- powers ----------------------------------------------------------------------------------------------------------


def power(base: Decimal, exponent: Decimal) -> Decimal:
    """With 34 digits, zeros at the end among them; a zero is 0E-6176. The base is not 0 where the exponent is negative."""
    if base == _TEN:
        result = _power_of_ten(exponent)
    elif base == _TWO:
        result = exponential(exponent, _TWO)
    else:
        result = _power(base, exponent)
    return DECIMAL.add(result, _LEAST_ZERO)


def _power(base: Decimal, exponent: Decimal) -> Decimal:
    if not exponent or base == _ONE:
        return _ONE
    if base.is_nan() or exponent.is_nan():
        return _NAN
    size = base.copy_abs()
    if exponent.is_infinite():
        return _ONE if size == _ONE else _INFINITY if (size > _ONE) == (exponent > 0) else _ZERO
    whole = exponent == exponent.to_integral_value()
    sign = base if whole and exponent.adjusted() < DECIMAL.prec and int(exponent) % 2 else _ONE
    if base.is_infinite() or not base:
        return (_INFINITY if base.is_infinite() == (exponent > 0) else _ZERO).copy_sign(sign)
    if base < 0 and not whole:
        return _NAN
    return _by_logarithm(size, exponent).copy_sign(sign)


def _by_logarithm(base: Decimal, exponent: Decimal) -> Decimal:
    """e to (exponent times logarithm), whose last digits are kept apart and added at the end."""
    log = _EXACT.ln(base)
    if log.copy_abs() < Decimal("1E-9"):
        high, low = DECIMAL.plus(log), DECIMAL.plus(_EXACT.subtract(log, DECIMAL.plus(log)))
    else:
        high = log.quantize(Decimal("1E-28"), ROUND_DOWN, _EXACT)
        low = _EXACT.subtract(log, high).quantize(Decimal("1E-47"), ROUND_DOWN, _EXACT)
    product = DECIMAL.multiply(exponent, high)
    rest = DECIMAL.fma(exponent, low, DECIMAL.fma(exponent, high, product.copy_negate()))
    result = exponential(product)
    return DECIMAL.fma(result, rest, result) if result and result.is_finite() else result
