"""The stages that reshape each document: `$project`, `$unset`, `$replaceRoot`, `$unwind`, `$redact`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import msgspec
from bson import Int64
from msgspec.structs import replace

from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.expressions import Expression, Frame, compile_expression, frame_of
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.paths import field_path
from mayflydb.query.mongo.projection import compile_projection
from mayflydb.query.mongo.stages.base import FlatMapStage, MapStage, Stage, StageScope, require_document
from mayflydb.query.mongo.stages.fields import plain_value_at, with_field
from mayflydb.query.mongo.values import MISSING, Document, Value, format_value, type_name

# --- $project, $unset ------------------------------------------------------------------------------------------------


def compile_project(spec: Value, scope: StageScope) -> Stage:
    """Compile `$project`."""
    require_document(spec, 15969, "$project specification must be an object")
    if not spec:
        raise MqlError(51272, "Invalid $project :: caused by :: projection specification must have at least one field")
    try:
        return MapStage(compile_projection(spec, scope.env, score=scope.score, find=False).apply)
    except MqlError as error:
        raise MqlError(error.code, f"Invalid $project :: caused by :: {error}", error.labels, **error.fields) from None


def compile_unset(spec: Value, scope: StageScope) -> Stage:
    """Compile `$unset`."""
    if type(spec) not in (str, list):
        raise MqlError(31002, "$unset specification must be a string or an array")
    paths = [spec] if type(spec) is str else spec
    if not paths:
        raise MqlError(31119, "$unset specification must be a string or an array with at least one field")
    if not all(type(path) is str for path in paths):
        raise MqlError(31120, "$unset specification must be a string or an array containing only string values")
    for path in paths:
        field_path(path)
    try:
        return MapStage(compile_projection(dict.fromkeys(paths, 0), scope.env, find=False).apply)
    except MqlError as error:
        raise MqlError(error.code, f"Invalid $unset :: caused by :: {error}", error.labels, **error.fields) from None


# --- $replaceRoot ----------------------------------------------------------------------------------------------------


def compile_replace_root(spec: Value, scope: StageScope) -> Stage:
    """Compile `$replaceRoot`."""
    require_document(spec, 40229, "expected an object as specification for $replaceRoot stage, got {}")
    for name in spec:
        if name != "newRoot":
            raise MqlError(40230, f"unrecognized option to $replaceRoot stage: {name}, only valid option is 'newRoot'.")
    if "newRoot" not in spec:
        raise MqlError(40231, "no newRoot specified for the $replaceRoot stage")
    return MapStage(compile_replacement(spec["newRoot"], scope.env, "'newRoot' expression"))


def compile_replace_with(spec: Value, scope: StageScope) -> Stage:
    """Compile `$replaceWith`."""
    return MapStage(compile_replacement(spec, scope.env, "'replacement document'"))


def compile_replacement(spec: Value, env: Env, what: str) -> Callable[[Document], Document]:
    """Return the function that replaces a document by the value of an expression. MqlError 40228 if the value is no
    document.
    """
    expression = compile_expression(spec, env)

    def change(document: Document) -> Document:
        value = expression(frame_of(document, env))
        if type(value) is not dict:
            found = "MISSING" if value is MISSING else format_value(value)
            raise MqlError(
                40228,
                f"{what} must evaluate to an object, but resulting value was: {found}. "
                f"Type of resulting value: '{type_name(value)}'. Input document: {format_value(document)}",
            )
        return value

    return change


# --- $unwind ---------------------------------------------------------------------------------------------------------


class _Unwind(msgspec.Struct, frozen=True):
    path: tuple[str, ...]
    index: tuple[str, ...] | None
    preserve: bool

    def spread(self, document: Document) -> Iterator[Document]:
        value = plain_value_at(document, self.path)
        if type(value) is list and value:
            for number, each in enumerate(value):
                yield self._with_index(with_field(document, self.path, each), Int64(number))
        elif value is None or value is MISSING or type(value) is list:
            if self.preserve:
                bare = with_field(document, self.path, MISSING) if type(value) is list else document
                yield self._with_index(bare, None)
        else:
            yield self._with_index(document, None)

    def _with_index(self, document: Document, number: Int64 | None) -> Document:
        return document if self.index is None else with_field(document, self.index, number)


_UNWIND: Final = "expected either a string or an object as specification for $unwind stage, got {}"


def compile_unwind(spec: Value, scope: StageScope) -> Stage:
    """Compile `$unwind`, both forms."""
    if type(spec) is str:
        return FlatMapStage(_Unwind(_parse_unwind_path(spec), None, False).spread)
    path: str | None = None
    index, preserve = None, False
    for name, value in require_document(spec, 15981, _UNWIND).items():
        if name == "path":
            if type(value) is not str:
                raise MqlError(28808, f"expected a string as the path for $unwind stage, got {type_name(value)}")
            path = value
        elif name == "preserveNullAndEmptyArrays":
            if type(value) is not bool:
                message = "expected a boolean for the preserveNullAndEmptyArrays option to $unwind stage, got "
                raise MqlError(28809, message + type_name(value))
            preserve = value
        elif name == "includeArrayIndex":
            index = _parse_index_path(value)
        else:
            raise MqlError(28811, f"unrecognized option to $unwind stage: {name}")
    if path is None:
        raise MqlError(28812, "no path specified to $unwind stage")
    return FlatMapStage(_Unwind(_parse_unwind_path(path), index, preserve).spread)


def _parse_unwind_path(path: str) -> tuple[str, ...]:
    if not path:
        raise MqlError(28812, "no path specified to $unwind stage")
    if not path.startswith("$"):
        raise MqlError(28818, f"path option to $unwind stage should be prefixed with a '$': {path}")
    return field_path(path[1:])


def _parse_index_path(value: Value) -> tuple[str, ...]:
    if type(value) is not str or not value:
        message = "expected a non-empty string for the includeArrayIndex option to $unwind stage, got "
        raise MqlError(28810, message + type_name(value))
    if value.startswith("$"):
        message = "includeArrayIndex option to $unwind stage should not be prefixed with a '$': "
        raise MqlError(28822, message + value)
    return field_path(value)


# --- $redact ---------------------------------------------------------------------------------------------------------

# The variables hold these texts, as on the server: an expression may yield the text itself.
_DECISIONS: Final = {"KEEP": "keep", "DESCEND": "descend", "PRUNE": "prune"}


class _Redact(msgspec.Struct, frozen=True):
    expression: Expression
    env: Env

    def redact(self, document: Document) -> list[Document]:
        frame = frame_of(document, self.env)
        kept = self._redact_document(document, frame)
        return [] if kept is MISSING else [kept]

    def _redact_document(self, document: Document, frame: Frame) -> Value:
        # `$$ROOT` remains the whole document, `$$CURRENT` is the part looked at.
        decision = self.expression(Frame(frame.root, document, frame.variables))
        if decision == "keep":
            return document
        if decision == "prune":
            return MISSING
        if decision != "descend":
            raise MqlError(
                17053,
                "$redact's expression should not return anything aside from the variables $$KEEP, $$DESCEND, and "
                f"$$PRUNE, but returned {'MISSING' if decision is MISSING else format_value(decision)}",
            )
        out = {}
        for name, value in document.items():
            kept = self._redact_value(value, frame)
            if kept is not MISSING:
                out[name] = kept
        return out

    def _redact_value(self, value: Value, frame: Frame) -> Value:
        if type(value) is dict:
            return self._redact_document(value, frame)
        if type(value) is list:
            return [kept for kept in (self._redact_value(each, frame) for each in value) if kept is not MISSING]
        return value


def compile_redact(spec: Value, scope: StageScope) -> Stage:
    """Compile `$redact`."""
    env = replace(scope.env, variables={**scope.env.variables, **_DECISIONS})
    return FlatMapStage(_Redact(compile_expression(spec, env), env).redact)
