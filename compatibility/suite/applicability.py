"""Which tests of the suite need something that no server on one machine has."""

from __future__ import annotations

import re
from collections.abc import Set

# How the reason of such a skip begins, so that the report can tell it from the suite's own skips.
NOT_APPLICABLE = "not applicable: "

EMULATOR = "cosmosEmulator"
REGIONS = "several regions of a live account"
BY_MARK = {
    "cosmosMultiRegion": REGIONS,
    "cosmosCircuitBreakerMultiRegion": REGIONS,
    "cosmosPerPartitionAutomaticFailover": REGIONS,
    "cosmosGSI": "an account that was set up for global secondary indexes",
    "semanticReranker": "the semantic reranking service",
}
BY_NAME = {
    r"^test_per_partition_circuit_breaker_mm": REGIONS,
    r"^test_pk_range_child_update_live": "splits that last, so that ranges are seen in the middle of one",
}


def why_not(test: str, marks: Set[str]) -> str | None:
    """What this test needs and cannot have here. The suite's own mark for emulators goes before its marks for accounts."""
    for pattern, reason in BY_NAME.items():
        if re.search(pattern, test):
            return reason
    if EMULATOR in marks:
        return None
    return next((reason for mark, reason in BY_MARK.items() if mark in marks), None)
