"""Full-text predicates: whole words in the order in which they are given, whatever their case.

Words are compared as they are written: they are not reduced to stems, and none is too common to be looked for.
"""

from __future__ import annotations

import re
from typing import Final

from mayflydb.model.errors import Unsupported
from mayflydb.query.cosmos_sql.functions.signature import Function, function
from mayflydb.query.cosmos_sql.values import UNDEFINED, Value

_WORD: Final = re.compile(r"\w+(?:['’]\w+)*")


def _words(text: str) -> str:
    """The words of `text`, each between two spaces, so that a phrase is in a text exactly if its words are in the text's."""
    return f" {' '.join(_WORD.findall(text.casefold()))} ".replace("’", "'")


def _found(text: str, phrases: tuple[Value, ...]) -> list[bool | None]:
    """For each phrase whether `text` has it; None for what is no string. A phrase without any word is nowhere."""
    held = _words(text)
    return [_has(held, _phrase(phrase)) for phrase in phrases]


def _phrase(phrase: Value) -> str | None:
    if type(phrase) is dict:
        raise Unsupported("Fuzzy search, which an object asks for in a full-text function, is not supported by Mayfly.")
    return _words(phrase) if type(phrase) is str else None


def _has(held: str, phrase: str | None) -> bool | None:
    return None if phrase is None else bool(phrase.strip()) and phrase in held


def _contains(text: str, phrase: Value) -> Value:
    (found,) = _found(text, (phrase,))
    return UNDEFINED if found is None else found


def _contains_all(text: str, *phrases: Value) -> Value:
    """AND of FULLTEXTCONTAINS, with three values."""
    found = _found(text, phrases)
    return False if False in found else UNDEFINED if None in found else True


def _contains_any(text: str, *phrases: Value) -> Value:
    """OR of FULLTEXTCONTAINS, with three values."""
    found = _found(text, phrases)
    return True if True in found else UNDEFINED if None in found else False


FUNCTIONS: Final[tuple[Function, ...]] = (
    function("FULLTEXTCONTAINS", "s*", _contains),
    function("FULLTEXTCONTAINSALL", "s*?*+", _contains_all),
    function("FULLTEXTCONTAINSANY", "s*?*+", _contains_any),
)
