"""Parsers raise their own errors only, whatever they are given; none of them hangs, and none of them keeps memory."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from time import monotonic

import pytest

from mayflydb.evaluation.memory import resident_bytes
from reliability.fuzz.mutating import Mutator
from reliability.fuzz.targets import targets

INPUTS, SOAKED = 10_000, 200_000
SLOWEST_SECONDS = 5.0
"""No parse may take this long. A hundredth of it would do; the rest is for a busy machine."""

MOST_GROWTH = 64 * 1024 * 1024
NAMES = [
    "http",
    "rntbd",
    "http2",
    "bson",
    "op_msg",
    "protobuf",
    "sql",
    "mql",
    "yql",
    "binary_json",
    "hybrid_row",
    "json",
]


def fuzz(name: str, count: int, seed: int) -> str:
    target = targets()[name]
    mutator = Mutator(target.examples, target.words, target.binary, random.Random(seed))
    for example in target.examples:
        target.parse(example)
    refused, slowest = 0, 0.0
    before = resident_bytes()
    began = monotonic()
    for data in mutator.inputs(count):
        start = monotonic()
        try:
            target.parse(data)
        except target.errors:
            refused += 1
        except BaseException:
            print("input:", data)
            raise
        took = monotonic() - start
        assert took < SLOWEST_SECONDS, (took, data)
        slowest = max(slowest, took)
    spent = monotonic() - began
    gc.collect()
    after = resident_bytes()
    grown = 0 if before is None or after is None else after - before
    assert grown < MOST_GROWTH, grown
    # Inputs that are all refused, or all taken, would try little.
    return f"{count} inputs, {refused} refused, {count / spent:.0f}/s, slowest {slowest * 1000:.0f} ms, grown {grown // 1024} KiB"


def test_every_parser_has_its_name_here() -> None:
    assert [*targets()] == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_nearly_right_inputs(name: str, seed: int, figure: Callable[[str], None]) -> None:
    figure(fuzz(name, INPUTS, seed))


@pytest.mark.soak
@pytest.mark.parametrize("name", NAMES)
def test_many_nearly_right_inputs(name: str, seed: int, figure: Callable[[str], None]) -> None:
    figure(fuzz(name, SOAKED, seed))
