"""Streams that read messages of topics: `StreamRead`.

A session has partitions, each as a partition session with an id of its own. The client is told of a partition and answers; from
then on it gets messages as long as it has asked for bytes. It commits what it has handled, and lets go of partitions that another
session is to have. All of this happens in one loop: requests first, then what they allow to be sent.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable
from typing import Any, Final

from mayflydb.engine.reads import Steps
from mayflydb.engine.transactions import WriteTransaction
from mayflydb.frontends.ydb import wire
from mayflydb.frontends.ydb.calls import GrpcCall
from mayflydb.frontends.ydb.conversations import Requests
from mayflydb.frontends.ydb.services import Services
from mayflydb.frontends.ydb.topics.balancing import ConsumerGroup
from mayflydb.frontends.ydb.topics.bodies import Consumer, MessageBatch, topic_body
from mayflydb.frontends.ydb.topics.commits import Commits
from mayflydb.frontends.ydb.topics.describing import Reading
from mayflydb.frontends.ydb.topics.faults import bad_request, commit_to_future, missing_topic
from mayflydb.frontends.ydb.topics.log import read_committed, write_committed
from mayflydb.frontends.ydb.topics.partition_sessions import RESPONSE_MESSAGES, PartitionSession, timestamp
from mayflydb.frontends.ydb.topics.topics_read import TopicRead, check_init
from mayflydb.model.errors import OwnerNotFound

MAX_BATCHES: Final = 32
"""Batches that are read at once; each has up to half a megabyte."""

MAX_BUDGET: Final = 1 << 40
"""Bytes that a client can have asked for."""

MAX_COMMITS: Final = 10_000
"""Ranges in one CommitOffsetRequest."""

SLICE: Final = 250
"""Ranges that are handled before other tasks run."""

Event = tuple[str, int, int]
"""A wish of the balance of partitions: ("assign", "release" or "lose", topic, partition)."""


async def stream_read(services: Services, call: GrpcCall, requests: Requests) -> AsyncIterator[bytes]:
    """`StreamRead`"""
    topics = services.topics
    topics.open_stream(requests.ring)
    session: ReadSession | None = None
    try:
        while True:
            await requests.wait()
            topics.check_running()
            taken = [each.request for each in requests.take()]
            if session is None and taken:
                session = ReadSession(services, requests, await _check_first(services, call, taken.pop(0)))
                requests.target = ",".join(each.entry.path for each in session.reads)
                yield session.greet()
                session.join()
            if session is not None:
                async for each in session.turn(taken):
                    yield each
            if requests.has_ended:
                return
    finally:
        topics.close_stream(requests.ring)
        if session is not None:
            session.leave()


async def _check_first(services: Services, call: GrpcCall, message: Any) -> tuple[Any, list[TopicRead]]:
    kind = message.WhichOneof("client_message")
    if kind is None:
        raise bad_request("'client_message' is not set")
    if kind != "init_request":
        raise bad_request("the first message of a read session must be an init request")
    return message.init_request, await check_init(services.schemes, call.database, message.init_request)


class ReadSession:
    """One stream after its init request."""

    def __init__(self, services: Services, requests: Requests, checked: tuple[Any, list[TopicRead]]) -> None:
        request, self.reads = checked
        self._services = services
        self._topics = services.topics
        self._engine = services.engine
        self._requests = requests
        self._consumer: str = request.consumer
        self.reader: str = request.reader_name
        self.id = f"{self._consumer}_1_{len(self.reads)}_{self._topics.new_id()}_v1"
        self._budget = 0
        self._count = 0
        self._events: deque[Event] = deque()
        self._sessions: dict[int, PartitionSession] = {}
        self._places: dict[tuple[int, int], PartitionSession] = {}
        self._groups: dict[int, ConsumerGroup] = {}
        self._ready: deque[PartitionSession] = deque()
        """The sessions in the order in which they are sent messages next."""
        self._catalog = -1

    # --- the balance of partitions -----------------------------------------------------------------------------------

    def join(self) -> None:
        """Ask for the partitions of all topics."""
        for read in self.reads:
            topic = read.entry.node.id
            self._topics.tails.watch(topic, self._requests.ring)
            if read.consumer is None:
                for partition in sorted(read.partitions or ()):
                    self.assign(topic, partition)
            else:
                group = self._topics.group(topic, read.consumer.name, read.consumer.number, read.entry.body.partitions)
                self._groups[topic] = group
                group.join(self, read.partitions)

    def leave(self) -> None:
        """Let go of everything at once."""
        for read in self.reads:
            self._topics.tails.unwatch(read.entry.node.id, self._requests.ring)
        for group in self._groups.values():
            group.leave(self)
            self._topics.leave(group)

    def assign(self, topic: int, partition: int) -> None:
        """See Member."""
        self._events.append(("assign", topic, partition))
        self._requests.ring()

    def release(self, topic: int, partition: int) -> None:
        """See Member."""
        self._events.append(("release", topic, partition))
        self._requests.ring()

    def lose(self, topic: int, partition: int) -> None:
        """Take a partition away at once: its committed offset was set from outside."""
        # Set from outside any number of times, while this session waits for its client to read.
        if ("lose", topic, partition) not in self._events:
            self._events.append(("lose", topic, partition))
        self._requests.ring()

    def committed_offset(self, topic: int, partition: int) -> int:
        """Return the offset up to which the session knows a partition to be committed."""
        session = self._places.get((topic, partition))
        return 0 if session is None else session.commits.committed

    def reading(self, topic: int, partition: int) -> Reading | None:
        """Return what is told of this session in the description of the consumer."""
        session = self._places.get((topic, partition))
        if session is None:
            return None
        return Reading(self.id, self.reader, session.since, session.offset, session.last_read)

    # --- turns -------------------------------------------------------------------------------------------------------

    def greet(self) -> bytes:
        """Return the InitResponse."""
        return _message(3, wire.text_field(1, self.id))

    async def turn(self, taken: list[Any]) -> AsyncIterator[bytes]:
        """Handle requests, then send what may be sent."""
        for request in taken:
            if (answer := await self._handle(request)) is not None:
                yield answer
        await self._follow_catalog()
        while self._events:
            if (change := await self._follow(*self._events.popleft())) is not None:
                yield change
        async for each in self._send():
            yield each

    async def _handle(self, message: Any) -> bytes | None:
        kind = message.WhichOneof("client_message")
        match kind:
            case "read_request":
                self._ask_for_bytes(message.read_request)
            case "commit_offset_request":
                return await self._commit(message.commit_offset_request)
            case "start_partition_session_response":
                return await self._begin_reading(message.start_partition_session_response)
            case "stop_partition_session_response":
                self._end_reading(message.stop_partition_session_response)
            case "partition_session_status_request":
                return await self._tell_status(message.partition_session_status_request)
            case "update_token_request":
                return await self._renew_token(message.update_token_request)
            case "init_request":
                raise bad_request("got second init request")
            case None:
                raise bad_request("'client_message' is not set")
            case _:
                raise bad_request("unsupported request")
        return None

    def _ask_for_bytes(self, request: Any) -> None:
        if request.bytes_size <= 0:
            raise bad_request("bytes_size must be positive in read request")
        self._budget = min(self._budget + request.bytes_size, MAX_BUDGET)

    async def _renew_token(self, request: Any) -> bytes:
        await self._services.accounts.authenticate(request.token, await self._engine.now())
        return _message(7, b"")

    async def _tell_status(self, request: Any) -> bytes | None:
        session = self._sessions.get(request.partition_session_id)
        if session is None:
            self._check_known(request.partition_session_id)
            return None
        state = await self._topics.reads.partition(session.read.entry.node, session.partition)
        first = await self._topics.reads.first_offset(
            session.read.entry.node, session.partition, await self._engine.now()
        )
        offsets = wire.int_field(1, first) + wire.int_field(2, state.end)
        return _message(
            6,
            wire.int_field(1, session.id)
            + wire.bytes_field(2, offsets)
            + wire.int_field(3, session.commits.committed)
            + wire.bytes_field(4, timestamp(state.written))
            + wire.int_field(5, session.offset),
        )

    # --- partition sessions ------------------------------------------------------------------------------------------

    async def _follow_catalog(self) -> None:
        """Take over what has changed of the topics. Faults: a topic or its consumer is gone."""
        version = self._engine.catalog_version
        if version == self._catalog:
            return
        for read in self.reads:
            if await read.renew(self._services.schemes) and (group := self._groups.get(read.entry.node.id)) is not None:
                group.grow(read.entry.body.partitions)
        self._catalog = version

    async def _follow(self, what: str, topic: int, partition: int) -> bytes | None:
        """Do what the balance of partitions wants, and return the message that tells of it."""
        place = topic, partition
        session = self._places.get(place)
        if what == "assign":
            read = next(each for each in self.reads if each.entry.node.id == topic)
            return await self._start(read, partition)
        if session is None:
            return None
        if what == "lose":
            return self._lose(session)
        if session.phase == "stopping":
            return None
        session.phase = "stopping"
        content = wire.int_field(1, session.id) + b"\x10\x01" + wire.int_field(3, session.commits.committed)
        return _message(9, content)

    def _lose(self, session: PartitionSession) -> bytes:
        self._end(session)
        return _message(9, wire.int_field(1, session.id) + wire.int_field(3, session.commits.committed))

    def _end(self, session: PartitionSession) -> None:
        del self._sessions[session.id]
        topic = session.read.entry.node.id
        del self._places[topic, session.partition]
        session.phase = "stopping"
        if (group := self._groups.get(topic)) is not None:
            group.take_back(self, session.partition)

    async def _start(self, read: TopicRead, partition: int) -> bytes:
        self._count += 1
        session = PartitionSession(self._count, read, partition, await self._engine.now())
        self._sessions[session.id] = session
        self._places[read.entry.node.id, partition] = session
        if read.consumer is not None:
            committed = await self._topics.reads.read_committed(read.entry.node, read.consumer, partition)
            session.commits = Commits(committed)
        session.end = (await self._topics.reads.partition(read.entry.node, partition)).end
        session.phase = "starting"
        committed = session.commits.committed
        place = wire.int_field(1, session.id) + wire.text_field(2, read.path) + wire.int_field(3, partition)
        offsets = wire.int_field(1, committed) + wire.int_field(2, session.end)
        return _message(8, wire.bytes_field(1, place) + wire.int_field(2, committed) + wire.bytes_field(3, offsets))

    async def _begin_reading(self, request: Any) -> bytes | None:
        session = self._sessions.get(request.partition_session_id)
        if session is None:
            self._check_known(request.partition_session_id)
            return None
        if session.phase == "stopping":
            return None
        if session.phase != "starting":
            raise bad_request(f"partition session {session.id} has been started already")
        committed = session.commits.committed
        offset = max(committed, await self._find_start(session))
        if request.HasField("read_offset"):
            if request.read_offset < committed:
                raise bad_request(
                    f"trying to read from offset that is less than committed: {request.read_offset} < {committed}"
                )
            offset = max(offset, request.read_offset)
        if request.HasField("commit_offset"):
            self._check_consumer(session)
            await self._check_end(session, request.commit_offset)
            if request.commit_offset < committed:
                raise bad_request(
                    f"trying to commit offset that is less than committed: {request.commit_offset} < {committed}"
                )
            if request.HasField("read_offset") and request.commit_offset > request.read_offset:
                raise bad_request("trying to commit offset that is greater than read offset")
            session.commits.move(request.commit_offset)
            await self._store_commits([session])
            offset = max(offset, request.commit_offset)
        session.offset = offset
        session.phase = "active"
        self._ready.append(session)
        return None

    async def _find_start(self, session: PartitionSession) -> int:
        """Return the first offset that the limits by time allow."""
        read = session.read
        now = await self._engine.now()
        limits = [read.read_from or 0, now - read.max_lag if read.max_lag is not None else 0]
        if read.consumer is not None:
            limits.append(read.consumer.read_from)
        if not (earliest := max(limits)):
            return 0
        # Read first: a message that is written during the search is neither found by it nor behind a later end.
        end = (await self._topics.reads.partition(read.entry.node, session.partition)).end
        found = await self._topics.reads.find_written(read.entry.node, session.partition, earliest, now)
        return end if found is None else found.first

    def _end_reading(self, request: Any) -> None:
        session = self._sessions.get(request.partition_session_id)
        if session is None:
            self._check_known(request.partition_session_id)
            return
        if session.phase != "stopping":
            raise bad_request(f"partition session {session.id} was not asked to stop")
        self._end(session)

    def _check_known(self, id: int) -> None:
        """Refuse the id of a session that never was. Late requests for one that has ended are ignored."""
        if not 0 < id <= self._count:
            raise bad_request(f"no partition session with id {id}")

    # --- commits -----------------------------------------------------------------------------------------------------

    async def _commit(self, request: Any) -> bytes | None:
        if not self._consumer:
            raise bad_request("can't commit when reading without a consumer")
        if not request.commit_offsets:
            raise bad_request("can't commit without offsets")
        sessions = len(request.commit_offsets)
        if sessions > MAX_COMMITS or sum(len(each.offsets) for each in request.commit_offsets) > MAX_COMMITS:
            raise bad_request(f"more than {MAX_COMMITS} ranges in one commit request")
        moved: dict[int, PartitionSession] = {}
        for each in request.commit_offsets:
            session = self._sessions.get(each.partition_session_id)
            if not each.offsets:
                raise bad_request("can't commit without offsets")
            if session is None:
                self._check_known(each.partition_session_id)
                continue
            if session.phase == "starting":
                raise bad_request(f"partition session {session.id} has not been started")
            if await self._add_ranges(session, each.offsets):
                moved[session.id] = session
        if not moved:
            return None
        await self._store_commits(list(moved.values()))
        committed = [
            wire.bytes_field(1, wire.int_field(1, each.id) + wire.int_field(2, each.commits.committed))
            for each in moved.values()
        ]
        return _message(5, b"".join(committed))

    async def _add_ranges(self, session: PartitionSession, ranges: Iterable[Any]) -> bool:
        """Commit ranges of a partition. True: its committed offset has moved."""
        has_moved = False
        for number, given in enumerate(ranges, 1):
            if number % SLICE == 0:
                await asyncio.sleep(0)
            await self._check_end(session, given.end)
            if given.start > session.commits.committed:
                await self._read_committed_anew(session)
            has_moved |= session.commits.add(given.start, given.end)
        return has_moved

    async def _read_committed_anew(self, session: PartitionSession) -> None:
        """Take over what was committed beside this session: with a transaction, or by a request of its own."""
        consumer = self._check_consumer(session)
        stored = await self._topics.reads.read_committed(session.read.entry.node, consumer, session.partition)
        if stored > session.commits.committed:
            session.commits.move(stored)

    def _check_consumer(self, session: PartitionSession) -> Consumer:
        if session.read.consumer is None:
            raise bad_request("can't commit when reading without a consumer")
        return session.read.consumer

    async def _check_end(self, session: PartitionSession, offset: int) -> None:
        if offset > session.end:
            session.end = (await self._topics.reads.partition(session.read.entry.node, session.partition)).end
        if offset > session.end:
            raise commit_to_future(offset, session.end)

    async def _store_commits(self, sessions: list[PartitionSession]) -> None:
        moved = [(each.read, self._check_consumer(each), each.partition, each.commits.committed) for each in sessions]

        def body(transaction: WriteTransaction) -> Steps[None]:
            for read, consumer, partition, offset in moved:
                state = topic_body((yield from transaction.on(read.entry.node.id)).node).state
                # What was committed beside this session is not taken back.
                if (yield from read_committed(transaction, state, consumer, partition)) < offset:
                    yield from write_committed(transaction, state, consumer, partition, offset)

        try:
            await self._engine.transact(body, await self._engine.now(), size=len(moved))
        except OwnerNotFound:
            raise missing_topic(moved[0][0].entry.path) from None

    # --- messages ----------------------------------------------------------------------------------------------------

    async def _send(self) -> AsyncIterator[bytes]:
        """Send messages of one partition after the other while the client has asked for bytes, and requests wait for no turn."""
        idle = 0
        while self._budget > 0 and idle < len(self._ready):
            session = self._ready.popleft()
            if session.phase != "active":
                continue
            self._ready.append(session)
            batches = await self._next_batches(session)
            # The wait for the store may have brought the loss of the partition.
            if not batches or session.phase != "active":
                idle += 1
                continue
            idle = 0
            data = wire.bytes_field(1, session.pack(batches, self._budget))
            self._budget -= len(data)
            yield _message(4, data + wire.int_field(2, len(data)))
            if self._requests_wait():
                # Commits and new partitions are not to wait for the end of the topic.
                self._requests.ring()
                return

    def _requests_wait(self) -> bool:
        return bool(self._events) or self._requests.waiting

    async def _next_batches(self, session: PartitionSession) -> list[MessageBatch]:
        now = await self._engine.now()
        batches = await self._topics.reads.read(
            session.read.entry.node, session.partition, session.offset, now, session.batch_limit
        )
        if batches:
            session.last_read = now
            session.end = max(session.end, batches[-1].end)
            count = sum(len(batch.messages) for batch in batches)
            is_small = count < RESPONSE_MESSAGES and _held_bytes(batches) < 128 << 10
            # Small batches are read many at a time, large ones singly.
            session.batch_limit = min(MAX_BATCHES, session.batch_limit * 2) if is_small else 1
        return batches


def _held_bytes(batches: list[MessageBatch]) -> int:
    return sum(message.held_bytes for batch in batches for message in batch.messages)


def _message(field: int, content: bytes) -> bytes:
    return wire.plain_response(rest=wire.bytes_field(field, content))
