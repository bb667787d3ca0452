"""Frames of known shapes mean what the tables say, and frames of other shapes are not mistaken for them."""

from __future__ import annotations

import random
import struct

import pytest

from frontends.cosmos.direct.wire import frame, token
from mayflydb.frontends.cosmos.direct import frames, ids, requests
from mayflydb.frontends.cosmos.direct.shapes import MAX_FRAME, MAX_SIZES, PATIENCE, KnownShapes
from mayflydb.frontends.cosmos.direct.tokens import Malformed
from mayflydb.model.errors import MayflyError

NAMES = token(0x15, 8, "d") + token(0x16, 8, "c") + token(0x17, 8, "i1")
READ = token(1, 8, "key") + token(2, 0, 0) + token(3, 7, "date") + NAMES + token(0x4D, 2, 7)
OTHERS = [
    token(4, 2, 100), token(5, 8, "0:1#7"), token(8, 8, '"e"'), token(0x10, 0, 2), token(0x13, 8, "/apps/x"),
    token(0, 0x0B, "rid"), token(0x2B, 8, '["p"]'), token(0x2C, 8, "0"), token(0x35, 8, "rid"), token(0x49, 2, 60_000),
    token(0x82, 0, 1), token(0xC4, 0, 3), token(0x62, 0x0B, "05"), token(0x64, 0, 3), token(0x5E, 0, 1), token(0x59, 3, 1),
    token(2, 0, 1), token(0x28, 7, "2020-07-15"), token(0x17, 8, "i2"), token(0x4D, 2, 9), token(0xFFF1, 6, b"g" * 16),
    struct.pack("<HB", 0xFFF0, 0xFF), token(3, 0x0C, ""),
]  # fmt: skip


def learn(shapes: KnownShapes, raw: bytes) -> None:
    head = frames.parse_request(raw)
    shapes.learn(raw, head, requests.to_http(head))


def meaning(shapes: KnownShapes, raw: bytes) -> object:
    """What the known shapes make of a frame; None if they do not know it."""
    entry = shapes.translate(raw)
    return None if entry is None else _describe(entry)


def by_tables(raw: bytes) -> object:
    """The same by the tables; None for a frame that they refuse."""
    try:
        head = frames.parse_request(raw)
        return _describe(requests.Entry(head.addressee, requests.to_http(head), head.has_payload))
    except (Malformed, MayflyError):
        return None


def _describe(entry: requests.Entry) -> object:
    made = entry.request
    return entry.addressee, entry.has_payload, made.method, made.path, made.query, made.scheme, made.headers


def test_a_known_shape_is_translated_by_its_values() -> None:
    shapes = KnownShapes()
    first = frame(3, 3, READ + token(0x2B, 8, '["p"]'))
    assert shapes.translate(first) is None
    learn(shapes, first)
    second = first.replace(b"key", b"KEY").replace(b"i1", b"/2").replace(b'["p"]', b'["q"]')
    entry = shapes.translate(second)
    assert entry is not None
    assert (entry.request.path, entry.addressee.number) == (b"/dbs/d/colls/c/docs/%2F2", 7)
    assert entry.request.headers[b"authorization"] == b"KEY"
    assert meaning(shapes, second) == by_tables(second)


@pytest.mark.parametrize(
    "tokens",
    [
        READ.replace(b"\x02\x00\x00\x00", b"\x02\x00\x00\x01"),  # A payload.
        READ.replace(token(1, 8, "key"), token(6, 8, "key")),  # Another token.
        READ.replace(token(1, 8, "key"), token(1, 8, "ke")) + b"\xf0",  # Another length, and one byte more.
        READ.replace(token(0x4D, 2, 7), token(0x4D, 0x0D, 7.0)),  # A number of another type.
    ],
)
def test_another_shape_of_the_same_size(tokens: bytes) -> None:
    shapes = KnownShapes()
    learn(shapes, frame(3, 3, READ))
    assert len(tokens) == len(READ)
    assert shapes.translate(frame(3, 3, tokens)) is None
    assert shapes.translate(frame(3, 5, READ)) is None


@pytest.mark.parametrize(
    ("resource", "operation", "tokens"),
    [
        (3, 3, READ + token(0x28, 8, "x" * MAX_FRAME)),
        (1, 3, READ),
        (3, 3, token(0, 0x0B, b"\1" * 16) + token(1, 8, "k") + token(3, 7, "d") + token(0x4D, 2, 1)),
        (3, 4, READ + token(0x62, 0x0B, "05")),
        (3, 3, NAMES + token(0x4D, 2, 7)),
        (3, 3, READ + token(0x4D, 4, 8)),
    ],
)
def test_a_request_without_a_shape(resource: int, operation: int, tokens: bytes) -> None:
    shapes = KnownShapes()
    learn(shapes, frame(resource, operation, tokens))
    assert shapes.translate(frame(resource, operation, tokens)) is None


def test_shapes_are_limited() -> None:
    shapes = KnownShapes()

    def of_size(size: int) -> bytes:
        return frame(3, 3, READ + token(0x2B, 8, "x" * size))

    for size in range(MAX_SIZES):
        learn(shapes, of_size(size))
    known = [*range(MAX_SIZES)]
    for size in range(MAX_SIZES, MAX_SIZES + PATIENCE):
        assert [size for size in known if shapes.translate(of_size(size)) is None] == []
        learn(shapes, of_size(size))
    assert len(shapes._shapes) == MAX_SIZES
    assert shapes.translate(of_size(0)) is None
    assert shapes.translate(of_size(MAX_SIZES + PATIENCE - 1)) is not None


def test_two_shapes_of_one_size() -> None:
    shapes = KnownShapes()
    frames_of = [frame(3, 3, READ + token(0x2B, 8, "x" * size) + token(5, 8, "x" * (9 - size))) for size in range(3)]
    for each in frames_of[:2]:
        learn(shapes, each)
    for each in [*frames_of[:2], frames_of[1], frames_of[0]]:
        assert meaning(shapes, each) == by_tables(each)
    assert shapes.translate(frames_of[2]) is None
    for _ in range(PATIENCE):
        learn(shapes, frames_of[2])
    assert [meaning(shapes, each) is None for each in frames_of] == [False, True, False]


def test_frames_in_any_form(chance: random.Random) -> None:
    shapes = KnownShapes()
    known = 0
    for _ in range(400):
        tokens = [READ, *chance.sample(OTHERS, chance.randrange(6))]
        operation = chance.choice([ids.READ, ids.UPSERT, ids.REPLACE, ids.READ_FEED, ids.SQL_QUERY])
        raw = frame(3, operation, b"".join(chance.sample(tokens, len(tokens))))
        if by_tables(raw) is not None:
            learn(shapes, raw)
        for _ in range(10):
            other = _change(raw, chance)
            found = meaning(shapes, other)
            assert found is None or found == by_tables(other), other.hex()
            known += found is not None
    assert known


def _change(raw: bytes, chance: random.Random) -> bytes:
    changed = bytearray(raw)
    for _ in range(chance.randrange(4)):
        changed[chance.randrange(8, len(changed))] = chance.choice([0, 1, 2, 7, 8, chance.randrange(256)])
    return bytes(changed)
