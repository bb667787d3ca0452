"""Writing values into documents along paths. Changed documents are copies; arrays are entered element by element."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.expressions import Expression, Frame, compile_expression, frame_of
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.paths import field_path
from mayflydb.query.mongo.stages.base import MapStage, Stage, StageScope, require_document
from mayflydb.query.mongo.values import MISSING, Document, Value

Tree: TypeAlias = "dict[str, Tree | Expression]"
"""Expressions by field name; nested fields in nested trees."""


def with_field(document: Document, parts: Sequence[str], value: Value) -> Document:
    """Return a copy of a document with a value at a path; MISSING removes the field.

    A value on the path that is no document is replaced by one; in an array, each element is changed.
    """
    name, rest = parts[0], parts[1:]
    out = dict(document)
    if rest:
        value = _change_inner(document.get(name, MISSING), lambda inner: with_field(inner, rest, value))
    if value is MISSING:
        out.pop(name, None)
    else:
        out[name] = value
    return out


def _change_inner(value: Value, change: Callable[[Document], Document]) -> Value:
    if type(value) is list:
        return [_change_inner(each, change) for each in value]
    if type(value) is dict:
        return change(value)
    made = change({})
    return made


def plain_value_at(document: Document, parts: Sequence[str]) -> Value:
    """Return the value at a path that leads through documents only; MISSING otherwise."""
    value: Value = document
    for name in parts:
        if type(value) is not dict:
            return MISSING
        value = value.get(name, MISSING)
    return value


# --- $addFields ------------------------------------------------------------------------------------------------------


def add_fields(name: str) -> Callable[[Value, StageScope], Stage]:
    """Return the compiler of `$addFields` and its alias `$set`."""

    def compile_add_fields(spec: Value, scope: StageScope) -> Stage:
        require_document(spec, 40272, name + " specification stage must be an object, got {}")
        try:
            tree = _compile_tree(spec, scope.env)
        except MqlError as error:
            raise MqlError(
                error.code, f"Invalid {name} :: caused by :: {error}", error.labels, **error.fields
            ) from None
        return MapStage(compile_field_setter(tree, scope.env))

    return compile_add_fields


def compile_field_setter(tree: Tree, env: Env) -> Callable[[Document], Document]:
    """Return the function that sets computed fields. All expressions read the document as it was before."""

    def change(document: Document) -> Document:
        return _set_fields(document, tree, frame_of(document, env))

    return change


def _set_fields(document: Document, tree: Tree, frame: Frame) -> Document:
    out = dict(document)
    for name, node in tree.items():
        if type(node) is dict:
            branch: Tree = node
            value = _change_inner(
                document.get(name, MISSING),
                # `branch` is bound now, because the loop goes on to another one.
                lambda inner, branch=branch: _set_fields(inner, branch, frame),  # type: ignore[misc]
            )
        else:
            value = node(frame)  # type: ignore[operator]
        if value is MISSING:
            out.pop(name, None)
        else:
            out[name] = value
    return out


def _compile_tree(spec: Mapping[str, Value], env: Env) -> Tree:
    tree: Tree = {}
    for path, value in spec.items():
        _add_path(tree, field_path(path), path, value, env)
    return tree


def _add_path(tree: Tree, parts: tuple[str, ...], path: str, value: Value, env: Env) -> None:
    for part in parts[:-1]:
        branch = tree.setdefault(part, {})
        if type(branch) is not dict:
            raise _conflict_error(path)
        tree = branch
    last = parts[-1]
    if type(value) is dict and value and not next(iter(value)).startswith("$"):
        branch = tree.setdefault(last, {})
        if type(branch) is not dict:
            raise _conflict_error(path)
        for name, inner in value.items():
            if "." in name:
                raise MqlError(40183, f"FieldPath field names may not contain '.' in a nested object: {path}.{name}")
            _add_path(branch, field_path(name), f"{path}.{name}", inner, env)
        return
    if last in tree:
        raise _conflict_error(path)
    if type(value) is dict and len(value) > 1:
        raise MqlError(
            40181,
            "an expression specification must contain exactly one field, the name of the expression. "
            f"Found {len(value)} fields in {path}",
        )
    tree[last] = compile_expression(value, env)


def _conflict_error(path: str) -> MqlError:
    return MqlError(
        40176, f"specification contains two conflicting paths. Cannot specify both '{path}' and a part of it"
    )
