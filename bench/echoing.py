"""A server that answers each message of MongoDB's protocol with the same document: what moving the bytes costs by itself.

python echoing.py BYTES      the length of a document in each answer
"""

from __future__ import annotations

import asyncio
import json
import os
import struct
import sys

from bson import encode

from mayflydb.serving.process import loop_factory

HEAD = struct.Struct("<iiii")


class Echo(asyncio.Protocol):
    """Takes messages apart by their lengths, and looks at nothing else."""

    def __init__(self, document: bytes) -> None:
        self._document = document
        self._held = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        data = self._held + data
        position, answers = 0, []
        while len(data) - position >= HEAD.size:
            length, request, _, opcode = HEAD.unpack_from(data, position)
            if len(data) - position < length:
                break
            size = HEAD.size + 5 + len(self._document)
            answers.append(HEAD.pack(size, 1, request, opcode) + bytes(5) + self._document)
            position += length
        self._held = data[position:]
        self._transport.write(b"".join(answers))  # type: ignore[attr-defined]


async def serve(length: int) -> None:
    """Until the input ends."""
    answer = {"cursor": {"firstBatch": [{"_id": 1, "pad": "x" * length}], "id": 0, "ns": "bench.c"}, "ok": 1.0}
    document = encode(answer)
    server = await asyncio.get_running_loop().create_server(lambda: Echo(document), "127.0.0.1", 0)
    print(json.dumps({"pid": os.getpid(), "port": server.sockets[0].getsockname()[1]}), flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        runner.run(serve(int(sys.argv[1])))
