"""Languages of text indexes: their names, and what becomes of a text's words in each.

A word is brought to small letters, left out if it is a stop word, reduced to its stem, and loses its accents, in this order.
Stop words are left out of English alone. Language `none` has neither stop words nor stems.
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
"""Articles, pronouns, auxiliaries, prepositions and the like, with their contractions."""

_WORD: Final = re.compile(r"\w+(?:'\w+)*")


def language_of(name: str) -> str | None:
    """The language that a name or a code of two letters stands for, whatever its case; None: there is none of that name."""
    folded = name.lower()
    if folded == NONE or folded in _ALGORITHMS:
        return folded
    return _CODES.get(folded)


def words_of(text: str) -> list[str]:
    """The words of a text as they are written."""
    return _WORD.findall(text)


def plain(text: str, case: bool, accents: bool) -> str:
    """A text without what a search does not look at; `case` and `accents` say what it does look at."""
    if not accents and not text.isascii():
        spelt = unicodedata.normalize("NFD", text)
        text = "".join(character for character in spelt if not unicodedata.combining(character))
    return text if case else text.lower()


def terms_of(text: str, language: str, case: bool = False, accents: bool = False) -> Iterator[str]:
    """What the words of a text are found by, in their order."""
    if language == NONE:
        yield from words_of(plain(text, case, accents))
        return
    stops, algorithm = _STOP_WORDS.get(language, frozenset()), _ALGORITHMS[language]
    for word in words_of(unicodedata.normalize("NFC", text)):
        small = word.lower()
        if small not in stops:
            yield plain(stem(word if case else small, algorithm), case, accents)
