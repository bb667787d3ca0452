"""`Math::`: functions of Double. They give nan and inf like C's functions and never fail.

Source: https://ydb.tech/docs/en/yql/reference/udf/list/math
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Final

from mayflydb.query.yql.expression import Builder
from mayflydb.query.yql.functions.signatures import build_module


def _without_errors(function: Callable[..., float]) -> Callable[..., float]:
    """Wrap a function: an undefined result becomes nan, a result beyond the range becomes inf."""

    def call(*values: float) -> float:
        try:
            return float(function(*values))
        except ValueError:
            return math.nan
        except OverflowError:
            return math.inf

    return call


def _log(function: Callable[[float], float]) -> Callable[[float], float]:
    return lambda value: -math.inf if value == 0 else _without_errors(function)(value)


def _integral(function: Callable[[float], int]) -> Callable[[float], float]:
    return lambda value: math.copysign(float(function(value)), value) if math.isfinite(value) else value


def _round(value: float, power: int | None = None) -> float:
    """Round half away from zero, at 10 to this power."""
    if not math.isfinite(value):
        return value
    scale = _power(10.0, -(power or 0))
    scaled = value * scale
    if not math.isfinite(scaled):
        return value
    # 10^-power is zero for a very large power: every number rounds to zero.
    if not scale:
        return math.copysign(0.0, value)
    return math.copysign(math.floor(abs(scaled) + 0.5) / scale, value)


def _power(base: float, exponent: float) -> float:
    try:
        return math.pow(base, exponent)
    except ValueError:
        return math.inf if base == 0 else math.nan
    except OverflowError:
        odd = exponent == int(exponent) and int(exponent) % 2 == 1
        return -math.inf if base < 0 and odd else math.inf


def _hyperbolic_sine(value: float) -> float:
    try:
        return math.sinh(value)
    except OverflowError:
        return math.copysign(math.inf, value)


def _sigmoid(value: float) -> float:
    return 1 / (1 + math.exp(-value)) if value > -700 else 0.0


def _gamma(value: float) -> float:
    return math.copysign(math.inf, value) if value == 0 else _without_errors(math.gamma)(value)


def _log_gamma(value: float) -> float:
    return math.inf if value <= 0 and value == int(value) else _without_errors(math.lgamma)(value)


def _fuzzy_equals(left: float, right: float, epsilon: float | None = None) -> bool:
    """True if two numbers differ by at most `epsilon` times the smaller one."""
    bound = 1.0e-13 if epsilon is None else epsilon
    return abs(left - right) <= bound * min(abs(left), abs(right))


# Mod has the sign of the divisor, Rem that of the dividend.
def _modulo(value: int, by: int | None) -> int | None:
    return None if not by else value % by


def _remainder(value: int, by: int | None) -> int | None:
    return None if not by else int(math.copysign(1, value)) * (abs(value) % abs(by))


_ONE: Final = "(Double) -> Double"
_TWO: Final = "(Double, Double) -> Double"
_TESTS: Final = "(Double) -> Bool"

BUILDERS: Final[dict[str, Builder]] = build_module(
    {
        "Pi": ("() -> Double", lambda: math.pi),
        "E": ("() -> Double", lambda: math.e),
        "Eps": ("() -> Double", lambda: sys.float_info.epsilon),
        "IsInf": (_TESTS, math.isinf),
        "IsNaN": (_TESTS, math.isnan),
        "IsFinite": (_TESTS, math.isfinite),
        "Abs": (_ONE, abs),
        "Fabs": (_ONE, abs),
        "Acos": (_ONE, _without_errors(math.acos)),
        "Asin": (_ONE, _without_errors(math.asin)),
        "Asinh": (_ONE, math.asinh),
        "Atan": (_ONE, math.atan),
        "Cbrt": (_ONE, math.cbrt),
        "Ceil": (_ONE, _integral(math.ceil)),
        "Cos": (_ONE, _without_errors(math.cos)),
        "Cosh": (_ONE, _without_errors(math.cosh)),
        "Erf": (_ONE, math.erf),
        "Exp": (_ONE, _without_errors(math.exp)),
        "Exp2": (_ONE, _without_errors(lambda value: math.pow(2.0, value))),
        "Floor": (_ONE, _integral(math.floor)),
        "Lgamma": (_ONE, _log_gamma),
        "Rint": (_ONE, _integral(round)),
        "Sigmoid": (_ONE, _sigmoid),
        "Sin": (_ONE, _without_errors(math.sin)),
        "Sinh": (_ONE, _hyperbolic_sine),
        "Sqrt": (_ONE, _without_errors(math.sqrt)),
        "Tan": (_ONE, _without_errors(math.tan)),
        "Tanh": (_ONE, math.tanh),
        "Tgamma": (_ONE, _gamma),
        "Trunc": (_ONE, _integral(math.trunc)),
        "Log": (_ONE, _log(math.log)),
        "Log2": (_ONE, _log(math.log2)),
        "Log10": (_ONE, _log(math.log10)),
        "Atan2": (_TWO, math.atan2),
        "Fmod": (_TWO, _without_errors(math.fmod)),
        "Hypot": (_TWO, math.hypot),
        "Pow": (_TWO, _power),
        "Remainder": (_TWO, _without_errors(math.remainder)),
        "Ldexp": ("(Double, Int32) -> Double", _without_errors(math.ldexp)),
        "Round": ("(Double, [Int32?]) -> Double", _round),
        "FuzzyEquals": ("(Double, Double, [Double?]) -> Bool", _fuzzy_equals),
        "Mod": ("(Int64, Int64?) -> Int64?", _modulo),
        "Rem": ("(Int64, Int64?) -> Int64?", _remainder),
    }
)
