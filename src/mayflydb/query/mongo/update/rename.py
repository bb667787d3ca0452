"""`$rename`: moves a value from one path to another. Neither path may lead through an array."""

from __future__ import annotations

from mayflydb.query.mongo.faults import MqlError, bad_value
from mayflydb.query.mongo.update.identical import identical
from mayflydb.query.mongo.update.modifiers import id_of
from mayflydb.query.mongo.update.tree import ModifierNode, Trail, UpdateRun, as_index
from mayflydb.query.mongo.values import MISSING, Document, Value, format_value


def target_of(source: str, argument: Value) -> str:
    """Return the target path of a `$rename`. MqlError 2 for an invalid argument."""
    if type(argument) is not str:
        raise bad_value(f"The 'to' field for $rename must be a string: {source}: {format_value(argument)}")
    if "\0" in argument:
        raise bad_value("The 'to' field for $rename cannot contain an embedded null byte")
    if source == argument:
        raise bad_value(f"The source and target field for $rename must differ: {source}: {format_value(argument)}")
    if argument.startswith(f"{source}.") or source.startswith(f"{argument}."):
        raise bad_value(
            f"The source and target field for $rename must not be on the same path: {source}: {format_value(argument)}"
        )
    if _is_dynamic(source):
        raise bad_value(f"The source field for $rename may not be dynamic: {source}")
    if _is_dynamic(argument):
        raise bad_value(f"The destination field for $rename may not be dynamic: {argument}")
    return argument


def target_leaf(source: str, target: str) -> ModifierNode:
    """Return the node that sets the target."""
    parts = source.split(".")

    def act(old: Value, _trail: Trail, run: UpdateRun) -> Value:
        # Two modifiers on one path are refused, so the source still has its original value.
        value = _value_at(parts, run.root)
        if value is MISSING:
            return old
        _check_no_array(source, run.root, "source")
        _check_no_array(target, run.root, "destination")
        return old if identical(old, value) else value

    return ModifierNode(act, lenient=True)


def source_leaf() -> ModifierNode:
    """Return the node that removes the source."""
    return ModifierNode(lambda _old, _trail, _run: MISSING, lenient=True)


def _is_dynamic(path: str) -> bool:
    return any(part == "$" or (part.startswith("$[") and part.endswith("]")) for part in path.split("."))


def _value_at(parts: list[str], root: Document) -> Value:
    value: Value = root
    for position, part in enumerate(parts):
        kind = type(value)
        index = as_index(part) if kind is list else None
        if kind is dict:
            value = value.get(part, MISSING)
        elif index is not None:
            value = value[index] if index < len(value) else MISSING
        else:
            # Not the first part: the root is a document.
            before = parts[position - 1]
            raise MqlError(
                28,
                f"cannot use the part ({before} of {'.'.join(parts)}) to traverse the element"
                f" ({{{before}: {format_value(value)}}})",
            )
        if value is MISSING:
            return MISSING
    return value


def _check_no_array(path: str, root: Document, role: str) -> None:
    value: Value = root
    parts = path.split(".")
    for part in parts[:-1]:
        value = value.get(part) if type(value) is dict else None
        if type(value) is list:
            raise bad_value(
                f"The {role} field cannot be an array element, '{path}' in doc with {id_of(root)}"
                f" has an array field called '{part}'"
            )
