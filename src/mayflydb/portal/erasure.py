"""The erasure log: its state, its last lines, counts of what expired, the lines of one record, and the file for an auditor.

Counts, and the lines of a record, come from a walk over the whole log, which verifies it. The walk has a time limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from mayflydb.admin.operations import Admin
from mayflydb.expiry.erasure_chain import FileEnd, Head, Line, Tampered, Verifier
from mayflydb.expiry.erasure_counts import ErasureCounts, name_container
from mayflydb.http.asgi import Streamed
from mayflydb.model.errors import MayflyError
from mayflydb.portal import words
from mayflydb.portal.forms import describe_error
from mayflydb.portal.presence import ClientLeft, run_while_present
from mayflydb.portal.shell import HEADERS, Shell, json_response

SHOWN: Final = 20
"""Lines of the list of the last ones."""

MOST_FOUND: Final = 200
"""Lines of one record that are shown."""

WALK_SECONDS: Final = 20
"""The time of a walk over the log."""


class ErasureLogPage:
    """The page of the log."""

    def __init__(self, admin: Admin, shell: Shell) -> None:
        self._admin = admin
        self._shell = shell
        # Each walk computes on a thread.
        self._walking = asyncio.Semaphore(1)

    async def show(self, request: Request) -> Response:
        """Show the page; with `report` the counts, with `target`, `id` and `pk` the lines of a record."""
        walked: dict[str, Any] = {"report": None, "found": None, "tampered": ""}
        error, status = "", 200
        try:
            walked |= await self._walk(request)
        except ClientLeft:
            return Response(status_code=204)
        except MayflyError as refusal:
            error, status = describe_error(refusal)
        state = await self._admin.erasure.show()
        query = request.query_params
        content = {
            **walked,
            "state": state,
            "lines": (await self._latest())[::-1],
            "asked": {name: query.get(name, "") for name in ("target", "id", "pk")},
            "targets": [each.target for each in await self._admin.targets.list_containers()],
            "causes": words.CAUSES,
            "most": MOST_FOUND,
            "error": error,
        }
        return await self._shell.page(request, "erasure.html", content, status, error, large=True)

    async def show_json(self, request: Request) -> Response:
        """Return the same as JSON."""
        walked = await self._walk(request)
        return json_response({"state": await self._admin.erasure.show(), "latest": await self._latest(), **walked})

    async def download(self, request: Request) -> Streamed:
        """Send all lines and the head, as `mayfly erasure export` writes them."""
        given = HEADERS | {
            "content-type": "application/x-ndjson",
            "content-disposition": 'attachment; filename="erased.jsonl"',
        }
        headers = tuple((name.encode(), value.encode()) for name, value in given.items())
        return Streamed(200, headers, self._make_file(await self._head()))

    async def _make_file(self, head: Head) -> AsyncGenerator[bytes, None]:
        async for page in self._read(head):
            yield "".join(f"{line}\n" for line in page).encode()
        yield msgspec.json.encode(FileEnd(head)) + b"\n"

    async def _latest(self) -> list[dict[str, Any]]:
        return [_describe(msgspec.json.decode(line, type=Line)) for line in await self._admin.erasure.latest(SHOWN)]

    async def _head(self) -> Head:
        state = await self._admin.erasure.show()
        return Head(state["lines"], state["head"])

    async def _read(self, head: Head) -> AsyncIterator[Sequence[str]]:
        """Yield the lines up to a head in pages."""
        after = done = 0
        while done < head.lines:
            page = await self._admin.erasure.page(after)
            if page["last"] == after:
                return
            after, lines = page["last"], page["lines"][: head.lines - done]
            done += len(lines)
            yield lines

    async def _walk(self, request: Request) -> dict[str, Any]:
        """Return what an address asks of the whole log. MayflyError; ClientLeft."""
        query = request.query_params
        if not query.get("report") and not query.get("id"):
            return {}
        keys: set[str] = set()
        if query.get("id"):
            hashed = await self._admin.erasure.hash_key(query.get("target", ""), query["id"], query.get("pk") or None)
            keys = set(hashed["keys"])
        work = self._verify(keys)
        counted, found, tampered = await run_while_present(request, work, WALK_SECONDS, "The walk over the log")
        answer: dict[str, Any] = {"tampered": tampered}
        if query.get("report"):
            answer["report"] = {
                "records": counted.erased.total(),
                "overwritten": counted.overwritten,
                "gaps": counted.gaps,
                "first": counted.first,
                "last": counted.last,
                "erased": counted.list_erased(),
            }
        if query.get("id"):
            answer["found"] = [_describe(line) for line in found]
        return answer

    async def _verify(self, keys: set[str]) -> tuple[ErasureCounts, list[Line], str]:
        """Return counts, the lines of records with these hashed keys, and the first fault of the chain; empty: there is none."""
        counted, found, verifier = ErasureCounts(), list[Line](), Verifier()

        def add(page: Sequence[str]) -> None:
            for data in page:
                line = verifier.add(data.encode())
                counted.add(line)
                if line.key in keys and len(found) < MOST_FOUND:
                    found.append(line)

        async with self._walking:
            head = await self._head()
            try:
                async for page in self._read(head):
                    await asyncio.to_thread(add, page)
                verifier.finish(head)
            except Tampered as error:
                return counted, found, str(error)
        return counted, found, ""


def _describe(line: Line) -> dict[str, Any]:
    """Return a line for a table."""
    return {**msgspec.structs.asdict(line), "where": name_container(line) if line.kind == "erased" else ""}
