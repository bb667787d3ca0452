"""DyNumber: decimal numbers of up to 38 digits, from 1e-130 to below 1e126, and zero.

Source: https://ydb.tech/docs/en/yql/reference/types/primitive#numeric
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

DIGITS: Final = 38
_MIN_EXPONENT, _MAX_EXPONENT = -129, 126
"""Limits of the exponent in `.<digits>e<exponent>`."""

_GRAMMAR: Final = re.compile(r"([+-])?(?:([0-9]+)(?:\.([0-9]*))?|\.([0-9]+))(?:[eE]([+-]?[0-9]{1,5}))?", re.ASCII)


def parse(text: str) -> Decimal | None:
    """Parse a number; None for any other text, for too many digits, and for an exponent beyond the limits."""
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


def split_digits(value: Decimal) -> tuple[bool, str, int]:
    """Return the sign (True if negative), the digits without zeros at both ends ("" for zero), and the exponent of
    `.<digits>e<exponent>`."""
    sign, raw, exponent = value.as_tuple()
    digits = "".join(map(str, raw)).lstrip("0")
    power = int(exponent) + len(digits)
    digits = digits.rstrip("0")
    return bool(sign and digits), digits, power if digits else 0


def is_valid(value: Decimal) -> bool:
    """True if the number is finite and within the limits."""
    if not value.is_finite():
        return False
    _, digits, power = split_digits(value)
    return not digits or (len(digits) <= DIGITS and _MIN_EXPONENT <= power <= _MAX_EXPONENT)


def to_text(value: Decimal) -> str:
    """Format as `.314e1`, `-.5` or `0`."""
    negative, digits, power = split_digits(value)
    if not digits:
        return "0"
    return f"{'-' if negative else ''}.{digits}{f'e{power}' if power else ''}"


def to_bytes(value: Decimal) -> bytes:
    """Encode as YDB does: zero `01`; positive `02`, exponent + 129, two digits a byte; negative `00` and the complement
    of the rest.

    The bytes of positive numbers sort in order. A negative number sorts before its own prefixes; `keys` corrects that
    in its own encoding.
    """
    negative, digits, power = split_digits(value)
    if not digits:
        return b"\x01"
    body = bytes([power + 129]) + bytes.fromhex(digits + "0" * (len(digits) % 2))
    return b"\x00" + bytes(255 - byte for byte in body) if negative else b"\x02" + body


def from_bytes(data: bytes) -> Decimal | None:
    """Decode the bytes of `to_bytes`; None for any other bytes."""
    if data == b"\x01":
        return Decimal(0)
    if len(data) < 3 or data[0] not in (0, 2):
        return None
    body = bytes(255 - byte for byte in data[1:]) if data[0] == 0 else data[1:]
    digits = body[1:].hex()
    value = parse(f"{'-' if data[0] == 0 else ''}.{digits}e{body[0] - 129}") if digits.isdecimal() else None
    return value if value is not None and to_bytes(value) == data else None
