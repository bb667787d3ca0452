"""Saving in two steps: what was written is told, whatever comes after; and no step is taken over somebody's change."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import msgspec
import pytest

from mayflydb.http.messages import Response
from mayflydb.model.errors import MayflyError, PreconditionFailed
from mayflydb.portal.cosmos.containers import Container, Containers
from mayflydb.portal.cosmos.form import Offer, stored_fields

BODY = {"id": "c", "_etag": '"1"', "indexingPolicy": {"indexingMode": "consistent"}, "partitionKey": {"paths": ["/pk"]}}
OFFER = {"id": "o", "content": {"offerThroughput": 400}}
BEFORE = Container(BODY, '"1"', Offer("manual", 400), OFFER)
WANTED = msgspec.structs.replace(stored_fields(BODY, '"1"', BEFORE.offer), time_to_live="no-default", manual="500")


REFUSALS: Mapping[int, MayflyError] = {412: PreconditionFailed("it has changed"), 503: MayflyError("not now")}


class Scripted:
    """Answers as it was told, and keeps what it was asked."""

    def __init__(self, *statuses: int) -> None:
        self._statuses = list(statuses)
        self.asked: list[tuple[str, str, Mapping[str, str]]] = []

    async def __call__(
        self, method: str, path: Sequence[str], body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Response:
        self.asked.append((method, "/".join(path), headers or {}))
        status = self._statuses.pop(0)
        return Response(status, body, error=REFUSALS.get(status))


def save(*statuses: int) -> tuple[list[str], MayflyError | None, Scripted]:
    cosmos = Scripted(*statuses)
    said: list[str] = []
    try:
        asyncio.run(Containers(cosmos).save("d", BEFORE, WANTED, said))
    except MayflyError as error:
        return said, error, cosmos
    return said, None, cosmos


CONTAINER = ("PUT", "dbs/d/colls/c", {"if-match": '"1"'})
THROUGHPUT: tuple[str, str, dict[str, str]] = ("PUT", "offers/o", {})


@pytest.mark.parametrize(
    ("statuses", "said", "kind", "asked"),
    [
        (
            (200, 200),
            ["Successfully updated container c", "Successfully updated offer for collection c"],
            type(None),
            [CONTAINER, THROUGHPUT],
        ),
        ((412,), [], PreconditionFailed, [CONTAINER]),
        ((503,), [], MayflyError, [CONTAINER]),
        ((200, 503), ["Successfully updated container c"], MayflyError, [CONTAINER, THROUGHPUT]),
    ],
)
def test_steps(
    statuses: tuple[int, ...], said: list[str], kind: type, asked: list[tuple[str, str, Mapping[str, str]]]
) -> None:
    told, error, cosmos = save(*statuses)
    assert told == said
    assert isinstance(error, kind)
    assert cosmos.asked == asked
