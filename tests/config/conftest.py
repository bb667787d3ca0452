"""Settings are read where no file and no variable of the machine gives any."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def without_settings(alone: None) -> None:
    """Each test starts without settings of the machine."""
