"""The words for what a column of numbers counts, as YDB's command line has them."""

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
"""The whole word by each."""

NUMBERS: Final[Mapping[str, int]] = {name: number for number, name in enumerate(_WORDS, 1)}
"""Whole words by their numbers in YDB's protocol."""

ALLOWED: Final = ", ".join(f"{name} ({', '.join(words)})" for name, words in _WORDS.items())
"""`seconds (s, sec), milliseconds (ms, msec), ...`"""
