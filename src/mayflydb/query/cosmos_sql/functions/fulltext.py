"""Full-text search: predicates about words and phrases in a text, and BM25 scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from mayflydb.model.errors import Unsupported
from mayflydb.query.cosmos_sql.functions.signature import BuiltinFunction, function
from mayflydb.query.cosmos_sql.functions.words import LANGUAGE, Words, split_words
from mayflydb.query.cosmos_sql.numbers import normalize_number, to_double
from mayflydb.query.cosmos_sql.syntax import FunctionCall, SyntaxNode
from mayflydb.query.cosmos_sql.values import NUMBERS, UNDEFINED, Value

CONTAINS: Final = "FullTextContains"
WORD_COUNT: Final = "_FullTextWordCount"
SCORE: Final = "_FullTextScore"
"""The service's own names, which the plans of searches use: `_FullTextScore(text, phrases, documents, words, hits)`."""

SATURATION: Final = 1.2
NORMALIZATION: Final = 0.75
"""k1 and b of BM25, at their usual values; those of the service are not public."""

Languages: TypeAlias = Mapping[tuple[str, ...], str]
"""The languages that a container declares for the texts at paths of its documents."""

NO_LANGUAGES: Final[Languages] = MappingProxyType({})


def is_score(node: SyntaxNode) -> bool:
    """True if `node` is a call of _FullTextScore."""
    return isinstance(node, FunctionCall) and not node.udf and node.name.upper() == SCORE.upper()


def _phrase(phrase: Value, language: str) -> Words | None:
    if type(phrase) is dict:
        raise Unsupported("Fuzzy search, which an object asks for in a full-text function, is not supported by Mayfly.")
    return split_words(phrase, language) if type(phrase) is str else None


def _find_phrases(text: str, phrases: tuple[Value, ...], language: str) -> list[bool | None]:
    """Return for each phrase whether `text` contains it; None for a phrase that is no string."""
    phrase_words = [_phrase(phrase, language) for phrase in phrases]
    text_words = split_words(text, language)
    return [None if phrase is None else text_words.contains(phrase) for phrase in phrase_words]


def _contains(language: str) -> Callable[..., Value]:
    def contains(text: str, phrase: Value) -> Value:
        (found,) = _find_phrases(text, (phrase,), language)
        return UNDEFINED if found is None else found

    return contains


def _contains_all(language: str) -> Callable[..., Value]:
    def contains_all(text: str, *phrases: Value) -> Value:
        """AND of FULLTEXTCONTAINS, three-valued."""
        found = _find_phrases(text, phrases, language)
        return False if False in found else UNDEFINED if None in found else True

    return contains_all


def _contains_any(language: str) -> Callable[..., Value]:
    def contains_any(text: str, *phrases: Value) -> Value:
        """OR of FULLTEXTCONTAINS, three-valued."""
        found = _find_phrases(text, phrases, language)
        return True if True in found else UNDEFINED if None in found else False

    return contains_any


def _score(language: str) -> Callable[..., Value]:
    def score(text: str, phrases: list[Any], documents: float, total: float, hits: list[Any]) -> Value:
        """The sum over the phrases that `text` contains. `hits`: for each phrase the number of documents that contain it.

        `documents`: the number of all documents. `total`: the number of their words.
        """
        if len(phrases) != len(hits) or not NUMBERS.issuperset(map(type, hits)):
            return UNDEFINED
        phrase_words = [_phrase(phrase, language) for phrase in phrases]
        text_words = split_words(text, language)
        documents, total = to_double(documents), to_double(total)
        relative_length = text_words.size * documents / total if total > 0 else 1
        found: float = 0
        for phrase, containing in zip(phrase_words, hits, strict=True):
            times = 0 if phrase is None else text_words.count(phrase)
            if times:
                found += bm25(times, relative_length, documents, to_double(containing))
        return normalize_number(found)

    return score


def bm25(times: int, relative_length: float, documents: float, containing: float) -> float:
    """The score of one phrase in one text.

    `times`: its occurrences in the text. `relative_length`: the length of the text divided by the mean length. `containing`:
    how many of the `documents` contain the phrase.
    """
    # idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / mean length)). This idf is never negative.
    rarity = math.log1p((documents - containing + 0.5) / (containing + 0.5)) if 0 <= containing <= documents else 0
    length = 1 - NORMALIZATION + NORMALIZATION * relative_length
    return rarity * times * (SATURATION + 1) / (times + SATURATION * length)


@lru_cache(maxsize=16)
def in_language(language: str) -> Mapping[str, BuiltinFunction]:
    """The functions by upper-case name, for texts of this language."""
    made = (
        function("FULLTEXTCONTAINS", "s*", _contains(language)),
        function("FULLTEXTCONTAINSALL", "s*?*+", _contains_all(language)),
        function("FULLTEXTCONTAINSANY", "s*?*+", _contains_any(language)),
        function("_FULLTEXTWORDCOUNT", "s", lambda text: split_words(text, language).size),
        function("_FULLTEXTSCORE", "sanna", _score(language)),
    )
    return MappingProxyType({each.name: each for each in made})


FUNCTIONS: Final[tuple[BuiltinFunction, ...]] = tuple(in_language(LANGUAGE).values())
"""The functions for the default language. The compiler replaces them by those of the language of a call's text."""

NAMES: Final = frozenset(in_language(LANGUAGE))
