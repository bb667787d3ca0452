"""The lifecycle settings of a container as a form: one row a setting. Pure.

A value is as the admin API shows it (`LifecycleSettings`) and takes it (`SetLifecycle`); a form has it as the texts of fields.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from mayflydb.admin.lifecycle_requests import SetLifecycle
from mayflydb.expiry.lifecycle import Lifecycle
from mayflydb.model.durations import format_span
from mayflydb.model.errors import BadRequest
from mayflydb.model.instant import SECOND

Texts = Mapping[str, str]
"""The texts of fields, by their names."""


class FormField(msgspec.Struct, frozen=True):
    """A field of a setting. `choices`: (value, label) of a `choice`; `low`, `high`: the bounds of a `number`."""

    name: str
    label: str
    kind: Literal["text", "number", "choice"] = "text"
    after: str = ""
    choices: Sequence[tuple[str, str]] = ()
    low: int = 0
    high: int | None = None


class Setting(msgspec.Struct, frozen=True):
    """A setting. `name`: its member in requests and answers; `does`: what it does, in a sentence.

    `write`: gives the texts of its fields for a value. `read`: gives the value of these texts, or raises BadRequest.
    """

    name: str
    title: str
    does: str
    fields: Sequence[FormField]
    write: Callable[[Any], dict[str, str]]
    read: Callable[[Texts], Any]


def duration(name: str, title: str, does: str, label: str, off: str) -> Setting:
    """Build the row of a setting in seconds, 0 of which switches it off. `off`: what an empty field means."""

    def write(seconds: int) -> dict[str, str]:
        return {name: format_span(seconds * SECOND) if seconds else ""}

    field = FormField(name, label, after=f"such as 90s, 5m or 7d; empty: {off}")
    return Setting(name, title, does, (field,), write, lambda texts: texts[name].strip() or "0s")


def _write_guard(limits: Mapping[str, int] | str | None) -> dict[str, str]:
    if isinstance(limits, str) or limits is None:
        return {"guard": limits or "server", "guard_records": "", "guard_percent": ""}
    return {"guard": "own", "guard_records": str(limits["records"]), "guard_percent": str(limits["percent"])}


def _read_guard(texts: Texts) -> dict[str, int] | str | None:
    kind = texts["guard"]
    if kind == "own":
        return {each: _whole(texts[f"guard_{each}"], f"Guard, {each}") for each in ("records", "percent")}
    if kind not in ("server", "off"):
        raise BadRequest("Guard: the server's limits, no guard, or limits of its own.")
    return None if kind == "server" else kind


def _write_cascades(cascades: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    # Children of a container that was dropped cannot be named, and leave the setting with the next change.
    return {"cascade": ", ".join(f"{each['to']}={each['path']}" for each in cascades if each["to"] is not None)}


def _read_cascades(texts: Texts) -> list[dict[str, str]]:
    pairs = [each.strip().partition("=") for each in texts["cascade"].split(",") if each.strip()]
    if not all(target and path for target, _, path in pairs):
        raise BadRequest("Cascades: a container, =, and the path at which its records have the id.")
    return [{"to": target.strip(), "path": path.strip()} for target, _, path in pairs]


def _write_roll_up(roll_up: Mapping[str, Any] | None) -> dict[str, str]:
    return {"roll_up": "" if roll_up is None else msgspec.json.encode(roll_up).decode()}


def _read_roll_up(texts: Texts) -> Any:
    if not texts["roll_up"].strip():
        return "off"
    try:
        return msgspec.json.decode(texts["roll_up"])
    except (msgspec.DecodeError, RecursionError) as error:
        raise BadRequest(f"Roll-up: that is no JSON: {error}") from error


def _whole(text: str, what: str) -> int:
    stripped = text.strip()
    if not (stripped.isascii() and stripped.isdigit() and len(stripped) < 16):
        raise BadRequest(f"{what}: a whole number is needed.")
    return int(stripped)


SETTINGS: Final[Sequence[Setting]] = (
    Setting(
        "guard",
        "Guard",
        "If more records than both limits expire by mistake (by a changed rule, a step of the clock, or dates of the past), none"
        " is purged until that is confirmed.",
        (
            FormField(
                "guard",
                "Limits",
                "choice",
                choices=(("server", "those of the server"), ("off", "none: no guard"), ("own", "its own")),
            ),
            FormField("guard_records", "Records", "number", low=1),
            FormField("guard_percent", "Percent of the container", "number", high=100),
        ),
        _write_guard,
        _read_guard,
    ),
    duration(
        "grace",
        "Grace",
        "Expired records are kept for this time. No read returns them, and an undelete brings them back; then they are purged.",
        "Keep for",
        "they are purged at once",
    ),
    duration(
        "touch",
        "Sliding expiry",
        "A read by key or by an index gives a record a new life, as a write does. Reads within this time count once.",
        "At most once in",
        "only writes do",
    ),
    duration(
        "last_image",
        "Last images",
        "The version of a record that expires is kept for this time after its purge, for readers of its event: webhooks and the"
        " stream have it as `image`.",
        "Keep images for",
        "events have no image",
    ),
    duration(
        "history",
        "Earlier states",
        "Every version is kept for this time after its end, so that the container can be read as of an earlier instant.",
        "Keep versions for",
        "no earlier state can be read",
    ),
    Setting(
        "archive",
        "Archive",
        "Records go into files when they expire, each exactly once. `mayfly archives add` makes an archive.",
        (FormField("archive", "Name of the archive", after="empty: records are not archived"),),
        lambda name: {"archive": name or ""},
        lambda texts: texts["archive"].strip() or None,
    ),
    Setting(
        "roll_up",
        "Roll-up",
        "Expired records are counted, and their numbers added up, in groups, in another container, by the transaction that purges"
        " them.",
        (
            FormField(
                "roll_up", "Roll-up as JSON", after='as in {"into": "cosmos:shop/totals", "count": "n"}; empty: none'
            ),
        ),
        _write_roll_up,
        _read_roll_up,
    ),
    Setting(
        "shred",
        "Crypto-shredding",
        "Records are sealed with keys that lie in another file. A key is destroyed when the last of its records is purged, and"
        " with it every copy of them.",
        (
            FormField(
                "shred",
                "Keys",
                "choice",
                choices=(("off", "none"), ("day", "one for each day of writes"), ("container", "one for all records")),
            ),
        ),
        lambda shred: {"shred": shred},
        lambda texts: texts["shred"] or "off",
    ),
    Setting(
        "cascade",
        "Cascades",
        "Records of other containers that have a record's id leave with it when it expires, theirs first.",
        (FormField("cascade", "Children", after="as in cosmos:shop/lines=/orderId, with commas between; empty: none"),),
        _write_cascades,
        _read_cascades,
    ),
)
"""All settings, in the order of the form."""


def list_titles(lifecycle: Lifecycle) -> list[str]:
    """Return the titles of the settings that a container has of its own."""
    usual = Lifecycle()
    return [each.title for each in SETTINGS if getattr(lifecycle, each.name) != getattr(usual, each.name)]


def write_texts(values: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts of all fields for the values of a container."""
    return {name: text for each in SETTINGS for name, text in each.write(values[each.name]).items()}


def read_texts(sent: Texts) -> dict[str, str]:
    """Return the texts of all fields as a form has sent them."""
    return {field.name: sent.get(field.name, "") for each in SETTINGS for field in each.fields}


def find_changes(target: str, values: Mapping[str, Any], texts: Texts) -> SetLifecycle | None:
    """Return the request for what differs between the values of a container and a form; None: nothing. BadRequest."""
    changes = {}
    for each in SETTINGS:
        wanted = each.read(texts)
        if wanted != each.read(each.write(values[each.name])):
            changes[each.name] = wanted
    if not changes:
        return None
    try:
        return msgspec.convert({"target": target, **changes}, SetLifecycle)
    except msgspec.ValidationError as error:
        raise BadRequest(str(error).partition(" - at")[0]) from None


def sign(values: Mapping[str, Any]) -> str:
    """Return the values of all settings as one text, by which a form tells what it was loaded with."""
    return msgspec.json.encode([values[each.name] for each in SETTINGS]).decode()
