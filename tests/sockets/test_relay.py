"""A port whose clients' bytes go to an inner listener, and back, on both kinds of event loops."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop

from mayflydb.model.quota import Quotas
from mayflydb.sockets.listener import Listener, ListenerLimits, bind
from mayflydb.sockets.relay import CHUNK, INNER_HOST, Relay, Relays, peer_name
from mayflydb.sockets.work import ClosedConnection
from sockets.listening import PATIENCE, Streams, closed

GREETING = b"220 "
LIMITS = ListenerLimits(connections=3, name="relayed")

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Relayed:
    """An inner listener, and the port before it."""

    def __init__(self, port: int, relays: Relays, quotas: Quotas) -> None:
        self.port = port
        self.relays = relays
        self.quota = quotas.get("relayed", 0)
        self._opened: list[asyncio.StreamWriter] = []

    async def connect(self) -> Streams:
        streams = await asyncio.open_connection(INNER_HOST, self.port)
        self._opened.append(streams[1])
        return streams

    async def left(self, clients: int) -> None:
        """Wait until the port has so many clients, and a relay for each."""

        def counts() -> set[int]:
            return {len(self.relays.connections), len(self.relays.tasks), self.quota.used}

        async with asyncio.timeout(PATIENCE):
            while counts() != {clients}:  # noqa: ASYNC110 -- nothing tells of it.
                await asyncio.sleep(0)


async def upper(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Greets, then sends back in capitals what comes."""
    writer.write(GREETING)
    while data := await reader.read(CHUNK):
        writer.write(data.upper())
        await writer.drain()
    writer.close()


def run(work: Callable[[Relayed], Awaitable[None]], loop: Any, handler: Handler = upper) -> None:
    async def main() -> None:
        inner = await asyncio.start_server(handler, INNER_HOST, 0)
        relays, quotas = Relays(), Quotas()
        relays.port = inner.sockets[0].getsockname()[1]
        listener = Listener(lambda tls, _: ClosedConnection() if tls else Relay(relays), relays, None, LIMITS, quotas)
        sockets = bind(INNER_HOST, 0)
        listener.serve(sockets)
        found = Relayed(sockets[0].getsockname()[1], relays, quotas)
        try:
            await work(found)
        finally:
            for writer in found._opened:
                writer.transport.abort()
            await listener.close(PATIENCE)
            inner.close()

    with asyncio.Runner(loop_factory=loop) as runner:
        runner.run(main())


both_loops = pytest.mark.parametrize("loop", [uvloop.new_event_loop, asyncio.new_event_loop])


async def greeted(streams: Streams) -> Streams:
    streams[1].write(b"a")
    assert await asyncio.wait_for(streams[0].readexactly(len(GREETING) + 1), PATIENCE) == GREETING + b"A"
    return streams


@both_loops
def test_bytes_go_both_ways(loop: Any) -> None:
    async def work(relayed: Relayed) -> None:
        reader, writer = await greeted(await relayed.connect())
        [peer] = relayed.relays.peers.values()
        assert peer == peer_name(writer.get_extra_info("sockname"))
        sent = bytes(range(97, 123)) * 200_000
        writer.write(sent)
        # Both directions are full before the first byte is taken, and go on when it is.
        assert await asyncio.wait_for(reader.readexactly(len(sent)), PATIENCE) == sent.upper()
        writer.write_eof()
        assert await closed(reader)
        await relayed.left(0)
        assert relayed.relays.peers == {}

    run(work, loop)


@both_loops
def test_a_side_that_does_not_read_is_not_read_from(loop: Any) -> None:
    """The relay holds little of what it cannot pass on."""
    sent = 0

    async def flood(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.transport.set_write_buffer_limits(0)
        while True:
            writer.write(bytes(CHUNK))
            await writer.drain()
            sent += CHUNK

    async def work(relayed: Relayed) -> None:
        _, writer = await relayed.connect()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(b"a")
        before = -1
        async with asyncio.timeout(PATIENCE):
            while sent != before:
                before = sent
                for _ in range(200):
                    await asyncio.sleep(0)
        [relay] = relayed.relays.connections
        assert isinstance(relay, Relay) and relay.transport is not None
        assert relay.transport.get_write_buffer_size() <= 3 * CHUNK
        writer.transport.abort()
        await relayed.left(0)

    run(work, loop, flood)


@both_loops
def test_the_end_of_either_side_is_the_end_of_the_other(loop: Any) -> None:
    async def leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readexactly(1) * 100_000)
        writer.close()

    async def work(relayed: Relayed) -> None:
        reader, writer = await relayed.connect()
        writer.write(b"b")
        assert await asyncio.wait_for(reader.read(), PATIENCE) == b"b" * 100_000
        await relayed.left(0)

    run(work, loop, leave)


@both_loops
def test_a_client_is_turned_away_without_an_inner_listener_and_over_the_limit(loop: Any) -> None:
    async def work(relayed: Relayed) -> None:
        port, relayed.relays.port = relayed.relays.port, 1
        for _ in range(2 * LIMITS.connections):
            reader, writer = await relayed.connect()
            writer.write(b"a")
            assert await closed(reader)
        await relayed.left(0)
        relayed.relays.port = port
        kept = [await greeted(await relayed.connect()) for _ in range(LIMITS.connections)]
        assert len(relayed.relays.peers) == len(kept)
        with contextlib.suppress(ConnectionResetError):
            reader, _ = await relayed.connect()
            assert await closed(reader)
        assert relayed.quota.refused == 1
        kept[0][1].transport.abort()
        await relayed.left(LIMITS.connections - 1)
        await greeted(await relayed.connect())

    run(work, loop)


@both_loops
def test_connections_that_are_closed_at_once_give_their_seats_back(loop: Any) -> None:
    async def work(relayed: Relayed) -> None:
        for _ in range(2 * LIMITS.connections):
            reader, writer = await relayed.connect()
            writer.write(b"\x16\x03\x01")
            assert await closed(reader)
            await relayed.left(0)
        await greeted(await relayed.connect())

    run(work, loop)


@pytest.mark.parametrize(
    ("address", "name"),
    [(("127.0.0.1", 5), "ipv4:127.0.0.1:5"), (("::1", 5, 0, 0), "ipv6:%5B::1%5D:5")],
)
def test_addresses_are_written_as_grpc_writes_them(address: Any, name: str) -> None:
    assert peer_name(address) == name
