"""Schemes over an engine in memory, on a clock that stands still."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

import msgspec
import pytest

from mayflydb.clock import VirtualClock
from mayflydb.engine.engine import Engine
from mayflydb.engine.open import open_engine
from mayflydb.frontends.ydb.schemes.catalog import Schemes
from mayflydb.model.instant import HOUR, MINUTE, SECOND, Span
from mayflydb.query.yql.faults import Fault
from mayflydb.store.interface import Store
from store_suite.conftest import STORES

T = TypeVar("T")

NOW = 1_893_456_000 * SECOND


class Options(msgspec.Struct, frozen=True):
    """Options of the front end that concern schemes."""

    databases: tuple[str, ...] = ("/local", "/Root")
    hide_expired: bool = False
    run_interval: Span = HOUR
    min_run_interval: Span = 15 * MINUTE


class Place:
    """An engine with schemes."""

    def __init__(self, runner: asyncio.Runner, engine: Engine) -> None:
        self.runner = runner
        self.engine = engine
        self.schemes = Schemes(engine, Options())
        self.now = NOW

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    def again(self, **options: Any) -> None:
        """Schemes of another start, over the same engine."""
        self.schemes = Schemes(self.engine, Options(**options))
        self.run(self.schemes.resume(self.now))

    def refused(self, work: Coroutine[Any, Any, object]) -> tuple[str, str]:
        """(status, innermost text) of what work is refused with."""
        with pytest.raises(Fault) as caught:
            self.run(work)
        return caught.value.status, caught.value.message


@pytest.fixture
def place() -> Iterator[Place]:
    with asyncio.Runner() as runner:
        store: Store = runner.run(STORES["contract-sqlite"](lambda kind: ":memory:"))  # type: ignore[arg-type]
        engine = runner.run(open_engine(store, VirtualClock(NOW)))
        place = Place(runner, engine)
        yield place
        runner.run(place.schemes.close())
        runner.run(engine.indexes.close())
        runner.run(store.close())
