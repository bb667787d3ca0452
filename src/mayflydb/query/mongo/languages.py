"""Languages of text indexes: their names, and the terms of a text in each.

A word is converted to lower case, dropped if it is a stop word, reduced to its stem, and stripped of accents, in this order.
Only English has stop words. Language `none` has neither stop words nor stems.
Source: https://www.mongodb.com/docs/manual/reference/text-search-languages/
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Final

from mayflydb.query.stems import stem

NONE: Final = "none"
DEFAULT: Final = "english"

_CODES: Final[Mapping[str, str]] = {
    "da": "danish",
    "nl": "dutch",
    "en": "english",
    "fi": "finnish",
    "fr": "french",
    "de": "german",
    "hu": "hungarian",
    "it": "italian",
    "nb": "norwegian",
    "pt": "portuguese",
    "ro": "romanian",
    "ru": "russian",
    "es": "spanish",
    "sv": "swedish",
    "tr": "turkish",
}

# Snowball gave the name `dutch` to another algorithm later; the server has the older one.
_ALGORITHMS: Final[Mapping[str, str]] = {name: name for name in _CODES.values()} | {"dutch": "dutch_porter"}

_ENGLISH: Final = """
    a about above after again against all am an and any are aren't as at be because been before being below between
    both but by can't cannot could couldn't did didn't do does doesn't doing don't down during each few for from
    further had hadn't has hasn't have haven't having he he'd he'll he's her here here's hers herself him himself his
    how how's i i'd i'll i'm i've if in into is isn't it it's its itself let's me more most mustn't my myself no nor
    not of off on once only or other ought our ours ourselves out over own same shan't she she'd she'll she's should
    shouldn't so some such than that that's the their theirs them themselves then there there's these they they'd
    they'll they're they've this those through to too under until up very was wasn't we we'd we'll we're we've were
    weren't what what's when when's where where's which while who who's whom why why's with won't would wouldn't you
    you'd you'll you're you've your yours yourself yourselves
"""

_STOP_WORDS: Final[Mapping[str, frozenset[str]]] = {"english": frozenset(_ENGLISH.split())}
"""Stop words: articles, pronouns, auxiliaries, prepositions and similar words, with their contractions."""

# An apostrophe within a word belongs to it, so that don't is found among the stop words.
_WORD: Final = re.compile(r"\w+(?:'\w+)*")


def language_of(name: str) -> str | None:
    """Return the language of a name or a two-letter code, in any case; None if there is none."""
    folded = name.lower()
    if folded == NONE or folded in _ALGORITHMS:
        return folded
    return _CODES.get(folded)


def words_of(text: str) -> list[str]:
    """Return the words of a text as they are written."""
    return _WORD.findall(text)


def fold_text(text: str, case: bool, accents: bool) -> str:
    """Return a text in lower case unless `case`, and without accents unless `accents`."""
    if not accents and not text.isascii():
        spelt = unicodedata.normalize("NFD", text)
        text = "".join(character for character in spelt if not unicodedata.combining(character))
    return text if case else text.lower()


def terms_of(text: str, language: str, case: bool = False, accents: bool = False) -> Iterator[str]:
    """Yield the search terms of a text, in order."""
    if language == NONE:
        yield from words_of(fold_text(text, case, accents))
        return
    stops, algorithm = _STOP_WORDS.get(language, frozenset()), _ALGORITHMS[language]
    # Stop words and stems are spelt with composed letters; a client may send an accent as a character of its own.
    for word in words_of(unicodedata.normalize("NFC", text)):
        small = word.lower()
        if small not in stops:
            yield fold_text(stem(word if case else small, algorithm), case, accents)
