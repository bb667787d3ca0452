"""A pytest plugin for the SDK's suite: tells it that it talks to an emulator, and skips what only the cloud can do."""

from __future__ import annotations

import pytest
import test_config
from applicability import NOT_APPLICABLE, why_not


def pytest_configure() -> None:
    """The suite knows an emulator by its port 8081. Ours has another, so what follows from that is set here."""
    config = test_config.TestConfig
    config.local_host = config.host
    config.is_emulator = True
    config.credential = config.credential_async = config.masterKey


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks decide, and for a few tests the name: see `applicability`."""
    for item in items:
        reason = why_not(item.nodeid, {mark.name for mark in item.iter_markers()})
        if reason:
            item.add_marker(pytest.mark.skip(reason=f"{NOT_APPLICABLE}{reason}"))
