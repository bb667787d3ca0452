"""Newcomers to a server without descriptors are refused at once."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from reliability.descriptors.scenarios import CLIENTS, DESCRIPTORS, few_descriptors


def test_newcomers_are_refused_at_once(tmp_path: Path, figure: Callable[[str], None]) -> None:
    if shutil.which("prlimit") is None:
        pytest.skip("NOT RUN: prlimit is not installed")
    measured = few_descriptors(tmp_path)
    figure(str(measured))
    assert measured.waiting == 0
    assert 0 < measured.served < DESCRIPTORS
    assert measured.served + measured.refused == CLIENTS
    assert measured.after
