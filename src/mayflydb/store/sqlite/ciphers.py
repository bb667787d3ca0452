"""Sealed values of records: AES-256-GCM.

nonce 12 | encrypted value | tag 16      associated data: container 8, lsn 8, length of partition 8, partition, key
"""

from __future__ import annotations

import os
from struct import Struct
from typing import Final

from mayflydb.model.errors import Corrupt
from mayflydb.model.record import Record

NONCE_BYTES: Final = 12
TAG_BYTES: Final = 16

MOST_VERSIONS: Final = 1 << 31
"""The lsns for which one key is used. Random nonces of 96 bits are safe for 2^32 values under a key."""

NONCES: Final = 256
"""Nonces that are drawn at a time: a call of the system takes as long as the encryption of a small value."""

_PLACE: Final = Struct("<qqq").pack


class Cipher:
    """Seals and opens values with one key."""

    __slots__ = ("_cipher", "_nonces")

    def __init__(self, key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._cipher = AESGCM(key)
        self._nonces = b""

    def seal(self, container: int, record: Record) -> Record:
        """Return a record with its value sealed. A value that is sealed again gets another nonce."""
        if not self._nonces:
            self._nonces = os.urandom(NONCE_BYTES * NONCES)
        nonce, self._nonces = self._nonces[:NONCE_BYTES], self._nonces[NONCE_BYTES:]
        return _replace_value(record, nonce + self._cipher.encrypt(nonce, record.value, _place(container, record)))

    def open(self, container: int, record: Record) -> Record:
        """Return a record with its plain value. Corrupt if the key does not open it in this place."""
        sealed = record.value
        try:
            plain = self._cipher.decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], _place(container, record))
        except Exception as error:
            raise Corrupt(f"record {record.seq} of container {container} is not opened by its key") from error
        return _replace_value(record, plain)


def _place(container: int, record: Record) -> bytes:
    partition = record.partition
    return _PLACE(container, record.lsn, len(partition)) + partition + record.key


def _replace_value(record: Record, value: bytes) -> Record:
    return Record(
        record.partition, record.key, value, record.written, record.anchor, record.override, record.lsn, record.seq, record.dates
    )  # fmt: skip
