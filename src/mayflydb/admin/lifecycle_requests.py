"""The parameters of the admin API's operations on lifecycles: settings, undeletes, webhooks, archives, confirmations."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from mayflydb.admin.archive_names import Format
from mayflydb.admin.requests import Container, Everything, whole_seconds
from mayflydb.admin.roll_ups import RollUpSpec
from mayflydb.expiry.guard import GuardLimits
from mayflydb.expiry.lifecycle import Shred
from mayflydb.expiry.rules import Cause, EventCause
from mayflydb.model.errors import BadRequest


class CascadeTo(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The records of a container that leave with another record: they have its id at a path."""

    to: Container
    path: Annotated[str, Meta(description="The property, field or column that has the id: `/sessionId`, `session`.")]


class SetLifecycle(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Lifecycle settings of one container. A member that is absent stays as it is."""

    target: Container
    guard: Annotated[
        GuardLimits | Literal["off"] | UnsetType | None,
        Meta(
            description="`records` and `percent`: unexpected expiries beyond both wait for confirmation; `off`: no guard; null:"
            " the server's limits."
        ),
    ] = UNSET
    grace: Annotated[
        str | UnsetType,
        Meta(
            description="The time for which expired records are kept, hidden; `undelete` brings them back. Whole seconds; `0s`:"
            " none."
        ),
    ] = UNSET

    touch: Annotated[
        str | UnsetType,
        Meta(
            description="A read by key or index gives a record a new life, at most once in this time; `0s`: only writes do."
        ),
    ] = UNSET

    last_image: Annotated[
        str | UnsetType,
        Meta(
            description="The time for which the last version of an expired record is kept for readers of its event; `0s`: none."
        ),
    ] = UNSET

    history: Annotated[
        str | UnsetType,
        Meta(
            description="The time for which every version is kept after it has ended, so that the container can be read as of"
            " an earlier instant; `0s`: none."
        ),
    ] = UNSET

    archive: Annotated[
        str | UnsetType | None,
        Meta(description="The name of the archive that gets records when they expire; null: they are not archived."),
    ] = UNSET

    roll_up: Annotated[
        RollUpSpec | Literal["off"] | UnsetType,
        Meta(
            description="Expired records are aggregated into the container `into`, in groups, by the transaction that purges"
            " them; `off`: they are not."
        ),
    ] = UNSET

    shred: Annotated[
        Shred | UnsetType,
        Meta(
            description="Seal the values of its records with a key for each `day` of writes, or one for the `container`, which is"
            " destroyed when none of them is stored any more; `off`: write them as they are."
        ),
    ] = UNSET

    cascade: Annotated[
        tuple[CascadeTo, ...] | UnsetType,
        Meta(
            description="The records of other containers that leave with a record: they have its id at a path. They replace those"
            " that were named before; an empty list: none leave."
        ),
    ] = UNSET

    def settings(self) -> dict[str, object]:
        """The values of the fields of `Lifecycle` but `roll_up` and `cascade`; UNSET: as it is."""
        spans = {"grace": self.grace, "touch": self.touch, "last_image": self.last_image, "history": self.history}
        return {
            "guard": self.guard,
            "archive": self.archive,
            "shred": self.shred,
            **{name: UNSET if given is UNSET else whole_seconds(given) for name, given in spans.items()},
        }

    def __post_init__(self) -> None:
        if isinstance(self.guard, GuardLimits) and not (self.guard.records >= 1 and 0 <= self.guard.percent <= 100):
            raise ValueError("a guard has at least 1 record, and 0 to 100 percent")


class Undelete(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The expired records of a container that come back: one, or all with deadlines after `from` and up to `to`."""

    target: Container
    id: Annotated[
        str | None, Meta(description="Only this record; for YDB the key, several columns as a JSON list.")
    ] = None
    pk: Annotated[
        str | None, Meta(description="Cosmos DB: the partition key of the record, as JSON or plain text.")
    ] = None
    causes: Annotated[
        tuple[Cause, ...], Meta(description="Only records that expired by these causes; empty: by any.")
    ] = ()
    since: Annotated[str | None, Meta(description="Deadlines after this instant; without it from the first on.")] = (
        msgspec.field(default=None, name="from")
    )
    to: Annotated[str | None, Meta(description="Deadlines up to this instant.")] = None
    life: Annotated[
        str | None,
        Meta(
            description="The time that records which expire by a date have from now on; without it the span of their TTL."
        ),
    ] = None

    def __post_init__(self) -> None:
        if self.id is not None and (self.causes or self.since is not None or self.to is not None):
            raise ValueError("a record is named by its id, or selected by causes and deadlines")

    def seconds(self) -> int | None:
        if self.life is None:
            return None
        seconds = whole_seconds(self.life)
        if not seconds:
            raise BadRequest("a life is at least a second")
        return seconds


class UndeleteOf(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The container of an undelete."""

    target: Container


class AddWebhook(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A new webhook."""

    name: Annotated[
        str, Meta(description="Its name: letters, digits, `-`, `_` and `.`.", pattern=r"^[A-Za-z0-9_.-]{1,64}$")
    ]
    url: Annotated[str, Meta(description="The address to which messages are posted: http or https.")]
    target: Everything = None
    causes: Annotated[
        tuple[EventCause, ...], Meta(description="Only records that expired by these causes; empty: by any.")
    ] = ()
    secret: Annotated[
        str | None,
        Meta(description="The secret that signs messages, `whsec_` and base64; without it the server makes one."),
    ] = None


class WebhookName(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A webhook."""

    name: Annotated[str, Meta(description="The name of a webhook.")]


class AddArchive(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A new archive."""

    name: Annotated[
        str, Meta(description="Its name: letters, digits, `-`, `_` and `.`.", pattern=r"^[A-Za-z0-9_.-]{1,64}$")
    ]
    url: Annotated[
        str,
        Meta(
            description="The place of its files: `file:///DIRECTORY`, below `--archive-dir`, or `s3://BUCKET/PREFIX`."
        ),
    ]
    format: Annotated[
        Format, Meta(description="The form of its files: JSON Lines, plain or compressed, or Parquet.")
    ] = "jsonl"
    every: Annotated[
        str, Meta(description="The time after which a record that waits is written at the latest. Whole seconds.")
    ] = "1m"

    def seconds(self) -> int:
        return whole_seconds(self.every)

    def __post_init__(self) -> None:
        if self.name == "off":
            raise ValueError("`off` is no name of an archive")


class ArchiveName(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An archive."""

    name: Annotated[str, Meta(description="The name of an archive.")]


class RemoveArchive(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An archive."""

    name: Annotated[str, Meta(description="The name of an archive.")]
    discard: Annotated[bool, Meta(description="True: records that wait for it are let go without being archived.")] = (
        False
    )


class FlushArchives(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One archive, or all."""

    name: Annotated[str | None, Meta(description="The name of an archive; without it all.")] = None


class Confirm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A held purge."""

    target: Container
    token: Annotated[str, Meta(description="The `token` with which `GET /_mayfly/guard` names the purge.")]
