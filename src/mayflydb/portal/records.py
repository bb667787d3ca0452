"""A collection of MongoDB, or a table of YDB: its TTL settings, its records with their deadlines, and ignored `ttl` fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal
from urllib.parse import urlencode

from starlette.responses import RedirectResponse, Response

from mayflydb.admin.operations import Admin
from mayflydb.admin.targets import ContainerTarget
from mayflydb.engine.scans import Scope
from mayflydb.model.record import IGNORED, Record
from mayflydb.portal import words
from mayflydb.portal.grid import PAGE, Trail, grid_row, parse_position
from mayflydb.portal.shell import Shell, Visit, json_response, keep_message

MAX_DOCUMENTS_READ = 10_000
"""Documents that are read to find those whose `ttl` is ignored: no index leads to them, and a page must not read for minutes."""


NOTHING: Final[tuple[list[Record], str | None]] = ([], None)
"""The records of a page that shows them as a grid."""


async def count_visible_own(admin: Admin, container: ContainerTarget, row: Mapping[str, Any]) -> int:
    """Count the visible records with a ttl of their own. `row`: the container's counts, in which hidden records are included."""
    if not (row["hidden"] and row["own_ttl"]):
        return int(row["own_ttl"])
    return (await admin.engine.expiry_counts.census(container.node, await admin.engine.now())).own


class RecordsPage:
    """The page of a collection. Its one form runs a pass at once."""

    def __init__(self, admin: Admin, shell: Shell, kind: Literal["documents", "rows"]) -> None:
        self._admin = admin
        self._shell = shell
        self._kind = kind
        self._template = "mongo/documents.html" if kind == "documents" else "ydb/rows.html"

    async def show(self, visit: Visit) -> Response:
        """Show the page."""
        found = await self._read_page(visit)
        return await self._shell.page(visit.request, self._template, self._content(visit, found))

    def _content(self, visit: Visit, found: dict[str, Any]) -> dict[str, Any]:
        row, after = found["collection"], found["after"]
        return {
            **found,
            "ttl": [words.ttl_index(index) for index in row["indexes"]],
            "more": f"{visit.address}/{self._kind}?{urlencode({'after': after})}" if after else None,
            "database": visit.database,
            "name": visit.name,
            "address": visit.address,
            "most": MAX_DOCUMENTS_READ,
        }

    async def show_json(self, visit: Visit) -> Response:
        """The same as JSON."""
        return json_response(await self._read_page(visit))

    async def run_pass(self, visit: Visit) -> Response:
        """Purge what is due, as a pass of the TTL monitor or a run over a table does."""
        done = await self._admin.maintenance.purge(visit.container.target)
        said = f"A {'run' if self._kind == 'rows' else 'pass'} was made: {words.number(done['purged'])} purged"
        return keep_message(RedirectResponse(f"{visit.address}/{self._kind}", 303), said)

    async def _read_page(self, visit: Visit, page: tuple[list[Record], str | None] | None = None) -> dict[str, Any]:
        """Return what the page shows. `page`: its records and where the next page begins; None: of all records."""
        container = visit.container
        (row,) = (await self._admin.reports.list_containers(container.target))["targets"]
        documents, following = page or await self._read_records(visit)
        now = await self._admin.engine.now()
        ignored, all_read = await self._find_ignored(visit) if row["ignored_ttl"] else ([], True)
        return {
            "collection": row,
            "documents": [grid_row(container, record, container.node.rules, now) for record in documents],
            "after": following,
            "ignored": [self._ignored_row(visit, record) for record in ignored],
            "all_read": all_read,
        }

    def _ignored_row(self, visit: Visit, record: Record) -> dict[str, Any]:
        targets, node = visit.container.front_end, visit.container.node
        details = targets.describe_record(visit.database, node, record)
        id, _ = targets.decode_identity(node, record.partition, record.key)
        return {"id": id, "ttl": details["own_ttl"], "why": details["ignored_ttl"]}

    async def _read_records(self, visit: Visit) -> tuple[list[Record], str | None]:
        after = visit.request.query_params.get("after", Trail.of(visit.request).here)
        now = await self._admin.engine.now()
        found: list[Record] = []
        position = None if after is None else parse_position(after)
        async for batch in self._admin.engine.scan(visit.container.node, Scope(), position, now):
            found += batch.records
            # One more than a page: only then is there a next page.
            if len(found) > PAGE:
                break
        return found[:PAGE], str(found[PAGE - 1].seq) if len(found) > PAGE else None

    async def _find_ignored(self, visit: Visit) -> tuple[list[Record], bool]:
        """Return up to a page of documents whose `ttl` is ignored, and whether all documents were read."""
        found: list[Record] = []
        read = 0
        async for batch in self._admin.engine.scan(visit.container.node, Scope(), None, await self._admin.engine.now()):
            read += len(batch.records)
            found += [record for record in batch.records if record.override == IGNORED]
            if len(found) > PAGE or read >= MAX_DOCUMENTS_READ:
                return found[:PAGE], False
        return found, True
