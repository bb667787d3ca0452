"""What all tests share: the choice of stores, a PostgreSQL, and the figures that are printed after the last test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import citus
import stores
from citus import Citus
from postgres_cluster import Cluster


def pytest_addoption(parser: pytest.Parser) -> None:
    everything = stores.everything()
    parser.addoption("--stores", default=everything, help=f"stores that tests run on; default: {everything}")


def pytest_report_header(config: pytest.Config) -> str:
    chosen = f"stores: {config.getoption('stores')}"
    return chosen if citus.named() else f"{chosen}; not on Citus: {citus.URL} is not set"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    on, off = stores.split(items, stores.chosen(config.getoption("stores")))
    if off:
        config.hook.pytest_deselected(items=off)
        items[:] = on


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
