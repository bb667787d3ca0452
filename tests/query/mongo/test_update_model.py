"""Random updates against a plain model: one path after the other on a deep copy, with Python's own dictionaries and lists.

The model knows nothing of trees, sharing or order of evaluation. It has the rules of single paths only, which is enough: paths
that meet are refused before anything is applied.
"""

from __future__ import annotations

import copy
import random
from typing import Any

from bson import Int64

from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.faults import MqlError
from mayflydb.query.mongo.update import compile_update
from mayflydb.query.mongo.values import INT32_MAX, INT32_MIN, encode

ENV = Env(0)
NOTHING: Any = object()
ROUNDS = 4000


class Refused(Exception):
    """The model's refusal."""


def update_by_model(document: dict[str, Any], update: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The document after the update, or Refused."""
    paths = sorted(
        ((path.split("."), name, argument) for name, fields in update.items() for path, argument in fields.items()),
        key=lambda row: [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in row[0]],
    )
    for at, (one, _, _) in enumerate(paths):
        for other, _, _ in paths[at + 1 :]:
            shorter = min(len(one), len(other))
            if one[:shorter] == other[:shorter]:
                raise Refused(40)
    result = copy.deepcopy(document)
    for parts, name, argument in paths:
        change(result, parts, name, copy.deepcopy(argument))
    return result


def change(holder: Any, parts: list[str], name: str, argument: Any) -> None:
    """One modifier at one path."""
    for position, part in enumerate(parts[:-1]):
        below = get(holder, part, name)
        if below is NOTHING:
            new = modify_by_model(NOTHING, name, argument)
            if new is NOTHING:
                return
            for inner in reversed(parts[position + 1 :]):
                new = {inner: new}
            put(holder, part, new)
            return
        holder = below
    old = get(holder, parts[-1], name)
    new = modify_by_model(old, name, argument)
    if new is NOTHING and old is not NOTHING:
        if isinstance(holder, list):
            holder[int(parts[-1])] = None
        else:
            del holder[parts[-1]]
    elif new is not NOTHING:
        put(holder, parts[-1], new)


def get(holder: Any, part: str, name: str) -> Any:
    if isinstance(holder, dict):
        return holder.get(part, NOTHING)
    if isinstance(holder, list) and part.isdigit():
        return holder[int(part)] if int(part) < len(holder) else NOTHING
    if name == "$unset":
        return NOTHING
    raise Refused(28)


def put(holder: Any, part: str, value: Any) -> None:
    if isinstance(holder, dict):
        holder[part] = value
        return
    while len(holder) <= int(part):
        holder.append(None)
    holder[int(part)] = value


def modify_by_model(old: Any, name: str, argument: Any) -> Any:
    """What one modifier makes of one value."""
    if name == "$set":
        return argument
    if name == "$unset":
        return NOTHING
    if name in ("$inc", "$mul"):
        if old is NOTHING:
            return argument if name == "$inc" else type(argument)(0)
        if not isinstance(old, int | float) or isinstance(old, bool):
            raise Refused(14)
        return calculate_by_model(old + argument if name == "$inc" else old * argument, old, argument)
    if old is not NOTHING and not isinstance(old, list):
        raise Refused(14 if name == "$pop" else 2)
    if name == "$push":
        return push_by_model([] if old is NOTHING else old, argument)
    if name == "$addToSet":
        return (old if old is not NOTHING else []) + ([] if old is not NOTHING and has(old, argument) else [argument])
    if old is NOTHING:
        return old
    if name == "$pop":
        return old[:-1] if argument == 1 else old[1:]
    assert name == "$pullAll"
    return [each for each in old if not has(argument, each)]


def calculate_by_model(value: Any, *operands: Any) -> Any:
    if isinstance(value, float):
        return value
    wide = any(isinstance(each, Int64) for each in operands) or not INT32_MIN <= value <= INT32_MAX
    return Int64(value) if wide else int(value)


def push_by_model(old: list[Any], argument: Any) -> list[Any]:
    if not isinstance(argument, dict) or "$each" not in argument:
        return [*old, argument]
    new = list(old)
    at = argument.get("$position", len(new))
    new[at:at] = argument["$each"]
    cut = argument.get("$slice")
    if cut is None:
        return new
    return new[:cut] if cut >= 0 else new[cut:]


def has(values: list[Any], value: Any) -> bool:
    return any(same(each, value) for each in values)


def same(one: Any, other: Any) -> bool:
    """MongoDB's equality, in which true is not 1 and the order of fields counts."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(same(one[name], other[name]) for name in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    return bool(one == other)


# --- what is drawn ---------------------------------------------------------------------------------------------------


def random_value(chance: random.Random, depth: int = 0) -> Any:
    kind = chance.random()
    if depth < 3 and kind < 0.35:
        return {name: random_value(chance, depth + 1) for name in chance.sample("abc", chance.randrange(3))}
    if depth < 3 and kind < 0.65:
        return [random_value(chance, depth + 1) for _ in range(chance.randrange(4))]
    return chance.choice([0, 1, 2, -1, 1.0, 2.5, Int64(1), INT32_MAX, "x", None, True])


def random_path(chance: random.Random) -> str:
    length = chance.choice([1, 1, 2, 2, 3])
    return ".".join([chance.choice("abcd"), *(chance.choice(["a", "b", "0", "1", "3"]) for _ in range(length - 1))])


def random_argument(name: str, chance: random.Random) -> Any:
    if name in ("$inc", "$mul"):
        return chance.choice([0, 1, -3, Int64(2), 0.5, INT32_MAX])
    if name == "$pop":
        return chance.choice([1, -1])
    if name == "$pullAll":
        return [random_value(chance, 2) for _ in range(3)]
    if name == "$push" and chance.random() < 0.6:
        argument: dict[str, Any] = {"$each": [random_value(chance, 2) for _ in range(chance.randrange(3))]}
        if chance.random() < 0.5:
            argument["$position"] = chance.randrange(-4, 5)
        if chance.random() < 0.5:
            argument["$slice"] = chance.randrange(-3, 4)
        return argument
    return random_value(chance, 1)


NAMES = ["$set", "$set", "$unset", "$inc", "$mul", "$push", "$addToSet", "$pop", "$pullAll"]


def random_update(chance: random.Random) -> dict[str, dict[str, Any]]:
    update: dict[str, dict[str, Any]] = {}
    for _ in range(chance.choice([1, 1, 2, 3])):
        name = chance.choice(NAMES)
        update.setdefault(name, {})[random_path(chance)] = random_argument(name, chance)
    return update


def test_updates_do_what_a_plain_model_does(chance: random.Random) -> None:
    applied = refused = 0
    for _ in range(ROUNDS):
        before = {name: random_value(chance) for name in chance.sample("abcd", chance.randrange(5))}
        update = random_update(chance)
        bytes_before = encode(before)
        try:
            expected: Any = encode(update_by_model(before, update))
            applied += 1
        except Refused as refusal:
            expected = refusal.args[0]
            refused += 1
        try:
            after = compile_update(update, ENV).apply(before, None, False)
            got: Any = encode(after)
            assert (after is before) == (got == bytes_before), (before, update)
        except MqlError as error:
            got = error.code
        assert got == expected, (before, update)
        assert encode(before) == bytes_before, (before, update)
    assert applied > ROUNDS // 4 and refused > ROUNDS // 20
