"""What Mayfly refuses by name, so that a test that fails for it is counted apart."""

from __future__ import annotations

import re
from collections.abc import Iterable

_FEATURES = {
    "geospatial queries and indexes": r"geospatial|Index type '(2d|2dsphere|geoHaystack)' is not supported",
    "collations of languages": r"Field 'locale' is invalid or not supported|Collation option '.{1,80} is not supported",
    "search indexes, a part of Atlas": r"a part of Atlas",
    "encrypted fields": r"collections with 'encryptedFields' are not supported|encrypt\w+ (is|are) not supported",
}
"""What the server says of a feature that it refuses."""


def refused(messages: Iterable[str]) -> str | None:
    """The feature that one of the messages refuses, None if none does."""
    said = "\n".join(messages)
    return next((name for name, pattern in _FEATURES.items() if re.search(pattern, said)), None)
