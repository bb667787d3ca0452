"""A pytest plugin for the SDK's suite: which port the server has, and what the suite needs beside it."""

from __future__ import annotations

import asyncio
import os
import sys
from importlib import import_module
from importlib.abc import MetaPathFinder

import pytest
import pytest_asyncio

NOT_APPLICABLE = "not applicable: "

ELSEWHERE = {
    "tests/coordination/": "coordination nodes, which are no tables",
    "tests/ssl/": "the fixed port of a container, and its folder with certificates",
}


class Absent(MetaPathFinder):
    """A package that is larger than all the others of the suites: modules with tests that import it are skipped."""

    def find_spec(self, fullname: str, path: object, target: object = None) -> None:
        if fullname == "yandex":
            pytest.skip(f"{NOT_APPLICABLE}the package yandexcloud", allow_module_level=True)


def pytest_collection() -> None:
    """The SDK itself does without it."""
    for name in ("ydb.iam", "ydb.aio.iam"):
        import_module(name)
    sys.meta_path.append(Absent())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The suite's conftest has the port of a container in a constant."""
    for module in list(sys.modules.values()):
        if hasattr(module, "YDB_ENDPOINT_PORT"):
            module.YDB_ENDPOINT_PORT = int(os.environ["SUITE_SERVER_PORT"])  # type: ignore[attr-defined]
    for item in items:
        for part, reason in ELSEWHERE.items():
            if part in item.nodeid:
                item.add_marker(pytest.mark.skip(reason=f"{NOT_APPLICABLE}{reason}"))
                break


@pytest_asyncio.fixture
async def event_loop() -> asyncio.AbstractEventLoop:
    """pytest-asyncio had a fixture of this name once."""
    return asyncio.get_running_loop()


@pytest.fixture(scope="session")
def docker_compose_command() -> str:
    return "docker compose"


@pytest.fixture(scope="session")
def docker_compose_project_name() -> str:
    return "mayfly"


@pytest.fixture(scope="session")
def docker_setup() -> list[str]:
    return []
