"""Engines of ydb-sqlalchemy and connections of ydb-dbapi on the server of a module."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy.orm import Session

from mayflydb.embedded import RunningServer
from ydb_shop import LIFE, Base

dbapi: Any = pytest.importorskip("ydb_dbapi")


ddl: Any = sa.DDL


@pytest.fixture(scope="module")
def place(ydb_server: RunningServer) -> str:
    """`127.0.0.1:2136`"""
    return ydb_server.ydb.endpoint.removeprefix("grpc://")


@pytest.fixture(scope="module")
def engine(place: str) -> Iterator[sa.Engine]:
    """An engine whose statements commit one by one, which is the default of the dialect."""
    made = sa.create_engine(f"yql+ydb://{place}/local")
    yield made
    made.dispose()


@pytest.fixture(scope="module")
def strict(engine: sa.Engine) -> sa.Engine:
    """An engine with transactions."""
    return engine.execution_options(isolation_level="SERIALIZABLE")


@pytest.fixture
def shop(engine: sa.Engine) -> Iterator[Callable[[], Session]]:
    """The tables, empty, and what makes sessions of the ORM, whose commits are transactions."""
    Base.metadata.create_all(engine)
    with engine.connect() as connection:
        for text in LIFE:
            connection.execute(ddl(text))
    own = engine.execution_options(isolation_level="SERIALIZABLE")
    yield lambda: Session(own)
    Base.metadata.drop_all(engine)


class Waited:
    """An object of ydb-dbapi; what its asynchronous form gives to await for is waited for."""

    def __init__(self, of: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._of, self._loop = of, loop

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._of, name)
        if not callable(found):
            return found

        def call(*args: Any, **named: Any) -> Any:
            answer = found(*args, **named)
            if inspect.isawaitable(answer):
                answer = self._loop.run_until_complete(_settled(answer))
            return Waited(answer, self._loop) if hasattr(answer, "cursor") or hasattr(answer, "fetchone") else answer

        return call


async def _settled(answer: Awaitable[Any]) -> Any:
    return await answer


@pytest.fixture(params=["sync", "aio"])
def connect(request: pytest.FixtureRequest, place: str) -> Iterator[Callable[..., Any]]:
    """A function that opens connections of ydb-dbapi, synchronous or asynchronous. They are closed after the test."""
    host, _, port = place.rpartition(":")
    loop = asyncio.new_event_loop()
    make = Waited(SimpleNamespace(connect=dbapi.connect if request.param == "sync" else dbapi.async_connect), loop)
    made: list[Any] = []

    def connected(**options: Any) -> Any:
        made.append(make.connect(host=host, port=port, database="/local", **options))
        return made[-1]

    yield connected
    for each in made:
        each.close()
    loop.close()
