"""DyNumber: decimal numbers of up to 38 digits from 1e-130 to below 1e126, and zero.

Source: https://ydb.tech/docs/en/yql/reference/types/primitive#numeric
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

DIGITS: Final = 38
_MIN_EXPONENT, _MAX_EXPONENT = -129, 126
"""Of the exponent in `.<digits>e<exp>`."""

_GRAMMAR: Final = re.compile(r"([+-])?(?:([0-9]+)(?:\.([0-9]*))?|\.([0-9]+))(?:[eE]([+-]?[0-9]{1,5}))?", re.ASCII)


def parse(text: str) -> Decimal | None:
    """A number as text; None for another text, for too many digits and for what is too large or too small."""
    match = _GRAMMAR.fullmatch(text)
    if match is None:
        return None
    sign, whole, behind, only, exponent = match.groups()
    fraction = behind or only or ""
    digits = ((whole or "") + fraction).lstrip("0")
    power = int(exponent or 0) - len(fraction) + len(digits)
    digits = digits.rstrip("0")
    if not digits:
        return Decimal(0)
    if len(digits) > DIGITS or not _MIN_EXPONENT <= power <= _MAX_EXPONENT:
        return None
    return Decimal((sign == "-", tuple(map(int, digits)), power - len(digits)))


def parts(value: Decimal) -> tuple[bool, str, int]:
    """Whether it is negative, its digits without zeros around them ("" of zero), and the exponent of `.<digits>e<exp>`."""
    sign, raw, exponent = value.as_tuple()
    digits = "".join(map(str, raw)).lstrip("0")
    power = int(exponent) + len(digits)
    digits = digits.rstrip("0")
    return bool(sign and digits), digits, power if digits else 0


def is_valid(value: Decimal) -> bool:
    """Whether it is finite and within the limits."""
    if not value.is_finite():
        return False
    _, digits, power = parts(value)
    return not digits or (len(digits) <= DIGITS and _MIN_EXPONENT <= power <= _MAX_EXPONENT)


def to_text(value: Decimal) -> str:
    """`.314e1`, `-.5`, `0`."""
    negative, digits, power = parts(value)
    if not digits:
        return "0"
    return f"{'-' if negative else ''}.{digits}{f'e{power}' if power else ''}"


def to_bytes(value: Decimal) -> bytes:
    """Zero `01`; positive `02`, exponent + 129, two digits a byte; negative `00` and the complement of the rest.

    In order among the positive; a negative number comes before those that it begins, which `keys` mends for itself.
    """
    negative, digits, power = parts(value)
    if not digits:
        return b"\x01"
    body = bytes([power + 129]) + bytes.fromhex(digits + "0" * (len(digits) % 2))
    return b"\x00" + bytes(255 - byte for byte in body) if negative else b"\x02" + body


def from_bytes(data: bytes) -> Decimal | None:
    """The number back; None for bytes that `to_bytes` never gives."""
    if data == b"\x01":
        return Decimal(0)
    if len(data) < 3 or data[0] not in (0, 2):
        return None
    body = bytes(255 - byte for byte in data[1:]) if data[0] == 0 else data[1:]
    digits = body[1:].hex()
    value = parse(f"{'-' if data[0] == 0 else ''}.{digits}e{body[0] - 129}") if digits.isdecimal() else None
    return value if value is not None and to_bytes(value) == data else None
