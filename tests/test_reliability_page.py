"""The tables of docs/reliability.md: a fault that could not be played says why, in one line."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def test_a_fault_that_is_not_played_names_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [str(ROOT / "tools"), *sys.path])
    monkeypatch.setenv("PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    from promises import find_reason

    frames = 'Traceback (most recent call last):\n  File "x.py", line 1, in <module>\nOSError: mount is not permitted\n'
    assert find_reason(AssertionError(frames)) == "OSError: mount is not permitted"
    assert find_reason(RuntimeError()) == "RuntimeError"


def test_the_page_has_no_traceback() -> None:
    assert "Traceback" not in (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
