"""Fields of replies about the cluster: `operationTime`, `$clusterTime`, and the recovery token of a transaction.

The operation time is the cluster time of the last commit of this node. A change stream that starts there therefore
shows that commit and every later one. While a virtual clock stands still, all commits have the same cluster time.
Rules:
https://github.com/mongodb/specifications/blob/master/source/sessions/driver-sessions.md#gossipping-the-cluster-time
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from bson import Int64, Timestamp

from mayflydb.frontends.mongo.calls import Call
from mayflydb.frontends.mongo.options import Options
from mayflydb.frontends.mongo.streams.options import cluster_time
from mayflydb.model.instant import Instant
from mayflydb.query.mongo.values import encode

# The signature of a server without keys: a hash of zeros. Drivers return it unread.
_SIGNATURE: Final = {"hash": bytes(20), "keyId": Int64(0)}

_RECOVERY: Final = encode({"recoveryToken": {"recoveryShardId": "mayfly"}})[4:-1]
"""The recovery token, as elements. Every server commits by itself, so no server reads a token that a client returns."""


_MARK: Final = Timestamp(0x6D61796D, 0x61796D61)
_BEFORE, _BETWEEN, _AFTER = encode(
    {"operationTime": _MARK, "$clusterTime": {"clusterTime": _MARK, "signature": _SIGNATURE}}
)[4:-1].split(encode({"": _MARK})[6:-1])
"""The elements about the times, as they are before, between and after the two timestamps."""

_TIMESTAMP: Final = Struct("<II")

_SIZE_BYTES: Final = 4
_COSMOS_PREFIX: Final = b"\x02_t\x00"
"""The first field of a reply in Cosmos DB's shape, after the size:
https://learn.microsoft.com/azure/cosmos-db/mongodb/time-to-live"""


class Gossip:
    """Adds cluster fields to encoded replies."""

    def __init__(self, options: Options) -> None:
        self._is_standalone = options.topology == "standalone"
        self._is_router = options.topology == "mongos"
        self._cached_for: Instant = -1
        self._cached_times = b""

    def add_times(self, reply: bytes, committed: Instant) -> bytes:
        """A reply with the times, unless it has Cosmos DB's shape. `committed`: the instant of the last commit."""
        if self._is_standalone or reply.startswith(_COSMOS_PREFIX, _SIZE_BYTES):
            return reply
        # Reads outnumber commits, so most replies share their times with the reply before.
        if committed != self._cached_for:
            time = cluster_time(committed)
            encoded = _TIMESTAMP.pack(time.inc, time.time)
            self._cached_for = committed
            self._cached_times = b"".join((_BEFORE, encoded, _BETWEEN, encoded, _AFTER))
        return _append_fields(reply, self._cached_times)

    def add_recovery_token(self, reply: bytes, call: Call) -> bytes:
        """A reply to a command of a transaction, with the recovery token that a router returns."""
        return _append_fields(reply, _RECOVERY) if self._is_router and "autocommit" in call.body else reply


def _append_fields(reply: bytes, fields: bytes) -> bytes:
    # A document is its size (4 bytes), its elements and a NUL. Fields are elements alone.
    size = len(reply) + len(fields)
    return b"".join((size.to_bytes(4, "little"), reply[4:-1], fields, b"\0"))
