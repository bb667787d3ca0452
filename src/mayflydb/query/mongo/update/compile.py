"""Update specifications compiled: modifiers merged into one tree, a replacement, or a pipeline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

import msgspec
from bson import Timestamp

from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError, bad_value, failed_to_parse
from mayflydb.query.mongo.filter import Filter
from mayflydb.query.mongo.update import arrays, modifiers, rename
from mayflydb.query.mongo.update.array_filters import parse_array_filters
from mayflydb.query.mongo.update.identical import identical
from mayflydb.query.mongo.update.modifiers import Modifier
from mayflydb.query.mongo.update.pipeline import Stage, compile_pipeline
from mayflydb.query.mongo.update.tree import (
    POSITIONAL,
    ElementsNode,
    FieldsNode,
    ModifierNode,
    UpdateNode,
    UpdateRun,
    dollar_prefix_error,
)
from mayflydb.query.mongo.values import MISSING, Document, Value, equal, format_value, type_name

MODIFIERS: Final[Mapping[str, Modifier]] = {
    "$addToSet": arrays.compile_add_to_set,
    "$bit": modifiers.compile_bit,
    "$currentDate": modifiers.compile_current_date,
    "$inc": modifiers.compile_increment,
    "$max": modifiers.compile_maximum,
    "$min": modifiers.compile_minimum,
    "$mul": modifiers.compile_multiply,
    "$pop": arrays.compile_pop,
    "$pull": arrays.compile_pull,
    "$pullAll": arrays.compile_pull_all,
    "$push": arrays.compile_push,
    "$set": modifiers.compile_set,
    "$setOnInsert": modifiers.compile_set_on_insert,
    "$unset": modifiers.compile_unset,
}
"""The modifiers with one path; `$rename` has two."""

MAX_DEPTH: Final = 200
"""The maximum nesting of a document."""


class Update(Protocol):
    """A compiled update."""

    @property
    def is_replacement(self) -> bool:
        """True if the update replaces the document. A replacement never applies to several documents."""

    def apply(self, document: Document, position: int | None, inserting: bool) -> Document:
        """Return the document after the update, the same object if nothing changes. The argument is not modified.

        `position`: the array index that the query matched, for `$`. `inserting`: the document is that of an upsert.
        MqlError 2, 14, 28, 30, 40, 52 or 66 if the update does not apply to the document.
        """


def compile_update(spec: Document | list[Any], env: Env, array_filters: Sequence[Document] = ()) -> Update:
    """Compile `u` of an update. MqlError 2, 9, 14, 15, 40, 56 and those of expressions if it is invalid."""
    if type(spec) is list:
        if array_filters:
            raise failed_to_parse("arrayFilters may not be specified for pipeline-style updates")
        return _Pipeline(compile_pipeline(spec, env))
    if type(spec) is not dict:
        raise failed_to_parse("Update argument must be either an object or an array")
    if not next(iter(spec), "").startswith("$"):
        return _compile_replacement(spec, env, array_filters)
    tree = _TreeBuilder(parse_array_filters(array_filters, env))
    for name, fields in spec.items():
        if name not in MODIFIERS and name != "$rename":
            raise failed_to_parse(
                f"Unknown modifier: {name}. Expected a valid update modifier or pipeline-style update specified as an array"
            )
        if type(fields) is not dict:
            raise failed_to_parse(
                f"Modifiers operate on fields but we found type {type_name(fields)} instead."
                f" For example: {{$mod: {{<field>: ...}}}} not {{{name}: {format_value(fields)}}}"
            )
        for path, argument in fields.items():
            _add_modifier(tree, name, path, argument, env)
    for name in tree.filters:
        if name not in tree.used:
            raise failed_to_parse(
                f"The array filter for identifier '{name}' was not used in the update {format_value(spec)}"
            )
    return _Modifiers(tree.root)


def depth_of(value: Value) -> int:
    """Return the nesting of documents and arrays in a value; 0 for a scalar."""
    if type(value) is dict:
        return 1 + max(map(depth_of, value.values()), default=0)
    if type(value) is list:
        return 1 + max(map(depth_of, value), default=0)
    return 0


# --- modifiers -------------------------------------------------------------------------------------------------------


class _Modifiers(msgspec.Struct, frozen=True):
    root: FieldsNode
    is_replacement: bool = False

    def apply(self, document: Document, position: int | None, inserting: bool) -> Document:
        run = UpdateRun(document, None if position is None else str(position), inserting)
        new: Document = self.root.change(document, (), run)
        return new


class _TreeBuilder:
    """Builds the tree of paths. `used`: the array filters that paths refer to."""

    def __init__(self, filters: Mapping[str, Filter]) -> None:
        self.filters = filters
        self.used: set[str] = set()
        self.root = FieldsNode({})

    def add_path(self, path: str, leaf: ModifierNode) -> None:
        """Add a path. MqlError 40 if it conflicts with another path, 2 for a part in a wrong place, 56 for an empty part."""
        parts = path.split(".")
        self._check_path(path, parts)
        here: UpdateNode = self.root
        for position, part in enumerate(parts):
            last = position == len(parts) - 1
            below = leaf if last else self._step_node(parts[position + 1])
            found = self._get_or_add_child(here, part, below)
            # A node stood here already. Two paths share it if both go on below, through nodes of one type.
            if found is not below and (last or type(found) is not type(below)):
                conflict = ".".join(parts[: position + 1])
                raise MqlError(40, f"Updating the path '{path}' would create a conflict at '{conflict}'")
            here = found

    def _get_or_add_child(self, here: UpdateNode, part: str, below: UpdateNode) -> UpdateNode:
        """Return the child for `part`; `below` is added if there is none."""
        if isinstance(here, ElementsNode):
            name = part[2:-1]
            self.used.add(name)
            return here.children.setdefault(name, below)
        assert isinstance(here, FieldsNode)
        if part == POSITIONAL:
            return here.positional.setdefault(part, below)
        return here.children.setdefault(part, below)

    def _step_node(self, next_part: str) -> UpdateNode:
        return ElementsNode({}, self.filters) if is_filtered_positional(next_part) else FieldsNode({})

    def _check_path(self, path: str, parts: list[str]) -> None:
        if not path:
            raise MqlError(56, "An empty update path is not valid.")
        if "" in parts:
            raise MqlError(56, f"The update path '{path}' contains an empty field name, which is not allowed.")
        if parts.count(POSITIONAL) > 1:
            raise bad_value(f"Too many positional (i.e. '$') elements found in path '{path}'")
        if parts[0] == POSITIONAL:
            raise bad_value(f"Cannot have positional (i.e. '$') element in the first position in path '{path}'")
        for position, part in enumerate(parts):
            if not is_filtered_positional(part):
                continue
            if position == 0:
                raise bad_value(
                    f"Cannot have array filter identifier (i.e. '$[<id>]') element in the first position in path '{path}'"
                )
            if part[2:-1] and part[2:-1] not in self.filters:
                raise bad_value(f"No array filter found for identifier '{part[2:-1]}' in path '{path}'")


def is_filtered_positional(part: str) -> bool:
    """Return whether a part of a path is `$[]` or `$[identifier]`."""
    return part.startswith("$[") and part.endswith("]")


def _add_modifier(tree: _TreeBuilder, name: str, path: str, argument: Value, env: Env) -> None:
    if name == "$rename":
        target = rename.target_of(path, argument)
        tree.add_path(path, rename.source_leaf())
        # The value that moves is not known yet, so only the depth of the target path is checked.
        _check_depth(target, MISSING)
        tree.add_path(target, rename.target_leaf(path, target))
        return
    leaf = MODIFIERS[name](path, argument, env)
    # The argument of `$unset` is ignored, and so is its depth.
    if name != "$unset":
        _check_depth(path, argument)
    tree.add_path(path, leaf)


def _check_depth(path: str, argument: Value) -> None:
    """Raise MqlError 15 if the path and argument would exceed the maximum nesting."""
    if path.count(".") + depth_of(argument) >= MAX_DEPTH:
        raise MqlError(15, f"Document exceeds maximum nesting depth of {MAX_DEPTH}")


# --- replacement documents and pipelines -----------------------------------------------------------------------------


class _Replacement(msgspec.Struct, frozen=True):
    document: Document
    is_replacement: bool = True

    def apply(self, document: Document, _position: int | None, inserting: bool) -> Document:
        if not inserting:
            # An inserted document may have such names at the top level.
            for name in self.document:
                if name.startswith("$"):
                    raise dollar_prefix_error(name)
        return _keep_id(document, self.document)


class _Pipeline(msgspec.Struct, frozen=True):
    stages: list[Stage]
    is_replacement: bool = False

    def apply(self, document: Document, _position: int | None, _inserting: bool) -> Document:
        new = document
        for stage in self.stages:
            new = stage(new)
        return _keep_id(document, new)


def _compile_replacement(spec: Document, env: Env, array_filters: Sequence[Document]) -> _Replacement:
    for name in parse_array_filters(array_filters, env):
        raise failed_to_parse(
            f"The array filter for identifier '{name}' was not used in the update {format_value(spec)}"
        )
    if depth_of(spec) > MAX_DEPTH:
        raise MqlError(15, f"Document exceeds maximum nesting depth of {MAX_DEPTH}")
    # As on the server, an empty Timestamp at the top level of a replacement becomes the current time.
    empty = Timestamp(0, 0)
    now = modifiers.command_timestamp(env)
    return _Replacement({name: now if value == empty and name != "_id" else value for name, value in spec.items()})


def _keep_id(old: Document, new: Document) -> Document:
    """Return `new` with the `_id` of `old`. MqlError 66 if `new` has another `_id`."""
    if "_id" in old:
        if "_id" not in new:
            new = {"_id": old["_id"], **new}
        elif not equal(old["_id"], new["_id"]):
            raise MqlError(
                66,
                "After applying the update, the (immutable) field '_id' was found to have been altered to"
                f" _id: {format_value(new['_id'])}",
            )
        if next(iter(new)) != "_id":
            new = {"_id": new["_id"], **new}
    return old if identical(old, new) else new
