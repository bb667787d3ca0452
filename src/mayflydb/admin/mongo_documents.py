"""Documents of MongoDB as extended JSON."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from mayflydb.model.errors import BadRequest


def from_json(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the document that extended JSON describes. BadRequest for text that describes none."""
    from bson import json_util
    from bson.errors import BSONError

    try:
        found: dict[str, Any] = json_util.loads(msgspec.json.encode(document))
    except (BSONError, ValueError, TypeError) as error:
        raise BadRequest(f"that is no extended JSON: {error}") from error
    return found


def to_json(document: Mapping[str, Any]) -> msgspec.Raw:
    """Return a document as relaxed extended JSON."""
    from bson import json_util

    return msgspec.Raw(json_util.dumps(document, json_options=json_util.RELAXED_JSON_OPTIONS).encode())


def stored_bytes(document: Mapping[str, Any]) -> bytes:
    """Return a document in BSON, `_id` first, as it is stored."""
    import bson

    first = {"_id": document["_id"]}
    return bytes(bson.encode(first | {name: value for name, value in document.items() if name != "_id"}))
