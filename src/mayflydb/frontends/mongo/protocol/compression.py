"""The compressors of OP_COMPRESSED: zlib always, snappy and zstd where their packages are installed."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from mayflydb.frontends.mongo.protocol import messages as wire
from mayflydb.frontends.mongo.protocol.messages import NOOP_COMPRESSOR, BadFrame

NAMES: Final = ("zstd", "snappy", "zlib")
"""Names in the order in which they are offered."""


class Codec(msgspec.Struct, frozen=True):
    """A compressor. `number`: its id on the wire. `inflate` produces at most the number of bytes that it is given."""

    number: int
    deflate: Callable[[bytes], bytes]
    inflate: Callable[[bytes, int], bytes]


def find_codecs() -> dict[str, Codec]:
    """The installed compressors by name."""
    # The ids are fixed: 1 snappy, 2 zlib, 3 zstd.
    found = {"zstd": _load_zstd(), "snappy": _load_snappy(), "zlib": Codec(2, zlib.compress, _inflate_zlib)}
    return {name: codec for name, codec in found.items() if codec is not None}


class Codecs:
    """The compressors that one server offers."""

    def __init__(self, names: Sequence[str]) -> None:
        """Raise ValueError for a compressor that is not installed."""
        known = find_codecs()
        if missing := [name for name in names if name not in known]:
            raise ValueError(f"{missing[0]} is not installed")
        self._by_number = {known[name].number: known[name] for name in names}

    def inflate(self, number: int, data: bytes, size: int) -> bytes:
        """Decompress data. Raise BadFrame for invalid data, and for more than `size` bytes."""
        if number == 0:
            return data
        codec = self._by_number.get(number)
        if codec is None:
            raise BadFrame(f"compressor {number} was not agreed on")
        try:
            return codec.inflate(data, size)
        except BadFrame:
            raise
        except Exception as error:  # noqa: BLE001 - each package has errors of its own
            raise BadFrame(f"a compressed message cannot be read: {error}") from None

    def compress(self, frame: bytes, compressor: int) -> bytes:
        """Compress a frame with the compressor of its request."""
        if compressor == NOOP_COMPRESSOR:
            return frame
        return wire.compress(frame, compressor, self._by_number[compressor].deflate)


def _inflate_zlib(data: bytes, size: int) -> bytes:
    decompressor = zlib.decompressobj()
    # One byte more than promised is enough to see that the result is too long, and nothing beyond it is produced.
    found = decompressor.decompress(data, size + 1)
    if not decompressor.eof or decompressor.unused_data:
        raise BadFrame("a compressed message is cut off, or longer than it says")
    return found


def _load_snappy() -> Codec | None:
    try:
        from cramjam import snappy
    except ImportError:
        return None

    def inflate(data: bytes, size: int) -> bytes:
        # The length precedes the data, so the check comes before any allocation.
        if _parse_varint(data) != size:
            raise BadFrame("a compressed message is not as long as it says")
        return bytes(snappy.decompress_raw(data))

    return Codec(1, lambda data: bytes(snappy.compress_raw(data)), inflate)


def _parse_varint(data: bytes) -> int:
    value = 0
    # A length of 32 bits has at most five groups of seven bits, the lowest group first.
    for place, byte in enumerate(data[:5]):
        value |= (byte & 0x7F) << 7 * place
        if byte < 0x80:
            return value
    raise BadFrame("a length does not end")


def _load_zstd() -> Codec | None:
    try:
        from backports import zstd
    except ImportError:
        return None

    def inflate(data: bytes, size: int) -> bytes:
        decompressor = zstd.ZstdDecompressor()
        found = bytes(decompressor.decompress(data, max_length=size + 1))
        if not decompressor.eof or decompressor.unused_data:
            raise BadFrame("a compressed message is cut off, or longer than it says")
        return found

    return Codec(3, zstd.compress, inflate)
