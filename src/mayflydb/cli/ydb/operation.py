"""`operation`: long-running operations, which go on after their call was answered."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import click

from mayflydb.cli.ydb.boxes import BoxRow, print_text, render_box, terminal_width
from mayflydb.cli.ydb.client import proto_json, status_name
from mayflydb.cli.ydb.context import client_context
from mayflydb.cli.ydb.faults import Misuse, ServerRefusal, issues_text
from mayflydb.frontends.ydb.descriptors import message

SERVICE: Final = "Ydb.Operation.V1.OperationService"

KINDS: Final = ("buildindex", "export/s3", "import/s3", "scriptexec")

_STATES: Final = {10: "starting", 20: "aborted", 30: "canceled", 40: "completed", 50: "failed"}
_MODES: Final = {10: "parse", 20: "validate", 30: "explain", 50: "execute"}
_COMMON_COLUMNS: Final = ("id", "ready", "status")
_COLUMN_NAMES: Final = {
    "Ydb.Query.ExecuteScriptMetadata": (*_COMMON_COLUMNS, "execution_id", "exec_status", "exec_mode"),
    "Ydb.Table.IndexBuildMetadata": (*_COMMON_COLUMNS, "state", "progress", "table", "index"),
}

_format_option = click.option("--format", "form", type=click.Choice(["pretty", "proto-json-base64"]), default="pretty")


@click.group()
def operation() -> None:
    """Long-running operations."""


@operation.command()
@click.argument("id")
@_format_option
@click.pass_context
def get(ctx: click.Context, id: str, form: str) -> None:
    """Print an operation."""
    found = client_context(ctx).client.call_raw(f"{SERVICE}/GetOperation", id=_check_id(id)).operation
    # A running operation has no outcome yet. A cancelled one is shown, and makes the exit code 1.
    status = status_name(found.status) if found.ready else "SUCCESS"
    if status not in ("SUCCESS", "CANCELLED"):
        raise ServerRefusal(status, found.issues)
    show_operation(found, form)
    ctx.exit(status == "CANCELLED")


def _check_id(id: str) -> str:
    if not id.startswith("ydb://"):
        raise Misuse("Invalid operation ID")
    return id


@operation.command("list")
@click.argument("kind")
@click.option(
    "-s", "--page-size", type=click.IntRange(0), default=0, metavar="N", help="The number of operations on a page."
)
@click.option("-t", "--page-token", default="", metavar="TOKEN", help="The token that the page before has printed.")
@_format_option
@click.pass_context
def list_(ctx: click.Context, kind: str, page_size: int, page_token: str, form: str) -> None:
    """List the operations of a kind, the latest first."""
    if kind not in KINDS:
        raise Misuse(f"Invalid kind. Use one of: {', '.join(KINDS)}")
    client = client_context(ctx).client
    found = client.call_direct(f"{SERVICE}/ListOperations", kind=kind, page_size=page_size, page_token=page_token)
    if form != "pretty":
        click.echo(proto_json(found))
        return
    if found.operations:
        print_text(_box(found.operations))
    if found.next_page_token:
        click.echo(f"\nNext page token: {found.next_page_token}")


@operation.command()
@click.argument("id")
@click.pass_context
def cancel(ctx: click.Context, id: str) -> None:
    """Cancel an operation."""
    client_context(ctx).client.call_direct(f"{SERVICE}/CancelOperation", id=_check_id(id))


@operation.command()
@click.argument("id")
@click.pass_context
def forget(ctx: click.Context, id: str) -> None:
    """Forget a finished operation and its results."""
    client_context(ctx).client.call_direct(f"{SERVICE}/ForgetOperation", id=_check_id(id))


def show_operation(given: Any, form: str) -> None:
    """Print an operation in a format."""
    if form == "pretty":
        print_text(_box([given]) + "\n")
    else:
        click.echo(proto_json(given))


def _box(operations: Sequence[Any]) -> str:
    # All operations of a list are of one kind.
    kind = operations[0].metadata.type_url.rpartition("/")[2]
    names = _COLUMN_NAMES.get(kind, _COMMON_COLUMNS)
    rows = [
        BoxRow([*_common_cells(each), *_metadata_cells(each, kind)], "\n".join(_issues(each))) for each in operations
    ]
    return render_box(names, rows, lines_between=True, width=terminal_width())


def _common_cells(given: Any) -> list[str]:
    return [given.id, "true" if given.ready else "false", status_name(given.status) if given.status else ""]


def _issues(given: Any) -> list[str]:
    return ["Issues: ", *issues_text(given.issues, "  - ")] if given.issues else []


def _metadata_cells(given: Any, kind: str) -> list[str]:
    if kind not in _COLUMN_NAMES:
        return []
    metadata = message(kind).FromString(given.metadata.value)
    if kind == "Ydb.Query.ExecuteScriptMetadata":
        return [
            metadata.execution_id,
            _STATES.get(metadata.exec_status, "unspecified"),
            _MODES.get(metadata.exec_mode, "unspecified"),
        ]
    state = type(metadata).DESCRIPTOR.fields_by_name["state"].enum_type.values_by_number[metadata.state].name
    shown = state.removeprefix("STATE_").replace("_", " ").title().replace(" ", "")
    return [shown, f"{metadata.progress:.2f}%", metadata.description.path, metadata.description.index.name]
