"""`mayfly completion` and `mayfly metrics`: what shells and monitoring systems read."""

from __future__ import annotations

import click

from mayflydb.cli.admin import admin_client

SHELLS = ("bash", "zsh", "fish")


@click.command()
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print the completion of commands and options for a shell.

    bash: eval "$(mayfly completion bash)" in ~/.bashrc; zsh: the same in ~/.zshrc; fish: mayfly completion fish | source.
    """
    from click.shell_completion import get_completion_class

    from mayflydb.cli.main import mayfly

    found = get_completion_class(shell)
    assert found is not None
    # The class itself: its constructor is given what the generated script has to name.
    complete = found(mayfly, {}, "mayfly", "_MAYFLY_COMPLETE")
    click.echo(complete.source_template % complete.source_vars())


@click.command()
@click.argument("prefix", required=False, default="")
@click.pass_context
def metrics(ctx: click.Context, prefix: str) -> None:
    """Print the server's measurements in Prometheus' text format; with PREFIX, samples whose names begin with it."""
    for line in admin_client(ctx).read_metrics().splitlines():
        if not prefix or line.startswith(prefix):
            click.echo(line)
