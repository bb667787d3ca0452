"""`$text`: words of string fields, lower-cased and without accents, not stemmed (language `none`)."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping
from typing import Any, Final

import msgspec

from mayflydb.query.mongo.faults import MqlError, bad_value, type_mismatch
from mayflydb.query.mongo.paths import lookup, split
from mayflydb.query.mongo.values import Document, Value, type_name

_WORD: Final = re.compile(r"\w+(?:'\w+)*")
_TERM: Final = re.compile(r'-?"[^"]*"|-?[^\s"]+')
_OPTIONS: Final = {"$search": str, "$language": str, "$caseSensitive": bool, "$diacriticSensitive": bool}

EVERYTHING: Final = "$**"


class TextIndex(msgspec.Struct, frozen=True):
    """The text index of a collection: weights by path; the path `$**` stands for every string of a document."""

    weights: Mapping[str, float]


class TextSearch(msgspec.Struct, frozen=True):
    """A compiled `$text`. Words are any of, phrases all of, the excluded none of."""

    index: TextIndex
    words: frozenset[str]
    phrases: tuple[str, ...]
    excluded: frozenset[str]
    excluded_phrases: tuple[str, ...]
    case: bool
    accents: bool

    def matches(self, document: Document) -> bool:
        """Whether a document is found."""
        texts = [self._plain(text) for text, _ in texts_of(document, self.index)]
        found = {word for text in texts for word in words_of(text)}
        if found & self.excluded or any(phrase in text for phrase in self.excluded_phrases for text in texts):
            return False
        if not all(any(phrase in text for text in texts) for phrase in self.phrases):
            return False
        return bool(found & self.words)

    def score(self, document: Document) -> float:
        """How well it is found: more for fields of weight, for words that come often, and in short texts."""
        total = 0.0
        for text, weight in texts_of(document, self.index):
            words = words_of(self._plain(text))
            counts: dict[str, tuple[int, float]] = {}
            for word in words:
                count, share = counts.get(word, (0, 0.0))
                counts[word] = count + 1, share + 0.5**count
            for word in self.words & counts.keys():
                count, share = counts[word]
                total += weight * share * (0.5 + 0.5 * count / len(words)) * (1.1 if len(words) == 1 else 1.0)
        return total

    def _plain(self, text: str) -> str:
        return plain(text, self.case, self.accents)


def plain(text: str, case: bool, accents: bool) -> str:
    """A text without what a search does not look at; `case` and `accents` say what it does look at."""
    if not accents and not text.isascii():
        spelt = unicodedata.normalize("NFD", text)
        text = "".join(character for character in spelt if not unicodedata.combining(character))
    return text if case else text.lower()


def words_of(text: str) -> list[str]:
    """The words of a text as they are written."""
    return _WORD.findall(text)


def texts_of(document: Document, index: TextIndex) -> Iterator[tuple[str, float]]:
    """The strings a text index covers, each with its weight."""
    everywhere = index.weights.get(EVERYTHING)
    if everywhere is not None:
        named = {path: weight for path, weight in index.weights.items() if path != EVERYTHING}
        for path, text in _strings("", document):
            yield text, named.get(path, everywhere)
        return
    for path, weight in index.weights.items():
        for value in lookup(document, split(path)):
            if type(value) is str:
                yield value, weight


def _strings(path: str, value: Value) -> Iterator[tuple[str, str]]:
    if type(value) is str:
        yield path, value
    elif type(value) is dict:
        for name, each in value.items():
            yield from _strings(f"{path}.{name}" if path else name, each)
    elif type(value) is list:
        for each in value:
            yield from _strings(path, each)


def compile_text(operand: Value, index: TextIndex | None) -> TextSearch:
    """What `$text` asks. MqlError 27 without an index, 14, 40414 or 40415 for malformed operands, 2 for other languages."""
    if type(operand) is not dict:
        raise bad_value("$text expects an object")
    for name, value in operand.items():
        expected = _OPTIONS.get(name)
        if expected is None:
            raise MqlError(40415, f"BSON field '$text.{name}' is an unknown field.")
        if type(value) is not expected:
            raise type_mismatch(f"$text.{name}", type_name(value), "string" if expected is str else "bool")
    if "$search" not in operand:
        raise MqlError(40414, "BSON field '$text.$search' is missing but a required field")
    language = operand.get("$language", "none")
    if language != "none":
        raise bad_value(f"unsupported language: \"{language}\" for text index version 3; only 'none' is supported")
    if index is None:
        raise MqlError(27, "text index required for $text query")
    return _compiled(operand, index)


def _compiled(operand: Mapping[str, Any], index: TextIndex) -> TextSearch:
    case, accents = operand.get("$caseSensitive", False), operand.get("$diacriticSensitive", False)
    words: set[str] = set()
    excluded: set[str] = set()
    phrases: dict[bool, list[str]] = {False: [], True: []}
    for term in _TERM.findall(plain(operand["$search"], case, accents)):
        negated = len(term) > 1 and term.startswith("-")
        body = term[negated:]
        if body.startswith('"'):
            phrases[negated].append(body[1:-1])
            if not negated:
                words.update(words_of(body))
        else:
            (excluded if negated else words).update(words_of(body))
    return TextSearch(
        index, frozenset(words), tuple(phrases[False]), frozenset(excluded), tuple(phrases[True]), case, accents
    )
