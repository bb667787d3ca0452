"""Patches: both forms, each operation, what is refused; nothing of a failed one remains."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from mayflydb.frontends.cosmos.partition_key import PartitionKeyDefinition
from mayflydb.frontends.cosmos.patch import Patch, apply_to_document, apply_to_item, parse_patch, parse_patch_value
from mayflydb.frontends.cosmos.values import ItemLimits
from mayflydb.model.errors import BadRequest, TooLarge

KEY = PartitionKeyDefinition.from_json({"paths": ["/pk/deep"]})
DOC = {
    "id": "a",
    "pk": {"deep": "p", "by": 1},
    "n": 5,
    "f": 1.5,
    "s": "x",
    "o": {"a": 1, "~/": 2},
    "l": [1, 2, 3],
    "z": None,
}


def run(*operations: dict[str, Any]) -> dict[str, Any]:
    before = copy.deepcopy(DOC)
    try:
        return apply_to_document(parse_patch_value(list(operations)), DOC, KEY)
    finally:
        assert before == DOC


def op(kind: str, path: str, *value: Any) -> dict[str, Any]:
    return {"op": kind, "path": path, **({"value": value[0]} if value else {})}


def move(source: str, path: str) -> dict[str, Any]:
    return {"op": "move", "from": source, "path": path}


@pytest.mark.parametrize(
    ("operation", "change"),
    [
        (op("add", "/new", 1), {"new": 1}), (op("add", "/n", "y"), {"n": "y"}), (op("add", "/l/0", 9), {"l": [9, 1, 2, 3]}),
        (op("add", "/l/3", 9), {"l": [1, 2, 3, 9]}), (op("add", "/l/-", 9), {"l": [1, 2, 3, 9]}),
        (op("add", "/o/b", None), {"o": {"a": 1, "~/": 2, "b": None}}), (op("add", "/", 1), {"": 1}),
        (op("set", "/new", {"x": []}), {"new": {"x": []}}), (op("set", "/l/0", 9), {"l": [9, 2, 3]}),
        (op("set", "/l/-", 9), {"l": [1, 2, 3, 9]}), (op("set", "/l/3", 9), {"l": [1, 2, 3, 9]}),
        (op("set", "/o/~0~1", 9), {"o": {"a": 1, "~/": 9}}), (op("set", "/ttl", 60), {"ttl": 60}),
        (op("replace", "/n", None), {"n": None}), (op("replace", "/l/2", 9), {"l": [1, 2, 9]}),
        (op("replace", "/z", 1), {"z": 1}), (op("remove", "/o/a"), {"o": {"~/": 2}}), (op("remove", "/l/0"), {"l": [2, 3]}),
        (op("incr", "/n", 2), {"n": 7}), (op("incr", "/n", -10), {"n": -5}), (op("incr", "/n", 0.5), {"n": 5.5}),
        (op("incr", "/f", 1), {"f": 2.5}), (op("incr", "/new", 3), {"new": 3}), (op("incr", "/l/1", 3), {"l": [1, 5, 3]}),
        (op("incr", "/o/c", 3), {"o": {"a": 1, "~/": 2, "c": 3}}), (op("incr", "/n", 2**63), {"n": float(2**63)}),
        (move("/o/a", "/b"), {"o": {"~/": 2}, "b": 1}), (move("/l/0", "/l/2"), {"l": [2, 3, 1]}),
        (move("/n", "/n"), {}), (move("/o/a", "/l/0"), {"o": {"~/": 2}, "l": [1, 1, 2, 3]}),
        (move("/o/a", "/o"), {"o": 1}), (op("set", "/pk/by", 2), {"pk": {"deep": "p", "by": 2}}),
        (op("set", "/pk", {"deep": "p"}), {"pk": {"deep": "p"}}),
    ],
)  # fmt: skip
def test_operation(operation: dict[str, Any], change: dict[str, Any]) -> None:
    assert run(operation) == {**DOC, **change}


def test_remove_property() -> None:
    assert run(op("remove", "/s")) == {name: value for name, value in DOC.items() if name != "s"}


def test_operations_apply_in_order() -> None:
    assert run(op("add", "/c", {}), op("add", "/c/d", []), op("add", "/c/d/-", 1), op("incr", "/c/d/0", 1))["c"] == {
        "d": [2]
    }


@pytest.mark.parametrize(
    "operation",
    [
        op("add", "/x/y", 1), op("add", "/s/y", 1), op("add", "/l/4", 1), op("add", "/l/-1", 1), op("add", "/l/01", 1),
        op("add", "/l/x", 1), op("set", "/l/4", 1), op("replace", "/x", 1), op("replace", "/l/3", 1), op("replace", "/l/-", 1),
        op("remove", "/x"), op("remove", "/l/3"), op("remove", "/o/x"), op("incr", "/s", 1), op("incr", "/z", 1),
        op("incr", "/l/3", 1), op("incr", "/f", 1e308 * 1.7), move("/x", "/y"), move("/o", "/o/a"), move("/o", "/o/x/y"),
        move("/l/9", "/y"), op("set", "/z/a", 1), op("incr", "/o", 1), op("add", "/l/99999999999999999999", 1),
    ],
)  # fmt: skip
def test_operation_fails(operation: dict[str, Any]) -> None:
    if operation.get("value") == 1e308 * 1.7:
        operation = op("incr", "/f", 1.7e308)
        with pytest.raises(BadRequest, match="range"):
            run(op("set", "/f", 1.7e308), operation)
        return
    with pytest.raises(BadRequest):
        run(op("set", "/s", "changed"), operation)


@pytest.mark.parametrize(
    "operation",
    [op("set", "/id", "b"), op("remove", "/id"), op("set", "/_ts", 1), op("set", "/_etag/x", 1), op("add", "/_rid", 1),
     op("set", "/_self", 1), op("set", "/_attachments", 1), op("set", "/pk/deep", "p"), op("add", "/pk/deep/er", 1),
     op("set", "/pk", {"deep": "q"}), op("remove", "/pk"), op("set", "/pk", 1), move("/pk/deep", "/x"), move("/x", "/id"),
     move("/pk", "/x")],
)  # fmt: skip
def test_protected(operation: dict[str, Any]) -> None:
    with pytest.raises(BadRequest, match="cannot"):
        run(operation)


@pytest.mark.parametrize(
    ("body", "count", "condition"),
    [
        ({"operations": [op("set", "/a", 1)]}, 1, None), ([op("set", "/a", 1)], 1, None),
        ({"operations": [op("remove", "/a")] * 10, "condition": "from c where c.n = 1"}, 10, "from c where c.n = 1"),
        ({"operations": [op("remove", "/a", None)], "condition": None}, 1, None),
    ],
)  # fmt: skip
def test_forms_of_a_body(body: object, count: int, condition: str | None) -> None:
    patch = parse_patch(json.dumps(body).encode(), ItemLimits())
    assert (len(patch.operations), patch.condition) == (count, condition)


@pytest.mark.parametrize(
    "body",
    [
        None, 5, "x", [], {}, {"operations": []}, [op("remove", "/a")] * 11, {"operations": [op("remove", "/a")], "x": 1},
        [5], [{}], [op("copy", "/a", 1)], [{"op": "set", "path": "/a"}], [{"op": "set", "value": 1}], [op("set", "a", 1)],
        [op("set", "", 1)], [op("set", "/~2", 1)], [op("set", "/~", 1)], [{"op": "set", "path": 5, "value": 1}],
        [{"op": "move", "path": "/a"}], [{"op": "move", "path": "/a", "from": "b"}], [op("incr", "/a", "1")],
        [op("incr", "/a", True)], [op("incr", "/a", None)], [{**op("set", "/a", 1), "x": 1}], [op("remove", "/a", 1)],
        [{"op": [], "path": "/a"}], {"operations": [op("remove", "/a")], "condition": 5},
        {"operations": [op("remove", "/a")], "condition": " "},
    ],
)  # fmt: skip
def test_malformed(body: object) -> None:
    with pytest.raises(BadRequest):
        parse_patch(json.dumps(body).encode(), ItemLimits())


def test_text_of_the_rest_is_kept() -> None:
    text = b'{"id":"a","pk":{"deep":"p"},"n":5e0,"m":1.50,"o":{ "x": 1E2 }}'
    item = apply_to_item(parse_patch_value([op("incr", "/n", 1), op("add", "/new", "\u00e9")]), text, KEY, ItemLimits())
    assert item.text == '{"id":"a","pk":{"deep":"p"},"n":6.0,"m":1.50,"o":{ "x": 1E2 },"new":"é"}'.encode()
    assert item.doc == json.loads(item.text)


def deep(levels: int) -> Any:
    return json.loads("[" * levels + "]" * levels)


@pytest.mark.parametrize(("levels", "allowed"), [(126, True), (127, False)])
def test_nesting_of_the_result(levels: int, allowed: bool) -> None:
    patch: Patch = parse_patch_value([op("add", "/o/d", deep(levels))])
    if allowed:
        apply_to_item(patch, json.dumps(DOC).encode(), KEY, ItemLimits())
        return
    with pytest.raises(BadRequest, match="nested"):
        apply_to_item(patch, json.dumps(DOC).encode(), KEY, ItemLimits())


def test_size_of_the_result() -> None:
    with pytest.raises(TooLarge):
        apply_to_item(
            parse_patch_value([op("add", "/b", "x" * 200)]), json.dumps(DOC).encode(), KEY, ItemLimits(item_bytes=300)
        )
