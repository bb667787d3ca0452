"""Stems of words by the Snowball algorithms, for the full-text search of every language: https://snowballstem.org"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

_MAX_STEMMED_LENGTH: Final = 64
"""No word of a language is longer; what is gets compared as it is."""


@lru_cache(maxsize=1 << 15)
def stem(word: str, algorithm: str) -> str:
    """The stem of a word in small letters, by the algorithm of that name (`english`, ...)."""
    if len(word) > _MAX_STEMMED_LENGTH:
        return word
    import snowballstemmer

    # A stemmer keeps the word it is at, and threads share what is here: each word gets its own, which costs little.
    found: str = snowballstemmer.stemmer(algorithm).stemWord(word)
    return found
