"""What the commands on data share: one for the whole server."""

from __future__ import annotations

from collections.abc import Callable
from random import Random  # noqa: TID251 - the type; what draws comes in from outside

from mayflydb.engine.engine import Engine
from mayflydb.frontends.mongo.collections import Collections
from mayflydb.frontends.mongo.contracts import Contracts
from mayflydb.frontends.mongo.cursors import Cursors
from mayflydb.frontends.mongo.documents import ObjectIds
from mayflydb.frontends.mongo.indexing import Indexing
from mayflydb.frontends.mongo.options import Options


class Data:
    """Collections, their indexes, open cursors, and where ids come from."""

    def __init__(self, engine: Engine, options: Options, chance: Random, monotonic: Callable[[], int]) -> None:
        """`monotonic`: the host's microseconds, which no moved clock touches."""
        self.engine = engine
        self.contracts = Contracts(options)
        self.collections = Collections(engine, self.contracts, lambda: chance.randbytes(16))
        self.indexing = Indexing(engine, self.collections)
        self.cursors = Cursors(lambda: chance.getrandbits(63), monotonic)
        self.ids = ObjectIds(chance.randbytes(5), chance.getrandbits(24))
