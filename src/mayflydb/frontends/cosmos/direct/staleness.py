"""Requests of direct mode that rest on what a client has remembered: a container's rid, and a range's address."""

from __future__ import annotations

from collections.abc import Mapping

from mayflydb.frontends.cosmos.direct import places
from mayflydb.frontends.cosmos.headers import COLLECTION_RID, CONTINUATION, PARTITION_KEY_RANGE_ID, REPLICA_PATH
from mayflydb.frontends.cosmos.views import ContainerView
from mayflydb.model.errors import MayflyError

NAME_CACHE_IS_STALE = 1000
COMPLETING_SPLIT = 1007
"""On this, clients read the ranges and repeat a request for one item, which after 1002 they hand to the caller."""


def check_address(view: ContainerView, headers: Mapping[bytes, bytes]) -> None:
    """Raise Gone (1000) if the client means an earlier container of this name, Gone (1007) if its range was split.

    A request that names its range or goes on with a token is left to the scope of the request, which knows about splits.
    """
    if headers[COLLECTION_RID].decode("latin-1") != view.links.rid:
        raise _gone_error("The container was deleted and created again.", NAME_CACHE_IS_STALE)
    if PARTITION_KEY_RANGE_ID in headers or CONTINUATION in headers:
        return
    addressed = places.parse(headers.get(REPLICA_PATH, b""))
    if addressed is not None:
        range_id = addressed[1].decode()
        if all(each.id != range_id for each in view.ranges):
            raise _gone_error(f"The partition key range '{range_id}' was split.", COMPLETING_SPLIT)


def _gone_error(message: str, substatus: int) -> MayflyError:
    return MayflyError(message, status=410, code_text="Gone", substatus=substatus)
