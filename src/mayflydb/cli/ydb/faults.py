"""Errors, printed as YDB's own command line prints them: on standard error, with exit code 1."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import IO, Any, Final

import click

SEVERITIES: Final = {0: "Fatal", 1: "Error", 2: "Warning", 3: "Info"}


class Misuse(click.ClickException):
    """The command line is invalid."""

    exit_code = 1

    # click prints "Error: " in front of a message; YDB's program does not.
    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(self.message, err=True)
        click.echo('Try "--help" option for more info.', err=True)


class OperationFailed(click.ClickException):
    """The command cannot be carried out here. Other options would not help."""

    exit_code = 1

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(self.message, err=True)


class ServerRefusal(click.ClickException):
    """The server refused a request or was not reached. `status`: the name of a status. `issues`: IssueMessages."""

    exit_code = 1

    def __init__(self, status: str, issues: Iterable[Any] = ()) -> None:
        super().__init__(answer_text(status, issues))
        self.status = status

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(self.message, err=True, nl=False)


def answer_text(status: str, issues: Iterable[Any]) -> str:
    """Return status and issues as text, each on a line of its own."""
    lines = [f"Status: {status}", "Issues: "]
    for each in issues:
        lines += _issue(each, 0)
    return "\n".join(lines) + "\n"


def issues_text(issues: Iterable[Any], indent: str = "") -> list[str]:
    """Return the lines of issues. Each level of nested issues is indented by four blanks more."""
    return [indent + line for each in issues for line in _issue(each, 0)]


def _issue(issue: Any, depth: int) -> Iterator[str]:
    code = f", code: {issue.issue_code}" if issue.issue_code else ""
    severity = SEVERITIES.get(issue.severity, "Error")
    yield f"{' ' * 4 * depth}<main>{_position(issue)}: {severity}: {issue.message}{code}"
    for each in issue.issues:
        yield from _issue(each, depth + 1)


def _position(issue: Any) -> str:
    if not issue.HasField("position"):
        return ""
    return f":{issue.position.row}:{issue.position.column}"
