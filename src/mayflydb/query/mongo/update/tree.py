"""The paths of an update as one tree, applied in one walk through a document.

Documents are never modified: changed parts are copied, unchanged parts are shared, and if nothing changes the same object is
returned. Children are visited in the order in which new fields are added: by name, numeric names by number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import msgspec

from mayflydb.query.mongo.faults import MqlError, bad_value
from mayflydb.query.mongo.filter import Filter
from mayflydb.query.mongo.values import MISSING, Document, Value, format_value

Trail: TypeAlias = tuple[str, ...]
"""The parts of a path walked so far, array indexes included."""

MAX_PADDING: Final = 1_500_000
"""The maximum number of nulls that one path may add to an array, as on the server."""

POSITIONAL: Final = "$"


class UpdateRun(msgspec.Struct, frozen=True, gc=False):
    """One application of an update: the document before it, the matched array index as a path part, and whether it is
    an insert.
    """

    root: Document
    position: str | None
    inserting: bool


Act: TypeAlias = Callable[[Value, Trail, UpdateRun], Value]
"""Returns the new value at the path of a modifier. MISSING stands for no value, before and after."""


class ModifierNode(msgspec.Struct, frozen=True):
    """A modifier at the end of its path. `lenient`: where the path cannot exist, nothing is done and no error is raised."""

    act: Act
    lenient: bool = False
    only_inserting: bool = False

    def change(self, old: Value, trail: Trail, run: UpdateRun) -> Value:
        """Return the new value for `old`."""
        if self.only_inserting and not run.inserting:
            return old
        return self.act(old, trail, run)


class FieldsNode(msgspec.Struct, frozen=True):
    """A step into the fields of a document or the indexes of an array. `positional`: the child named `$`, if any."""

    children: dict[str, UpdateNode]
    positional: dict[str, UpdateNode] = {}

    def change(self, old: Value, trail: Trail, run: UpdateRun) -> Value:
        """Return the new value for the document, array or MISSING at `trail`."""
        children = self.ordered_children(trail, run)
        kind = type(old)
        if kind is dict:
            return _change_document(children, old, trail, run)
        if old is MISSING:
            made = {name: new for name, new in _create_children(children, trail, run) if new is not MISSING}
            # If no modifier sets a value below, the document is not created either.
            return made or MISSING
        if kind is list:
            return _change_array(children, old, trail, run)
        for name, child in children:
            _check_unreachable(child, old, trail, (*trail, name), run)
        return old

    def ordered_children(self, trail: Trail, run: UpdateRun) -> list[tuple[str, UpdateNode]]:
        """Return the children in order, the positional one under the matched index. MqlError 2 if the query matched
        no index.
        """
        if not self.positional:
            return sorted(self.children.items(), key=_child_order)
        if run.position is None:
            raise bad_value("The positional operator did not find the match needed from the query.")
        # `a.$.b` and `a.0.c` go through one element if the query matched index 0.
        matched = {run.position: self.positional[POSITIONAL]}
        return sorted(_merge_children(self.children, matched, trail).items(), key=_child_order)


class ElementsNode(msgspec.Struct, frozen=True):
    """A step into array elements: all elements under the name "", or those that satisfy the filter of that name."""

    children: dict[str, UpdateNode]
    filters: Mapping[str, Filter]

    def change(self, old: Value, trail: Trail, run: UpdateRun) -> Value:
        """Return the new array for `old`. MqlError 2 if `old` is no array."""
        if old is MISSING:
            raise _no_array_error(trail)
        if type(old) is not list:
            raise bad_value(f"Cannot apply array updates to non-array element {trail[-1]}: {format_value(old)}")
        new = old
        for index, element in enumerate(old):
            changed = _null_for_missing(element, self._change_element(element, (*trail, str(index)), run))
            if changed is element:
                continue
            if new is old:
                new = list(old)
            new[index] = changed
        return new

    def _change_element(self, element: Value, trail: Trail, run: UpdateRun) -> Value:
        node: UpdateNode | None = None
        for name, child in self.children.items():
            if not name or self.filters[name].matches({name: element}):
                # An element may satisfy several filters; their modifiers apply together.
                node = child if node is None else merge_nodes(node, child, trail)
        return element if node is None else node.change(element, trail, run)


UpdateNode: TypeAlias = ModifierNode | FieldsNode | ElementsNode


def merge_nodes(one: UpdateNode, other: UpdateNode, trail: Trail) -> UpdateNode:
    """Return one node for two paths that lead to the same place. MqlError 40 if two modifiers conflict."""
    if type(one) is FieldsNode and type(other) is FieldsNode:
        positional = _merge_children(one.positional, other.positional, trail)
        return FieldsNode(_merge_children(one.children, other.children, trail), positional)
    if type(one) is ElementsNode and type(other) is ElementsNode:
        return ElementsNode(_merge_children(one.children, other.children, trail), one.filters)
    raise MqlError(40, f"Update created a conflict at '{'.'.join(trail)}'")


def _merge_children(one: dict[str, UpdateNode], other: dict[str, UpdateNode], trail: Trail) -> dict[str, UpdateNode]:
    children = dict(one)
    for name, child in other.items():
        children[name] = merge_nodes(children[name], child, (*trail, name)) if name in children else child
    return children


def dollar_prefix_error(name: str) -> MqlError:
    """Return an error of code 52: only inserted documents may have top-level names that begin with a dollar."""
    return MqlError(
        52,
        f"The dollar ($) prefixed field '{name}' in '{name}' is not allowed in the context of an update's replacement"
        " document. Consider using an aggregation pipeline with $replaceWith.",
    )


def as_index(part: str) -> int | None:
    """Return the array index that a part of a path denotes; None for a name."""
    return int(part) if part.isascii() and part.isdigit() and len(part) < 10 else None


def _child_order(item: tuple[str, UpdateNode]) -> tuple[bool, int, str]:
    name = item[0]
    if not (name.isascii() and name.isdigit()):
        return True, 0, name
    # Numbers before names, and 10 behind 9: by the number of digits, then by the digits. Python refuses to convert thousands.
    digits = name.lstrip("0")
    return False, len(digits), f"{digits} {name}"


def _change_document(children: list[tuple[str, UpdateNode]], old: Document, trail: Trail, run: UpdateRun) -> Document:
    new = old
    for name, child in children:
        value = old.get(name, MISSING)
        changed = child.change(value, (*trail, name), run)
        if changed is value:
            continue
        # An `_id` may be set where there is none, as in an upsert.
        if not trail and name == "_id" and value is not MISSING:
            path = _first_path(child, "_id")
            raise MqlError(66, f"Performing an update on the path '{path}' would modify the immutable field '_id'")
        if not trail and name.startswith("$") and changed is not MISSING and not run.inserting:
            raise dollar_prefix_error(name)
        if new is old:
            new = dict(old)
        if changed is MISSING:
            del new[name]
        else:
            new[name] = changed
    return new


def _change_array(
    children: list[tuple[str, UpdateNode]], old: list[Value], trail: Trail, run: UpdateRun
) -> list[Value]:
    new = old
    for name, child in children:
        index, here = as_index(name), (*trail, name)
        if index is None:
            _check_unreachable(child, old, trail, here, run)
            continue
        value = old[index] if index < len(old) else MISSING
        changed = _null_for_missing(value, child.change(value, here, run))
        if changed is value:
            continue
        if new is old:
            new = list(old)
        if index >= len(new):
            # `{$set: {"a.1000000000": 1}}` would fill the memory with nulls.
            if index - len(new) > MAX_PADDING:
                raise MqlError(30, f"can't backfill more than {MAX_PADDING} elements")
            new.extend([None] * (index + 1 - len(new)))
        new[index] = changed
    return new


def _null_for_missing(old: Value, new: Value) -> Value:
    """Return null for a removed array element, because removing it would shift the following elements."""
    return None if new is MISSING and old is not MISSING else new


def _create_children(children: list[tuple[str, UpdateNode]], trail: Trail, run: UpdateRun) -> list[tuple[str, Value]]:
    return [(name, child.change(MISSING, (*trail, name), run)) for name, child in children]


def _check_unreachable(node: UpdateNode, holder: Value, walked: Trail, trail: Trail, run: UpdateRun) -> None:
    """Apply the paths below `node` to `holder`, which has no place for them: a scalar, or an array without that index.

    MqlError 28 for a path that has to exist, or that would set a value.
    `walked`: the path of `holder`. `trail`: the path of `node`.
    """
    if type(node) is ElementsNode:
        raise _no_array_error(trail)
    if type(node) is FieldsNode:
        for name, child in node.ordered_children(trail, run):
            _check_unreachable(child, holder, walked, (*trail, name), run)
        return
    element, part = f"{{{walked[-1]}: {format_value(holder)}}}", trail[len(walked)]
    if node.change(MISSING, trail, run) is not MISSING:
        raise MqlError(28, f"Cannot create field '{part}' in element {element}")
    if isinstance(node, ModifierNode) and not node.lenient and not node.only_inserting:
        raise MqlError(28, f"Cannot use the part ({part}) of ({'.'.join(trail)}) to traverse the element ({element})")


def _no_array_error(trail: Trail) -> MqlError:
    return bad_value(f"The path '{'.'.join(trail)}' must exist in the document in order to apply array updates.")


def _first_path(node: UpdateNode, path: str) -> str:
    if type(node) is FieldsNode:
        for name, child in sorted((node.children | node.positional).items(), key=_child_order):
            return _first_path(child, f"{path}.{name}")
    return path
