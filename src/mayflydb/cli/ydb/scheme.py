"""`scheme`: directories and their entries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import click

from mayflydb.cli.ydb import describing, topics
from mayflydb.cli.ydb.boxes import DEFAULT_LINE_WIDTH, print_text, render_box, render_columns, terminal_width
from mayflydb.cli.ydb.client import Client, proto_json
from mayflydb.cli.ydb.context import client_context
from mayflydb.cli.ydb.faults import Misuse
from mayflydb.cli.ydb.permissions import permissions

SERVICE: Final = "Ydb.Scheme.V1.SchemeService"

DIRECTORY_TYPES: Final = (1, 4, 12)
"""Types of entries with children: DIRECTORY, DATABASE, COLUMN_STORE."""

TABLE_TYPES: Final = (2, 13)


@click.group()
def scheme() -> None:
    """Directories and their entries."""


scheme.add_command(permissions)


@scheme.command()
@click.argument("path")
@click.pass_context
def mkdir(ctx: click.Context, path: str) -> None:
    """Make a directory."""
    context = client_context(ctx)
    context.client.call(f"{SERVICE}/MakeDirectory", path=context.path(path))


@scheme.command()
@click.argument("path")
@click.option("-r", "--recursive", is_flag=True, help="Remove all entries of the directory too.")
@click.option("-f", "--force", is_flag=True, help="Do not ask.")
@click.option("-i", "interactive", is_flag=True, help="Ask before each removal.")
@click.pass_context
def rmdir(ctx: click.Context, path: str, recursive: bool, force: bool, interactive: bool) -> None:
    """Remove a directory."""
    context = client_context(ctx)
    absolute = context.path(path)
    if not recursive:
        context.client.call(f"{SERVICE}/RemoveDirectory", path=absolute)
        return
    if not force and not interactive and not click.confirm(f"Remove {absolute} with all that lies in it?", err=True):
        return
    _remove(context.client, absolute, interactive)


def _remove(client: Client, path: str, asks: bool) -> None:
    for child in client.call(f"{SERVICE}/ListDirectory", path=path).children:
        under = f"{path}/{child.name}"
        # `.sys` and its like belong to the server, and cannot be removed.
        if child.name.startswith("."):
            continue
        if child.type in DIRECTORY_TYPES:
            _remove(client, under, asks)
        elif not asks or click.confirm(f"Remove {describing.type_name(child.type)} {under}?", err=True):
            _drop(client, under, child.type)
    # Children first: the server removes empty directories only.
    if not asks or click.confirm(f"Remove directory {path}?", err=True):
        client.call(f"{SERVICE}/RemoveDirectory", path=path)


def _drop(client: Client, path: str, type: int) -> None:
    if type in TABLE_TYPES:
        with client.table_session() as id:
            client.call("Ydb.Table.V1.TableService/DropTable", session_id=id, path=path)
    elif type == describing.VIEW:
        with client.table_session() as id:
            text = f"DROP VIEW {describing.quote_path(path)}"
            client.call("Ydb.Table.V1.TableService/ExecuteSchemeQuery", session_id=id, yql_text=text)
    elif type == topics.TOPIC:
        client.call(f"{topics.SERVICE}/DropTopic", path=path)
    else:
        raise Misuse(f"{path} is a {describing.type_name(type)}, which cannot be removed")


@scheme.command()
@click.argument("path")
@click.option("--permissions", is_flag=True, help="Print owner and permissions.")
@click.option("--partition-boundaries", "--shard-boundaries", is_flag=True, help="Tables: bounds of partitions.")
@click.option("--stats", is_flag=True, help="Tables: numbers of rows and bytes.")
@click.option("--partition-stats", is_flag=True, help="Tables: numbers of rows and bytes of each partition.")
@click.option("--format", "form", type=click.Choice(["pretty", "proto-json-base64"]), default="pretty")
@click.pass_context
def describe(
    ctx: click.Context,
    path: str,
    permissions: bool,
    partition_boundaries: bool,
    stats: bool,
    partition_stats: bool,
    form: str,
) -> None:
    """Describe the entry at a path."""
    context = client_context(ctx)
    client, absolute = context.client, context.path(path)
    entry = client.call(f"{SERVICE}/DescribePath", path=absolute).self
    if entry.type == topics.TOPIC:
        topic = client.call(f"{topics.SERVICE}/DescribeTopic", path=absolute, include_stats=stats)
        text = describing.entry_text(entry, permissions) + topics.topic_text(topic)
        click.echo(proto_json(topic)) if form != "pretty" else print_text(text)
        return
    if entry.type in TABLE_TYPES:
        described = describe_table(client, absolute, partition_boundaries, stats or partition_stats, partition_stats)
        if form != "pretty":
            click.echo(proto_json(described))
            return
        wanted = describing.Sections(permissions, stats, partition_boundaries, partition_stats)
        print_text(describing.table_text(entry, described, wanted))
        return
    if form != "pretty":
        click.echo(proto_json(entry))
        return
    if entry.type == describing.SYS_VIEW:
        system_view = client.call("Ydb.Table.V1.TableService/DescribeSystemView", path=absolute)
        print_text(describing.system_view_text(entry, system_view))
        return
    options = [
        text
        for given, text in (
            (partition_boundaries, '"partition-boundaries"("shard-boundaries")'),
            (stats, '"stats"'),
            (partition_stats, '"partition-stats"'),
        )
        if given
    ]
    print_text(describing.entry_text(entry, permissions))
    if entry.type == describing.VIEW:
        print_text(f"\nQuery text:\n{_view_query(client, absolute)}\n")
    if options:
        click.echo(describing.unused_options_note(path, options), err=True)


def describe_table(client: Client, path: str, bounds: bool, stats: bool, partition_stats: bool) -> Any:
    """Return a DescribeTableResult, with the parts that are requested."""
    with client.table_session() as id:
        return client.call(
            "Ydb.Table.V1.TableService/DescribeTable",
            session_id=id,
            path=path,
            include_shard_key_bounds=bounds,
            include_table_stats=stats,
            include_partition_stats=partition_stats,
        )


def _view_query(client: Client, path: str) -> str:
    """Return the query of a view."""
    text = f"SHOW CREATE VIEW {describing.quote_path(path)}"
    with client.query_session() as id:
        parts = list(
            client.stream(
                "Ydb.Query.V1.QueryService/ExecuteQuery",
                session_id=id,
                exec_mode=50,
                query_content={"syntax": 1, "text": text},
            )
        )
    for part in parts:
        names = [column.name for column in part.result_set.columns]
        for row in part.result_set.rows:
            created: str = row.items[names.index("CreateQuery")].text_value
            # SHOW CREATE gives the whole statement; the query stands behind the first AS at the end of a line.
            return created.partition(" AS\n")[2].rstrip("\n;") or created
    return ""


@scheme.command("ls")
@click.argument("path", default="")
@click.option("-l", "long", is_flag=True, help="Print types, owners, sizes and times.")
@click.option("-R", "recursive", is_flag=True, help="List subdirectories too.")
@click.option("-1", "one_per_line", is_flag=True, help="One name per line.")
@click.option("--format", "form", type=click.Choice(["pretty", "json"]), default="pretty")
@click.pass_context
def ls(ctx: click.Context, path: str, long: bool, recursive: bool, one_per_line: bool, form: str) -> None:
    """List the entries of a directory."""
    if one_per_line and long:
        raise Misuse("Options -1 and -l are incompatible")
    context = client_context(ctx)
    client, absolute = context.client, context.path(path) if path else context.database
    if form == "json":
        click.echo(_as_json(client, absolute, recursive, long))
    elif long:
        rows = [_long_row(client, at, name, entry) for name, at, entry in _list_entries(client, absolute, recursive)]
        print_text(
            render_box(["Type", "Owner", "Size", "Created", "Modified", "Name"], rows, width=terminal_width())
            if rows
            else ""
        )
    else:
        _show_names(client, absolute, "", recursive, one_per_line)


def _show_names(client: Client, path: str, relative: str, recursive: bool, one_per_line: bool) -> None:
    found = client.call(f"{SERVICE}/ListDirectory", path=path)
    if found.self.type not in DIRECTORY_TYPES:
        click.echo(found.self.name)
        return
    if recursive:
        print_text(f"\n{relative}:\n" if relative else "./:\n")
    names = [child.name for child in found.children]
    if one_per_line:
        print_text("".join(f"{name}\n" for name in names))
    elif names:
        print_text(render_columns(names, terminal_width() or DEFAULT_LINE_WIDTH))
    if recursive:
        for child in found.children:
            if child.type in DIRECTORY_TYPES:
                inner = f"{relative}/{child.name}" if relative else child.name
                _show_names(client, f"{path}/{child.name}", inner, recursive, one_per_line)


def _list_entries(client: Client, path: str, recursive: bool, relative: str = "") -> Iterator[tuple[str, str, Any]]:
    """Yield (path below the first directory, absolute path, entry) of all entries; of a path that is no directory, itself."""
    found = client.call(f"{SERVICE}/ListDirectory", path=path)
    if not relative and found.self.type not in DIRECTORY_TYPES:
        yield found.self.name, path, found.self
        return
    for child in found.children:
        name = f"{relative}/{child.name}" if relative else child.name
        yield name, f"{path}/{child.name}", child
        if recursive and child.type in DIRECTORY_TYPES:
            yield from _list_entries(client, f"{path}/{child.name}", recursive, name)


def _fetch_stats(client: Client, path: str) -> Any:
    return describe_table(client, path, False, True, False).table_stats


def _long_row(client: Client, path: str, name: str, entry: Any) -> list[str]:
    if entry.type not in TABLE_TYPES:
        return [describing.type_name(entry.type), entry.owner, "", "", "", name]
    stats = _fetch_stats(client, path)
    times = [describing.time_text(stats.creation_time), describing.time_text(stats.modification_time)]
    return [describing.type_name(entry.type), entry.owner, describing.size_text(stats.store_size), *times, name]


def _as_json(client: Client, path: str, recursive: bool, long: bool) -> str:
    import json

    listed = []
    for name, at, entry in _list_entries(client, path, recursive):
        shown: dict[str, object] = {"type": describing.type_name(entry.type), "path": name}
        if long:
            shown["owner"] = entry.owner
            if entry.type in TABLE_TYPES:
                stats = _fetch_stats(client, at)
                shown["size"] = stats.store_size
                shown["created"] = _milliseconds(stats.creation_time)
                shown["modified"] = _milliseconds(stats.modification_time)
        listed.append(shown)
    return json.dumps(listed, indent=2, ensure_ascii=False)


def _milliseconds(time: Any) -> int:
    return int(time.seconds) * 1000 + int(time.nanos) // 1_000_000
