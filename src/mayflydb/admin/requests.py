"""Bodies and queries of the admin API. An unknown member is an error, so that no misspelt option is ignored in silence."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from mayflydb.engine.clock_mover import SweepMode
from mayflydb.engine.proposals import Change
from mayflydb.model.durations import LONGEST, parse_instant, parse_span
from mayflydb.model.errors import BadRequest
from mayflydb.model.hints import Hint
from mayflydb.model.instant import SECOND, Instant, Span

MAX_TTL = 2_147_483_647
"""Seconds: the largest signed number of 32 bits, as Cosmos DB and MongoDB limit it."""


Everything = Annotated[str | None, Meta(description="A container or a database; without it everything.")]
Container = Annotated[str, Meta(description="A container.")]


class NoMembers(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """No members."""


class Advance(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One of `seconds`, `by` (a duration) and `to`."""

    seconds: Annotated[
        Decimal | None,
        Meta(
            description="A number of seconds, with up to six decimals.",
            extra_json_schema={"type": ["number", "string"]},
        ),
    ] = None
    by: Annotated[str | None, Meta(description="A duration.")] = None
    to: Annotated[
        Literal["next-expiry"] | None, Meta(description="`next-expiry`: to the next deadline, if there is one.")
    ] = None
    sweep: Annotated[
        SweepMode,
        Meta(
            description="`scheduled`: purge as the schedule of each container says; `now`: purge all that is due at the end; "
            "`none`: purge nothing."
        ),
    ] = "scheduled"

    def span(self) -> Span | None:
        """The span to advance by; None: to the next expiry."""
        if sum(member is not None for member in (self.seconds, self.by, self.to)) != 1:
            raise BadRequest("one of seconds, by and to is needed", hint='{"seconds": 60} or {"by": "1h30m"}')
        if self.to is not None:
            return None
        if self.by is not None:
            return parse_duration(self.by)
        span = (self.seconds or Decimal()) * SECOND
        if not 0 <= span <= LONGEST or span != int(span):
            raise BadRequest(f"{self.seconds} is not a number of seconds from 0 on, to the microsecond")
        return int(span)


class SetClock(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The instant to move to: RFC 3339, or Unix seconds."""

    to: Annotated[str | int, Meta(description="An instant from 1970 to 9999.")]
    force: Annotated[bool, Meta(description="True: the clock may be set back.")] = False

    def instant(self) -> Instant:
        return parse_moment(str(self.to))


class Purge(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything, or one target."""

    target: Everything = None


class Reset(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything, or one target."""

    target: Everything = None
    keep_clock: Annotated[bool, Meta(description="True: the clock stays where it is.")] = False


class Preview(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A change of TTL settings, in one of three forms.

    Cosmos DB, MongoDB's index on `_ts`: `default_ttl`, null for off, -1 for on without a default, or seconds.
    MongoDB: `expire_after_seconds` of the TTL index that `index` or `field` names; null drops the index.
    YDB: `expire_after_seconds` of the table's TTL `column`; null turns TTL off.
    """

    target: Container
    default_ttl: Annotated[
        int | msgspec.UnsetType | None,
        Meta(description="Cosmos DB, and MongoDB's index on `_ts`: seconds; -1: on without a default; null: off."),
    ] = msgspec.UNSET
    index: Annotated[str | None, Meta(description="MongoDB: the name of a TTL index.")] = None
    field: Annotated[str | None, Meta(description="MongoDB: the field of a TTL index. YDB: the same as `column`.")] = (
        None
    )
    expire_after_seconds: Annotated[
        int | msgspec.UnsetType | None,
        Meta(description="Of the index or column; null: drops the index, or turns the table's TTL off."),
    ] = msgspec.UNSET
    column: Annotated[str | None, Meta(description="YDB: the TTL column.")] = None
    unit: Annotated[
        Literal["seconds", "milliseconds", "microseconds", "nanoseconds"] | None,
        Meta(description="YDB: `seconds`, `milliseconds`, `microseconds` or `nanoseconds`, for a column of numbers."),
    ] = None
    run_interval_seconds: Annotated[int | None, Meta(description="YDB: the interval of removal runs; 0: as usual.")] = (
        None
    )

    def default(self) -> int | None:
        if self.default_ttl is msgspec.UNSET:
            raise BadRequest("default_ttl is needed", hint=f"null, -1, or 1 to {MAX_TTL}")
        if self.default_ttl is not None and self.default_ttl != -1 and not 1 <= self.default_ttl <= MAX_TTL:
            raise BadRequest(f"{self.default_ttl} is no default_ttl", hint=f"null, -1, or 1 to {MAX_TTL}")
        return self.default_ttl

    def change(self) -> Change:
        """Return the change. BadRequest for members that do not belong together."""
        if self.target.startswith("ydb:"):
            return self._table_change()
        if self.column is not None or self.unit is not None or self.run_interval_seconds is not None:
            raise BadRequest("column, unit and run_interval_seconds are of YDB's tables")
        if self.index is None and self.field is None:
            if self.expire_after_seconds is not msgspec.UNSET:
                raise BadRequest("expire_after_seconds is of an index", hint="name it: index or field")
            return Change(self.default())
        seconds = self.expire_after_seconds
        if self.default_ttl is not msgspec.UNSET or seconds is msgspec.UNSET or None not in (self.index, self.field):
            raise BadRequest("an index takes expire_after_seconds, and one of index and field")
        if seconds is not None and not -1 <= seconds <= MAX_TTL:
            raise BadRequest(f"{seconds} is no expire_after_seconds", hint=f"null, or 0 to {MAX_TTL}; -1 for _ts alone")
        return Change(seconds, self.index, self.field)

    def _table_change(self) -> Change:
        seconds = self.expire_after_seconds
        if self.default_ttl is not msgspec.UNSET or seconds is msgspec.UNSET:
            raise BadRequest(
                "a table takes expire_after_seconds, and column",
                hint="expire_after_seconds null: off; a topic takes expire_after_seconds alone",
            )
        # YDB's protocol has both numbers as uint32.
        if seconds is not None and not 0 <= seconds < 1 << 32:
            raise BadRequest(f"{seconds} is no expire_after_seconds", hint=f"null, or 0 to {(1 << 32) - 1}")
        interval = self.run_interval_seconds
        if interval is not None and not 0 <= interval < 1 << 32:
            raise BadRequest(f"{interval} is no run_interval_seconds", hint=f"0 to {(1 << 32) - 1}; 0: as usual")
        unit = None if self.unit is None else self.unit.upper()
        return Change(seconds, self.index, self.column or self.field, unit, interval)


class SetTtl(Preview, frozen=True, forbid_unknown_fields=True):
    """The members of a preview, for a change that is made."""


class Pause(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything, or one target."""

    target: Everything = None


class Resume(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything, or one target; after a notice (a duration), or at once."""

    target: Everything = None
    notice: Annotated[str | None, Meta(description="A duration during which no record expires.")] = None
    dry_run: Annotated[bool, Meta(description="True: report, and resume nothing.")] = False

    def span(self) -> Span | None:
        return None if self.notice is None else parse_duration(self.notice)


class Listing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All containers, or those of one target."""

    target: Everything = None


class Forecast(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The span, the number of steps, and the target."""

    horizon: Annotated[str, Meta(description="A duration.")] = "1h"
    buckets: Annotated[int, Meta(description="1 to 1000.")] = 60
    target: Everything = None

    def span(self) -> Span:
        span = parse_duration(self.horizon)
        if not 1 <= self.buckets <= 1000 or span < self.buckets:
            raise BadRequest(f"{self.horizon} in {self.buckets} buckets", hint=Hint("buckets"))
        return span


class RecordName(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One record. `pk` is JSON or plain text."""

    target: Container
    id: Annotated[str, Meta(description="The record's id; for YDB the key, several columns as a JSON list.")]
    pk: Annotated[str | None, Meta(description="Cosmos DB: the partition key, as JSON or plain text.")] = None


class ErasurePage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Lines of the erasure log."""

    after: Annotated[int, Meta(description="The place after which to begin: `last` of the page before.")] = 0

    def checked_after(self) -> int:
        if not 0 <= self.after < 1 << 63:
            raise BadRequest(f"after={self.after}", hint="0, or the `last` of the page before")
        return self.after


class DueList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Records by deadline: after `from` (None: from the first on) and up to `to`."""

    target: Everything = None
    since: Annotated[str | None, Meta(description="Deadlines after this instant; without it from the first on.")] = (
        msgspec.field(default=None, name="from")
    )
    to: Annotated[str | None, Meta(description="Deadlines up to this instant.")] = None
    limit: Annotated[int, Meta(description="1 to 1000 records.")] = 100

    def checked_limit(self) -> int:
        if not 1 <= self.limit <= 1000:
            raise BadRequest(f"a limit of {self.limit}", hint="1 to 1000")
        return self.limit


class ExpiryList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Expiry events above the number `after`."""

    after: Annotated[int, Meta(description="The number after which to begin: `last` of the page before.")] = 0
    limit: Annotated[
        int, Meta(description="1 to 1000 events are read; with `target` fewer of them may be listed, or none.")
    ] = 1000
    target: Annotated[
        str | None,
        Meta(
            description="A container or a database: events of others are read and left out, as are those of dropped containers."
        ),
    ] = None

    def checked_after(self) -> int:
        if self.after < 0:
            raise BadRequest(f"after={self.after}", hint="0, or the `last` of the page before")
        return self.after

    def checked_limit(self) -> int:
        if not 1 <= self.limit <= 1000:
            raise BadRequest(f"a limit of {self.limit}", hint="1 to 1000")
        return self.limit


Mode = Annotated[
    Literal["insert", "upsert"],
    Meta(description="`insert`: a record that is there is a failure; `upsert`: it is replaced."),
]
Rest = Annotated[bool, Meta(description="True: the records behind a failure are written, too.")]
RestOfLife = Annotated[
    bool,
    Meta(
        description="True: an item of Cosmos DB gets the rest of its life as its own `ttl`, counted from its `_ts`; one whose"
        " life has ended is left out."
    ),
]


class ImportRecords(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Records for one container, collection or table."""

    target: Container
    records: Annotated[
        list[Annotated[msgspec.Raw, Meta(extra_json_schema={"type": "object"})]],
        Meta(
            description="Items, documents as extended JSON, or rows by column. What Cosmos DB adds to items is left out."
        ),
    ]
    mode: Mode = "insert"
    continue_on_error: Rest = False
    keep_life: RestOfLife = False


class ImportFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The members of an import beside its records, which are a file."""

    target: Container
    mode: Mode = "insert"
    continue_on_error: Rest = False
    keep_life: RestOfLife = False


class ExportPage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A page of the records of one container."""

    target: Container
    after: Annotated[str | None, Meta(description="The `after` of the page before; without it the first page.")] = None
    limit: Annotated[int, Meta(description="1 to 1000 records.")] = 500
    as_of: Annotated[
        str | None, Meta(description="An instant: the records that were visible then, or will be left then.")
    ] = None

    def parse_as_of(self) -> Instant | None:
        return None if self.as_of is None else parse_moment(self.as_of)

    def checked_limit(self) -> int:
        if not 1 <= self.limit <= 1000:
            raise BadRequest(f"a limit of {self.limit}", hint="1 to 1000")
        return self.limit


class SnapshotName(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One snapshot."""

    name: Annotated[
        str, Meta(description="Letters, digits, and `.`, `_`, `-` behind the first character; at most 64 of them.")
    ]


def parse_duration(text: str) -> Span:
    """Parse a span as people write it. BadRequest for text that is none."""
    try:
        return parse_span(text)
    except ValueError as error:
        raise BadRequest(str(error)) from None


def whole_seconds(text: str) -> int:
    """Parse a duration as people write it, in seconds. BadRequest for text that is none, and for parts of a second."""
    span = parse_duration(text)
    if span % SECOND:
        raise BadRequest(f"{text} is no whole number of seconds")
    return span // SECOND


def parse_moment(text: str) -> Instant:
    """Parse an instant as people write it. BadRequest for text that is none."""
    try:
        return parse_instant(text)
    except ValueError as error:
        raise BadRequest(str(error)) from None


class LoginLinkWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The rights of a browser's session."""

    role: Annotated[
        Literal["admin", "read-only"], Meta(description="`read-only`: the session looks, and changes nothing.")
    ] = "admin"
