"""A page of records, each with its deadline: its lines, its columns, and the addresses by which a person pages and sorts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request

from mayflydb.admin import formats
from mayflydb.admin.reports import reason_and_text
from mayflydb.admin.targets import ContainerTarget
from mayflydb.expiry.explain import explain
from mayflydb.expiry.rules import Rule
from mayflydb.model.errors import BadRequest
from mayflydb.model.instant import Instant
from mayflydb.model.order import Position
from mayflydb.model.record import Record
from mayflydb.portal import words
from mayflydb.portal.forms import parse_whole_number

PAGE = 100
"""Lines of one page of the grid."""

NO_LIFE: Final[Mapping[str, Any]] = {"expires_in": "", "deadline": None, "text": ""}
"""The part of a line about its life, for a record that is not stored."""

MAX_TRAIL: Final = 6000
"""Characters of an address that say where the pages before began. The way back over more pages is by the first."""


class GridColumn(msgspec.Struct, frozen=True):
    """A column. `order`: how the rows are sorted by it now; `address`: the page sorted by it, empty if it cannot be."""

    label: str
    address: str = ""
    order: Literal["", "ascending", "descending"] = ""


class GridRow(msgspec.Struct, frozen=True):
    """A record. `pick`: the value that names it in a form; `address`: its page. The first of `cells` links there.

    `expires_in`, `deadline` and `text` as in `grid_row`. `fault`: the reason why its own ttl is ignored.
    """

    pick: str
    address: str
    cells: Sequence[str]
    expires_in: str
    deadline: str | None
    text: str
    fault: str = ""


class GridActions(msgspec.Struct, frozen=True):
    """The form around the rows. `actions`: (value, label) of its buttons, which get the picked rows as `pick`."""

    address: str
    actions: Sequence[tuple[str, str]] = (("delete", "Delete"),)


class GridFilter(msgspec.Struct, frozen=True):
    """The box above the rows. `before`: text in front of it, such as SELECT * FROM c."""

    value: str
    label: str
    placeholder: str = ""
    before: str = ""
    problem: str = ""


class GridView(msgspec.Struct, frozen=True):
    """A page of the grid as its template shows it.

    `address`: the page without query; `hook`: the tab's name in data-test; `nouns`: of the records, such as items. `kept`: the
    parameters of the address that a form of the grid keeps. `all_columns`: (name, chosen) of what the person can choose from.
    """

    address: str
    hook: str
    nouns: str
    caption: str
    columns: Sequence[GridColumn]
    rows: Sequence[GridRow]
    paging: Paging
    actions: GridActions | None = None
    filter: GridFilter | None = None
    kept: Mapping[str, str] = msgspec.field(default_factory=dict)
    all_columns: Sequence[tuple[str, bool]] = ()


class Paging(msgspec.Struct, frozen=True):
    """The place of a page. `page`: its number from 1; addresses are empty where there is no such page."""

    page: int = 1
    first: str = ""
    back: str = ""
    forward: str = ""


class Trail(msgspec.Struct, frozen=True):
    """The beginnings of pages up to this one, as an address has them: `at` repeated, and the number of the page."""

    beginnings: Sequence[str] = ()
    page: int = 1

    @staticmethod
    def of(request: Request) -> Trail:
        """Read an address."""
        beginnings = request.query_params.getlist("at")
        page = parse_whole_number(request.query_params.get("page", "1"))
        return Trail(beginnings, max(page, len(beginnings) + 1))

    @property
    def here(self) -> str | None:
        """The beginning of this page; None: the first."""
        return self.beginnings[-1] if self.beginnings else None

    def paging(self, address: str, kept: Mapping[str, str], following: str | None) -> Paging:
        """Return the addresses of the pages around. `following`: the beginning of the next page; None: this is the last."""

        def place(beginnings: Sequence[str], page: int) -> str:
            pairs = [*kept.items(), *(("at", each) for each in beginnings)]
            if page > 1:
                pairs.append(("page", str(page)))
            return f"{address}?{urlencode(pairs, errors='replace')}" if pairs else address

        back = forward = ""
        if following is not None:
            ahead = [*self.beginnings, following]
            while len(ahead) > 1 and sum(map(len, ahead)) > MAX_TRAIL:
                del ahead[0]
            forward = place(ahead, self.page + 1)
        # Without the beginning of the page before, the way back is over the first page.
        if self.page == 2 or len(self.beginnings) > 1:
            back = place(self.beginnings[:-1], self.page - 1)
        return Paging(self.page, place((), 1) if self.page > 1 else "", back, forward)


def grid_row(container: ContainerTarget, record: Record, rules: Sequence[Rule], now: Instant) -> dict[str, Any]:
    """Build a line of the grid."""
    id, pk = container.front_end.decode_identity(container.node, record.partition, record.key)
    why = explain(record, rules, now, container.front_end.index_names(container.node), container.front_end.causes)
    reason: str = why.reason
    text = why.text
    if reason == "no-anchor":
        # Only the front end reads the record's fields.
        details = container.front_end.describe_record(container.database, container.node, record)
        reason, text = reason_and_text(why, details)
    return {
        "id": id,
        "pk": msgspec.json.encode(pk).decode("utf-8", "replace"),
        "expires_in": _remaining_time(why.deadline, reason, now),
        "deadline": formats.time_or_none(why.deadline),
        "text": text,
    }


def describe_life(container: ContainerTarget, record: Record | None, at: Instant) -> dict[str, Any]:
    """Return `expires_in`, `deadline` and `text` of a line as of an instant: NO_LIFE if the stored record is not that of then."""
    if record is None or record.written > at:
        return dict(NO_LIFE)
    found = grid_row(container, record, container.node.rules, at)
    return {name: found[name] for name in NO_LIFE}


def parse_position(after: str) -> Position:
    """Parse the `after` of an address: the sequence number of the last record of the page before."""
    if not (after.isascii() and after.isdigit() and len(after) < 19):
        raise BadRequest("after is not where a page ends")
    return Position(b"", int(after))


def _remaining_time(deadline: Instant | None, reason: str, now: Instant) -> str:
    if deadline is None:
        return "TTL off" if reason == "off" else "never"
    return words.short_span(deadline - now) if deadline > now else words.DUE
