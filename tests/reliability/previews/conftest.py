"""A server on each store, and the containers of each protocol that rounds fill."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from mayflydb.embedded import RunningServer, serve
from reliability.previews.subjects import CosmosSubject, MongoSubject, Subject, YdbSubject
from served import START
from stores import place

STORES = ("memory", *(pytest.param(each, marks=pytest.mark.soak) for each in ("file", "postgres")))
SUBJECTS: dict[str, Callable[[RunningServer], Subject]] = {
    "cosmos": CosmosSubject,
    "mongo": lambda server: MongoSubject(server, "shown", hides=False),
    "mongo-hiding": lambda server: MongoSubject(server, "hiding", hides=True),
    "ydb": lambda server: YdbSubject(server, hides=False),
    "ydb-hiding": lambda server: YdbSubject(server, hides=True),
}


@pytest.fixture(scope="module", params=STORES)
def store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    directory = tmp_path_factory.mktemp(f"previews-{request.param}")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_DATA_HOME", str(directory))
        hiding = {"hiding": {"expiry": "hide"}}
        where = place(request.param, request, directory) | {"scheme": "http"}
        with serve(**where, port=0, clock="virtual", clock_start=START, mongo_database=hiding) as running:
            yield running


@pytest.fixture(params=SUBJECTS)
def subject(request: pytest.FixtureRequest, store: RunningServer) -> Iterator[Subject]:
    made = SUBJECTS[request.param](store)
    yield made
    made.close()
