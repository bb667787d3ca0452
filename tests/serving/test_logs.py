"""The two forms of the log."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from mayflydb.model.instant import SECOND
from mayflydb.serving.logs import configure


@pytest.fixture(autouse=True)
def _root_as_it_was() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def logged(form: str, clock: int | None, level: str = "info") -> list[str]:
    stream = io.StringIO()
    configure(form, level, lambda: clock, stream)  # type: ignore[arg-type]  # the forms are the parameters below
    log = logging.getLogger("mayflydb.engine.reaper")
    log.info("purged %d records", 3)
    try:
        raise ValueError("an example")
    except ValueError:
        log.exception("a sweep failed")
    return stream.getvalue().splitlines()


@pytest.mark.parametrize("form", ["json", "auto"])
def test_json_lines(form: str) -> None:
    first, second = map(json.loads, logged(form, None))
    assert first.pop("ts").endswith("Z")
    assert first == {"level": "info", "logger": "engine.reaper", "msg": "purged 3 records"}
    assert second["error"].endswith("ValueError: an example")


def test_json_lines_show_a_virtual_clock() -> None:
    assert json.loads(logged("json", 90 * SECOND)[0])["clock"] == "1970-01-01T00:01:30Z"


def test_text_lines() -> None:
    lines = logged("text", None)
    assert lines[0].partition("Z ")[2] == "info    engine.reaper: purged 3 records"
    assert lines[-1] == "ValueError: an example"


def test_the_level_counts() -> None:
    assert json.loads(logged("json", None, "error")[0])["level"] == "error"
