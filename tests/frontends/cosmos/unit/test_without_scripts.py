"""A server without a JavaScript engine names what is missing."""

from __future__ import annotations

import sys

import pytest

from mayflydb.frontends.cosmos.scripting.sandbox import Sandbox, ScriptLimits, TimeBudget
from mayflydb.model.errors import Unsupported


def test_scripts_are_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "quickjs", None)
    with pytest.raises(Unsupported, match=r"mayflydb\[scripts\]"):
        Sandbox(TimeBudget(ScriptLimits()))
