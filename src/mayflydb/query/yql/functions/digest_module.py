"""`Digest::`: hashes.

Source: https://ydb.tech/docs/en/yql/reference/udf/list/digest
"""

from __future__ import annotations

import hashlib
import zlib
from typing import Final

from mayflydb.query.yql.expression import Builder
from mayflydb.query.yql.functions import hashes
from mayflydb.query.yql.functions.signatures import build_module


def _city(value: bytes, seed: int | None = None) -> int:
    return hashes.city64(value) if seed is None else hashes.city64_with_seed(value, seed)


def _blake(value: bytes, key: bytes | None = None) -> bytes:
    return hashlib.blake2b(value, digest_size=32, key=(key or b"")[:64]).digest()


_OF_SEED: Final = "(String, [Init:Uint64?]) -> Uint64"
_SMALL_SEED: Final = "(String, [Init:Uint32?]) -> Uint32"
_RAW: Final = "(String) -> String"

BUILDERS: Final[dict[str, Builder]] = build_module(
    {
        "Crc32c": ("(String) -> Uint32", hashes.crc32c),
        "Fnv32": (_SMALL_SEED, lambda value, init=None: hashes.fnv(value, 32, 0x811C9DC5 if init is None else init)),
        "Fnv64": (
            _OF_SEED,
            lambda value, init=None: hashes.fnv(value, 64, 0xCBF29CE484222325 if init is None else init),
        ),
        "MurMurHash": (_OF_SEED, lambda value, init=None: hashes.murmur64(value, init or 0)),
        "MurMurHash32": (_SMALL_SEED, lambda value, init=None: hashes.murmur32(value, init or 0)),
        "CityHash": (_OF_SEED, _city),
        "NumericHash": ("(Uint64) -> Uint64", hashes.numeric),
        "Md5Hex": (_RAW, lambda value: hashlib.md5(value, usedforsecurity=False).hexdigest().encode()),
        "Md5Raw": (_RAW, lambda value: hashlib.md5(value, usedforsecurity=False).digest()),
        "Crc32": ("(String) -> Uint32", zlib.crc32),
        "IntHash64": ("(Uint64) -> Uint64", hashes.finish_murmur),
        "Sha224": (_RAW, lambda value: hashlib.sha224(value).digest()),
        "Sha384": (_RAW, lambda value: hashlib.sha384(value).digest()),
        "Sha1": (_RAW, lambda value: hashlib.sha1(value, usedforsecurity=False).digest()),
        "Sha256": (_RAW, lambda value: hashlib.sha256(value).digest()),
        "Sha512": (_RAW, lambda value: hashlib.sha512(value).digest()),
        "Blake2B": ("(String, [String?]) -> String", _blake),
        "SipHash": ("(Uint64, Uint64, String) -> Uint64", lambda low, high, value: hashes.sip(value, low, high)),
    }
)
