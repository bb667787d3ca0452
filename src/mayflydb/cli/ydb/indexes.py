"""`table index`: secondary indexes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from mayflydb.cli.ydb.context import client_context
from mayflydb.cli.ydb.operation import show_operation

C = TypeVar("C", bound=Callable[..., Any])

ALTER: Final = "Ydb.Table.V1.TableService/AlterTable"


@click.group()
def index() -> None:
    """Secondary indexes."""


@index.group()
def add() -> None:
    """Add an index, and print the operation that builds it."""


def _add_index_command(name: str, field: str, about: str) -> None:
    @add.command(name, help=about)
    @click.option("--index-name", required=True, metavar="NAME")
    @click.option("--columns", required=True, metavar="NAME[,NAME...]", help="Columns of the index key, in order.")
    @click.option("--cover", metavar="NAME[,NAME...]", help="Further columns that the index holds.")
    @click.option("--format", "form", type=click.Choice(["pretty", "proto-json-base64"]), default="pretty")
    @click.argument("path")
    @click.pass_context
    def command(ctx: click.Context, path: str, index_name: str, columns: str, cover: str | None, form: str) -> None:
        context = client_context(ctx)
        client, absolute = context.client, context.path(path)
        index_request = {
            "name": index_name,
            "index_columns": columns.split(","),
            "data_columns": cover.split(",") if cover else [],
            field: {},
        }
        with client.table_session() as id:
            built = client.call_operation(
                ALTER,
                session_id=id,
                path=absolute,
                add_indexes=[index_request],
                # OperationMode.ASYNC: the answer is the operation that builds the index, as YDB's program prints it.
                operation_params={"operation_mode": 2},
            )
        show_operation(built, form)


_add_index_command("global-sync", "global_index", "Add an index that is updated together with its table.")
_add_index_command("global", "global_index", "Add an index as global-sync does.")
_add_index_command("global-async", "global_async_index", "Add an index that is updated after its table.")
_add_index_command("global-unique", "global_unique_index", "Add a unique index.")


@index.command()
@click.option("--index-name", required=True, metavar="NAME")
@click.argument("path")
@click.pass_context
def drop(ctx: click.Context, path: str, index_name: str) -> None:
    """Drop an index."""
    context = client_context(ctx)
    absolute = context.path(path)
    with context.client.table_session() as id:
        context.client.call(ALTER, session_id=id, path=absolute, drop_indexes=[index_name])


@index.command()
@click.option("--index-name", required=True, metavar="NAME")
@click.option("--to", required=True, metavar="NAME", help="The new name.")
@click.option("--replace", is_flag=True, help="Replace an index with the new name.")
@click.argument("path")
@click.pass_context
def rename(ctx: click.Context, path: str, index_name: str, to: str, replace: bool) -> None:
    """Rename an index."""
    context = client_context(ctx)
    absolute = context.path(path)
    item = {"source_name": index_name, "destination_name": to, "replace_destination": replace}
    with context.client.table_session() as id:
        context.client.call(ALTER, session_id=id, path=absolute, rename_indexes=[item])
