"""Text analysis of full-text search: predicates, statistics and scores use the same words.

Words are runs of letters and digits, with apostrophes inside, and numbers with their points, in any case. English stop words
are left out; the Snowball algorithm of the language reduces the others to their stems. The service documents these steps, the
languages, and that it removes stop words of English only; its stemmer and its exact word boundaries are not public. The
service removes stop words also without a policy, and single digits, which are stop words, count in the length of a text: the
order that the .NET client's public tests expect of such a container shows both.
Source: https://learn.microsoft.com/azure/cosmos-db/gen-ai/full-text-search
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final, NamedTuple

from mayflydb.query.cosmos_sql.functions.stopwords import DIGITS, ENGLISH
from mayflydb.query.stems import stem

LANGUAGE: Final = "en-US"
"""The language of texts for which the container declares none."""

LANGUAGES: Final = {
    LANGUAGE: "english",
    "de-DE": "german",
    "es-ES": "spanish",
    "fr-FR": "french",
    "it-IT": "italian",
    "pt-BR": "portuguese",
    "pt-PT": "portuguese",
}
"""The languages that a full-text policy may name, with the names of their stemmers."""

_WORD: Final = re.compile(r"\d+(?:[.,]\d+)+|\w+(?:['’]\w+)*")
_MAX_CACHED_CHARACTERS: Final = 64 * 1024
"""The words of longer texts are not cached: they would fill the memory."""


class Words(NamedTuple):
    """The words of a text. `line`: each word with a blank before and a blank behind it; `size`: the length of the text in words.

    So a phrase occurs in a text exactly if its line is a part of the line of the text.
    """

    line: str
    size: int

    def contains(self, phrase: Words) -> bool:
        """True if the words of `phrase` occur here in a row. A phrase without words does not occur."""
        return bool(phrase.line) and phrase.line in self.line

    def count(self, phrase: Words) -> int:
        """The number of occurrences of `phrase`, without overlaps."""
        return self.line.count(phrase.line) if phrase.line else 0


def split_words(text: str, language: str = LANGUAGE) -> Words:
    """Split `text` into words. The words of the last texts are cached: a query splits the same ones several times in a row."""
    return _split_cached(text, language) if len(text) <= _MAX_CACHED_CHARACTERS else _split(text, language)


@lru_cache(maxsize=64)
def _split_cached(text: str, language: str) -> Words:
    return _split(text, language)


def _split(text: str, language: str) -> Words:
    found = [word.replace("’", "'") for word in _WORD.findall(text.casefold())]
    digits = 0
    if language == LANGUAGE:
        digits = sum(len(word) == 1 and word in DIGITS for word in found)
        found = [word for word in found if word not in ENGLISH]
    return Words("".join(f" {stem(word, LANGUAGES[language])} " for word in found), len(found) + digits)
