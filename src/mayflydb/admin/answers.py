"""The shapes of the admin API's answers, from which `openapi.json` is made. A test checks that the answers have them.

Operations return plain objects. A member with `UNSET` is left out where it has no meaning; one that may be null is always there.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mayflydb.clock import ClockMode
from mayflydb.engine.catalog import Paused

Time = Annotated[str, Meta(description="RFC 3339 in UTC; `after 9999` for a later instant.")]
Target = Annotated[str, Meta(description="The name of a container or a database.", examples=["cosmos:shop/sessions"])]
State = Annotated[Literal["alive", "hidden", "due"], Meta(description="Due: expired, and visible until it is purged.")]
DefaultTtl = Annotated[int | None, Meta(description="Seconds; -1: on without a default; null: off.")]
Count = Annotated[int, Meta(ge=0)]


class Answer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An object with these members and no others."""


# --- clock ---------------------------------------------------------------------------------------------------------------


class ClockJump(Answer, frozen=True):
    """A jump of the host's clock, of which nothing was decided yet."""

    host: Time
    time: Time
    seconds: float
    reads_follow: bool
    purging_waits_seconds: float | None


class ClockFacts(Answer, frozen=True):
    """The clock as it is now."""

    now: Time
    mode: ClockMode
    frozen: bool
    offset_seconds: int
    jump: ClockJump | None
    next_expiry: Time | None


class WalkCounts(Answer, frozen=True):
    """The records of one target that expired, and that were purged, during a move of the clock."""

    expired: Count
    purged: Count


class Walk(Answer, frozen=True):
    """A move of the clock through every expiry on the way."""

    now: Time
    mode: ClockMode
    frozen: bool
    advanced_seconds: float
    expired: Count
    purged: Count
    exact: Annotated[bool, Meta(description="False: `expired` is an estimate; `purged` is exact.")]
    by_target: dict[str, WalkCounts]
    snapshot: Annotated[str | UnsetType, Meta(description="The snapshot that was saved before the move.")] = UNSET


# --- resources -----------------------------------------------------------------------------------------------------------


class RecordResults(Answer, frozen=True):
    """Numbers of records."""

    created: Count
    changed: Count
    same: Count


class Difference(Answer, frozen=True):
    """A setting that a document declares, and that is left as it is. `there`: null: there is none."""

    target: str
    setting: str
    declared: Any
    there: Any


class ApplyResult(Answer, frozen=True):
    """The effects of a resource document. Records are counted in `created`, `changed` and `same`, too."""

    now: Time
    created: Count
    changed: Count
    same: Count
    resources: dict[str, Literal["created", "changed", "same"]]
    records: dict[str, RecordResults]
    differences: list[Difference]


class ExportedPage(Answer, frozen=True):
    """A page of records. `after`: of the next page; null: there is none."""

    now: Time
    target: Target
    records: list[dict[str, Any]]
    after: str | None


class FailedRecord(Answer, frozen=True):
    """A record that was not written. `number`: its place in the request, from 0. `place`: its line in a file."""

    number: Count
    detail: str
    place: str | UnsetType = UNSET


class ImportResult(Answer, frozen=True):
    """The numbers of records that were written and that were not, and up to 100 failures."""

    now: Time
    target: Target
    created: Count
    replaced: Count
    expired: Annotated[int, Meta(ge=0, description="Records whose life had ended, with `keep_life`.")]
    failed: Count
    failures: list[FailedRecord]


# --- snapshots -----------------------------------------------------------------------------------------------------------


class SnapshotFacts(Answer, frozen=True):
    """A snapshot, and the clock as it was when it was saved."""

    name: str
    saved_at: Time
    mode: ClockMode
    frozen: bool
    bytes: Count
    version: str


class SnapshotList(Answer, frozen=True):
    """All snapshots, by name."""

    now: Time
    snapshots: list[SnapshotFacts]


class SnapshotSaved(SnapshotFacts, frozen=True, kw_only=True):
    """A snapshot that was saved."""

    now: Time


class SnapshotRestored(ClockFacts, frozen=True, kw_only=True):
    """The clock after a restore. `shredded`: records of the snapshot that are left out, since their keys were destroyed."""

    restored: str
    shredded: Count


class SnapshotDeleted(Answer, frozen=True):
    """The name of a snapshot that was deleted."""

    now: Time
    deleted: str


# --- store ---------------------------------------------------------------------------------------------------------------


class RecordCounts(Answer, frozen=True):
    """The records of one container: visible, hidden, due and not yet purged, with a ttl of their own."""

    records: Count
    hidden: Count
    due: Count
    own_ttl: Count
    ignored_ttl: Count
    exact: bool
    next_expiry: Time | None
    purged: Count


class Stats(Answer, frozen=True):
    """Counts of all that is stored."""

    now: Time
    databases: Count
    containers: Count
    records: Count
    exact: bool
    targets: dict[str, RecordCounts]


class PurgeResult(Answer, frozen=True):
    """The records that were purged. `paused`: the targets where purging is paused; `held`: where the guard holds it, or a
    roll-up fails.
    """

    now: Time
    purged: Count
    by_target: dict[str, Count]
    paused: list[Target] | UnsetType = UNSET
    held: list[Target] | UnsetType = UNSET


class ResetResult(Answer, frozen=True):
    """The numbers of what was deleted."""

    now: Time
    databases: Count
    containers: Count
    records: Count


# --- TTL -----------------------------------------------------------------------------------------------------------------


class TtlIndex(Answer, frozen=True):
    """A TTL index of MongoDB, or the TTL column of a table of YDB."""

    name: str
    field: str
    expire_after_seconds: int | float
    counts_from: str
    unit: str | UnsetType = UNSET


class ContainerTtl(Answer, frozen=True):
    """The TTL settings and counts of one container."""

    target: Target
    default_ttl: DefaultTtl
    paused: Paused | None
    held: bool
    records: Count
    hidden: Count
    due: Count
    own_ttl: Count
    ignored_ttl: Count
    exact: bool
    next_expiry: Time | None
    indexes: list[TtlIndex] | UnsetType = UNSET
    next_pass: Time | UnsetType | None = UNSET
    partitions: int | UnsetType = UNSET
    fitting: dict[str, bool] | UnsetType = UNSET
    last_run: Time | UnsetType | None = UNSET
    processed: Count | UnsetType = UNSET
    erased: Count | UnsetType = UNSET
    next_run: Time | UnsetType | None = UNSET


class TtlList(Answer, frozen=True):
    """Containers with their TTL settings."""

    now: Time
    targets: list[ContainerTtl]


class ChangedTtl(ContainerTtl, frozen=True, kw_only=True):
    """A container after a change of its TTL settings."""

    now: Time


class ForecastBucket(Answer, frozen=True, rename={"after": "from"}):
    """The deadlines after `from`, up to `to`."""

    after: Time
    to: Time
    count: Count


class ForecastAnswer(Answer, frozen=True):
    """Deadlines by bucket."""

    now: Time
    bucket_seconds: float
    buckets: list[ForecastBucket]
    due_now: Count
    in_horizon: Count
    later: Count
    never: Count
    exact: bool


class Within(Answer, frozen=True, rename={"hour": "1h", "day": "1d", "week": "7d"}):
    """Records that would expire within these spans."""

    hour: Count
    day: Count
    week: Count


class PreviewAnswer(Answer, frozen=True):
    """The effects of a change of TTL settings, which is not made."""

    now: Time
    current: int | None
    proposed: int | None
    records: Count
    expire_now: Count
    expire_within: Within
    own_ttl: Count
    never: Count
    reappear_now: Count
    exact: bool
    sample: list[str]
    notes: Annotated[
        list[str], Meta(description="What may be a mistake, such as a field in which no record has a date.")
    ]
    index: str | UnsetType = UNSET
    statements: list[str] | UnsetType = UNSET


class DateFacts(Answer, frozen=True):
    """The value that one TTL index or column has in a record. `reason`: why no deadline counts from it."""

    index: str
    date: Time | None
    reason: str | UnsetType = UNSET
    text: str | UnsetType = UNSET


class ExplainedRecord(Answer, frozen=True):
    """The deadline of one record, and the reason for it."""

    now: Time
    target: Target
    id: str
    pk: Any
    state: State
    written: Time
    deadline: Time | None
    purge_from: Time | None
    reason: str
    text: str
    dates: list[DateFacts] | UnsetType = UNSET
    own_ttl: Any = UNSET
    ignored_ttl: str | UnsetType | None = UNSET


class DueRecord(Answer, frozen=True):
    """One record of a list by deadline."""

    target: Target
    id: str
    pk: Any
    deadline: Time
    state: State
    reason: str
    text: str


class DueRecords(Answer, frozen=True):
    """Records by deadline."""

    now: Time
    records: list[DueRecord]
    complete: bool


class ExpiredRecord(Answer, frozen=True):
    """A record that age removed."""

    seq: int
    target: Target
    id: str
    pk: Any
    due: Time
    purged_at: Time
    reason: str


class ExpiredRecords(Answer, frozen=True):
    """Expiry events. `last`: the number of the last one that was read."""

    now: Time
    events: list[ExpiredRecord]
    last: int


class PausedContainer(Answer, frozen=True):
    """A container where purging, or all expiry, is paused. `due`: the records that wait."""

    target: Target
    paused: Paused
    due: Count
    exact: bool


class PauseResult(Answer, frozen=True):
    """The containers that are paused now."""

    now: Time
    targets: list[PausedContainer]


class ResumedContainer(Answer, frozen=True):
    """The effects of a resumption in one container."""

    target: Target
    paused: Paused
    records: Count
    expire_now: Count
    purge_now: Count
    reappear_now: Count


class ResumeResult(Answer, frozen=True):
    """The containers that were paused. `not_before`: the end of the notice."""

    now: Time
    not_before: Time | None
    targets: list[ResumedContainer]


# --- server --------------------------------------------------------------------------------------------------------------


class Live(Answer, frozen=True):
    """The process runs."""

    live: bool


class ProtocolStates(Answer, frozen=True):
    """ok, off, or a sentence about progress or failure."""

    cosmos: str
    mongo: str
    ydb: str


class Ready(Answer, frozen=True):
    """The state of each part of the server: ok, off, or a sentence about progress or failure."""

    ready: bool
    protocols: ProtocolStates
    store: str
    disk: str
    seed: str
    clock: str


class Ports(Answer, frozen=True):
    """The ports that are served. The last four are the alias ports of `--drop-in`."""

    http: int
    mongo: int | UnsetType = UNSET
    ydb: int | UnsetType = UNSET
    ydb_tls: int | UnsetType = UNSET
    mongo_alias: int | UnsetType = UNSET
    explorer: int | UnsetType = UNSET
    health: int | UnsetType = UNSET
    monitoring: int | UnsetType = UNSET


class CosmosAccess(Answer, frozen=True):
    """Cosmos DB's address and key; `key_file` names the file of a key that is no public one."""

    endpoint: str
    key: str | None
    connection_string: str | None
    key_file: str | None


class MongoAccess(Answer, frozen=True):
    """MongoDB's address."""

    uri: str
    password_file: str | None


class YdbAccess(Answer, frozen=True):
    """YDB's addresses. `tls_endpoint` may be the only one, and is `endpoint` then."""

    endpoint: str
    tls_endpoint: str | None
    database: str
    connection_string: str
    tls_connection_string: str | None
    password_file: str | None


class Info(Answer, frozen=True):
    """Version and addresses."""

    version: str
    python: str
    pid: int
    storage: str
    clock: ClockMode
    allow_time_travel: bool
    access_log: str
    ports: Ports
    cosmos: CosmosAccess
    mongo: MongoAccess | None
    ydb: YdbAccess | None
    portal: str
    admin: str
    metrics: str


class LoginLink(Answer, frozen=True):
    """A link that logs a browser in, below the address of the server."""

    path: str
    role: Literal["admin", "read-only"]
    valid_seconds: int


class Problem(msgspec.Struct, frozen=True):
    """A problem document (RFC 9457). `hint`: the next thing to try; others word it by `hint_key` and `hint_values`."""

    type: str
    title: str
    status: int
    detail: str
    hint: str | UnsetType = UNSET
    hint_key: str | UnsetType = UNSET
    hint_values: dict[str, str] | UnsetType = UNSET
