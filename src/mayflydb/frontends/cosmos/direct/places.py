"""The addresses of replicas: their form, which clients send back in each request, and what a request learns from it.

A client expects four replicas of each range. One server answers for all of them, on the port that the client knows.
"""

from __future__ import annotations

import re
from typing import Any, Final

REPLICAS: Final = 4
"""Replicas of each range. With fewer, clients look for the missing ones again and again."""

WRITE_QUORUM: Final = 3
MASTER: Final = b"M"
"""The id of the range that holds databases, containers, users and permissions."""

_PATH: Final = re.compile(rb"/apps/mayfly/services/([0-9]{1,18})/partitions/([0-9]{1,18}|M)/replicas/[1-4][ps]/?")
_MASTER_SERVICE: Final = 0


def addresses(authority: str, container: int | None, range_id: str) -> list[dict[str, Any]]:
    """Return the replicas of a range. `authority`: `host:port`. `container`: its number; None for the account's own range."""
    service = _MASTER_SERVICE if container is None else container
    base = f"rntbd://{authority}/apps/mayfly/services/{service}/partitions/{range_id}/replicas"
    return [
        {
            "isPrimary": number == 1,
            "protocol": "rntbd",
            "logicalUri": f"rntbd://{authority}/",
            # Spelt so in the protocol.
            "physcialUri": f"{base}/{number}{'p' if number == 1 else 's'}/",
            "partitionIndex": f"{range_id}@{service}",
            "partitionKeyRangeId": range_id,
        }
        for number in range(1, REPLICAS + 1)
    ]


def parse(path: bytes) -> tuple[int, bytes] | None:
    """Return the number of the container and the id of the range that a replica's path names; None for another path."""
    match = _PATH.fullmatch(path)
    return None if match is None else (int(match[1]), match[2])


def range_of(path: bytes) -> bytes:
    """Return the id of the range that a replica's path names; the account's own for a path that names none."""
    parsed = parse(path)
    return MASTER if parsed is None else parsed[1]
