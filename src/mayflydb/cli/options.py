"""The flags of `serve`, built from the table of settings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click

from mayflydb.announcement import StartFailed
from mayflydb.cli.admin import CommandFailed
from mayflydb.config import MEMORY, TABLE, LoadedSettings, RawValue, Row, file_url, load, without_secrets

C = TypeVar("C", bound=Callable[..., Any])


GROUPS = {
    "storage": "Storage",
    "clock": "Clock",
    "server": "Server",
    "tls": "Server",
    "queries": "Queries",
    "ttl": "Expiry",
    "archive": "Archives",
    "cosmos": "Azure Cosmos DB",
    "mongo": "MongoDB",
    "ydb": "YDB",
    "limits": "Limits",
}
"""Titles in the help, in this order, by the sections of settings."""


class SettingsCommand(click.Command):
    """A command whose options are settings. Its help shows them in groups."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write every option once: settings under the titles of their sections, all others under Options."""
        titles = {_parameter(row): _group(row) for row in TABLE}
        titles["memory"] = GROUPS["storage"]
        lines: dict[str, list[tuple[str, str]]] = {title: [] for title in (*GROUPS.values(), "Options")}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is not None:
                lines[titles.get(parameter.name or "", "Options")].append(record)
        for title, records in lines.items():
            with formatter.section(title):
                formatter.write_dl(records)


def _group(row: Row) -> str:
    """Return the title of a setting. A setting of expiry that begins with a protocol's name stands with that protocol."""
    section, _, name = row.key.partition(".")
    protocol = name.partition("_")[0]
    return GROUPS[protocol if section == "ttl" and protocol in ("mongo", "ydb") else section]


def _default(row: Row) -> str:
    """Return the default as the help shows it; empty if the help's text has it, or there is none."""
    if "Default:" in row.help or row.default in ("", [], {}):
        return ""
    if row.switch and isinstance(row.default, bool):
        # A flag that only switches on is off without it.
        shown = {True: "on", False: "off"}[row.default] if "/" in row.flags[0] else ""
    else:
        shown = ", ".join(row.default) if isinstance(row.default, list) else str(row.default)
    return f"  [default: {shown}]" if shown else ""


def setting_options(command: C) -> C:
    """Add PATH, -m/--memory and one option for every row of the table."""
    for row in reversed(TABLE):
        command = _option(row)(command)
    command = click.option("-m", "--memory", is_flag=True, help="Keep everything in memory.")(command)
    return click.argument("path", required=False)(command)


def _option(row: Row) -> Callable[[C], C]:
    # Values stay text here: the table's own parser reads flags, variables and the file alike.
    names = (*row.flags, _parameter(row))
    text = f"{row.help}{_default(row)}  [env: {row.variable}]"
    if row.switch:
        return click.option(*names, is_flag=True, default=None, help=text)
    return click.option(*names, type=str, multiple=row.many, default=None, metavar=row.metavar, help=text)


def _parameter(row: Row) -> str:
    return "set_" + row.key.replace(".", "_")


def load_settings(ctx: click.Context, given: Mapping[str, Any]) -> LoadedSettings:
    """Load the settings from flags, environment and file. CommandFailed for a setting that is refused."""
    try:
        return load(_flags(given), config_file=ctx.find_root().obj["config_file"])
    except StartFailed as failed:
        raise start_failure(failed) from failed


def load_settings_of(ctx: click.Context, storage: str | None) -> LoadedSettings:
    """Load the settings of a command whose only flag for them is `--storage` (None: it was not given)."""
    flags = {} if storage is None else {"storage.url": RawValue(storage, "flag --storage")}
    try:
        return load(flags, config_file=ctx.find_root().obj["config_file"])
    except StartFailed as failed:
        raise start_failure(failed) from failed


def _flags(given: Mapping[str, Any]) -> dict[str, RawValue]:
    flags = {}
    for row in TABLE:
        value = given[_parameter(row)]
        if value is not None and value != ():
            flags[row.key] = RawValue(list(value) if row.many else value, f"flag {row.flags[-1]}")
    storages = [RawValue(MEMORY, "flag --memory")] if given["memory"] else []
    if given["path"] is not None:
        storages.append(RawValue(_file_storage(given["path"]), "argument PATH"))
    if "storage.url" in flags:
        storages.append(flags["storage.url"])
    if len(storages) > 1:
        raise StartFailed("two storages: " + " and ".join(storage.origin for storage in storages), exit_code=2)
    return flags | ({"storage.url": storages[0]} if storages else {})


def _file_storage(path: str) -> str:
    if path == ":memory:" or "://" in path:
        shown = path if path == ":memory:" else without_secrets(path)
        hint = "--memory" if path == ":memory:" else f"--storage {shown}"
        raise StartFailed(f"PATH is a file, and {shown!r} is none", setting="storage.url", hint=hint, exit_code=2)
    return file_url(Path(path))


def start_failure(failed: StartFailed, owner: str | None = None) -> CommandFailed:
    """Return the error of a start for the command line. `owner`: the process that has the port."""
    message = f"{failed.message}; {owner} has it" if owner else failed.message
    if failed.setting:
        message += f"\nSetting: {failed.setting}"
    return CommandFailed(message, hint=failed.hint, exit_code=failed.exit_code)
