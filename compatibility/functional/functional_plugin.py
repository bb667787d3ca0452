"""A pytest plugin for the functional tests: what Mayfly can do, which tests run, and a line of JSON for the outcome of each.

FUNCTIONAL_RECORDS names the file of lines. FUNCTIONAL_CHOSEN names a JSON list of ids, all others are deselected; without it the
tests are collected only, and each has a line with the capabilities that Mayfly lacks for it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from documentdb_tests.framework import preconditions
from heard import Heard
from pymongo import monitoring

ENGINE = "mayfly"
# Search and encryption are refused by name, and counted so.
CAPABILITIES = frozenset({
    "change_streams",
    "cluster_read_concern",
    "cluster_time",
    "queryable_encryption",
    "quorum_write_concern",
    "reindex",
    "search",
    "transactions",
    "unforced_compact",
})  # fmt: skip

# The suite asks for a row in its table of engines; it reads both names when its conftest is imported, which is later.
preconditions._CAPABILITIES_BY_PROFILE[ENGINE, "server"] = CAPABILITIES  # noqa: SLF001
preconditions.detect_capabilities = lambda *_: CAPABILITIES

HEARD = Heard()
monitoring.register(HEARD)


def write(line: dict[str, Any]) -> None:
    with Path(os.environ["FUNCTIONAL_RECORDS"]).open("a", encoding="utf-8") as records:
        records.write(json.dumps(line) + "\n")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Before the suite's own hook, which looks at each file that is left."""
    if "FUNCTIONAL_CHOSEN" not in os.environ:
        for item in items:
            write({"id": item.nodeid, "lacks": lacks(item)})
        return
    chosen = set(json.loads(Path(os.environ["FUNCTIONAL_CHOSEN"]).read_text(encoding="utf-8")))
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid not in chosen])
    items[:] = [item for item in items if item.nodeid in chosen]


def lacks(item: pytest.Item) -> list[str]:
    marker = item.get_closest_marker(preconditions.REQUIRES_MARKER)
    unmet = preconditions.unmet_requirements(marker.kwargs, CAPABILITIES) if marker else {}
    return sorted(name if wanted else f"no {name}" for name, wanted in unmet.items())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    HEARD.forget()
    return (yield)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """What failed in any phase, and what passed or was skipped in its own."""
    if report.failed or report.skipped or report.when == "call":
        said = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr or "")
        write({"id": report.nodeid, "outcome": report.outcome, "said": said, "heard": HEARD.refusals})
