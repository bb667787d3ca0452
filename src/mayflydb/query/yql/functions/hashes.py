"""Hashes of bytes that `Digest::` has and Python's standard library has not.

CityHash: G. Pike and J. Alakuijala, version 1.0. FNV: http://www.isthe.com/chongo/tech/comp/fnv/. MurmurHash: A. Appleby.
CRC-32C: RFC 3720.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

_MASK: Final = 0xFFFFFFFFFFFFFFFF
# Constants of CityHash 1.0; later versions of it give other hashes.
_K0, _K1 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273
_K2, _K3 = 0x9AE16A3B2F90404F, 0xC949D7C7509E6557
_MUL: Final = 0x9DDFEA08EB382D69


def numeric(key: int) -> int:
    """Thomas Wang's mix of 64 bits."""
    key = (key + ~(key << 32)) & _MASK
    key ^= key >> 22
    key = (key + ~(key << 13)) & _MASK
    key ^= key >> 8
    key = (key + (key << 3)) & _MASK
    key ^= key >> 15
    key = (key + ~(key << 27)) & _MASK
    return key ^ (key >> 31)


def finish_murmur(key: int) -> int:
    """The last mix of MurmurHash3, which ClickHouse calls intHash64."""
    key ^= key >> 33
    key = (key * 0xFF51AFD7ED558CCD) & _MASK
    key ^= key >> 33
    key = (key * 0xC4CEB9FE1A85EC53) & _MASK
    return key ^ (key >> 33)


# --- CityHash --------------------------------------------------------------------------------------------------------


def _load64(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 8], "little")


def _load32(data: bytes, at: int) -> int:
    return int.from_bytes(data[at : at + 4], "little")


def _rotate(value: int, shift: int) -> int:
    return ((value >> shift) | (value << (64 - shift))) & _MASK if shift else value


def _mix(value: int) -> int:
    return value ^ (value >> 47)


def _hash_pair(low: int, high: int) -> int:
    a = ((low ^ high) * _MUL) & _MASK
    a ^= a >> 47
    b = ((high ^ a) * _MUL) & _MASK
    b ^= b >> 47
    return (b * _MUL) & _MASK


def _hash_up_to_16(data: bytes) -> int:
    size = len(data)
    if size > 8:
        a, b = _load64(data, 0), _load64(data, size - 8)
        return _hash_pair(a, _rotate((b + size) & _MASK, size)) ^ b
    if size >= 4:
        return _hash_pair((size + (_load32(data, 0) << 3)) & _MASK, _load32(data, size - 4))
    if size:
        y = data[0] + (data[size >> 1] << 8)
        z = size + (data[size - 1] << 2)
        return (_mix((y * _K2 & _MASK) ^ (z * _K3 & _MASK)) * _K2) & _MASK
    return _K2


def _hash_up_to_32(data: bytes) -> int:
    size = len(data)
    a, b = _load64(data, 0) * _K1 & _MASK, _load64(data, 8)
    c, d = _load64(data, size - 8) * _K2 & _MASK, _load64(data, size - 16) * _K0 & _MASK
    return _hash_pair(
        (_rotate((a - b) & _MASK, 43) + _rotate(c, 30) + d) & _MASK,
        (a + _rotate(b ^ _K3, 20) - c + size) & _MASK,
    )


def _hash_up_to_64(data: bytes) -> int:
    size = len(data)

    def half(z: int, a: int, at: int, end: int) -> tuple[int, int]:
        b, c = _rotate((a + z) & _MASK, 52), _rotate(a, 37)
        a = (a + _load64(data, at + 8)) & _MASK
        c = (c + _rotate(a, 7)) & _MASK
        a = (a + _load64(data, end)) & _MASK
        return (a + z) & _MASK, (b + _rotate(a, 31) + c) & _MASK

    z = _load64(data, 24)
    vf, vs = half(z, (_load64(data, 0) + (size + _load64(data, size - 16)) * _K0) & _MASK, 0, 16)
    a = (_load64(data, 16) + _load64(data, size - 32)) & _MASK
    wf, ws = half(_load64(data, size - 8), a, size - 32, size - 16)
    r = _mix(((vf + ws) * _K2 + (wf + vs) * _K0) & _MASK)
    return (_mix((r * _K0 + vs) & _MASK) * _K2) & _MASK


def _weak_hash_32(data: bytes, at: int, a: int, b: int) -> tuple[int, int]:
    w, x, y, z = (_load64(data, at + step) for step in (0, 8, 16, 24))
    a = (a + w) & _MASK
    b = _rotate((b + a + z) & _MASK, 21)
    c = a
    a = (a + x + y) & _MASK
    b = (b + _rotate(a, 44)) & _MASK
    return (a + z) & _MASK, (b + c) & _MASK


def city64(data: bytes) -> int:
    """CityHash64 of version 1.0."""
    size = len(data)
    if size <= 32:
        return _hash_up_to_16(data) if size <= 16 else _hash_up_to_32(data)
    if size <= 64:
        return _hash_up_to_64(data)
    x = _load64(data, 0)
    y = _load64(data, size - 16) ^ _K1
    z = _load64(data, size - 56) ^ _K0
    v = _weak_hash_32(data, size - 64, size, y)
    w = _weak_hash_32(data, size - 32, size * _K1 & _MASK, _K0)
    z = (z + _mix(v[1]) * _K1) & _MASK
    x = _rotate((z + x) & _MASK, 39) * _K1 & _MASK
    y = _rotate(y, 33) * _K1 & _MASK
    # Blocks of 64 bytes. The rest of 1 to 64 bytes is in the state already: v, w, x, y, z began with the last 64.
    for at in range(0, (size - 1) & ~63, 64):
        x = _rotate((x + y + v[0] + _load64(data, at + 16)) & _MASK, 37) * _K1 & _MASK
        y = _rotate((y + v[1] + _load64(data, at + 48)) & _MASK, 42) * _K1 & _MASK
        x ^= w[1]
        y ^= v[0]
        z = _rotate(z ^ w[0], 33)
        v = _weak_hash_32(data, at, v[1] * _K1 & _MASK, (x + w[0]) & _MASK)
        w = _weak_hash_32(data, at + 32, (z + w[1]) & _MASK, y)
        z, x = x, z
    return _hash_pair(
        (_hash_pair(v[0], w[0]) + _mix(y) * _K1 + z) & _MASK,
        (_hash_pair(v[1], w[1]) + x) & _MASK,
    )


def city64_with_seed(data: bytes, seed: int) -> int:
    return _hash_pair((city64(data) - _K2) & _MASK, seed)


# --- other hashes ----------------------------------------------------------------------------------------------------


def fnv(data: bytes, bits: int, start: int) -> int:
    """FNV-1: multiply, then XOR the byte."""
    prime, mask = {32: 0x01000193, 64: 0x100000001B3}[bits], 2**bits - 1
    for each in data:
        start = (start * prime & mask) ^ each
    return start


@lru_cache(maxsize=1)
def _crc_table() -> tuple[int, ...]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return tuple(table)


def crc32c(data: bytes) -> int:
    """CRC-32 by Castagnoli's polynomial."""
    table, crc = _crc_table(), 0xFFFFFFFF
    for each in data:
        crc = table[(crc ^ each) & 0xFF] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def murmur32(data: bytes, seed: int) -> int:
    """MurmurHash2 of 32 bits."""
    by, mask = 0x5BD1E995, 0xFFFFFFFF
    found = (seed ^ len(data)) & mask
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        key = _load32(data, at) * by & mask
        key = (key ^ key >> 24) * by & mask
        found = (found * by & mask) ^ key
    if whole < len(data):
        found = (found ^ int.from_bytes(data[whole:], "little")) * by & mask
    found = (found ^ found >> 13) * by & mask
    return found ^ found >> 15


def murmur64(data: bytes, seed: int) -> int:
    """MurmurHash64A."""
    by = 0xC6A4A7935BD1E995
    found = (seed ^ len(data) * by) & _MASK
    whole = len(data) & ~7
    for at in range(0, whole, 8):
        key = _load64(data, at) * by & _MASK
        key = (key ^ key >> 47) * by & _MASK
        found = (found ^ key) * by & _MASK
    if whole < len(data):
        found = (found ^ int.from_bytes(data[whole:], "little")) * by & _MASK
    found = (found ^ found >> 47) * by & _MASK
    return found ^ found >> 47


def sip(data: bytes, low: int, high: int) -> int:
    """SipHash-2-4."""
    a, b = low ^ 0x736F6D6570736575, high ^ 0x646F72616E646F6D
    c, d = low ^ 0x6C7967656E657261, high ^ 0x7465646279746573
    # The last word: the length modulo 256 in its highest byte, and the bytes that fill no word.
    tail = (len(data) & 0xFF) << 56 | int.from_bytes(data[len(data) & ~7 :], "little")
    words = [_load64(data, at) for at in range(0, len(data) & ~7, 8)]
    for word in (*words, tail):
        d ^= word
        a, b, c, d = _sip_round(*_sip_round(a, b, c, d))
        a ^= word
    c ^= 0xFF
    for _ in range(4):
        a, b, c, d = _sip_round(a, b, c, d)
    return a ^ b ^ c ^ d


def _sip_round(a: int, b: int, c: int, d: int) -> tuple[int, int, int, int]:
    a = (a + b) & _MASK
    b = _rotate(b, 51) ^ a
    a = _rotate(a, 32)
    c = (c + d) & _MASK
    d = _rotate(d, 48) ^ c
    a = (a + d) & _MASK
    d = _rotate(d, 43) ^ a
    c = (c + b) & _MASK
    b = _rotate(b, 47) ^ c
    return a, b, _rotate(c, 32), d
