"""Replies as commands make them, without what every reply says of time and of transactions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

GOSSIP = ("operationTime", "$clusterTime", "recoveryToken")


def said(reply: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A reply without these fields; None is no reply."""
    return None if reply is None else {name: value for name, value in reply.items() if name not in GOSSIP}
