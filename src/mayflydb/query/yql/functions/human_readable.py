"""Numbers for people: `1.5KiB`, `12K`, `1m 30s`.

Source: `util/stream/format.cpp` of https://github.com/ydb-platform/ydb.
"""

from __future__ import annotations

from typing import Final

_SIZES: Final = ("", "K", "M", "G", "T")
_SECOND: Final = 1_000_000


def _shorten(value: float) -> str:
    """Format with about three digits, and without zeros at the end."""
    digits = 2 if int(value * 100) < 1000 else 1 if int(value * 10) < 1000 else 0
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if digits else text


def _scale(value: int, base: int) -> tuple[str, str]:
    """The number, and the letter of the largest unit below it; the largest of all is T."""
    power = 0
    while power < len(_SIZES) - 1 and value >= base ** (power + 1):
        power += 1
    return _shorten(value / base**power), _SIZES[power]


def format_quantity(value: int) -> bytes:
    number, unit = _scale(value, 1000)
    return f"{number}{unit}".encode()


def format_bytes(value: int) -> bytes:
    number, unit = _scale(value, 1024)
    return f"{number}{unit}{'iB' if unit else 'B'}".encode()


def format_duration(micros: int) -> bytes:
    """Format microseconds: `15us`, `1.5ms`, `59.9s`, `1d 2h 3m 4s` without the parts that are 0."""
    if micros < 1000:
        return f"{micros}us".encode()
    if micros < _SECOND:
        return f"{_shorten(micros / 1000)}ms".encode()
    millis = micros // 1000
    if millis < 60_000:
        return f"{_shorten(millis / 1000)}s".encode()
    # Rounded to a millisecond upwards, as YDB does before it cuts to seconds.
    minutes, seconds = divmod((millis + 1) // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = zip((days, hours, minutes, seconds), "dhms", strict=True)
    return " ".join(f"{number}{unit}" for number, unit in parts if number).encode()
