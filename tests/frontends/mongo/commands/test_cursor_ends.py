"""A cursor that is closed before its end closes all that it reads from, and keeps none of its records."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any

import pytest

from mayflydb.frontends.mongo.commands.queries import _cursor_items
from mayflydb.frontends.mongo.cursors import ReadTime
from mayflydb.frontends.mongo.reading import CommittedView, DocumentRow, Selection, read_rows
from mayflydb.model.record import Record
from mayflydb.query.mongo.env import Env
from mayflydb.query.mongo.sort import compile_sort
from mayflydb.query.mongo.values import encode

PLAIN: Any = SimpleNamespace(clustered=None)
RECORDS = [Record(b"", b"%d" % n, encode({"_id": n}), 1, 1, None, n, n) for n in range(9)]


class Evaluation:
    """Computes at once."""

    cheap = True

    async def compute(self, cheap: bool, size: int, function: Any, *given: Any) -> Any:
        return function(*given)

    async def take_turn(self) -> None:
        pass


@pytest.mark.parametrize("is_sorted", [False, True])
def test_all_generators_are_closed_with_a_cursor(is_sorted: bool) -> None:
    opened: list[str] = []

    async def scan(*_: Any) -> AsyncIterator[Any]:
        opened.append("scan")
        try:
            for record in RECORDS:
                yield SimpleNamespace(records=[record])
                # A sort reads to the end.
                if record.seq == 5 and is_sorted:
                    raise RuntimeError("stopped")
        finally:
            opened.remove("scan")

    class View(CommittedView):
        async def rows(self, *_: Any) -> AsyncIterator[list[DocumentRow]]:
            opened.append("rows")
            scanned = self._scan(SimpleNamespace(node=None), read_time)  # type: ignore[arg-type]
            try:
                async for records in scanned:
                    yield [DocumentRow(record) for record in records]
            finally:
                await scanned.aclose()  # type: ignore[attr-defined]
                opened.remove("rows")

        def is_ordered(self, *_: Any) -> bool:
            return not is_sorted

    read_time = ReadTime(1, Evaluation())  # type: ignore[arg-type]
    env = Env(0)
    selection = Selection({}, env, None, compile_sort({"_id": 1}, env))

    async def check() -> None:
        view = View(SimpleNamespace(scan=scan))  # type: ignore[arg-type]
        items = _cursor_items(read_rows(view, PLAIN, selection, read_time), None, True, Evaluation())  # type: ignore[arg-type]
        if is_sorted:
            with pytest.raises(RuntimeError):
                await anext(items)
        else:
            assert [raw for _, raw in await anext(items)] == [encode({"_id": 0})]
            assert opened == ["rows", "scan"]
            await items.aclose()  # type: ignore[attr-defined]
        # Not in some later turn of the event loop.
        assert not opened

    asyncio.run(check())
