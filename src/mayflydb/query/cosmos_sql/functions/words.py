"""Texts into the words that full-text search compares: one analysis for predicates, statistics and scores.

Words are runs of letters and digits, with apostrophes inside, and numbers with their points, whatever their case. English
ones that are too common to be looked for are left out; the rest are reduced to their stems by the Snowball algorithm of the
language. The service documents these steps, the languages, and that it removes stop words of English only; its stemmer, and
where exactly its words begin and end, are not public. It does so without a policy as well: the order that the .NET client's
public tests expect of a container that has none needs it.
Source: https://learn.microsoft.com/azure/cosmos-db/gen-ai/full-text-search
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from mayflydb.query.cosmos_sql.functions.stopwords import ENGLISH
from mayflydb.query.stems import stem

LANGUAGE: Final = "en-US"
"""Of texts about which nothing is declared."""

LANGUAGES: Final = {
    LANGUAGE: "english",
    "de-DE": "german",
    "es-ES": "spanish",
    "fr-FR": "french",
    "it-IT": "italian",
    "pt-BR": "portuguese",
    "pt-PT": "portuguese",
}
"""What a full-text policy may name, with the name of its stemmer."""

_WORD: Final = re.compile(r"\d+(?:[.,]\d+)+|\w+(?:['’]\w+)*")
_MAX_CACHED_CHARACTERS: Final = 64 * 1024
"""Characters; longer texts would fill the memory."""


class Words(NamedTuple):
    """The words of a text, each between two blanks of its own, so that a phrase is found by looking for its `line` in another."""

    line: str
    size: int

    def has(self, phrase: Words) -> bool:
        """Whether the words of `phrase` are here, in a row. A phrase without any word is nowhere."""
        return bool(phrase.size) and phrase.line in self.line

    def times(self, phrase: Words) -> int:
        """How often, without overlaps."""
        return self.line.count(phrase.line) if phrase.size else 0


def split_words(text: str, language: str = LANGUAGE) -> Words:
    """The words of `text`. Those of the last texts are remembered: a query asks for the same ones several times in a row."""
    return _split_cached(text, language) if len(text) <= _MAX_CACHED_CHARACTERS else _split(text, language)


@lru_cache(maxsize=64)
def _split_cached(text: str, language: str) -> Words:
    return _split(text, language)


def _split(text: str, language: str) -> Words:
    found = [word.replace("’", "'") for word in _WORD.findall(text.casefold())]
    if language == LANGUAGE:
        found = [word for word in found if word not in ENGLISH]
    return Words("".join(f" {stem(word, LANGUAGES[language])} " for word in found), len(found))
