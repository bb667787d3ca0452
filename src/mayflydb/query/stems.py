"""Word stems by the Snowball algorithms, for the full-text search of all query languages: https://snowballstem.org"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

_MAX_STEMMED_LENGTH: Final = 64
"""The maximum length of a word that is stemmed. No natural word is longer; a longer one is compared as it is."""


@lru_cache(maxsize=1 << 15)
def stem(word: str, algorithm: str) -> str:
    """Return the stem of a lower-case word. `algorithm`: the name of a Snowball algorithm, such as `english`."""
    if len(word) > _MAX_STEMMED_LENGTH:
        return word
    import snowballstemmer

    # A stemmer holds state and threads share this function: each word gets a new stemmer, which is cheap.
    found: str = snowballstemmer.stemmer(algorithm).stemWord(word)
    return found
