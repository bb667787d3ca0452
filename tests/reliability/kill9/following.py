"""A reader of the feed of all versions and deletes that goes on from its last etag, whatever happens to the server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from reliability.kill9.wire import Connection


class Follower:
    """What it was told of each container, from the container's making on."""

    def __init__(self, containers: Iterable[str]) -> None:
        self._etags = dict.fromkeys(containers, '"0"')
        self.told: dict[str, list[dict[str, Any]]] = {name: [] for name in self._etags}

    async def read(self, connection: Connection) -> None:
        """Everything that is there by now."""
        for name in self._etags:
            while await self._page(connection, name):
                pass

    async def _page(self, connection: Connection, name: str) -> bool:
        answer = await connection.ask(
            "GET",
            "docs",
            f"dbs/d/colls/{name}/docs",
            a_im="Full-Fidelity Feed",
            x_ms_cosmos_changefeed_wire_format_version="2021-09-15",
            if_none_match=self._etags[name],
        )
        assert answer.status in (200, 304), answer
        self._etags[name] = answer.headers[b"etag"].decode()
        if answer.status == 200:
            self.told[name] += [row["metadata"] for row in answer.json["Documents"]]
        return answer.status == 200

    def made(self, name: str) -> set[int]:
        """The versions that came to be; each is told once, in order."""
        lsns = [row["lsn"] for row in self.told[name]]
        assert lsns == sorted(set(lsns)), f"{name}: out of order, or twice"
        return {row["lsn"] for row in self.told[name] if row["operationType"] != "delete"}

    def died(self, name: str) -> set[int]:
        """The versions that age removed; each is told once."""
        ends = Counter(row["previousImageLSN"] for row in self.told[name] if row.get("timeToLiveExpired"))
        assert max(ends.values(), default=1) == 1, f"{name}: {ends.most_common(3)}"
        return set(ends)
