"""The version that every answer of direct mode names, refusals included: clients compare it between replicas.

Answers about items have it already. An answer without one is repeated at the other replicas until the client gives up.
"""

from __future__ import annotations

from mayflydb.engine.engine import Engine
from mayflydb.frontends.cosmos.calls import NameResolver
from mayflydb.frontends.cosmos.headers import LSN
from mayflydb.frontends.cosmos.paths import parse
from mayflydb.frontends.cosmos.wire import Headers, Response
from mayflydb.http.messages import Request
from mayflydb.model.errors import MayflyError


def has_version(headers: Headers) -> bool:
    """Return True if an answer names the version already."""
    for name, _ in headers:  # noqa: SIM110 -- `any` with a generator takes three times as long.
        if name == LSN:
            return True
    return False


async def missing_headers(http: Request, response: Response, engine: Engine, resolver: NameResolver) -> Headers:
    """Return the headers with the version that the container has reached, or the account, for an answer without one."""
    # A client without a key learns nothing of a container.
    if response.status not in (401, 403):
        try:
            target = parse(http.path)
            if target.database is not None and target.container is not None:
                view = await resolver.get_container(target.database, target.container)
                return view.item_headers(None, await engine.lsn(view.id))
        except MayflyError:
            # There is no such container, or the store cannot be read: the answer says which.
            pass
    # Versions of the catalogue begin at 0, which clients take for an unknown one.
    return [(LSN, b"%d" % (engine.catalog_version + 1))]
