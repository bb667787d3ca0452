from __future__ import annotations

from collections.abc import Iterator

import pytest

from frontends.cosmos.hostile.sentinel import Target
from frontends.cosmos.service import Service


@pytest.fixture
def target(service: Service) -> Iterator[Target]:
    """After each test the sentinel must still be there."""
    target = Target(service)
    yield target
    target.check()
