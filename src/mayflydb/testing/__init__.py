"""Help for tests of applications: a server in the test process, on a clock that the test moves."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mayflydb.testing.cases import MayflyMixin
    from mayflydb.testing.fixtures import fixture

__all__ = ["MayflyMixin", "fixture"]


def __getattr__(name: str) -> object:
    # Loaded when it is asked for: pytest imports this package in every environment that has Mayfly.
    if name == "fixture":
        from mayflydb.testing.fixtures import fixture

        return fixture
    if name == "MayflyMixin":
        from mayflydb.testing.cases import MayflyMixin

        return MayflyMixin
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
