from __future__ import annotations

from collections.abc import Iterator

import pytest

from frontends.cosmos.direct.wire import Direct
from frontends.cosmos.service import Service


@pytest.fixture
def direct(service: Service) -> Iterator[Direct]:
    connection = Direct(service.url)
    yield connection
    connection.close()
