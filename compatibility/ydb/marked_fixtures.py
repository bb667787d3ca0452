"""A pytest plugin: fixtures of the suites have marks, which older releases of pytest passed over and this one refuses."""

from __future__ import annotations

from typing import Any

from _pytest import fixtures
from _pytest.mark import structures

_store_mark = structures.store_mark


class Unmarked(fixtures.FixtureFunctionMarker):
    """`@pytest.fixture` above a mark."""

    def __call__(self, function: Any) -> Any:
        if getattr(function, "pytestmark", None):
            del function.pytestmark
        return super().__call__(function)


def _stored(target: Any, *arguments: Any, **more: Any) -> None:
    """A mark above `@pytest.fixture`."""
    if not isinstance(target, fixtures.FixtureFunctionDefinition):
        _store_mark(target, *arguments, **more)


fixtures.FixtureFunctionMarker = Unmarked  # type: ignore[misc]
structures.store_mark = _stored
