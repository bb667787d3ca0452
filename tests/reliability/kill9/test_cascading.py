"""Killed amid a cascade: no record is without the one that it names, and no death has two events."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from reliability.kill9 import cascading

ROUNDS, SOAK_ROUNDS = 50, 1_000


def run(directory: Path, rounds: int, seed: int, *planted: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, cascading.__file__, str(directory), str(rounds), str(seed), *planted]
    return subprocess.run(command, capture_output=True, text=True, timeout=3600, check=False)


def check(directory: Path, rounds: int, seed: int, figure: Callable[[str], None]) -> None:
    done = run(directory, rounds, seed)
    said = re.search(r"rounds=(\d+) amid=(\d+) events=(\d+)", done.stdout)
    assert done.returncode == 0 and said is not None, done.stdout + done.stderr
    amid, events = int(said[2]), int(said[3])
    # Else the kills came at other times than those that are meant.
    assert amid >= rounds // 20 and events, done.stdout
    figure(f"N={rounds} rounds (3/N = {3 / rounds:.1%}), {amid} of them amid a cascade, 0 orphans")


def test_no_orphans_after_kills(tmp_path: Path, seed: int, figure: Callable[[str], None]) -> None:
    check(tmp_path, ROUNDS, seed, figure)


def test_a_parent_that_leaves_first_is_noticed(tmp_path: Path) -> None:
    assert any("orphans" in run(tmp_path, 20, n, "parents-first").stdout for n in range(1, 4))


@pytest.mark.soak
def test_no_orphans_after_many_kills(tmp_path: Path, seed: int, figure: Callable[[str], None]) -> None:
    check(tmp_path, SOAK_ROUNDS, seed, figure)
