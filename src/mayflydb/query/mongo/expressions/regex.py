"""`$regexMatch`, `$regexFind` and `$regexFindAll`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from bson import Regex

from mayflydb.query.mongo.expressions.core import (
    ArgumentCodes,
    CompileScope,
    Expression,
    Parser,
    apply_function,
    check_arguments,
    is_nullish,
)
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.patterns import compile_pattern, flag_letters
from mayflydb.query.mongo.values import MISSING, Document, Value, type_name

_CODES: Final = ArgumentCodes(51103, 31024, {"input": 31022, "regex": 31023})


def _resolve_pattern(name: str, pattern: Value, options: Value) -> Any:
    """Compile the pattern of a `$regex...` operator; None for a null or missing pattern."""
    if not is_nullish(options):
        if type(options) is not str:
            raise MqlError(51106, f"{name} needs 'options' to be of type string")
        if "\0" in options:
            raise MqlError(51110, f"{name}: regular expression options cannot contain an embedded null byte")
    if is_nullish(pattern):
        return None
    letters = options or "" if not is_nullish(options) else ""
    if type(pattern) is Regex:
        own = flag_letters(pattern)
        if own and letters:
            raise MqlError(51107, f"{name}: found regex option(s) specified in both 'regex' and 'option' fields")
        return _compile_regex(name, pattern.pattern, letters or own)
    if type(pattern) is not str:
        raise MqlError(51105, f"{name} needs 'regex' to be of type string or regex")
    return _compile_regex(name, pattern, letters)


def _compile_regex(name: str, pattern: str, letters: str) -> Any:
    if "\0" in pattern:
        raise MqlError(51109, f"{name}: regular expression cannot contain an embedded null byte")
    try:
        return compile_pattern(pattern, letters)
    except MqlError as error:
        if error.code != 51091:
            raise
        raise MqlError(51111, f"Invalid Regex in {name}: {error}") from None


def _regex_operator(nowhere: Value, act: Callable[[Any, str], Value]) -> Parser:
    def parser(name: str, spec: Value, scope: CompileScope) -> Expression:
        given = check_arguments(name, spec, ("input", "regex"), ("options",), _CODES)

        def run(text: Value, pattern: Value, options: Value = MISSING) -> Value:
            compiled = _resolve_pattern(name, pattern, options)
            if not is_nullish(text) and type(text) is not str:
                raise MqlError(51104, f"{name} needs 'input' to be of type string, not {type_name(text)}")
            if compiled is None or is_nullish(text):
                # A new list each time: one list would be a part of many documents.
                return nowhere if type(nowhere) is not list else []
            return act(compiled, text)

        return apply_function(
            run, [scope.compile(given[each]) for each in ("input", "regex", "options") if each in given]
        )

    return parser


def _match_document(match: Any) -> Document:
    return {"match": match.group(), "idx": match.start(), "captures": list(match.groups())}


def _find(pattern: Any, text: str) -> Value:
    match = pattern.search(text)
    return None if match is None else _match_document(match)


def _find_all(pattern: Any, text: str) -> list[Document]:
    # One search for all matches: the time limit is that of the call, and not of each match.
    return [_match_document(match) for match in pattern.find_all(text)]


OPERATORS: Final[Mapping[str, Parser]] = {
    "$regexMatch": _regex_operator(False, lambda pattern, text: pattern.search(text) is not None),
    "$regexFind": _regex_operator(None, _find),
    "$regexFindAll": _regex_operator([], _find_all),
}
