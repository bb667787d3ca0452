"""Parameters of the admin API's operations from Python's values, and values from its answers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import msgspec

from mayflydb.model.durations import parse_instant, parse_span
from mayflydb.model.instant import Instant, from_datetime, to_datetime, to_rfc3339

Sweep = Literal["scheduled", "now", "none"]
Source = str | Path | Mapping[str, Any]
"""A resource document, its file, or a folder of such files."""

NOT_GIVEN = msgspec.UNSET
"""The default of a parameter for which None has a meaning."""

_MICROSECOND = timedelta(microseconds=1)


class Expired(msgspec.Struct, frozen=True):
    """One record that age removed. `due`: its deadline; `purged_at`: the instant of its purge.

    `reason`: `default` (the container's), `item` (its own ttl), `index` (a date index) or `column` (a TTL column of a table).

    `id`: a document's id that is no string is extended JSON, and an ObjectId is its 24 digits. `pk`: the value of the partition
    key; a list for a hierarchical key, `{}` where the item has no such property, None for documents of MongoDB.
    """

    target: str
    id: str
    pk: Any
    due: datetime
    purged_at: datetime
    reason: str


def advance(by: timedelta | str | None, parts: Mapping[str, float], sweep: Sweep) -> dict[str, Any]:
    """Return the parameters of `clock/advance`. `parts`: keywords of timedelta. ValueError for a negative span."""
    span = parse_span(by) if isinstance(by, str) else ((by or timedelta()) + timedelta(**parts)) // _MICROSECOND
    if span < 0:
        raise ValueError("the clock does not go back; use set")
    return {"by": f"{span}us", "sweep": sweep}


def set_clock(to: datetime | str, force: bool) -> dict[str, Any]:
    """Return the parameters of `clock/set`. ValueError as in `instant_of`."""
    return {"to": to_rfc3339(instant_of(to)), "force": force}


def change(target: str, default_ttl: int | msgspec.UnsetType | None, others: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of `ttl/preview` and `ttl/set`."""
    given = {} if default_ttl is NOT_GIVEN else {"default_ttl": default_ttl}
    return {"target": target, **given, **others}


def record(target: str, id: str, pk: Any) -> dict[str, Any]:
    """Return the parameters of `ttl/explain`. A partition key is sent as JSON, so that a text stays a text."""
    given = {} if pk is NOT_GIVEN else {"pk": msgspec.json.encode(pk).decode()}
    return {"target": target, "id": id, **given}


def instant_of(moment: datetime | str) -> Instant:
    """Convert an aware datetime, RFC 3339 text or Unix seconds to an instant; ValueError for anything else."""
    return parse_instant(moment) if isinstance(moment, str) else from_datetime(moment)


def moment_of(text: str | None) -> datetime | None:
    """Convert an instant of an answer to an aware datetime in UTC."""
    return None if text is None else to_datetime(parse_instant(text))


def expired_of(row: Mapping[str, Any]) -> Expired:
    """Convert an event of `events/expired`."""
    due, purged = (to_datetime(parse_instant(row[name])) for name in ("due", "purged_at"))
    return Expired(row["target"], row["id"], row["pk"], due, purged, row["reason"])


def pieces_of(sources: tuple[Source, ...]) -> Iterator[dict[str, Any]]:
    """Yield the parameters of each `apply` that these sources need. BadRequest, OSError."""
    from mayflydb.admin import resource_files, resources

    for source in sources:
        if isinstance(source, Mapping):
            documents = [resources.convert(source)]
        else:
            documents = [resource_files.read(path) for path in resource_files.find([Path(source)])]
        for document in documents:
            for piece in resources.pieces(document):
                yield msgspec.to_builtins(piece)


def plain(records: list[Any]) -> list[dict[str, Any]]:
    """Return records of an answer as plain values. In the process of the server they may have parts that are encoded already."""
    found: list[dict[str, Any]] = msgspec.json.decode(msgspec.json.encode(records))
    return found
