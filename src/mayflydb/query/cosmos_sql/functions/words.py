"""Texts into the words that full-text search compares: one analysis for predicates, statistics and scores.

Words are runs of letters and digits, with apostrophes inside, whatever their case. English ones that are too common to be
looked for are left out; the rest are reduced to their stems by the Snowball algorithm of the language. The service documents
these steps, the languages, and that it removes stop words of English only; which stemmer it uses is not public.
Source: https://learn.microsoft.com/azure/cosmos-db/gen-ai/full-text-search
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from mayflydb.query.cosmos_sql.functions.stopwords import ENGLISH

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

_WORD: Final = re.compile(r"\w+(?:['’]\w+)*")
_LONGEST_STEMMED: Final = 64
"""No word of a language is longer; what is gets compared as it is."""


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


@lru_cache(maxsize=32)
def words(text: str, language: str = LANGUAGE) -> Words:
    """The words of `text`. The last ones are remembered: a query asks for those of the same text several times in a row."""
    found = [word.replace("’", "'") for word in _WORD.findall(text.casefold())]
    if language == LANGUAGE:
        found = [word for word in found if word not in ENGLISH]
    return Words("".join(f" {_stem(word, language)} " for word in found), len(found))


@lru_cache(maxsize=1 << 15)
def _stem(word: str, language: str) -> str:
    if len(word) > _LONGEST_STEMMED:
        return word
    import snowballstemmer

    # A stemmer keeps the word it is at, and threads share what is here: each word gets its own, which costs little.
    stem: str = snowballstemmer.stemmer(LANGUAGES[language]).stemWord(word)
    return stem
