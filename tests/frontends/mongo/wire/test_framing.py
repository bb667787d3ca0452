"""The framer splits bytes into messages, or reports a broken frame: a table of frames."""

from __future__ import annotations

import contextlib
import gc
import random
import struct
import tracemalloc
import zlib

import pytest
from bson import encode

from mayflydb.frontends.mongo.protocol import messages as wire
from mayflydb.frontends.mongo.protocol.compression import Codecs, find_codecs
from mayflydb.frontends.mongo.protocol.messages import BadFrame, Framer, Message
from mayflydb.query.mongo import raw
from mayflydb.query.mongo.faults import MqlError

PING = encode({"ping": 1, "$db": "admin"})
ONE, TWO = encode({"_id": 1}), encode({"_id": 2})


def frame(opcode: int, body: bytes, request: int = 7, length: int | None = None) -> bytes:
    return struct.pack("<iiii", 16 + len(body) if length is None else length, request, 0, opcode) + body


def msg(*sections: bytes, flags: int = 0) -> bytes:
    return frame(2013, struct.pack("<I", flags) + b"".join(sections))


def body(document: bytes = PING) -> bytes:
    return b"\0" + document


def sequence(name: bytes, *documents: bytes, size: int | None = None) -> bytes:
    content = name + b"\0" + b"".join(documents)
    return b"\1" + struct.pack("<i", 4 + len(content) if size is None else size) + content


def compressed(original: bytes, number: int, payload: bytes, size: int | None = None) -> bytes:
    opcode = struct.unpack_from("<i", original, 12)[0]
    return frame(2012, struct.pack("<iiB", opcode, len(original) - 16 if size is None else size, number) + payload)


def framer(limit: int = wire.MAX_MESSAGE_BYTES, accepts_compressed: bool = True) -> Framer:
    return Framer(Codecs(tuple(find_codecs())).inflate, limit, accepts_compressed)


def read(data: bytes, limit: int = wire.MAX_MESSAGE_BYTES) -> list[Message]:
    cutting = framer(limit)
    found = cutting.feed(data)
    if cutting.broken is not None:
        raise BadFrame(cutting.broken.text)
    return found


QUERY = struct.pack("<i", 0) + b"admin.$cmd\0" + struct.pack("<ii", 0, -1) + encode({"isMaster": 1})


@pytest.mark.parametrize(
    ("data", "sequences", "silent"),
    [
        (msg(body()), {}, False),
        (msg(body(), flags=2), {}, True),
        (msg(body(), flags=1 << 16), {}, False),
        (msg(body(), flags=1 << 31), {}, False),
        (msg(body(), b"\0\0\0\0", flags=1), {}, False),
        (msg(body(), sequence(b"documents", ONE, TWO)), {"documents": [ONE, TWO]}, False),
        (msg(sequence(b"documents", ONE), body()), {"documents": [ONE]}, False),
        (msg(body(), sequence(b"documents")), {"documents": []}, False),
        (msg(body(), sequence(b"ops", ONE), sequence(b"nsInfo", TWO)), {"ops": [ONE], "nsInfo": [TWO]}, False),
        (compressed(msg(body()), 0, msg(body())[16:]), {}, False),
        (compressed(msg(body()), 2, zlib.compress(msg(body())[16:])), {}, False),
    ],
)
def test_messages(data: bytes, sequences: dict[str, list[bytes]], silent: bool) -> None:
    (found,) = read(data)
    assert (found.request, found.body, found.sequences, found.without_reply) == (7, PING, sequences, silent)


def test_a_query_opens_a_connection() -> None:
    (found,) = read(frame(2004, QUERY))
    assert (found.collection, found.body) == ("admin.$cmd", encode({"isMaster": 1}))


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(frame(2013, b"", length=length), id=f"length {length}")
        for length in (-(1 << 31), -1, 0, 4, 15, 48_000_001, (1 << 31) - 1)
    ]
    + [pytest.param(frame(opcode, b"\0" * 30), id=f"opcode {opcode}") for opcode in (0, 1, 2001, 2002, 2005, 2010, -1)]
    + [
        pytest.param(msg(), id="no section"),
        pytest.param(msg(sequence(b"documents", ONE)), id="no command"),
        pytest.param(msg(body(), body()), id="two commands"),
        pytest.param(msg(b"\2" + PING), id="kind 2"),
        pytest.param(msg(body(PING[:-1])), id="a command cut off"),
        pytest.param(msg(body(), sequence(b"d", ONE), sequence(b"d", TWO)), id="a sequence twice"),
        pytest.param(msg(body(), sequence(b"d", ONE[:-1])), id="a document cut off"),
        pytest.param(msg(body(), sequence(b"d", b"\4\0\0\0")), id="a document too short"),
        pytest.param(msg(body(), sequence(b"d", ONE, size=4)), id="a sequence too short"),
        pytest.param(msg(body(), sequence(b"d", ONE, size=999)), id="a sequence too long"),
        pytest.param(msg(body(), sequence(b"d", ONE, size=-1)), id="a negative sequence"),
        pytest.param(msg(body(), b"\1\6\0\0\0dd"), id="a name without end"),
        pytest.param(msg(body(), flags=4), id="an unknown flag"),
        pytest.param(frame(2004, QUERY[:-1]), id="a query cut off"),
        pytest.param(frame(2004, b"\0" * 8), id="a query without a name"),
        pytest.param(compressed(msg(body()), 9, b""), id="an unknown compressor"),
        pytest.param(compressed(msg(body()), 2, b"nonsense"), id="no zlib"),
        pytest.param(compressed(msg(body()), 2, zlib.compress(b"\0" * 99), size=50), id="more than it says"),
        pytest.param(compressed(msg(body()), 2, zlib.compress(b"\0" * 50), size=99), id="less than it says"),
        pytest.param(compressed(msg(body()), 2, zlib.compress(b"\0" * 50), size=-1), id="a negative size"),
        pytest.param(compressed(msg(body()), 2, b"", size=48_000_000), id="a size over the limit"),
        pytest.param(compressed(compressed(msg(body()), 0, b""), 0, b"\0" * 9, size=9), id="compressed twice"),
    ],
)
def test_what_ends_the_connection(data: bytes) -> None:
    with pytest.raises(BadFrame):
        read(data)


@pytest.mark.parametrize("name", [name for name in find_codecs() if name != "zlib"])
def test_compressors_that_are_installed(name: str) -> None:
    codec = find_codecs()[name]
    original = msg(body(), sequence(b"documents", *[ONE] * 100))
    (found,) = read(compressed(original, codec.number, codec.deflate(original[16:])))
    assert found.sequences == {"documents": [ONE] * 100}
    for size in (len(original) - 17, len(original) - 15):
        with pytest.raises(BadFrame):
            read(compressed(original, codec.number, codec.deflate(original[16:]), size=size))


def test_a_message_is_not_inflated_beyond_its_size() -> None:
    for codec in find_codecs().values():
        with pytest.raises(BadFrame):
            read(compressed(msg(body()), codec.number, codec.deflate(b"\0" * 40_000_000), size=100))


def test_nothing_is_inflated_before_a_login() -> None:
    cutting = framer(accepts_compressed=False)
    assert cutting.feed(compressed(msg(body()), 0, msg(body())[16:])) == []
    assert cutting.broken is not None


def test_messages_before_a_broken_frame_are_returned() -> None:
    cutting = framer()
    assert len(cutting.feed(msg(body()) * 2 + frame(99, b""))) == 2
    assert cutting.broken is not None


BULKY = bytes(4_000_000)
HELD = {
    "an unknown flag": msg(body(), sequence(b"d", BULKY), flags=4),
    "a kind of section that is none": msg(body(), b"\2" + BULKY),
    "a document cut off": msg(body(), sequence(b"d", struct.pack("<i", len(BULKY)), BULKY[:-5])),
    "an opcode that is not served": frame(2001, BULKY),
    "less than it says": compressed(msg(body()), 0, BULKY, size=len(BULKY) + 1),
    "no zlib": compressed(msg(body()), 2, BULKY),
    "compressed nonsense": compressed(frame(2001, BULKY), 2, zlib.compress(BULKY)),
}


@pytest.mark.parametrize("name", HELD)
def test_the_bytes_of_a_broken_frame_are_freed(name: str) -> None:
    """Neither the message nor its compressed form stays in memory until a garbage collection."""
    cutting = framer()
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        for start in range(0, len(HELD[name]), 1_000_000):
            assert cutting.feed(HELD[name][start : start + 1_000_000]) == []
        assert cutting.broken is not None
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()
    assert held < 100_000


@pytest.mark.parametrize("size", [1, 3, 15, 16, 17, 1000])
def test_messages_do_not_depend_on_chunks(size: int) -> None:
    data = msg(body(), sequence(b"documents", ONE, TWO)) * 3 + frame(2004, QUERY)
    cutting = framer()
    found = [each for start in range(0, len(data), size) for each in cutting.feed(data[start : start + size])]
    assert [each.opcode for each in found] == [2013, 2013, 2013, 2004]
    assert cutting.held_bytes == 0


def test_random_bytes_end_a_connection_at_most(chance: random.Random) -> None:
    seeds = [msg(body(), sequence(b"documents", ONE, TWO)), frame(2004, QUERY)]
    seeds.append(compressed(seeds[0], 2, zlib.compress(seeds[0][16:])))
    for _ in range(3000):
        data = bytearray(chance.choice(seeds))
        for _ in range(chance.randint(1, 4)):
            data[chance.randrange(4, len(data))] = chance.choice((0, 1, 4, 5, 127, 128, 255))
        cutting = framer(limit=1 << 20)
        for message in cutting.feed(bytes(data)):
            for document in (message.body, *(each for many in message.sequences.values() for each in many)):
                with contextlib.suppress(MqlError):
                    list(raw.elements(document))
                    raw.check_depth(document)


def nested(depth: int, array: bool = False) -> bytes:
    document = b"\5\0\0\0\0"
    for _ in range(depth - 1):
        inner = (b"\x04" if array else b"\x03") + b"a\0" + document
        document = struct.pack("<i", len(inner) + 5) + inner + b"\0"
    return document


@pytest.mark.parametrize("array", [False, True])
@pytest.mark.parametrize(("depth", "deep"), [(1, False), (199, False), (200, False), (201, True), (5000, True)])
def test_nesting(depth: int, deep: bool, array: bool) -> None:
    if not deep:
        raw.check_depth(nested(depth, array))
        return
    with pytest.raises(MqlError, match="nested object depth") as caught:
        raw.check_depth(nested(depth, array))
    assert caught.value.code == 22


def test_arrays_of_documents_stay_bytes() -> None:
    inserted = encode({"insert": "c", "documents": [{"_id": 1}, {"_id": 2}], "ordered": True, "$db": "d"})
    (element,) = [each for each in raw.elements(inserted) if each.name == b"documents"]
    assert raw.array_documents(inserted[element.value : element.end], "insert.documents") == [ONE, TWO]
    assert raw.remove_elements(inserted, [element]) == encode({"insert": "c", "ordered": True, "$db": "d"})


def test_an_incomplete_message_is_freed_when_its_end_does_not_come() -> None:
    framer = Framer(Codecs(tuple(find_codecs())).inflate)
    framer.feed(frame(2013, bytes(100_000), length=1_000_000))
    assert framer.held_bytes == 100_016
    framer.drop()
    assert framer.held_bytes == 0 and not framer._chunks
