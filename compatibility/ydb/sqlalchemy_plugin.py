"""A pytest plugin for the dialect's suite."""

from __future__ import annotations

from typing import Any

import pytest


def pytest_collectstart(collector: pytest.Collector) -> None:
    """Releases of SQLAlchemy differ in which of its modules has this name; the suite imports it from here."""
    from sqlalchemy.testing import config, fixtures

    module: Any = fixtures
    module.config = config
