"""The parameters of the admin API's operations on legal holds. `requests` has the others, and the rules for all."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from mayflydb.admin.requests import Container, Everything
from mayflydb.expiry.legal_hold import MAX_FILTER, MAX_WORDS

HoldNameText = Annotated[
    str,
    Meta(
        description="The name of a hold: letters, digits, `-`, `_` and `.`, unique on the server.",
        pattern=r"^[A-Za-z0-9_.-]{1,64}$",
    ),
]
Why = Annotated[str, Meta(description="The reason.", min_length=1, max_length=MAX_WORDS)]
By = Annotated[str, Meta(description="The person who takes responsibility for it.", min_length=1, max_length=MAX_WORDS)]


class AddHold(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A new hold on one container, or the question how much it would match."""

    target: Container
    name: HoldNameText
    why: Why
    by: By
    where: Annotated[
        Annotated[str, Meta(min_length=1, max_length=MAX_FILTER)] | None,
        Meta(description="A condition in the protocol's language; without it every record is held."),
    ] = None
    matter: Annotated[
        Annotated[str, Meta(max_length=MAX_WORDS)] | None, Meta(description="The matter it belongs to.")
    ] = None
    versions: Annotated[
        bool,
        Meta(description="True: the originals of edits are preserved, too; false: only of those that end the match."),
    ] = True
    dry_run: Annotated[bool, Meta(description="True: count what matches now, and add nothing.")] = False


class HoldListing(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Everything, or one container or database."""

    target: Everything = None


class HoldName(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A hold."""

    name: Annotated[str, Meta(description="The name of a hold.")]


class ReleaseHold(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The release of a hold."""

    name: Annotated[str, Meta(description="The name of a hold.")]
    why: Why
    by: By


class HoldRecordPage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A page of the record of holds."""

    after: Annotated[int, Meta(description="The `last` of the page before; 0: from the first line on.", ge=0)] = 0
    limit: Annotated[int, Meta(description="The most lines of a page.", ge=1, le=1000)] = 100


class PreservedPage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A page of what a hold preserves."""

    name: Annotated[str, Meta(description="The name of a hold.")]
    after: Annotated[int, Meta(description="The `last` of the page before; 0: from the first version on.", ge=0)] = 0
    limit: Annotated[int, Meta(description="The most versions that a page looks at.", ge=1, le=1000)] = 100
