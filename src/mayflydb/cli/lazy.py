"""Groups of commands whose modules are imported when a command is looked up."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click


class LazyGroup(click.Group):
    """A group of lazily imported commands. `found_in`: the module of each command, and its name in the module."""

    def __init__(self, *args: Any, found_in: Mapping[str, tuple[str, str]], **options: Any) -> None:
        super().__init__(*args, **options)
        self._found_in = found_in

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self._found_in)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self._found_in:
            return None
        module, name = self._found_in[cmd_name]
        command: click.Command = getattr(import_module(module), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self._found_in and not args[0].startswith("-"):
            raise click.NoSuchCommand(args[0], possibilities=self._found_in, ctx=ctx)
        return super().resolve_command(ctx, args)
