"""The values of the pages on which a person edits one record, drops a container, or uploads a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from mayflydb.portal.uploads import MAX_RECORDS

Crumbs = Sequence[tuple[str, str]]
"""(label, address) of each page above; an empty address is no link."""


class Editor(msgspec.Struct, frozen=True):
    """The page `editor.html`. Its text is sent as `document`, with `action` save, delete or delete-for-good.

    `hidden`: further fields, such as the etag. `asks`: the question about a deletion, which a second click answers.
    """

    title: str
    address: str
    crumbs: Crumbs
    text: str
    discard: str
    label: str = "JSON"
    language: str = "json"
    hidden: Mapping[str, str] = msgspec.field(default_factory=dict)
    errors: Sequence[str] = ()
    asks: str = ""
    deletable: bool = True
    is_new: bool = False
    read_only: bool = False


class Drop(msgspec.Struct, frozen=True):
    """The page `drop.html`. The typed name is sent as `confirm`. `hook`: the data-test of its panel in Data Explorer."""

    title: str
    address: str
    crumbs: Crumbs
    name: str
    label: str
    warning: str
    back: str
    hook: str
    hidden: Mapping[str, str] = msgspec.field(default_factory=dict)
    errors: Sequence[str] = ()


class Upload(msgspec.Struct, frozen=True):
    """The page `upload.html`, for a form with `file` or `records`. `refusals`: (place, reason). `outcome`: what was stored.

    `replaces`: whether the box for that is ticked; None: there is none.
    """

    title: str
    address: str
    crumbs: Crumbs
    back: str
    text: str = ""
    hidden: Mapping[str, str] = msgspec.field(default_factory=dict)
    errors: Sequence[str] = ()
    outcome: str = ""
    refusals: Sequence[tuple[str, str]] = ()
    replaces: bool | None = False
    most: int = MAX_RECORDS
    megabytes: int = 8
