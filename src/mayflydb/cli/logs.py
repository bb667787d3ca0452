"""`mayfly logs`: the end of a server's access log, and what comes after it."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator
from contextlib import ExitStack, closing
from pathlib import Path
from threading import Event
from typing import Any, BinaryIO, Final

import click
import msgspec

from mayflydb.cli.admin import CommandFailed, admin_client
from mayflydb.cli.output import output_option, resolve_form

POLL_SECONDS: Final = 0.2

BLOCK: Final = 1 << 16

MOST_LINES: Final = 100_000


@click.command()
@click.argument("path", required=False, type=click.Path(path_type=Path))
@click.option("-f", "--follow", is_flag=True, help="Go on with each line as it is written, until Ctrl+C.")
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(min=0, max=MOST_LINES),
    default=20,
    show_default=True,
    metavar="NUMBER",
    help="The number of lines from the end of the file.",
)
@output_option
@click.pass_context
def logs(ctx: click.Context, path: Path | None, follow: bool, lines: int) -> None:
    """Print the end of the access log, which `mayfly serve --access-log PATH` writes. PATH: the file; default: ask the server."""
    place = _ask_for_file(ctx) if path is None else path
    show = _show_as_text if resolve_form(ctx.find_root().obj["output"]) in ("table", "wide") else _show
    pause = Event()
    try:
        with place.open("rb") as file:
            for line in read_last(file, lines):
                show(line)
            if follow:
                with closing(read_following(place, file, lambda: pause.wait(POLL_SECONDS))) as following:
                    for line in following:
                        show(line)
    except OSError as error:
        hint = "the command reads the file on the machine of the server" if path is None else ""
        raise CommandFailed(f"{place} cannot be read: {error.strerror}", hint=hint) from error
    except KeyboardInterrupt:
        return


def _ask_for_file(ctx: click.Context) -> Path:
    """Return the path of the server's access log. CommandFailed if it is no file."""
    place = admin_client(ctx).get("info")["access_log"]
    if place == "off":
        raise CommandFailed("the server writes no access log", hint="mayfly serve --access-log access.log")
    if place == "stderr":
        hint = "read it where the server's output goes, or serve with --access-log access.log"
        raise CommandFailed("the server writes its access log to stderr", hint=hint)
    return Path(place)


def read_last(file: BinaryIO, number: int) -> list[bytes]:
    """Return the last complete lines, and leave the file behind them."""
    at = file.seek(0, os.SEEK_END)
    read = b""
    while at and read.count(b"\n") <= number:
        step = min(BLOCK, at)
        at = file.seek(at - step)
        read = file.read(step) + read
    complete = read.rpartition(b"\n")[0]
    file.seek(at + len(complete) + (b"\n" in read))
    return complete.split(b"\n")[-number:] if complete and number else []


def read_following(path: Path, file: BinaryIO, pause: Callable[[], object]) -> Generator[bytes, None, None]:
    """Yield each line that is written after the place at which the file is open. Errors: OSError.

    A file that took its name is read from its start, after the rest of the first one. `pause` waits for news.
    """
    with ExitStack() as opened:
        rest = b""
        while True:
            is_replaced = _is_replaced(path, file)
            while read := file.read(BLOCK):
                *complete, rest = (rest + read).split(b"\n")
                yield from complete
            if is_replaced:
                opened.close()
                file = opened.enter_context(path.open("rb"))
                rest = b""
            else:
                pause()


def _is_replaced(path: Path, file: BinaryIO) -> bool:
    try:
        return not os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        # It was renamed, and its successor is still to come.
        return False


def _show(line: bytes) -> None:
    click.echo(line)


def _show_as_text(line: bytes) -> None:
    from mayflydb.serving.access_log import show_members

    try:
        entry: dict[str, Any] = msgspec.json.decode(line, type=dict)
    except msgspec.DecodeError:
        _show(line)
        return
    time = entry.pop("ts", "")
    members = {name: value for name, value in entry.items() if name not in ("level", "logger")}
    click.echo(f"{time} {show_members(members)}")
