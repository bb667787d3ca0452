"""A pytest plugin: tests that are in no unified format."""

from __future__ import annotations

import pytest
from unified_tests import keep


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    keep(config, items, unified=False)
