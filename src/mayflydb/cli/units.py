"""The units of a TTL column of numbers, with the names that YDB's command line accepts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_WORDS: Final = {
    "seconds": ("s", "sec"),
    "milliseconds": ("ms", "msec"),
    "microseconds": ("us", "usec"),
    "nanoseconds": ("ns", "nsec"),
}

UNITS: Final[Mapping[str, str]] = {word: name for name, words in _WORDS.items() for word in (name, *words)}
"""The long name of a unit by each of its names."""

NUMBERS: Final[Mapping[str, int]] = {name: number for number, name in enumerate(_WORDS, 1)}
"""The number of each unit in YDB's protocol."""

ALLOWED: Final = ", ".join(f"{name} ({', '.join(words)})" for name, words in _WORDS.items())
"""`seconds (s, sec), milliseconds (ms, msec), ...`"""
