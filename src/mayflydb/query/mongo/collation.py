"""Collation: the comparison of strings by the rules that a command, a collection or an index names.

Supported are the locales that sort in Unicode's root order (`en`, `root`), at strengths 1 to 3. The order is: white space,
punctuation, symbols, digits, letters. Strength 2 adds accents, strength 3 adds case, lower before upper. Other locales are
refused.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final

import msgspec
from bson import Decimal128

from mayflydb.query.mongo.faults import MqlError, bad_value, type_mismatch
from mayflydb.query.mongo.values import Document, OrderKey, Value, format_value, is_number, order_key, type_name

LOCALES: Final = frozenset(("en", "en_US", "en_GB", "root"))

_DEFAULTS: Final[dict[str, Any]] = {
    "caseLevel": False,
    "caseFirst": "off",
    "strength": 3,
    "numericOrdering": False,
    "alternate": "non-ignorable",
    "maxVariable": "punct",
    "normalization": False,
    "backwards": False,
}
_CHOICES: Final[dict[str, tuple[Any, ...]]] = {
    "caseFirst": ("off", "upper", "lower"),
    "strength": (1, 2, 3, 4, 5),
    "alternate": ("non-ignorable", "shifted"),
    "maxVariable": ("punct", "space"),
}
_VERSION: Final = "57.1"
"""The version of the root order, as the server reports it."""


class Collation(msgspec.Struct, frozen=True):
    """The rules by which strings compare; the locale `simple` compares code points."""

    locale: str = "simple"
    strength: int = 3
    numeric: bool = False

    @staticmethod
    def parse(document: Value) -> Collation:
        """Parse the `collation` of a command. MqlError 2 and 161 if it is not supported; 14, 40414 or 40415 if it is malformed."""
        if type(document) is not dict:
            raise type_mismatch("collation", type_name(document), "object")
        if not document:
            return SIMPLE
        # A null stands for an option that is left out, except here.
        document = {name: value for name, value in document.items() if value is not None or name == "backwards"}
        if is_number(document.get("strength")):
            document["strength"] = _round_to_whole(document["strength"])
        for name, value in document.items():
            _check_option(name, value)
        locale = document.get("locale")
        if locale is None:
            raise MqlError(40414, "BSON field 'collation.locale' is missing but a required field")
        options = {name: value for name, value in document.items() if name not in ("locale", "version")}
        if locale == "simple":
            # The other options are about languages, and without effect.
            return SIMPLE
        if document.get("version", _VERSION) != _VERSION:
            text = f"Requested collation version {document['version']}, and only {_VERSION} is supported"
            raise MqlError(161, f"{text}: {format_value(document)}")
        if locale not in LOCALES:
            raise bad_value(f"Field 'locale' is invalid or not supported in: {format_value(document)}")
        for name, value in options.items():
            if name not in ("strength", "numericOrdering") and value != _DEFAULTS[name]:
                raise bad_value(f"Collation option '{name}: {format_value(value)}' is not supported")
        strength = int(options.get("strength", 3))
        # Strength 4 compares ignored punctuation and strength 5 code points, which sort keys do not hold.
        if strength > 3:
            raise bad_value(f"Collation option 'strength: {strength}' is not supported")
        return Collation(locale, strength, options.get("numericOrdering", False))

    @property
    def is_simple(self) -> bool:
        """Return whether strings compare by code points."""
        return self.locale == "simple"

    def key(self, text: str) -> Any:
        """Return the comparison key of a string. Strings that the collation treats as equal have equal keys."""
        # Code points order as the bytes of UTF-8 do, which index keys compare.
        return text if self.locale == "simple" else _get_sort_key(text, self.strength, self.numeric)

    def order_key(self, value: Value) -> OrderKey:
        """Return `values.order_key` of a value in which all strings, nested ones included, are replaced by their
        collation keys.
        """
        if self.locale == "simple":
            return order_key(value)
        kind = type(value)
        if kind is str:
            return _STRING, _get_sort_key(value, self.strength, self.numeric)
        if kind is list:
            return _ARRAY, tuple([self.order_key(each) for each in value])
        if kind is not dict:
            return order_key(value)
        fields = []
        for name, each in value.items():
            group, key = self.order_key(each)
            fields.append((group, name, key))
        return _OBJECT, tuple(fields)

    def document(self) -> Document:
        """Return all options of the collation, as listIndexes and listCollections report them."""
        if self.is_simple:
            return {"locale": "simple"}
        given = {"strength": self.strength, "numericOrdering": self.numeric}
        return {"locale": self.locale, **_DEFAULTS, **given, "version": _VERSION}


SIMPLE = Collation()

_STRING: Final = order_key("")[0]
_ARRAY: Final = order_key([])[0]
_OBJECT: Final = order_key({})[0]


def _round_to_whole(value: Any) -> Any:
    # As the server makes a long of it: decimals are rounded, doubles cut. What is not finite is no choice.
    exact = value.to_decimal() if type(value) is Decimal128 else value
    if not math.isfinite(exact):
        return value
    return round(exact) if type(value) is Decimal128 else int(exact)


def _check_option(name: str, value: Value) -> None:
    """Raise MqlError 40415 for an unknown option, 14 or 2 for a value that the option cannot have."""
    if name in ("locale", "version"):
        expected: type = str
    elif name in _DEFAULTS:
        expected = type(_DEFAULTS[name])
    else:
        raise MqlError(40415, f"BSON field 'collation.{name}' is an unknown field.")
    if expected is int:
        if not is_number(value):
            raise type_mismatch(f"collation.{name}", type_name(value), "long", "int", "decimal", "double")
    elif type(value) is not expected:
        raise type_mismatch(f"collation.{name}", type_name(value), "string" if expected is str else "bool")
    if name in _CHOICES and value not in _CHOICES[name]:
        raise bad_value(f"Enumeration value '{value}' for field 'collation.{name}' is not a valid value.")


# --- keys ------------------------------------------------------------------------------------------------------------

# The primary weight of a character: | group (1 to 6) | 24 bits: code point, digit, or place in a list below |
_SPACE, _PUNCTUATION, _SYMBOL, _CURRENCY, _DIGIT, _LETTER = (group << 24 for group in range(1, 7))

# No code point needs more than 21 bits.
_DIGIT_RUN: Final = _DIGIT + 0x200000
"""The weight of a number, to which the count of its digits is added: above the weights of all single characters."""

# In the root order. A place in these lists is below the code point of any other character of the group.
_ASCII_PUNCTUATION: Final = "_-,;:!?.'\"()[]{}@*/\\&#%"
_ASCII_SYMBOLS: Final = "`^+<=>|~"
_LIGATURES: Final = {"æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "ß": "ss", "ẞ": "SS"}
_STROKE_LETTERS: Final = {"ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d", "Đ": "D", "ħ": "h", "Ħ": "H"}
"""Letters with a stroke. Unicode does not decompose them but sorts them as a letter with an accent."""
_STROKE: Final = 0x338


def _get_sort_key(text: str, strength: int, numeric: bool) -> tuple[tuple[int, ...], ...]:
    # The keys of long texts are not cached: they are seldom asked for again and would fill the cache.
    return (_cached_sort_key if len(text) <= _MAX_CACHED_LENGTH else _build_sort_key)(text, strength, numeric)


def _build_sort_key(text: str, strength: int, numeric: bool) -> tuple[tuple[int, ...], ...]:
    letters: list[int] = []
    accents: list[int] = []
    cases: list[int] = []
    for character, marks, case in _collation_elements(text):
        weight = _weight(character)
        if not weight:
            continue
        letters.append(weight)
        # The 0 stands for the letter itself: without an accent it sorts before the same letter with one.
        accents.extend((0, *marks))
        cases.append(case)
    # One level after the other over the whole text: all letters count before any accent, so Ab sorts before ac.
    primary = tuple(_encode_digit_runs(letters) if numeric else letters)
    return (primary, tuple(accents), tuple(cases))[:strength]


_MAX_CACHED_LENGTH: Final = 128
_cached_sort_key = lru_cache(maxsize=16384)(_build_sort_key)


def _collation_elements(text: str) -> Iterator[tuple[str, tuple[int, ...], int]]:
    """Yield (character, accents, form) for each base character: lower case without accents; 0 lower case, 1 upper
    case, 2 other form.
    """
    if text.isascii():
        for character in text:
            lower = character.lower()
            yield lower, (), int(lower != character)
        return
    base, form = "", 0
    marks: tuple[int, ...] = ()
    for original in text:
        stroke = original in _STROKE_LETTERS
        spelt = _STROKE_LETTERS.get(original) or _LIGATURES.get(original) or unicodedata.normalize("NFKD", original)
        # Only compatibility forms, such as a superscript 2, differ between NFKD and NFD: the same letter in another
        # form.
        other = original in _LIGATURES or spelt != unicodedata.normalize("NFD", original)
        for character in spelt:
            if unicodedata.combining(character):
                marks = (*marks, ord(character))
                continue
            if base:
                yield base, marks, form
            lower = character.lower()
            base, marks = lower, (_STROKE,) if stroke else ()
            form = 2 if other and not stroke else int(lower != character)
    if base:
        yield base, marks, form


@lru_cache(maxsize=4096)
def _weight(character: str) -> int:
    """Return the primary weight of a lower-case character without accents; 0 for control characters, which are ignored."""
    category = unicodedata.category(character)
    code = ord(character)
    if character in "\t\n\v\f\r\x85\u2028\u2029" or category[0] == "Z":
        return _SPACE + code
    if category[0] == "C" and category not in ("Co", "Cn", "Cs"):
        return 0
    if category == "Nd":
        return _DIGIT + unicodedata.digit(character)
    if character in _ASCII_PUNCTUATION:
        return _PUNCTUATION + _ASCII_PUNCTUATION.index(character)
    if character in _ASCII_SYMBOLS:
        return _SYMBOL + _ASCII_SYMBOLS.index(character)
    if category == "Sc":
        return _CURRENCY + code
    return {"P": _PUNCTUATION, "S": _SYMBOL, "N": _DIGIT}.get(category[0], _LETTER) + code


def _encode_digit_runs(weights: list[int]) -> Iterator[int]:
    """Encode each run of digits as its length and then the digits, so that numbers sort by their value."""
    run: list[int] = []
    # The 0 ends a run at the end of the text. It is not yielded.
    for weight in [*weights, 0]:
        if _DIGIT <= weight < _DIGIT + 10:
            # Leading zeros do not count.
            run = [weight] if run == [_DIGIT] else [*run, weight]
            continue
        if run:
            yield _DIGIT_RUN + len(run)
            yield from run
            run = []
        if weight:
            yield weight
