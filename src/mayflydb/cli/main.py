"""`mayfly`: the group of all commands, and the options that stand before the command."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from mayflydb.cli import FORMS
from mayflydb.cli.lazy import LazyGroup
from mayflydb.version import __version__

# Each command's module and name in it; the module is imported when the command is looked up.
COMMANDS: dict[str, tuple[str, str]] = {
    "serve": ("mayflydb.cli.serve", "serve"),
    "demo": ("mayflydb.cli.demo", "demo"),
    "status": ("mayflydb.cli.status", "status"),
    "connect": ("mayflydb.cli.connect", "connect"),
    "clock": ("mayflydb.cli.clock", "clock"),
    "watch": ("mayflydb.cli.watch", "watch"),
    "ttl": ("mayflydb.cli.ttl", "ttl"),
    "lifecycle": ("mayflydb.cli.lifecycle", "lifecycle"),
    "guard": ("mayflydb.cli.lifecycle", "guard"),
    "undelete": ("mayflydb.cli.undelete", "undelete"),
    "erasure": ("mayflydb.cli.erasure", "erasure"),
    "hold": ("mayflydb.cli.hold", "hold"),
    "archives": ("mayflydb.cli.archives", "archives"),
    "webhooks": ("mayflydb.cli.webhooks", "webhooks"),
    "reset": ("mayflydb.cli.reset", "reset"),
    "apply": ("mayflydb.cli.apply", "apply"),
    "snapshot": ("mayflydb.cli.snapshot", "snapshot"),
    "copy": ("mayflydb.cli.data", "copy"),
    "data": ("mayflydb.cli.data", "data"),
    "doctor": ("mayflydb.cli.doctor", "doctor"),
    "ydb": ("mayflydb.cli.ydb", "ydb"),
    "config": ("mayflydb.cli.config", "config"),
    "cert": ("mayflydb.cli.cert", "cert"),
    "token": ("mayflydb.cli.token", "token"),
    "metrics": ("mayflydb.cli.shell", "metrics"),
    "logs": ("mayflydb.cli.logs", "logs"),
    "completion": ("mayflydb.cli.shell", "completion"),
}


@click.group(
    cls=LazyGroup,
    found_in=COMMANDS,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option("-c", "--config", "config_file", metavar="PATH", help="The settings file.  [env: MAYFLY_CONFIG]")
@click.option(
    "--url",
    envvar="MAYFLY_URL",
    default="http://127.0.0.1:8081",
    metavar="URL",
    help="The server that commands talk to, or the path of its ready file.  [env: MAYFLY_URL]",
    show_default=True,
)
@click.option(
    "--token-file",
    envvar="MAYFLY_TOKEN_FILE",
    type=click.Path(path_type=Path),
    metavar="PATH",
    help="The file of the server's admin token. Default: this user's own, over https alone.  [env: MAYFLY_TOKEN_FILE]",
)
@click.option(
    "-o",
    "--output",
    type=click.Choice(FORMS),
    default="auto",
    help="auto is a table on a terminal, else JSON; wide is a table with all columns.",
)
@click.option("-q", "--quiet", is_flag=True, help="Show no progress of what takes long.")
@click.version_option(__version__, prog_name="mayfly", message="%(prog)s %(version)s")
@click.pass_context
def mayfly(
    ctx: click.Context, config_file: str | None, url: str, token_file: Path | None, output: str, quiet: bool
) -> None:
    """A database in which every record knows when it dies. `mayfly` alone means `mayfly serve`."""
    ctx.obj = {"config_file": config_file, "url": url, "token_file": token_file, "output": output, "quiet": quiet}
    if ctx.invoked_subcommand is None:
        serve = mayfly.get_command(ctx, "serve")
        assert serve is not None
        with serve.make_context("serve", [], parent=ctx) as inner:
            serve.invoke(inner)


def main() -> None:
    """Run the command line. Exit codes: 0 ok, 1 failed, 2 usage, 3 not ready, 4 refused for safety, 5 damaged."""
    sys.exit(mayfly.main(prog_name="mayfly", standalone_mode=True))
