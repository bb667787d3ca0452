"""The erasure log: its state, its lines, and the hashes that stand for records in it."""

from __future__ import annotations

from typing import Any

from mayflydb.admin import formats
from mayflydb.admin.targets import TargetResolver
from mayflydb.engine.engine import Engine
from mayflydb.engine.lifecycle.erasure_log import AT_ONCE
from mayflydb.expiry.erasure_chain import hash_key


class ErasureReports:
    """Answers questions about the erasure log. Verification is the client's: it needs the lines alone."""

    def __init__(self, engine: Engine, targets: TargetResolver) -> None:
        self._engine = engine
        self._targets = targets
        self._log = engine.erasure_log

    async def show(self) -> dict[str, Any]:
        """Return the state of the log, with the lines of what has expired until now."""
        await self._log.catch_up(AT_ONCE)
        now = await self._engine.now()
        found = await self._log.progress()
        scrubber = self._engine.scrubber
        return {
            "now": formats.time(now),
            "on": self._log.is_on,
            "lines": found.head.lines,
            "head": found.head.hash,
            "event": found.event,
            "lag": found.lag if self._log.is_on else None,
            "erase": "normal" if scrubber is None else "secure",
            "scrubbed": None if scrubber is None or scrubber.scrubbed < 0 else scrubber.scrubbed,
        }

    async def page(self, after: int) -> dict[str, Any]:
        """Return some lines behind a place; `last`: the place behind them. No lines and the same place: the end."""
        segments = await self._log.segments(after)
        lines = [line.decode() for segment in segments for line in segment.lines]
        return {"lines": lines, "last": segments[-1].place if segments else after}

    async def latest(self, most: int) -> list[str]:
        """Return the last lines, up to `most`."""
        return [line.decode() for line in await self._log.latest(most)]

    async def hash_key(self, target: str, id: str, pk: str | None) -> dict[str, Any]:
        """Return the hashes of a record's key, none if there is no log. NotFound if there is no such container."""
        container = await self._targets.resolve_container(target)
        secret = await self._log.secret()
        node = container.node
        identities = container.front_end.find_identities(node, id, pk)
        return {
            "target": container.target,
            "container": node.id,
            "keys": [] if secret is None else [hash_key(secret, node.id, *identity) for identity in identities],
        }
