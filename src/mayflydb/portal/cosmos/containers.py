"""Reads and changes containers through the front end, as a client does, with the same checks and errors."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from mayflydb.admin.wires import Cosmos
from mayflydb.http.messages import check_status, read_json
from mayflydb.portal.cosmos.form import Fields, Offer, apply_fields

_TO_AUTOSCALE = "x-ms-cosmos-migrate-offer-to-autopilot"
_TO_MANUAL = "x-ms-cosmos-migrate-offer-to-manual-throughput"


class Container(msgspec.Struct, frozen=True):
    """A container as a client reads it. `offer` is None, and `offer_body` empty, if it has no throughput of its own."""

    body: Mapping[str, Any]
    etag: str
    offer: Offer | None
    offer_body: Mapping[str, Any]


class Containers:
    """Reads and writes containers and offers, and reads items."""

    def __init__(self, cosmos: Cosmos) -> None:
        self._cosmos = cosmos

    async def read(self, database: str, name: str) -> Container:
        """Read a container with its offer. NotFound if it does not exist."""
        body = read_json(await self._cosmos("GET", ("dbs", database, "colls", name)))
        found = await self._offer(body["_rid"])
        return Container(body, body["_etag"], None if found is None else _offer(found), found or {})

    async def item(self, database: str, name: str, id: str, pk: Any) -> bytes:
        """Read the JSON of one item, as clients get it. NotFound if it does not exist or has expired."""
        # json escapes all that is not ASCII; a header may hold nothing else.
        headers = {"x-ms-documentdb-partitionkey": json.dumps(pk if isinstance(pk, list) else [pk])}
        return check_status(
            await self._cosmos("GET", ("dbs", database, "colls", name, "docs", id), headers=headers)
        ).body

    async def save(self, database: str, before: Container, wanted: Fields, said: list[str]) -> None:
        """Save the parts that differ. `said` gets a sentence for each saved part, also if the next one fails.

        PreconditionFailed if the container has changed since it was shown.
        """
        name = before.body["id"]
        body = apply_fields(before.body, wanted)
        if body != before.body:
            sent = {key: value for key, value in body.items() if not key.startswith("_")}
            path = ("dbs", database, "colls", name)
            check_status(await self._cosmos("PUT", path, msgspec.json.encode(sent), {"if-match": wanted.etag}))
            said.append(f"Successfully updated container {name}")
        if wanted.offer is not None and before.offer is not None and wanted.offer != before.offer:
            await self._scale(before.offer_body, before.offer, wanted.offer)
            said.append(f"Successfully updated offer for collection {name}")

    async def _offer(self, rid: str) -> Mapping[str, Any] | None:
        offers: Sequence[Mapping[str, Any]] = read_json(await self._cosmos("GET", ("offers",)))["Offers"]
        return next((offer for offer in offers if offer["offerResourceId"] == rid), None)

    async def _scale(self, body: Mapping[str, Any], before: Offer, wanted: Offer) -> None:
        if wanted.mode != before.mode:
            header = _TO_AUTOSCALE if wanted.mode == "autoscale" else _TO_MANUAL
            body = await self._put_offer(body, {header: "true"})
            # The service chooses the amount of a migrated offer. It may be the wanted one already.
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
        answer: Mapping[str, Any] = read_json(await self._cosmos("PUT", path, msgspec.json.encode(body), headers))
        return answer


def _offer(body: Mapping[str, Any]) -> Offer:
    content = body["content"]
    settings = content.get("offerAutopilotSettings")
    if settings is None:
        return Offer("manual", content["offerThroughput"])
    return Offer("autoscale", settings["maxThroughput"])
