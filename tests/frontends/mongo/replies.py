"""Replies without the fields about cluster time and transactions that every reply has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

GOSSIP = ("operationTime", "$clusterTime", "recoveryToken")


def said(reply: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a reply without these fields; None stays None."""
    return None if reply is None else {name: value for name, value in reply.items() if name not in GOSSIP}
