"""A container as its page needs it, read and changed through the front end, as a client would: same checks, same errors."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from mayflydb.http.messages import Response
from mayflydb.model.errors import (
    BadRequest,
    Conflict,
    MayflyError,
    NotFound,
    OutcomeUnknown,
    PreconditionFailed,
    Throttled,
    Unavailable,
)
from mayflydb.portal.cosmos import Cosmos
from mayflydb.portal.form import Fields, Offer, apply_fields

_ERRORS: Mapping[int, type[MayflyError]] = {
    400: BadRequest,
    404: NotFound,
    409: Conflict,
    408: OutcomeUnknown,
    412: PreconditionFailed,
    429: Throttled,
    503: Unavailable,
}
_TO_AUTOSCALE = "x-ms-cosmos-migrate-offer-to-autopilot"
_TO_MANUAL = "x-ms-cosmos-migrate-offer-to-manual-throughput"


class Container(msgspec.Struct, frozen=True):
    """The container as a client reads it. `offer` None: it has no throughput of its own; `offer_body` is the offer's body."""

    body: Mapping[str, Any]
    etag: str
    offer: Offer | None
    offer_body: Mapping[str, Any]


class Containers:
    """Reads and writes containers, offers and single items."""

    def __init__(self, cosmos: Cosmos) -> None:
        self._cosmos = cosmos

    async def read(self, database: str, name: str) -> Container:
        """NotFound if there is none."""
        body = _json(await self._cosmos("GET", ("dbs", database, "colls", name)))
        found = await self._offer(body["_rid"])
        return Container(body, body["_etag"], None if found is None else _offer(found), found or {})

    async def item(self, database: str, name: str, id: str, pk: Any) -> bytes:
        """The JSON of one item, as clients get it; NotFound where it is not, or no longer."""
        # In a header, and so in ASCII, which json writes.
        headers = {"x-ms-documentdb-partitionkey": json.dumps(pk if isinstance(pk, list) else [pk])}
        return _check_status(
            await self._cosmos("GET", ("dbs", database, "colls", name, "docs", id), headers=headers)
        ).body

    async def save(self, database: str, before: Container, wanted: Fields, said: list[str]) -> None:
        """Write what differs, and say of each part when it is written: an error may come between.

        PreconditionFailed if the container is not as it was shown.
        """
        name = before.body["id"]
        body = apply_fields(before.body, wanted)
        if body != before.body:
            sent = {key: value for key, value in body.items() if not key.startswith("_")}
            path = ("dbs", database, "colls", name)
            _check_status(await self._cosmos("PUT", path, msgspec.json.encode(sent), {"if-match": wanted.etag}))
            said.append(f"Successfully updated container {name}")
        if wanted.offer is not None and before.offer is not None and wanted.offer != before.offer:
            await self._scale(before.offer_body, before.offer, wanted.offer)
            said.append(f"Successfully updated offer for collection {name}")

    async def _offer(self, rid: str) -> Mapping[str, Any] | None:
        offers: Sequence[Mapping[str, Any]] = _json(await self._cosmos("GET", ("offers",)))["Offers"]
        return next((offer for offer in offers if offer["offerResourceId"] == rid), None)

    async def _scale(self, body: Mapping[str, Any], before: Offer, wanted: Offer) -> None:
        if wanted.mode != before.mode:
            header = _TO_AUTOSCALE if wanted.mode == "autoscale" else _TO_MANUAL
            body = await self._put_offer(body, {header: "true"})
            if _offer(body) == wanted:
                return
        content = dict(body["content"])
        if wanted.mode == "autoscale":
            content["offerAutopilotSettings"] = {"maxThroughput": wanted.amount}
        else:
            content["offerThroughput"] = wanted.amount
        await self._put_offer({**body, "content": content}, {})

    async def _put_offer(self, body: Mapping[str, Any], headers: Mapping[str, str]) -> Mapping[str, Any]:
        path = ("offers", body["id"])
        answer: Mapping[str, Any] = _json(await self._cosmos("PUT", path, msgspec.json.encode(body), headers))
        return answer


def _offer(body: Mapping[str, Any]) -> Offer:
    content = body["content"]
    settings = content.get("offerAutopilotSettings")
    if settings is None:
        return Offer("manual", content["offerThroughput"])
    return Offer("autoscale", settings["maxThroughput"])


def _json(response: Response) -> Any:
    return msgspec.json.decode(_check_status(response).body)


def _check_status(response: Response) -> Response:
    """The response, or the error that it stands for."""
    if response.status < 300:
        return response
    kind = _ERRORS.get(response.status, MayflyError)
    raise kind(_sentence(response.body))


def _sentence(body: bytes) -> str:
    """The sentence of an error, without the parts for programs."""
    message = str(msgspec.json.decode(body).get("message", "")).partition("\r\nActivityId")[0]
    try:
        inner = msgspec.json.decode(message.removeprefix("Message: "))
        return "; ".join(inner["Errors"])
    except (msgspec.DecodeError, KeyError, TypeError):
        return message
