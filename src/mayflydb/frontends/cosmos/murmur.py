"""MurmurHash3 with seed 0, in the two widths that partition keys use. The algorithm is Austin Appleby's, public domain."""

from __future__ import annotations

from struct import iter_unpack

_M64 = 0xFFFFFFFFFFFFFFFF
_M32 = 0xFFFFFFFF
_C1 = 0x87C37B91114253D5
_C2 = 0x4CF5AD432745937F


def _mix_64(h: int) -> int:
    h = (h ^ h >> 33) * 0xFF51AFD7ED558CCD & _M64
    h = (h ^ h >> 33) * 0xC4CEB9FE1A85EC53 & _M64
    return h ^ h >> 33


def murmur_128(data: bytes) -> tuple[int, int]:
    """The x64 variant: the low and the high 64 bits."""
    h1 = h2 = 0
    size = len(data)
    whole = size & ~15
    for k1, k2 in iter_unpack("<QQ", data[:whole]):
        k1 = k1 * _C1 & _M64
        h1 ^= (k1 << 31 | k1 >> 33) * _C2 & _M64
        h1 = (((h1 << 27 | h1 >> 37) + h2) * 5 + 0x52DCE729) & _M64
        k2 = k2 * _C2 & _M64
        h2 ^= (k2 << 33 | k2 >> 31) * _C1 & _M64
        h2 = (((h2 << 31 | h2 >> 33) + h1) * 5 + 0x38495AB5) & _M64
    # A missing half counts as zero, and zero changes nothing.
    k2 = int.from_bytes(data[whole + 8 :], "little") * _C2 & _M64
    h2 ^= (k2 << 33 | k2 >> 31) * _C1 & _M64
    k1 = int.from_bytes(data[whole : whole + 8], "little") * _C1 & _M64
    h1 ^= (k1 << 31 | k1 >> 33) * _C2 & _M64
    h1 ^= size
    h2 ^= size
    h1 = h1 + h2 & _M64
    h2 = h2 + h1 & _M64
    h1, h2 = _mix_64(h1), _mix_64(h2)
    h1 = h1 + h2 & _M64
    return h1, h2 + h1 & _M64


def murmur_32(data: bytes) -> int:
    """The x86 variant."""
    h = 0
    whole = len(data) & ~3
    for (k,) in iter_unpack("<I", data[:whole]):
        k = k * 0xCC9E2D51 & _M32
        h ^= ((k << 15 | k >> 17) & _M32) * 0x1B873593 & _M32
        h = ((h << 13 | h >> 19) * 5 + 0xE6546B64) & _M32
    k = int.from_bytes(data[whole:], "little") * 0xCC9E2D51 & _M32
    h ^= ((k << 15 | k >> 17) & _M32) * 0x1B873593 & _M32
    h ^= len(data)
    h = (h ^ h >> 16) * 0x85EBCA6B & _M32
    h = (h ^ h >> 13) * 0xC2B2AE35 & _M32
    return h ^ h >> 16
