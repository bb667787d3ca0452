"""The admin API's operations on legal holds."""

from __future__ import annotations

from typing import Any, Final

from mayflydb.admin import hold_answers as ha
from mayflydb.admin import hold_requests as hr
from mayflydb.admin.holds import HoldControl
from mayflydb.admin.operation import CONTAINER, Operation

_NAME: Final = {"name": "case-7"}
_WORDS: Final = {"why": "Order of the court", "by": "Ada"}
_ADDED: Final[dict[str, Any]] = {
    "target": CONTAINER, **_NAME, "where": 'c.userId = "u1"', **_WORDS, "matter": "7/2030"
}  # fmt: skip


def hold_operations(holds: HoldControl) -> tuple[Operation, ...]:
    """Return the table of operations on holds."""
    return (*_additions(holds), *_reads(holds), *_releases(holds))


def _additions(holds: HoldControl) -> tuple[Operation, ...]:
    return (
        Operation(
            "GET",
            "holds",
            "Lists legal holds.",
            hr.HoldListing,
            ha.HoldList,
            lambda query: holds.list_all(query.target),
            {"target": CONTAINER},
        ),
        Operation(
            "POST",
            "holds",
            "Adds a legal hold: from now on, records that match are preserved when they leave their container.",
            hr.AddHold,
            ha.AddedHold,
            holds.add,
            _ADDED,
        ),
        Operation(
            "GET",
            "hold-record",
            "Reads a page of the record of additions and releases, which nothing removes.",
            hr.HoldRecordPage,
            ha.HoldRecord,
            holds.read_record,
            {"after": 0},
        ),
    )


def _reads(holds: HoldControl) -> tuple[Operation, ...]:
    return (
        Operation(
            "GET",
            "holds/{name}",
            "Shows a hold, and how much it preserves.",
            hr.HoldName,
            ha.ShownHold,
            lambda path: holds.show(path.name),
            _NAME,
        ),
        Operation(
            "GET",
            "holds/{name}/records",
            "Reads a page of what a hold preserves.",
            hr.PreservedPage,
            ha.PreservedRecords,
            holds.page,
            {**_NAME, "after": 0},
        ),
    )


def _releases(holds: HoldControl) -> tuple[Operation, ...]:
    return (
        Operation(
            "POST",
            "hold-release",
            "Releases a hold: what no other hold preserves is removed, and expiries get their events.",
            hr.ReleaseHold,
            ha.HoldRelease,
            holds.release,
            {**_NAME, **_WORDS},
        ),
        Operation(
            "GET",
            "hold-release",
            "Tells how far a release is.",
            hr.HoldName,
            ha.HoldRelease,
            lambda query: holds.show_release(query.name),
            _NAME,
        ),
    )
