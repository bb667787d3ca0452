"""Engines of ydb-sqlalchemy and connections of ydb-dbapi on the server of a module."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    """What commits each statement by itself, as the dialect does when nothing is said."""
    made = sa.create_engine(f"yql+ydb://{place}/local")
    yield made
    made.dispose()


@pytest.fixture(scope="module")
def strict(engine: sa.Engine) -> sa.Engine:
    """What has transactions."""
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


@pytest.fixture
def connect(place: str) -> Iterator[Callable[..., Any]]:
    """What makes connections of ydb-dbapi, which are closed after the test."""
    host, _, port = place.rpartition(":")
    made: list[Any] = []

    def connected(**options: Any) -> Any:
        made.append(dbapi.connect(host=host, port=port, database="/local", **options))
        return made[-1]

    yield connected
    for each in made:
        each.close()
