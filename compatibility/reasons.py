"""Why tests fail: the table that failures are grouped by. It counts nothing, and what it does not know stays unexplained."""

from __future__ import annotations

import re

import msgspec
from outcomes import Test


class Reason(msgspec.Struct, frozen=True):
    """A failure belongs here if `id` is found in the id of its test and `said` in what the test said, traceback included."""

    title: str
    id: str = ""
    said: str = ""


UNEXPLAINED = "Not explained"
_REFUSED = re.compile(r"([^\":\[\]()]{1,120}?) (?:is|are) not supported by Mayfly")

# The first that fits.
REASONS = [
    Reason(
        "The test's own mock does not fit this version of the SDK; no server is asked",
        said="evaluate_drain_page invoked with",
    ),
    Reason(
        "A file that is not in the source distribution", said=r"FileNotFoundError: .*BaselineTest\.PathParser\.json"
    ),
    Reason(
        "The test expects the account to name 127.0.0.1 when it is asked for as localhost; Mayfly names what it was asked by",
        id=r"swr_mrr|_by_pk_(sm|mm)(_async)?\[|mwr_succeeds",
        said="Injected|assert False|DID NOT RAISE",
    ),
    Reason("Refused by name: Microsoft Entra ID (AAD) tokens", said=r"\(aad\) tokens are not supported by Mayfly"),
    Reason(
        "Fails and passes by turns: it counts what background threads do",
        id="TestHealthCheck::test_health_check_success",
    ),
    Reason(
        "The answer comes before a timeout that no network would keep",
        id="timeout",
        said="not raised|Read timed out|already exists|Resource Not Found",
    ),
    Reason(
        "A continuation token of another container and account, which Mayfly refuses",
        id="with_static_continuation",
        said="is not a token that was issued",
    ),
    Reason("COUNT reads the items it counts, not an index", id="count_is_index_only", said=r"assert \d+ == 0"),
    Reason(
        "Microsoft's wording of an error",
        said=r"assert ['\"](Requested throughput|One of the specified|Ensure to provide|Batch request has no|Partition key pro)",
    ),
]


def why(test: Test) -> str:
    """The heading under which a failed test is listed. A feature that Mayfly refused by name is its own heading."""
    for reason in REASONS:
        if re.search(reason.id, test.id) and re.search(reason.said, test.said):
            return reason.title
    if named := _REFUSED.search(test.said):
        return f"Refused by name: {named[1].strip()}"
    return UNEXPLAINED
