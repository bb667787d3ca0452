"""One operation of the admin API, as the tables of operations describe it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

import msgspec

Handler: TypeAlias = Callable[[Any], Awaitable[dict[str, Any]]]

CONTAINER: Final = "cosmos:shop/sessions"
"""The container of examples."""


class Operation(msgspec.Struct, frozen=True):
    """One path below `/_mayfly`: its parameters, its answer, and the function that answers. Parameters are in the path where it
    has a place for them, else in the body of POST, and in the query of other methods.

    `uploads`: with a body of bytes the operation takes these. `file`: the query beside a body that is a file of records.

    `summary`, `example`, parameters that it takes, and `answer`, or each of several, are for the description in `openapi.json`.
    """

    method: str
    path: str
    summary: str
    parameters: type[msgspec.Struct]
    answer: type[msgspec.Struct] | tuple[type[msgspec.Struct], ...]
    handler: Handler
    example: Mapping[str, Any] = {}
    uploads: bool = False
    file: type[msgspec.Struct] | None = None
