"""Tells the tests in the unified format from the others of a file, and keeps those that a suite is about."""

from __future__ import annotations

import pytest


def is_unified(item: pytest.Item) -> bool:
    """The suite's runner makes a class of each file in JSON, and keeps its content in the class."""
    return hasattr(getattr(item, "cls", None), "TEST_SPEC")


def keep(config: pytest.Config, items: list[pytest.Item], unified: bool) -> None:
    config.hook.pytest_deselected(items=[item for item in items if is_unified(item) is not unified])
    items[:] = [item for item in items if is_unified(item) is unified]
