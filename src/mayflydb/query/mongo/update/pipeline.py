"""Updates by pipelines, restricted to the stages that turn one document into one document."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import msgspec

from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.expressions import compile_expression, frame_of
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.paths import REFERENCE
from mayflydb.query.mongo.projection import compile_projection
from mayflydb.query.mongo.values import MISSING, Document, Value, format_value, type_name

Stage: TypeAlias = Callable[[Document], Document]
"""Returns the changed document; the argument is not modified."""

Evaluate: TypeAlias = Callable[[Document], Value]

AGGREGATION_ONLY: Final = frozenset(
    {
        "$bucket",
        "$bucketAuto",
        "$changeStream",
        "$collStats",
        "$count",
        "$currentOp",
        "$densify",
        "$documents",
        "$facet",
        "$fill",
        "$geoNear",
        "$graphLookup",
        "$group",
        "$indexStats",
        "$limit",
        "$listLocalSessions",
        "$listSessions",
        "$lookup",
        "$match",
        "$merge",
        "$out",
        "$planCacheStats",
        "$redact",
        "$sample",
        "$setWindowFields",
        "$skip",
        "$sort",
        "$sortByCount",
        "$unionWith",
        "$unwind",
    }
)
"""Stages of aggregations that an update cannot have."""


def compile_pipeline(stages: list[Any], env: Env) -> list[Stage]:
    """Compile the stages. MqlError 72 for a stage that updates do not have, 40323 and 40324 for an invalid or unknown one."""
    return [_compile_stage(stage, env) for stage in stages]


def check_stage_names(stages: list[Any]) -> None:
    """Raise MqlError 40324 for a stage that does not exist."""
    for stage in stages:
        name = next(iter(stage), None) if type(stage) is dict else None
        if name is not None and name not in _STAGES and name not in AGGREGATION_ONLY:
            raise _unknown_stage_error(name)


def _unknown_stage_error(name: str) -> MqlError:
    return MqlError(40324, f"Unrecognized pipeline stage name: '{name}'")


def _compile_stage(stage: Any, env: Env) -> Stage:
    if type(stage) is not dict:
        raise MqlError(14, "Each element of the 'pipeline' array must be an object")
    if len(stage) != 1:
        raise MqlError(40323, "A pipeline stage specification object must contain exactly one field.")
    name, spec = next(iter(stage.items()))
    compiler = _STAGES.get(name)
    if compiler is not None:
        return compiler(name, spec, env)
    if name in AGGREGATION_ONLY:
        raise MqlError(72, f"{name} is not allowed to be used within an update")
    raise _unknown_stage_error(name)


# --- $set, $addFields ------------------------------------------------------------------------------------------------


class _AddedFields(msgspec.Struct, frozen=True):
    """A tree of computed fields: expressions by field name, nested fields in nested trees. Expressions read the whole
    document.
    """

    fields: dict[str, _AddedFields | Evaluate]

    def set_in(self, old: Value, root: Document) -> Value:
        """Return `old` with the fields set. Each element of an array is changed; a scalar is replaced by a document."""
        if type(old) is list:
            return [self.set_in(element, root) for element in old]
        new = dict(old) if type(old) is dict else {}
        for name, what in self.fields.items():
            # Expressions read the document as it was before the stage, whatever is set already.
            value = what.set_in(new.get(name, MISSING), root) if isinstance(what, _AddedFields) else what(root)
            if value is MISSING:
                new.pop(name, None)
            else:
                new[name] = value
        return new


def _compile_add_fields(name: str, spec: Any, env: Env) -> Stage:
    if type(spec) is not dict:
        raise MqlError(40272, f"{name} specification stage must be an object, got {type_name(spec)}")
    tree = _AddedFields({})
    for path, value in spec.items():
        _add_path(tree, name, path, value, env)
    return lambda document: tree.set_in(document, document)


def _add_path(tree: _AddedFields, stage: str, path: str, value: Any, env: Env, above: str = "") -> None:
    parts = path.split(".")
    whole = f"{above}{path}"
    for part in parts:
        if not part:
            raise _invalid_stage_error(
                stage, 40352 if path == "" else 15998, "FieldPath field names may not be empty strings."
            )
        if part.startswith("$") and part not in REFERENCE:
            raise _invalid_stage_error(stage, 16410, f"FieldPath field names may not start with '$', found '{whole}'.")
    for part in parts[:-1]:
        below = tree.fields.setdefault(part, _AddedFields({}))
        if not isinstance(below, _AddedFields):
            raise _collision_error(stage, whole)
        tree = below
    last = parts[-1]
    if type(value) is dict and value and not next(iter(value)).startswith("$"):
        below = tree.fields.setdefault(last, _AddedFields({}))
        if not isinstance(below, _AddedFields):
            raise _collision_error(stage, whole)
        for name, each in value.items():
            _add_path(below, stage, name, each, env, f"{whole}.")
        return
    if last in tree.fields:
        raise _collision_error(stage, whole)
    tree.fields[last] = _compile_to_function(value, env)


def _compile_to_function(spec: Value, env: Env) -> Callable[[Document], Value]:
    """Compile an expression to a function of the document that is `$$ROOT`; the function returns MISSING for no value."""
    expression = compile_expression(spec, env)
    return lambda document: expression(frame_of(document, env))


def _collision_error(stage: str, path: str) -> MqlError:
    return _invalid_stage_error(stage, 31250, f"Path collision at {path}")


def _invalid_stage_error(stage: str, code: int, message: str) -> MqlError:
    return MqlError(code, f"Invalid {stage} :: caused by :: {message}")


# --- $unset, $project ------------------------------------------------------------------------------------------------


def _compile_unset(_name: str, spec: Any, env: Env) -> Stage:
    paths = spec if type(spec) is list else [spec]
    if not paths or any(type(path) is not str for path in paths):
        raise MqlError(31002, "$unset specification must be a string or an array containing only string values")
    return compile_projection(dict.fromkeys(paths, 0), env).apply


def _compile_project(_name: str, spec: Any, env: Env) -> Stage:
    if type(spec) is not dict:
        raise MqlError(15969, "$project specification must be an object")
    if not spec:
        raise _invalid_stage_error("$project", 51272, "projection specification must have at least one field")
    return compile_projection(spec, env).apply


# --- $replaceRoot, $replaceWith --------------------------------------------------------------------------------------


def _compile_replace_root(name: str, spec: Any, env: Env) -> Stage:
    if type(spec) is not dict:
        raise MqlError(40229, f"expected an object as specification for $replaceRoot stage, got {type_name(spec)}")
    for field in spec:
        if field != "newRoot":
            raise MqlError(40415, f"BSON field '$replaceRoot.{field}' is an unknown field.")
    if "newRoot" not in spec:
        raise MqlError(40414, "BSON field '$replaceRoot.newRoot' is missing but a required field")
    return _compile_replace_with(name, spec["newRoot"], env)


def _compile_replace_with(name: str, spec: Any, env: Env) -> Stage:
    evaluate = _compile_to_function(spec, env)
    subject = "'newRoot' expression " if name == "$replaceRoot" else "'replacement document' "

    def stage(document: Document) -> Document:
        value = evaluate(document)
        if type(value) is dict:
            return value
        raise MqlError(
            40228,
            f"{subject}must evaluate to an object, but resulting value was: "
            f"{'MISSING' if value is MISSING else format_value(value)}. Type of resulting value: '{type_name(value)}'."
            f" Input document: {format_value(document)}",
        )

    return stage


_STAGES: Final[dict[str, Callable[[str, Any, Env], Stage]]] = {
    "$addFields": _compile_add_fields,
    "$set": _compile_add_fields,
    "$unset": _compile_unset,
    "$project": _compile_project,
    "$replaceRoot": _compile_replace_root,
    "$replaceWith": _compile_replace_with,
}
