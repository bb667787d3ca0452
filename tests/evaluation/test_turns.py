"""The order in which waiting calls run."""

from __future__ import annotations

import pytest

from mayflydb.evaluation.turns import Turns


def start_all(turns: Turns[str]) -> list[str]:
    started = []
    while (call := turns.take()) is not None:
        started.append(call)
    return started


@pytest.mark.parametrize(
    ("at_once", "per_client", "expected"),
    [
        (1, 1, ["a1"]),
        (2, 1, ["a1", "b1"]),
        (3, 1, ["a1", "b1", "c1"]),
        (4, 1, ["a1", "b1", "c1"]),
        (4, 2, ["a1", "b1", "c1", "a2"]),
        (9, 9, ["a1", "b1", "c1", "a2", "a3"]),
    ],
)
def test_clients_take_turns(at_once: int, per_client: int, expected: list[str]) -> None:
    turns: Turns[str] = Turns(at_once, per_client, 100)
    for call in ("a1", "a2", "a3", "b1", "c1"):
        turns.add(call[0], call)
    assert start_all(turns) == expected
    assert turns.running == len(expected)
    assert turns.waiting == 5 - len(expected)


def test_a_client_at_its_limit_lets_others_pass() -> None:
    turns: Turns[str] = Turns(2, 1, 100)
    for call in ("a1", "a2", "b1", "b2"):
        turns.add(call[0], call)
    assert start_all(turns) == ["a1", "b1"]
    turns.end("b")
    assert start_all(turns) == ["b2"]
    turns.end("a")
    assert start_all(turns) == ["a2"]


def test_a_call_that_left_does_not_run() -> None:
    turns: Turns[str] = Turns(1, 1, 2)
    turns.add("a", "a1")
    assert not turns.is_full
    turns.add("b", "b1")
    assert turns.is_full
    turns.discard("a", "a1")
    turns.discard("a", "a1")
    assert not turns.is_full
    assert start_all(turns) == ["b1"]
    turns.end("b")
    assert start_all(turns) == []
