"""Frames and tokens as bytes: golden ones, and those that are refused before anything is made of them."""

from __future__ import annotations

import struct
import uuid

import pytest

from frontends.cosmos.direct.wire import ACTIVITY, CONTEXT, frame, parse_tokens, token
from mayflydb.frontends.cosmos.direct import frames
from mayflydb.frontends.cosmos.direct.tokens import MAX_TOKENS, Kind, Malformed, decode, encode


def test_the_answer_to_the_first_frame() -> None:
    head = frames.parse_request(CONTEXT)
    assert frames.is_context(head)
    # As a server of the service would answer, byte by byte.
    golden = bytes.fromhex(
        "4e000000c8000000000102030405060708090a0b0c0d0e0f"
        "00000201000000"
        "0100070a323032302d30372d3135"
        "02000705524e544244"
        "03000706322e31342e30"
        "04000200000000"
        "05000200000000"
    )
    assert frames.build_context_answer(head, b"RNTBD", b"2.14.0", 0) == golden


@pytest.mark.parametrize("version", [0, 2, 0xFFFFFFFF])
def test_another_version_is_refused(version: int) -> None:
    with pytest.raises(Malformed, match="version"):
        frames.build_context_answer(frames.parse_request(frame(0, 0, token(0, 2, version))), b"", b"", 0)


def test_an_answer() -> None:
    addressee = frames.parse_request(frame(3, 3, token(2, 0, 0) + token(0x4D, 2, 7))).addressee
    assert frames.build_answer(addressee, 404, b"", b"{}") == bytes.fromhex(
        "23000000 94010000 000102030405060708090a0b0c0d0e0f 0000 00 01 3500 02 07000000 02000000 7b7d"
    )
    assert frames.build_answer(addressee, 204, b"", b"") == bytes.fromhex(
        "23000000 cc000000 000102030405060708090a0b0c0d0e0f 0000 00 00 3500 02 07000000"
    )


VALUES = [
    (Kind.BYTE, 255), (Kind.USHORT, 65535), (Kind.ULONG, 2**32 - 1), (Kind.LONG, -1), (Kind.ULONGLONG, 2**64 - 1),
    (Kind.LONGLONG, -(2**63)), (Kind.GUID, ACTIVITY), (Kind.SMALL_STRING, b"s" * 255), (Kind.STRING, b"s" * 65535),
    (Kind.ULONG_STRING, b""), (Kind.SMALL_BYTES, b""), (Kind.BYTES, b"\0"), (Kind.ULONG_BYTES, b"\xff"),
    (Kind.FLOAT, 0.5), (Kind.DOUBLE, 0.1),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value"), VALUES)
def test_values(kind: Kind, value: int | float | bytes) -> None:
    raw = encode(9, kind, value)
    assert decode(raw) == {9: value}
    # Behind any other token, and cut off at any byte.
    assert decode(token(1, 7, "x") + raw) == {1: b"x", 9: value}
    for end in [*range(1, min(len(raw), 8)), len(raw) - 1]:
        with pytest.raises(Malformed):
            decode(raw[:end])


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Kind.SMALL_STRING, b"s" * 256),
        (Kind.STRING, b"s" * 65536),
        (Kind.BYTE, 256),
        (Kind.ULONG, -1),
        (Kind.STRING, 1),
    ],
)
def test_values_that_a_type_cannot_have(kind: Kind, value: int | bytes) -> None:
    with pytest.raises(ValueError, match="0x0009"):
        encode(9, kind, value)


def test_unknown_tokens_are_skipped_by_their_type() -> None:
    assert decode(struct.pack("<HB", 0xFFF0, 0xFF) + token(1, 0, 3)) == {1: 3}
    with pytest.raises(Malformed, match="0x0f"):
        decode(struct.pack("<HB", 0xFFF0, 0x0F))


def test_the_number_of_tokens_is_limited() -> None:
    one = struct.pack("<HB", 5, 0xFF)
    assert decode(one * (MAX_TOKENS - 1)) == {}
    with pytest.raises(Malformed, match="more than"):
        decode(one * MAX_TOKENS)


@pytest.mark.parametrize("size", [0, 23, frames.MAX_HEAD + 1, 0xFFFFFFFF])
def test_lengths_of_frames(size: int) -> None:
    with pytest.raises(Malformed):
        frames.frame_size(struct.pack("<I", size), 0)


def test_lengths() -> None:
    assert frames.frame_size(b"\x18\0\0", 0) is None
    assert frames.frame_size(b"x\x18\0\0\0", 1) == 24
    assert frames.payload_size(b"\0\0\0", 0) is None
    assert frames.payload_size(struct.pack("<I", frames.MAX_PAYLOAD), 0) == frames.MAX_PAYLOAD
    with pytest.raises(Malformed):
        frames.payload_size(struct.pack("<I", frames.MAX_PAYLOAD + 1), 0)


@pytest.mark.parametrize(
    "tokens", [b"", token(0x4D, 6, ACTIVITY), token(0x4D, 8, "1"), token(0x4D, 3, -1), token(0x4D, 4, 2**32)]
)
def test_a_request_needs_a_number(tokens: bytes) -> None:
    with pytest.raises(Malformed, match="request id"):
        frames.parse_request(frame(3, 3, token(2, 0, 0) + tokens))


@pytest.mark.parametrize("version", [token(1, 8, "x" * 256), token(1, 2, 1)])
def test_the_version_of_a_client_is_a_short_text(version: bytes) -> None:
    with pytest.raises(Malformed, match="version of the client"):
        frames.build_context_answer(frames.parse_request(frame(0, 0, token(0, 2, 1) + version)), b"", b"", 0)


def test_activity_ids() -> None:
    id = uuid.UUID("00112233-4455-6677-8899-aabbccddeeff")
    assert frames.format_activity(id.bytes_le) == str(id).encode()


@pytest.mark.parametrize(
    ("head", "is_direct"), [(CONTEXT, True), (b"GET / HTTP/1.1", False), (b"PRI * HTTP/2.0", False), (b"\0\0\0", True)]
)
def test_the_first_bytes(head: bytes, is_direct: bool) -> None:
    assert frames.begins_context(head[: frames.CONTEXT_BYTES]) is is_direct


def test_the_tests_own_reader() -> None:
    assert parse_tokens(token(1, 8, "é") + token(2, 0x0E, 0.5)) == {1: "é", 2: 0.5}
