"""Powers and logarithms of Decimal128, equal to the server's results to the last digit.

The server's library (Intel's, https://www.netlib.org/misc/intel/) computes in binary numbers of 113 bits, so that some results
differ from the correctly rounded decimal. The functions here round at the same steps, to 113 bits or to 34 digits.
"""

from __future__ import annotations

from decimal import ROUND_DOWN, ROUND_HALF_EVEN, Context, Decimal
from functools import lru_cache
from typing import Final

DECIMAL: Final = Context(prec=34, rounding=ROUND_HALF_EVEN, Emin=-6143, Emax=6144, capitals=1, clamp=1, traps=[])
"""The arithmetic of Decimal128: 34 digits, rounding half to even, no signals."""

_EXACT: Final = Context(prec=100, rounding=ROUND_HALF_EVEN, Emin=-999999, Emax=999999, traps=[])
"""Enough digits to hold a number of 113 bits, and the difference of two of them, without error."""
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
    """Round to the nearest number of 113 bits."""
    if not value or not value.is_finite():
        return value
    # The first guess (3.32 bits for each digit) may be off by a few bits; the length of the quotient corrects it.
    power = int(value.adjusted() * 3.3219280948873626) - _BITS
    power += int(_EXACT.divide(value, _power_of_two(power))).bit_length() - _BITS
    unit = _power_of_two(power)
    return _EXACT.multiply(_EXACT.divide(value, unit).to_integral_value(ROUND_HALF_EVEN, _EXACT), unit)


def _round_to_decimal(value: Decimal) -> Decimal:
    """Round a number of 113 bits to 34 digits, or to fewer digits if these are exact."""
    near = DECIMAL.plus(value)
    if near != value:
        return near
    return near.quantize(_ONE, context=DECIMAL) if near == near.to_integral_value() else near.normalize(DECIMAL)


# --- exponentials ----------------------------------------------------------------------------------------------------

_EXPONENT_LIMIT: Final = Decimal(11000)
"""The largest exponent of e that the library's binary numbers hold; for larger ones the result is scaled afterwards."""
_LN_2: Final = _round_to_binary(_EXACT.ln(_TWO))


def exponential(value: Decimal, base: Decimal | None = None) -> Decimal:
    """Return e to the power of `value`, or 2 to it if `base` is 2."""
    if value.is_nan():
        return _NAN
    if value.is_infinite():
        return _ZERO if value < 0 else _INFINITY
    if not value:
        return _ONE
    # Powers of e and of 2 beyond this one lie outside Decimal128, which spans 1E-6176 to 1E+6145.
    if value.copy_abs() > 25000:
        return _LEAST_ZERO if value < 0 else _INFINITY
    # e^(high + low) is e^high + e^high * low, because low is below the last of 113 bits. For base 2, low is times ln 2.
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
    """Return 10 to a power: the whole part of the exponent shifts the decimal point, and only the fraction is computed."""
    if value.is_nan():
        return _NAN
    if value.copy_abs() > 6400:
        return _LEAST_ZERO if value < 0 else _INFINITY
    places = value.to_integral_value(ROUND_HALF_EVEN)
    rest = _round_to_binary(DECIMAL.subtract(value, places))
    return DECIMAL.scaleb(_round_to_decimal(_round_to_binary(_EXACT.power(_TEN, rest))), places)


# --- logarithms ------------------------------------------------------------------------------------------------------

_SHIFT: Final = 4464
"""Powers of ten beyond this one exceed the library's binary numbers: larger and smaller operands are first scaled by it."""
_SHIFT_LN: Final = _round_to_binary(_EXACT.multiply(Decimal(_SHIFT), _EXACT.ln(_TEN)))
_ONE_BY_LN_10: Final = _round_to_binary(_EXACT.divide(_ONE, _EXACT.ln(_TEN)))


def natural_log(value: Decimal) -> Decimal:
    """Return the natural logarithm of a positive number."""
    if value.is_infinite():
        return value
    log, shift = _log(value)
    return _round_to_decimal(_round_to_binary(_EXACT.add(log, _SHIFT_LN.copy_sign(shift))) if shift else log)


def decimal_log(value: Decimal) -> Decimal:
    """Return the logarithm to base 10 of a positive number."""
    if value.is_infinite():
        return value
    log, shift = _log(value)
    log = _round_to_binary(_EXACT.multiply(log, _ONE_BY_LN_10))
    return _round_to_decimal(_round_to_binary(_EXACT.add(log, shift)))


def _log(value: Decimal) -> tuple[Decimal, Decimal]:
    """Return (natural logarithm in 113 bits, the power of ten by which the number was scaled before)."""
    shift = 0
    if value > Decimal((0, (1,), _SHIFT)):
        shift = _SHIFT
    elif value < Decimal((0, (1,), -_SHIFT)):
        shift = -_SHIFT
    near = _round_to_binary(_EXACT.scaleb(value, -shift))
    log = _round_to_binary(_EXACT.ln(near))
    distance = _EXACT.subtract(near, _ONE)
    if not shift and distance.copy_abs() < _HALF:
        # Near 1 the rounding error of the operand dominates and is subtracted again.
        error = _round_to_binary(_EXACT.subtract(distance, _round_to_binary(DECIMAL.subtract(value, _ONE))))
        log = _round_to_binary(_EXACT.subtract(log, _round_to_binary(_EXACT.divide(error, near))))
    return log, Decimal(shift)


# --- powers ----------------------------------------------------------------------------------------------------------


def power(base: Decimal, exponent: Decimal) -> Decimal:
    """Return a power with 34 digits, trailing zeros included; a zero is 0E-6176. The base is not 0 if the exponent is
    negative.
    """
    if base == _TEN:
        result = _power_of_ten(exponent)
    elif base == _TWO:
        result = exponential(exponent, _TWO)
    else:
        result = _power(base, exponent)
    # The sum with 0E-6176 pads the result to 34 digits.
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
    # An integer of more than 34 digits ends in zeros and is even; int() of it could have 6145 digits.
    sign = base if whole and exponent.adjusted() < DECIMAL.prec and int(exponent) % 2 else _ONE
    if base.is_infinite() or not base:
        return (_INFINITY if base.is_infinite() == (exponent > 0) else _ZERO).copy_sign(sign)
    if base < 0 and not whole:
        return _NAN
    return _by_logarithm(size, exponent).copy_sign(sign)


def _by_logarithm(base: Decimal, exponent: Decimal) -> Decimal:
    """Return e to (exponent * logarithm). The low digits of the logarithm are kept apart and added at the end."""
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
