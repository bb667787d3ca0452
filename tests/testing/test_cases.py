"""The mixin for cases of unittest, run by unittest's own runner."""

from __future__ import annotations

import asyncio
import io
import unittest
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import time_machine

from mayflydb.testing import MayflyMixin

pytestmark = pytest.mark.short

SHOP: dict[str, Any] = {
    "databases": [
        {
            "id": "shop",
            "containers": [
                {"id": "carts", "partition_key": "/id", "default_ttl": 60, "items": [{"id": "c1"}, {"id": "c2"}]}
            ],
        }
    ]
}
BASES: tuple[type[unittest.TestCase], ...] = (unittest.TestCase, unittest.IsolatedAsyncioTestCase)


def run(case: type[unittest.TestCase]) -> unittest.TestResult:
    out = io.StringIO()
    result = unittest.TextTestRunner(out).run(unittest.defaultTestLoader.loadTestsFromTestCase(case))
    assert result.wasSuccessful(), out.getvalue()
    return result


@pytest.fixture(autouse=True)
def own_data_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))


@pytest.mark.parametrize("base", BASES)
def test_each_test_begins_alike(base: type[unittest.TestCase]) -> None:
    class TestCarts(MayflyMixin, base):  # type: ignore[misc, valid-type]
        mayfly_start = "2026-01-01T00:00:00Z"
        mayfly_seed = (SHOP,)

        def setUp(self) -> None:
            super().setUp()
            self.found = self.mayfly.stats()["records"]

        def look(self) -> None:
            assert self.found == 2
            assert self.mayfly.clock.now() == datetime(2026, 1, 1, tzinfo=UTC)
            self.mayfly.clock.advance(timedelta(minutes=1))
            assert [event.id for event in self.mayfly.events.expired] == ["c1", "c2"]

        test_first = look
        test_second = look

    assert run(TestCarts).testsRun == 2
    with pytest.raises(RuntimeError, match="the server has ended"):
        # The server ended with its class.
        TestCarts.mayfly.stats()


def test_without_options_the_clock_begins_at_a_second() -> None:
    class TestNothing(MayflyMixin, unittest.IsolatedAsyncioTestCase):
        async def test_empty(self) -> None:
            assert self.mayfly.stats()["databases"] == 0
            now = self.mayfly.clock.now()
            await asyncio.sleep(0)
            assert (now.microsecond, self.mayfly.clock.now()) == (0, now)

    assert run(TestNothing).testsRun == 1


def test_a_clock_that_goes_with_the_process() -> None:
    class TestCarts(MayflyMixin, unittest.TestCase):
        mayfly_clock = "system"
        mayfly_seed = (SHOP,)

        def test_both_move(self) -> None:
            with time_machine.travel(self.mayfly.clock.now() + timedelta(minutes=2), tick=False):
                assert [event.id for event in self.mayfly.events.expired] == ["c1", "c2"]

    assert run(TestCarts).testsRun == 1

    class TestRefused(TestCarts):
        mayfly_start = "2026-01-01T00:00:00Z"

    class TestElsewhere(TestCarts):
        mayfly_mode = "process"

    for case, words in (
        (TestRefused, "mayfly_start is the time of a virtual clock"),
        (TestElsewhere, "a server in another process does not see the clock"),
    ):
        result = unittest.TestResult()
        unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
        [(_, error)] = result.errors
        assert words in error


def test_a_file_beside_the_module_that_is_missing() -> None:
    class TestMissing(MayflyMixin, unittest.TestCase):
        mayfly_seed = ("missing.json",)

        def test_never(self) -> None:
            raise AssertionError

    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(TestMissing).run(result)
    [(_, error)] = result.errors
    assert f"there is no file {Path(__file__).with_name('missing.json')}" in error
