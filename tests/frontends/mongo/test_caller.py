"""Commands from within the process: each over a connection of its own, with documents as bytes and the charge."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import bson
import pytest

from mayflydb.clock import VirtualClock
from mayflydb.engine.open import open_engine
from mayflydb.frontends.mongo.app import Hangup, MongoApp
from mayflydb.frontends.mongo.caller import MongoCaller
from mayflydb.frontends.mongo.options import DatabaseOptions, Options
from mayflydb.model.errors import Conflict, NotFound, OutcomeUnknown
from mayflydb.query.mongo.replies import Reply
from store_suite.conftest import STORES


def test_a_caller() -> None:
    async def run() -> None:
        store = await STORES["contract-sqlite"](lambda kind: ":memory:")
        engine = await open_engine(store, VirtualClock(0))
        options = Options(databases={"azure": DatabaseOptions(profile="cosmos")})
        app = MongoApp(engine, options, random.SystemRandom(), lambda: 0)
        try:
            await _try_caller(app)
        finally:
            await engine.indexes.close()
            await store.close()

    asyncio.run(run())


async def _try_caller(app: MongoApp) -> None:
    call = MongoCaller(app)
    # An int64 of 1 stays one, and an array of documents is taken as bytes.
    documents = {"insert": "c", "documents": [{"_id": bson.Int64(n), "a": 1.0} for n in range(3)]}
    for database, has_prices in (("plain", False), ("azure", True)):
        reply = await call.send(database, bson.encode(documents))
        assert (reply.answer["n"], reply.charge is not None) == (3, has_prices)
    found = await call.send("plain", bson.encode({"find": "c", "batchSize": 2}))
    assert [bson.decode(each) for each in found.documents] == documents["documents"][:2]
    more = await call.send("plain", bson.encode({"getMore": bson.Int64(found.cursor), "collection": "c"}))
    assert (len(more.documents), more.cursor) == (1, 0)
    with pytest.raises(NotFound):
        await call("plain", {"collMod": "none", "index": {"name": "x", "expireAfterSeconds": 5}})
    with pytest.raises(Conflict):
        await call.send("plain", bson.encode({"create": "c", "capped": True, "size": 5}))
    # Two at once are two connections: one would end the other's operation.
    seen: list[int] = []
    answer = app.answer

    async def watch(message: Any, connection: Any) -> bytes:
        seen.append(connection.id)
        if len(seen) > 2:
            raise Hangup
        return await answer(message, connection)

    app.answer = watch  # type: ignore[method-assign]
    both: list[Reply] = await asyncio.gather(*(call.send("plain", bson.encode({"count": "c"})) for _ in range(2)))
    assert [each.answer["n"] for each in both] == [3, 3]
    assert len({*seen}) == 2 and all(id < 0 for id in seen)
    with pytest.raises(OutcomeUnknown):
        await call("plain", {"ping": 1})
