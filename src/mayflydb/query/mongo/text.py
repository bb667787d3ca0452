"""`$text`: searches for terms in string fields, by the language of the index, the document, or the search."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from mayflydb.query.mongo.faults import MqlError, bad_value, type_mismatch
from mayflydb.query.mongo.languages import NONE, fold_text, language_of, terms_of
from mayflydb.query.mongo.paths import array_index, split_path
from mayflydb.query.mongo.values import MISSING, Document, Value, type_name

# Phrases and words, each possibly after a hyphen. A quote without its partner is skipped.
_TERM: Final = re.compile(r'-?"[^"]*"|-?[^\s"]+')
_OPTIONS: Final = {"$search": str, "$language": str, "$caseSensitive": bool, "$diacriticSensitive": bool}

ALL_FIELDS: Final = "$**"


class TextIndex(msgspec.Struct, frozen=True):
    """The text index of a collection: weights by path. The path `$**` covers all strings of a document.

    `override`: the field in which a document, or one within it, names its language. An index of language `none` ignores it.
    """

    weights: Mapping[str, float]
    language: str = NONE
    override: str = "language"


class TextSearch(msgspec.Struct, frozen=True):
    """A compiled `$text`. A document matches with any of the terms, all phrases, and none of the excluded terms and phrases.

    `keys`: the terms as the index stores them.
    """

    index: TextIndex
    terms: frozenset[str]
    phrases: tuple[str, ...]
    excluded: frozenset[str]
    excluded_phrases: tuple[str, ...]
    case: bool
    accents: bool
    keys: frozenset[str]

    def matches(self, document: Document) -> bool:
        """Return whether a document matches."""
        texts = list(texts_of(document, self.index))
        found = {term for text, _, language in texts for term in terms_of(text, language, self.case, self.accents)}
        if found & self.excluded or not found & self.terms:
            return False
        if not self.phrases and not self.excluded_phrases:
            return True
        whole = [fold_text(text, self.case, self.accents) for text, _, _ in texts]
        if any(phrase in text for phrase in self.excluded_phrases for text in whole):
            return False
        return all(any(phrase in text for text in whole) for phrase in self.phrases)

    def score(self, document: Document) -> float:
        """Return the score of a document: higher for weighted fields, for frequent terms, and in short texts."""
        total = 0.0
        for text, weight, language in texts_of(document, self.index):
            counts = Counter(terms_of(text, language, self.case, self.accents))
            for term in self.terms & counts.keys():
                count = counts[term]
                # 1 + 1/2 + 1/4 ...: one summand for each occurrence.
                share = 2 - 0.5 ** (count - 1)
                # A text that is the term and nothing else counts a tenth more.
                alone = 1.1 if text.lower() == term else 1.0
                total += weight * share * (0.5 + 0.5 * count / counts.total()) * alone
        return total


def texts_of(document: Document, index: TextIndex) -> Iterator[tuple[str, float, str]]:
    """Yield (text, weight, language) of the strings that a text index covers. MqlError 17261, 17262."""
    everywhere = index.weights.get(ALL_FIELDS)
    if everywhere is not None:
        named = {path: weight for path, weight in index.weights.items() if path != ALL_FIELDS}
        for path, text, language in _all_strings("", document, index, index.language):
            yield text, named.get(path, everywhere), language
        return
    for path, weight in index.weights.items():
        for text, language in _strings_at(document, split_path(path), 0, index, index.language):
            yield text, weight, language


def _strings_at(
    value: Value, parts: tuple[str, ...], at: int, index: TextIndex, language: str
) -> Iterator[tuple[str, str]]:
    """Yield the strings at a path, through arrays. A part that is a number is also an index of an array."""
    kind = type(value)
    if at == len(parts):
        if kind is str:
            yield value, language
        elif kind is list:
            yield from ((each, language) for each in value if type(each) is str)
    elif kind is dict:
        own = _resolve_language(value, index, language)
        yield from _strings_at(value.get(parts[at]), parts, at + 1, index, own)
    elif kind is list:
        for each in value:
            if type(each) is dict:
                yield from _strings_at(each, parts, at, index, language)
        place = array_index(parts[at])
        if place is not None and place < len(value):
            yield from _strings_at(value[place], parts, at + 1, index, language)


def _all_strings(path: str, value: Value, index: TextIndex, language: str) -> Iterator[tuple[str, str, str]]:
    kind = type(value)
    if kind is str:
        yield path, value, language
    elif kind is dict:
        own = _resolve_language(value, index, language)
        for name, each in value.items():
            yield from _all_strings(f"{path}.{name}" if path else name, each, index, own)
    elif kind is list:
        for each in value:
            yield from _all_strings(path, each, index, language)


def _resolve_language(document: Document, index: TextIndex, outer: str) -> str:
    """Return the language of a document, or of a document within it."""
    if index.language == NONE or index.override not in document:
        return outer
    given = document[index.override]
    if type(given) is not str:
        raise MqlError(17261, "found language override field in document with non-string type")
    found = language_of(given)
    if found is None:
        raise MqlError(17262, f"language override unsupported: {given}")
    return found


def compile_text(operand: Value, index: TextIndex | None) -> TextSearch:
    """Compile a `$text`. MqlError 27 without an index, 14, 4 or 2 for invalid operands, 2 for an unknown language."""
    if type(operand) is not dict:
        raise bad_value("$text expects an object")
    for name, value in operand.items():
        expected = _OPTIONS.get(name)
        if expected is None:
            raise bad_value(f"extra fields in $text: {name}")
        if type(value) is not expected:
            raise type_mismatch(f"$text.{name}", type_name(value), "string" if expected is str else "bool")
    if "$search" not in operand:
        raise MqlError(4, 'Missing expected field "$search"')
    language = None
    if operand.get("$language"):
        language = language_of(operand["$language"])
        if language is None:
            raise bad_value(f'unsupported language: "{operand["$language"]}" for text index version 3')
    if index is None:
        raise MqlError(27, "text index required for $text query")
    return _compile_search(operand, index, language or index.language)


def _compile_search(operand: Mapping[str, Any], index: TextIndex, language: str) -> TextSearch:
    case, accents = operand.get("$caseSensitive", False), operand.get("$diacriticSensitive", False)
    wanted: list[str] = []
    excluded: list[str] = []
    phrases: dict[bool, list[str]] = {False: [], True: []}
    for term in _TERM.findall(operand["$search"]):
        # A lone hyphen excludes nothing.
        negated = len(term) > 1 and term.startswith("-")
        body = term[negated:]
        if body.startswith('"'):
            phrases[negated].append(fold_text(body[1:-1], case, accents))
        # The index finds documents by words. So the words of a phrase are terms too, and the phrase filters what they
        # find.
        if not (negated and body.startswith('"')):
            (excluded if negated else wanted).append(body)
    return TextSearch(
        index,
        _collect_terms(wanted, language, case, accents),
        tuple(phrases[False]),
        _collect_terms(excluded, language, case, accents),
        tuple(phrases[True]),
        case,
        accents,
        # The index stores folded terms. A search by case or accents filters the documents that these find.
        _collect_terms(wanted, language, False, False),
    )


def _collect_terms(texts: list[str], language: str, case: bool, accents: bool) -> frozenset[str]:
    return frozenset(term for text in texts for term in terms_of(text, language, case, accents))


_UNSUPPORTED_META: Final = frozenset(
    {
        *(
            "randVal",
            "searchScore",
            "searchHighlights",
            "geoNearDistance",
            "geoNearPoint",
            "recordId",
            "indexKey",
            "sortKey",
        ),
        *("searchScoreDetails", "timeseriesBucketMinTime"),
    }
)


class FusedScores:
    """The scores of a `$rankFusion`, by the documents that it puts out. Calling it gives the score of one."""

    __slots__ = ("_has_details", "_known")

    def __init__(self, has_details: bool) -> None:
        self._has_details = has_details
        # A document is kept with its score, so that its identity is not given to another one.
        self._known: dict[int, tuple[Document, float, Document | None]] = {}

    def note(self, document: Document, score: float, details: Document | None) -> None:
        """Keep the score of a document."""
        self._known[id(document)] = (document, score, details)

    def __call__(self, document: Document) -> float:
        return self._known[id(document)][1]

    def compile(self, name: str) -> Callable[[Document], Value]:
        """Return the function of a kind of metadata; those that other stages make are missing. MqlError 40218."""
        if name == "score":
            return self
        if name in _OF_SEARCHES:
            return lambda document: MISSING
        if name != "scoreDetails" or not self._has_details:
            raise MqlError(40218, f"query requires {name} metadata, but it is not available")
        return lambda document: self._known[id(document)][2]


_OF_SEARCHES: Final = frozenset(("searchScore", "searchScoreDetails", "searchHighlights", "vectorSearchScore"))


def compile_meta(argument: Value, score: Callable[[Document], float] | None) -> Callable[[Document], Value]:
    """Compile `$meta`. MqlError 17307 and 17308 for an invalid argument, 2 for an unsupported one, 40218 without a score."""
    if type(argument) is not str:
        raise MqlError(17307, "$meta only supports string arguments")
    if isinstance(score, FusedScores):
        return score.compile(argument)
    if argument in ("score", "scoreDetails"):
        raise MqlError(40218, f"query requires {argument} metadata, but it is not available")
    if argument in _UNSUPPORTED_META:
        raise bad_value(f"$meta: '{argument}' is not supported")
    if argument != "textScore":
        raise MqlError(17308, f"Unsupported argument to $meta: {argument}")
    if score is None:
        raise MqlError(40218, "query requires text score metadata, but it is not available")
    return score
