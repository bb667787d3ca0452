"""Is a history of one register linearizable? The search of Wing and Gong, with what was seen to fail remembered."""

from __future__ import annotations

from math import inf
from typing import Literal, NamedTuple, TypeAlias

Value: TypeAlias = bytes | None
Verb = Literal["read", "write", "swap", "miss"]


class Op(NamedTuple):
    """One operation between two moments. `told` inf: it was not answered, and happened at any time after `sent`, or not.

    read: `value` was found. write: `value` was set. swap: `value` was set in place of `expected`. miss: a swap was refused
    because `expected` was not there.
    """

    sent: float
    told: float
    verb: Verb
    value: Value
    expected: Value = None


def after(op: Op, state: Value) -> tuple[bool, Value]:
    """Whether this may be what a register in that state answers, and its state behind it."""
    if op.verb == "read":
        return state == op.value, state
    if op.verb == "miss":
        return state != op.expected, state
    return op.verb == "write" or state == op.expected, op.value


def linearizable(history: list[Op], state: Value = None) -> bool:
    """Whether some order that keeps each operation within its moments explains every answer. Values are written once each."""
    met = _met(history)
    ops = sorted((op for op in history if op.told < inf or op.value in met), key=lambda op: op.sent)
    seen: set[tuple[int, frozenset[int], Value]] = set()
    stack = [(0, frozenset[int](), state)]
    while stack:
        first, done, state = stack.pop()
        while first in done:
            first, done = first + 1, done - {first}
        if (first, done, state) in seen:
            continue
        seen.add((first, done, state))
        ready = _ready(ops, first, done)
        if all(ops[n].told == inf for n in ready):
            return True
        # The last on the stack is tried first: what was answered first has probably happened first.
        for n in sorted(ready, key=lambda n: -ops[n].told):
            possible, later = after(ops[n], state)
            if possible:
                stack.append((first, done | {n}, later))
    return False


def _met(history: list[Op]) -> set[Value]:
    """Values that somebody has met. An unanswered write of another one explains nothing, unless a swap has missed."""
    if any(op.verb == "miss" for op in history):
        return {op.value for op in history}
    return {op.expected if op.verb == "swap" else op.value for op in history if op.verb in ("read", "swap")}


def _ready(ops: list[Op], first: int, done: frozenset[int]) -> list[int]:
    """Which may come next: those that were sent before any of the rest was answered."""
    ready, answered = [], inf
    for n in range(first, len(ops)):
        if ops[n].sent > answered:
            break
        if n not in done:
            ready.append(n)
            answered = min(answered, ops[n].told)
    return [n for n in ready if ops[n].sent <= answered]
