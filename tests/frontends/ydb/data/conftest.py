"""Queries over an engine in memory, on a clock that stands still: no network, no client."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Mapping
from typing import Any, TypeVar

import pytest

from mayflydb.clock import VirtualClock
from mayflydb.engine.engine import Engine
from mayflydb.engine.open import open_engine
from mayflydb.frontends.ydb.calls import GrpcCall
from mayflydb.frontends.ydb.options import Options
from mayflydb.frontends.ydb.query_run import ResultPart
from mayflydb.frontends.ydb.schemes.catalog import Schemes
from mayflydb.frontends.ydb.transactions import TransactionControl
from mayflydb.model.instant import SECOND
from mayflydb.query.yql.faults import Fault
from mayflydb.query.yql.schemas import Row
from mayflydb.query.yql.types import Type, Value
from mayflydb.store.interface import Store
from store_suite.conftest import STORES
from ydb_queries import executor_of

T = TypeVar("T")

NOW = 1_893_456_000 * SECOND


class Session:
    """An owner of transactions."""

    def __init__(self) -> None:
        self.transactions: dict[str, Any] = {}
        self.contended: tuple[Any, ...] = ()
        self.temporary: Any = None


class Place:
    """An engine, tables, and what runs queries over them."""

    def __init__(self, runner: asyncio.Runner, engine: Engine, clock: VirtualClock) -> None:
        self.runner = runner
        self.engine = engine
        self.schemes = Schemes(engine, Options())
        self.executor = executor_of(engine, self.schemes)
        self.session = Session()
        self.now = NOW
        self._clock = clock

    def pass_seconds(self, seconds: int) -> None:
        """Let time go on; nothing is erased by that alone."""
        self.now += seconds * SECOND
        self._clock.set(self.now)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self.runner.run(work)

    @property
    def call(self) -> GrpcCall:
        return GrpcCall("/local", self.now)

    def parts(
        self,
        text: str,
        parameters: Mapping[str, tuple[Type, Value]] | None = None,
        control: TransactionControl | None = None,
        stats: bool = False,
    ) -> list[ResultPart]:
        """Run a query and return the parts of its results."""

        async def gathered() -> list[ResultPart]:
            execute = self.executor.execute(self.call, self.session, text, parameters or {}, control, stats)
            return [part async for part in execute]

        return self.run(gathered())

    def rows(self, text: str, **parameters: tuple[Type, Value]) -> list[Row]:
        """The rows of a query's one result set."""
        return [row for part in self.parts(text, parameters) for row in part.rows]

    def within(self, id: str, text: str, commit: bool = False) -> list[Row]:
        """The rows of a query in an open transaction."""
        return [row for part in self.parts(text, None, TransactionControl(id=id, commit=commit)) for row in part.rows]

    def begin(self, mode: Any = "serializable_read_write") -> str:
        return self.executor.transactions(self.session).begin(mode).id

    def commit(self, id: str) -> None:
        self.run(self.executor.commit(self.call, self.session, id))

    def refusal(self, text: str, control: TransactionControl | None = None, **parameters: tuple[Type, Value]) -> Fault:
        """Run a query that fails, and return its fault."""
        with pytest.raises(Fault) as caught:
            self.parts(text, parameters, control)
        return caught.value


async def open_store() -> Store:
    return await STORES["contract-sqlite"](lambda kind: ":memory:")


@pytest.fixture
def place() -> Iterator[Place]:
    with asyncio.Runner() as runner:
        store = runner.run(open_store())
        clock = VirtualClock(NOW)
        clock.freeze()
        engine = runner.run(open_engine(store, clock))
        place = Place(runner, engine, clock)
        yield place
        runner.run(place.schemes.close())
        runner.run(engine.indexes.close())
        runner.run(store.close())
