"""Tests of nodes repeat themselves, and report, as those of reliability do."""

import pytest

import stores
from reliability.conftest import figure, soaking

__all__ = ["databases", "figure", "soaking"]


@pytest.fixture(params=stores.ELSEWHERE)
def databases(request: pytest.FixtureRequest) -> stores.Databases:
    """Databases of their own for tests of nodes."""
    return stores.databases(request.param, request)
