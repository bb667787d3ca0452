"""`mayfly ydb`: the syntax and the output of YDB's own command line. Each command is imported when it runs."""

from __future__ import annotations

from typing import Any, Final

import click
from click.exceptions import Exit, NoArgsIsHelpError

from mayflydb.cli.lazy import LazyGroup
from mayflydb.cli.ydb.context import ClientContext, ConnectionOptions
from mayflydb.cli.ydb.faults import Misuse

COMMANDS: Final = {
    "scheme": ("mayflydb.cli.ydb.scheme", "scheme"),
    "table": ("mayflydb.cli.ydb.table", "table"),
    "topic": ("mayflydb.cli.ydb.topic", "topic"),
    "sql": ("mayflydb.cli.ydb.query", "sql"),
    "yql": ("mayflydb.cli.ydb.query", "yql"),
    "operation": ("mayflydb.cli.ydb.operation", "operation"),
    "discovery": ("mayflydb.cli.ydb.discovery", "discovery"),
    "config": ("mayflydb.cli.ydb.config", "config"),
    "ttl": ("mayflydb.cli.ydb.ttl", "ttl"),
    "clock": ("mayflydb.cli.clock", "clock"),
}


class YdbGroup(LazyGroup):
    """Reports errors of the command line as YDB's program does."""

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        try:
            return super().make_context(*args, **extra)
        # click exits with 2 after a wrong command line, and YDB's program with 1.
        except NoArgsIsHelpError as error:
            error.show()
            raise Exit(Misuse.exit_code) from error
        except click.UsageError as error:
            raise Misuse(error.format_message()) from error

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except NoArgsIsHelpError as error:
            error.show()
            raise Exit(Misuse.exit_code) from error
        except click.UsageError as error:
            raise Misuse(error.format_message()) from error


@click.group(cls=YdbGroup, found_in=COMMANDS)
@click.option("-e", "--endpoint", metavar="[grpc[s]://]HOST[:PORT]", help="The server.  [default: the local one]")
@click.option("-d", "--database", metavar="PATH", help="The database, by its absolute path.")
@click.option("-p", "--profile", metavar="NAME", help="A set of options, made with `config profile`.")
@click.option("--user", metavar="NAME", help="Log in under this name.  [env: YDB_USER]")
@click.option(
    "--password-file", metavar="PATH", help="A file with the password.  [env, the password itself: YDB_PASSWORD]"
)
@click.option("--no-password", is_flag=True, help="Log in without a password.")
@click.option("--token-file", metavar="PATH", help="A file with a token.  [env, the token itself: YDB_TOKEN]")
@click.option("--ca-file", metavar="PATH", help="Certificates to trust, PEM.  [env: YDB_CA_FILE]")
@click.option("-v", "--verbose", is_flag=True, help="Print the endpoint and database in use on standard error.")
@click.pass_context
def ydb(ctx: click.Context, /, **given: Any) -> None:
    """A YDB client: the commands of the ydb CLI, and ttl and clock."""
    ctx.obj = ClientContext(ctx, ConnectionOptions(**given))
