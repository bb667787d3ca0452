"""Operations and results of a batch, in whichever form they are sent."""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from mayflydb.model.errors import BadRequest

MAX_OPERATIONS: Final = 100


class BatchOperation(msgspec.Struct, rename="camel"):
    """One operation as clients send it. `resource_body` stays as it was sent, so that an item is stored so."""

    operation_type: str
    id: str | None = None
    if_match: str | None = None
    if_none_match: str | None = None
    partition_key: Any = None
    resource_body: msgspec.Raw = msgspec.Raw(b"")
    minimal_return_preference: bool | None = None
    effective_partition_key: bytes | None = None
    binary_id: bytes | None = None
    indexing_directive: str | None = None
    time_to_live_in_seconds: int | None = None


class OperationResult(msgspec.Struct, rename="camel"):
    """The result of one operation. `message`: why it failed."""

    status_code: int
    request_charge: float
    e_tag: str | UnsetType = UNSET
    resource_body: msgspec.Raw | UnsetType = UNSET
    message: str | UnsetType = UNSET
    sub_status_code: int | UnsetType = UNSET
    retry_after_milliseconds: int | UnsetType = UNSET


def check_count(count: int) -> None:
    """Raise BadRequest for a batch of so many operations, unless it may have them."""
    if not count:
        raise BadRequest("Batch request has no operations.")
    if count > MAX_OPERATIONS:
        raise BadRequest(
            f"Batch request has more operations than what is supported. At most {MAX_OPERATIONS} are allowed."
        )
