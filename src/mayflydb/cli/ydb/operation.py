"""`operation`: what goes on, or has ended, behind calls that were answered at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import click

from mayflydb.cli.ydb.boxes import BoxRow, box, show, terminal_width
from mayflydb.cli.ydb.client import proto_json, status_name
from mayflydb.cli.ydb.faults import Misuse, Refused, issues_text
from mayflydb.cli.ydb.place import place_of
from mayflydb.frontends.ydb.descriptors import message

SERVICE: Final = "Ydb.Operation.V1.OperationService"

KINDS: Final = ("buildindex", "export/s3", "import/s3", "scriptexec")

_STATES: Final = {10: "starting", 20: "aborted", 30: "canceled", 40: "completed", 50: "failed"}
_MODES: Final = {10: "parse", 20: "validate", 30: "explain", 50: "execute"}
_COMMON: Final = ("id", "ready", "status")
_NAMES: Final = {
    "Ydb.Query.ExecuteScriptMetadata": (*_COMMON, "execution_id", "exec_status", "exec_mode"),
    "Ydb.Table.IndexBuildMetadata": (*_COMMON, "state", "progress", "table", "index"),
}

_format = click.option("--format", "form", type=click.Choice(["pretty", "proto-json-base64"]), default="pretty")


@click.group()
def operation() -> None:
    """What goes on, or has ended, behind calls that were answered at once."""


@operation.command()
@click.argument("id")
@_format
@click.pass_context
def get(ctx: click.Context, id: str, form: str) -> None:
    """One operation."""
    found = place_of(ctx).client.raw(f"{SERVICE}/GetOperation", id=_checked(id)).operation
    status = status_name(found.status) if found.ready else "SUCCESS"
    if status not in ("SUCCESS", "CANCELLED"):
        raise Refused(status, found.issues)
    show_operation(found, form)
    ctx.exit(status == "CANCELLED")


def _checked(id: str) -> str:
    if not id.startswith("ydb://"):
        raise Misuse("Invalid operation ID")
    return id


@operation.command("list")
@click.argument("kind")
@click.option("-s", "--page-size", type=click.IntRange(0), default=0, metavar="N", help="Operations of one page.")
@click.option("-t", "--page-token", default="", metavar="TOKEN", help="Where the page before has ended.")
@_format
@click.pass_context
def list_(ctx: click.Context, kind: str, page_size: int, page_token: str, form: str) -> None:
    """Those of a kind, the latest first."""
    if kind not in KINDS:
        raise Misuse(f"Invalid kind. Use one of: {', '.join(KINDS)}")
    client = place_of(ctx).client
    found = client.direct(f"{SERVICE}/ListOperations", kind=kind, page_size=page_size, page_token=page_token)
    if form != "pretty":
        click.echo(proto_json(found))
        return
    if found.operations:
        show(_box(found.operations))
    if found.next_page_token:
        click.echo(f"\nNext page token: {found.next_page_token}")


@operation.command()
@click.argument("id")
@click.pass_context
def cancel(ctx: click.Context, id: str) -> None:
    """Let it go no further."""
    place_of(ctx).client.direct(f"{SERVICE}/CancelOperation", id=_checked(id))


@operation.command()
@click.argument("id")
@click.pass_context
def forget(ctx: click.Context, id: str) -> None:
    """Keep nothing of one that has ended."""
    place_of(ctx).client.direct(f"{SERVICE}/ForgetOperation", id=_checked(id))


def show_operation(given: Any, form: str) -> None:
    """Print one."""
    if form == "pretty":
        show(_box([given]) + "\n")
    else:
        click.echo(proto_json(given))


def _box(operations: Sequence[Any]) -> str:
    kind = operations[0].metadata.type_url.rpartition("/")[2]
    names = _NAMES.get(kind, _COMMON)
    rows = [BoxRow([*_common(each), *_rest(each, kind)], "\n".join(_issues(each))) for each in operations]
    return box(names, rows, lines_between=True, width=terminal_width())


def _common(given: Any) -> list[str]:
    return [given.id, "true" if given.ready else "false", status_name(given.status) if given.status else ""]


def _issues(given: Any) -> list[str]:
    return ["Issues: ", *issues_text(given.issues, "  - ")] if given.issues else []


def _rest(given: Any, kind: str) -> list[str]:
    if kind not in _NAMES:
        return []
    told = message(kind).FromString(given.metadata.value)
    if kind == "Ydb.Query.ExecuteScriptMetadata":
        return [
            told.execution_id,
            _STATES.get(told.exec_status, "unspecified"),
            _MODES.get(told.exec_mode, "unspecified"),
        ]
    state = type(told).DESCRIPTOR.fields_by_name["state"].enum_type.values_by_number[told.state].name
    shown = state.removeprefix("STATE_").replace("_", " ").title().replace(" ", "")
    return [shown, f"{told.progress:.2f}%", told.description.path, told.description.index.name]
