"""The client of a running server's admin API, and the errors of commands."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import IO, Any, Final, NoReturn

import click

from mayflydb import remote_admin
from mayflydb.cli.progress import ProgressLine
from mayflydb.model.errors import MayflyError
from mayflydb.remote_admin import NoServer, Patience

FAILED = 1
NOT_READY = 3
REFUSED = 4

_EXIT_CODES: Final[Mapping[object, int]] = {401: REFUSED, 403: REFUSED, 503: NOT_READY}


class CommandFailed(click.ClickException):
    """Ends a command: prints the error and the next thing to try, and sets the exit code."""

    def __init__(self, message: str, *, hint: str = "", exit_code: int = FAILED) -> None:
        super().__init__(message)
        self.hint = hint
        self.exit_code = exit_code  # type: ignore[misc]  # click declares it per class and reads it per exception

    def show(self, file: IO[Any] | None = None) -> None:
        click.echo(f"Error: {self.message}", err=True)
        if self.hint:
            click.echo(f"Try:   {self.hint}".replace("\n", "\n       "), err=True)


class AdminClient(remote_admin.AdminClient):
    """The same for commands: its errors are CommandFailed.

    `timeout`: seconds to wait for any answer; None: those of `Patience`. `what`: shown on a terminal while an answer takes long;
    empty: nothing is shown.
    """

    def __init__(self, url: str, timeout: float | None = None, token_file: Path | None = None, what: str = "") -> None:
        patience = None if timeout is None else Patience(min(timeout, Patience().connect), timeout, timeout)
        super().__init__(url, patience, token_file)
        self._what = what

    def request(self, method: str, path: str, body: Mapping[str, object] | None) -> tuple[int, Any]:
        if not self._what:
            return super().request(method, path, body)
        with ProgressLine(self._what):
            return super().request(method, path, body)

    def fail(self, error: MayflyError) -> NoReturn:
        # What has no answer to word, `serve` above all, imports the errors of this module.
        from mayflydb.admin.hints import hint_of, word_hint

        title, status = error.detail.get("title"), error.detail.get("status")
        message = f"{title}: {error.message}" if title else error.message
        exit_code = NOT_READY if isinstance(error, NoServer) else _EXIT_CODES.get(status, FAILED)
        raise CommandFailed(message, hint=word_hint(hint_of(error), "cli"), exit_code=exit_code) from error


def admin_client(ctx: click.Context, timeout: float | None = None, *, silent: bool = False) -> AdminClient:
    """Return the client of the server that `--url` names. `silent`: the command itself shows its progress."""
    given = ctx.find_root().obj
    what = "" if silent else ctx.command_path.partition(" ")[2]
    return AdminClient(given["url"], timeout, given["token_file"], what)


def check_with(parse: Callable[[str], object]) -> Callable[[click.Context, click.Parameter, str | None], str | None]:
    """Return a click callback that refuses a text as wrong usage if `parse` does. The text itself is passed on."""

    def check(ctx: click.Context, parameter: click.Parameter, value: str | None) -> str | None:
        if value is not None:
            try:
                parse(value)
            except ValueError as error:
                raise click.BadParameter(str(error), ctx, parameter) from error
        return value

    return check


def ask_to_confirm(question: str, *, yes: bool) -> None:
    """Ask before a change that cannot be undone. Without a terminal and without -y the command is refused."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandFailed(
            f"{question} This needs a confirmation.", hint="the same command with -y", exit_code=REFUSED
        )
    # Asked on stderr: stdout is the command's result and may be a pipe.
    if not click.confirm(question, err=True):
        raise CommandFailed("nothing was done")
