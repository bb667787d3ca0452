"""The page of a topic: its settings, its consumers, and the oldest batches of messages."""

from __future__ import annotations

from typing import Any, Final

from starlette.responses import Response

from mayflydb.admin.operations import Admin
from mayflydb.engine.catalog import Node
from mayflydb.engine.scans import Scope
from mayflydb.expiry.deadline import deadline
from mayflydb.model.errors import NotFound
from mayflydb.portal import words
from mayflydb.portal.shell import Shell, Visit, json_response

SHOWN_BATCHES: Final = 20


def is_topic(node: Node) -> bool:
    """Return whether a container is a topic."""
    return bool(node.body.get("kind") == "topic")


class TopicPage:
    """The page of a topic, which has no rows to edit."""

    def __init__(self, admin: Admin, shell: Shell) -> None:
        self._admin = admin
        self._shell = shell

    async def show(self, visit: Visit) -> Response:
        """Show the topic."""
        content = await self._read(visit)
        return await self._shell.page(visit.request, "ydb/topic.html", content | _place(visit))

    async def show_json(self, visit: Visit) -> Response:
        """The same as JSON."""
        return json_response(await self._read(visit))

    async def _read(self, visit: Visit) -> dict[str, Any]:
        container = visit.container
        if not is_topic(container.node):
            raise NotFound(f"{container.target} is not a topic")
        (row,) = (await self._admin.reports.list_containers(container.target))["targets"]
        return {
            "topic": row,
            "retention": words.seconds(row["default_ttl"]),
            "consumers": [each["name"] for each in container.node.body.get("consumers", ())],
            "batches": await self._read_batches(visit),
        }

    async def _read_batches(self, visit: Visit) -> list[dict[str, Any]]:
        """Return the first batches that are kept, by the order of their writes."""
        node, now = visit.container.node, await self._admin.engine.now()
        found: list[dict[str, Any]] = []
        async for batch in self._admin.engine.scan(node, Scope(), None, now, SHOWN_BATCHES):
            for record in batch.records[: SHOWN_BATCHES - len(found)]:
                id, _ = visit.container.front_end.decode_identity(node, record.partition, record.key)
                shown: Any = visit.container.front_end.decode_record(node, record)
                ends = deadline(record, node.rules)
                found.append(
                    {
                        "id": id,
                        "messages": shown["end_offset"] - shown["first_offset"],
                        "producer": shown["producer"],
                        "written": shown["written"],
                        "ends": "" if ends is None else words.moment(ends),
                    }
                )
            if len(found) >= SHOWN_BATCHES:
                break
        return found


def _place(visit: Visit) -> dict[str, str]:
    return {"name": visit.name, "database": visit.database, "address": visit.address}
