"""The parts that the streams of topics share: who reads what, who is woken by what, and the end of the server."""

from __future__ import annotations

from collections.abc import Callable
from random import Random  # noqa: TID251 - the type; what draws comes in from outside

from mayflydb.engine.engine import Engine
from mayflydb.frontends.ydb.schemes.catalog import Schemes
from mayflydb.frontends.ydb.topics.balancing import ConsumerGroup
from mayflydb.frontends.ydb.topics.faults import NodeStopping
from mayflydb.frontends.ydb.topics.log import TopicReads
from mayflydb.frontends.ydb.topics.tails import Tails


class Topics:
    """The open streams of one server, and the consumers that they read for."""

    def __init__(self, engine: Engine, schemes: Schemes, chance: Random) -> None:
        self.engine = engine
        self.schemes = schemes
        self.reads = TopicReads(engine.reads)
        self.tails = Tails(engine)
        self.chance = chance
        self.stopping = False
        self._groups: dict[tuple[int, str, int], ConsumerGroup] = {}
        self._streams: dict[Callable[[], None], None] = {}

    def open_stream(self, ring: Callable[[], None]) -> None:
        """Note a stream that is to be woken when the server stops."""
        self._streams[ring] = None

    def close_stream(self, ring: Callable[[], None]) -> None:
        """Undo `open_stream`."""
        self._streams.pop(ring, None)

    def check_running(self) -> None:
        """Raise NodeStopping if the server stops."""
        if self.stopping:
            raise NodeStopping

    def stop(self) -> None:
        """End all streams."""
        self.stopping = True
        for ring in list(self._streams):
            ring()

    async def close(self) -> None:
        """Stop the background work."""
        self.stop()
        await self.tails.close()

    def group(self, topic: int, consumer: str, number: int, partitions: int) -> ConsumerGroup:
        """Return the sessions of a consumer. `number`: that of the consumer."""
        key = topic, consumer, number
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = ConsumerGroup(topic, partitions)
        group.grow(partitions)
        return group

    def known_group(self, topic: int, consumer: str, number: int) -> ConsumerGroup | None:
        """Return the sessions of a consumer; None if it has none."""
        return self._groups.get((topic, consumer, number))

    def leave(self, group: ConsumerGroup) -> None:
        """Forget a group that has no session left."""
        if group.empty:
            for key in [key for key, each in self._groups.items() if each is group]:
                del self._groups[key]

    def new_id(self) -> str:
        """Return a part of the id of a session, of 64 random bits."""
        return f"{self.chance.getrandbits(64):x}"
