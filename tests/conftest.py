"""What all tests share: a seed that repeats a run, the choice of stores, a PostgreSQL, and the figures after the last test."""

from __future__ import annotations

import gc
import os
import random
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

import citus
import stores
from citus import Citus
from postgres_cluster import Cluster

LONG = ("tests/nodes/", "tests/reliability/")
"""Folders with tests that take many seconds each. They come first: at the end one process would wait for another's."""

SEED = int(os.environ.get("SEED") or random.SystemRandom().randrange(1 << 32))


def pytest_addoption(parser: pytest.Parser) -> None:
    text = f"stores that all tests run on; default: the first of {stores.everything()}, and the others for what they decide"
    parser.addoption("--stores", default=None, help=text)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "everywhere: a wire test that `make test` runs on every store, not on memory alone"
    )

    config.addinivalue_line(
        "markers",
        "above_stores: a test of every store whose subject lies above them; `make test` runs it on memory alone",
    )
    _steady(config)


def _steady(config: pytest.Config) -> None:
    """No example of Hypothesis fails for having been slow on a machine with other work."""
    if not config.pluginmanager.hasplugin("hypothesispytest"):
        return
    from hypothesis import HealthCheck, settings

    settings.register_profile("mayfly", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
    settings.load_profile("mayfly")


def pytest_report_header(config: pytest.Config) -> str:
    chosen = f"stores: {config.getoption('stores') or stores.everything()}"
    return chosen if citus.named() else f"{chosen}; not on Citus: {citus.URL} is not set"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """The collector of garbage looks at none of the 26,000 tests: that took a third of their collection and a tenth of each."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: not item.nodeid.startswith(LONG))
    named = config.getoption("stores")
    if named is None:
        stores.first(items)
    on, off = stores.split(items, stores.chosen(named or stores.everything()))
    if off:
        config.hook.pytest_deselected(items=off)
        items[:] = on


@pytest.fixture(scope="session", autouse=True)
def small_reserve() -> Iterator[None]:
    """Files of servers in this process keep less of the disk than others: their directories stay for some runs."""
    with patch("mayflydb.serving.stores.RESERVE", 16 << 20):
        yield


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> Iterator[int]:
    """This test's own seed, drawn from SEED and the test's name, so that a test alone repeats what it did among others."""
    print(f"SEED={SEED}")
    yield zlib.crc32(f"{SEED}:{request.node.name}".encode())
    print(f"SEED={SEED}")


@pytest.fixture
def chance(seed: int) -> random.Random:
    """Chance that SEED repeats."""
    return random.Random(seed)


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No settings of the machine, the user or the directory reach a test."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("MAYFLY_CONFIG", "MAYFLY_URL", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Cluster]:
    """A running PostgreSQL, started for the first test that asks. Take a `fresh` database from it."""
    with Cluster() as cluster:
        yield cluster


@pytest.fixture(scope="session")
def citus_cluster() -> Iterator[Citus]:
    """The Citus that runs elsewhere. Take a `fresh` database from it."""
    url = citus.named()
    assert url, f"{citus.URL} is not set"
    with Citus(url) as cluster:
        yield cluster


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    figures = [
        f"{report.nodeid.rpartition('/')[2]}: {value}"
        for report in terminalreporter.getreports("passed") + terminalreporter.getreports("failed")
        if report.when == "call"
        for name, value in report.user_properties
        if name == "figure"
    ]
    if figures:
        terminalreporter.section("figures")
        for line in sorted(figures):
            terminalreporter.write_line(line)
