"""Writes the reference pages of commands, settings, metrics and errors from the code: `reference.py DIRECTORY`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from mayflydb.admin.problems import STATUS
from mayflydb.cli.main import mayfly
from mayflydb.config.row import Row
from mayflydb.config.table import TABLE
from mayflydb.frontends.cosmos.errors import ANSWERS
from mayflydb.frontends.mongo.errors import CODES
from mayflydb.frontends.ydb.errors import describe_error
from mayflydb.metrics import exposition
from mayflydb.model import errors as kinds
from mayflydb.query.mongo.faults import name_of

ROOT = Path(__file__).parents[1]
REPOSITORY = ("README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md")
"""Files at the root of the repository that are pages of the site, too."""


def write(directory: Path) -> None:
    """Write all pages. A page that has not changed keeps its file, so that a build reads it once."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, lines in (
        ("commands", commands()),
        ("settings", settings()),
        ("metrics", metrics()),
        ("errors", errors()),
    ):
        text = "\n".join(lines) + "\n"
        page = directory / f"{name}.md"
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


def write_repository(directory: Path) -> None:
    """Write copies of the files at the root of the repository whose links lead to pages of the site."""
    directory.mkdir(parents=True, exist_ok=True)
    for name in REPOSITORY:
        text = (ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](../")
        # The site has no pages of the source.
        text = re.sub(r"\[([^\]]+)\]\((?:src|tests|tools|LICENSE)[^)]*\)", r"\1", text)
        page = directory / name
        if not page.exists() or page.read_text(encoding="utf-8") != text:
            page.write_text(text, encoding="utf-8")


# --- commands --------------------------------------------------------------------------------------------------------


def commands() -> Iterator[str]:
    """Yield the page of all commands, from their help."""
    yield "# Reference: commands"
    yield ""
    yield (
        "`mayfly COMMAND --help` prints the same. Exit codes: 0 ok, 1 failed, 2 usage, 3 not ready, 4 refused for safety, "
        "5 damaged."
    )
    yield from _command(mayfly, click.Context(mayfly, info_name="mayfly"))


def _command(command: click.Command, context: click.Context) -> Iterator[str]:
    group = isinstance(command, click.Group)
    yield ""
    # A group's own section comes first, its commands on the level below, whatever their depth.
    yield f"{'##' if group else '###'} {context.command_path}"
    yield ""
    yield _sentence(command.help or "")
    yield ""
    yield f"```text\n{' '.join([context.command_path, *command.collect_usage_pieces(context)])}\n```"
    options = [row for row in (option.get_help_record(context) for option in command.params) if row is not None]
    if options:
        yield ""
        yield from _table(("option", "meaning"), ((f"`{name}`", meaning) for name, meaning in options))
    if isinstance(command, click.Group):
        # Commands before groups: a group is a section of its own.
        found = [(name, command.get_command(context, name)) for name in command.list_commands(context)]
        for name, each in sorted(found, key=lambda pair: isinstance(pair[1], click.Group)):
            if each is not None and not each.hidden:
                yield from _command(each, click.Context(each, info_name=name, parent=context))


# --- settings --------------------------------------------------------------------------------------------------------


def settings() -> Iterator[str]:
    """Yield the page of all settings, a table for each section."""
    yield "# Reference: settings"
    yield ""
    yield (
        "A flag of `mayfly serve` wins over the variable, which wins over the settings file (`mayfly.toml`, or the one that "
        "`--config` names). `mayfly config show --origin` prints each value and its origin. An unknown key is refused."
    )
    by_section: dict[str, list[Row]] = {}
    for row in TABLE:
        by_section.setdefault(row.key.partition(".")[0], []).append(row)
    for section, rows in by_section.items():
        yield ""
        yield f"## {section}"
        yield ""
        yield "| key, flag, variable | default | meaning |"
        yield "|---|---|---|"
        yield from map(_setting, rows)


def _setting(row: Row) -> str:
    names = [f"`{row.key}`", *(f"`{flag}`" for flag in row.flags), f"`{row.variable}`"]
    return f"| {'<br>'.join(names)} | {_default(row)} | {_cell(row.help)} |"


def _default(row: Row) -> str:
    if row.default in ("", []):
        return ""
    return f"`{str(row.default).lower() if isinstance(row.default, bool) else row.default}`"


# --- metrics ---------------------------------------------------------------------------------------------------------


def metrics() -> Iterator[str]:
    """Yield the page of all metrics."""
    yield "# Reference: metrics"
    yield ""
    yield "`/metrics` on the HTTP port has these measurements in Prometheus' text format."
    yield ""
    yield from _table(
        ("name", "type", "meaning"), ((f"`{name}`", kind, meaning) for name, (kind, meaning) in exposition.HELP.items())
    )


# --- errors ----------------------------------------------------------------------------------------------------------


def errors() -> Iterator[str]:
    """Yield the page of the kinds of errors, with the code of each protocol."""
    yield "# Reference: errors"
    yield ""
    yield (
        "The engine and the stores raise these kinds of errors. Each protocol has a code of its own for each kind. Many errors "
        "of a query language have a more precise code, which the service defines."
    )
    yield ""
    rows = []
    for kind in kinds_of_errors():
        answer = next(ANSWERS[base] for base in kind.__mro__ if base in ANSWERS)
        code = next(CODES[base] for base in kind.__mro__ if base in CODES)
        status, issues = describe_error(kind("", container=0))
        number = next((issue.code for issue in issues if issue.code), 0)
        http = next(STATUS[base][0] for base in kind.__mro__ if base in STATUS)
        rows.append(
            (
                f"`{kind.__name__}`",
                _first_line(kind),
                f"{answer.status}{f'/{answer.substatus}' if answer.substatus else ''}",
                f"{code} {name_of(code)}",
                f"{status}{f' {number}' if number else ''}",
                str(http),
                "yes" if kind.retryable else "",
            )
        )
    heads = ("kind", "meaning", "Cosmos DB", "MongoDB", "YDB", "admin API", "may be sent again")
    yield from _table(heads, rows)


def kinds_of_errors() -> list[type[kinds.MayflyError]]:
    """Return the kinds that engine and stores raise."""
    found = [each for each in vars(kinds).values() if isinstance(each, type) and issubclass(each, kinds.MayflyError)]
    return [each for each in found if each is not kinds.MayflyError]


# --- text ------------------------------------------------------------------------------------------------------------


def _table(heads: Sequence[str], rows: Any) -> Iterator[str]:
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    for row in rows:
        yield f"| {' | '.join(_cell(each) for each in row)} |"


def _cell(text: str) -> str:
    """Return text as it stands in a cell: brackets and bars have a meaning in Markdown outside of code."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(
        part.replace("|", r"\|") if part.startswith("`") else re.sub(r"([\[\]|<>*_$])", r"\\\1", part) for part in parts
    )


def _sentence(text: str) -> str:
    # \b keeps click from filling a paragraph; here each of its lines is one.
    return re.sub(r"(?m)^\s*\b$\n?", "", text).strip()


def _first_line(kind: type) -> str:
    return (kind.__doc__ or "").strip().partition("\n")[0]


if __name__ == "__main__":
    write(Path(sys.argv[1]))
