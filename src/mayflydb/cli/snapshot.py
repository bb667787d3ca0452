"""`mayfly snapshot`: saves the state of a running server under a name, returns to it, and keeps it in files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import click

from mayflydb.cli.admin import CommandFailed, admin_client, ask_to_confirm
from mayflydb.cli.output import output_option, show
from mayflydb.cli.progress import ProgressLine
from mayflydb.remote_admin import DOWNLOADED


@click.group()
def snapshot() -> None:
    """Save everything that a running server holds, with its clock, and return to it."""


@snapshot.command("list")
@output_option
@click.pass_context
def list_(ctx: click.Context) -> None:
    """List the snapshots."""
    found = admin_client(ctx).get("snapshots")
    show(ctx, found, found["snapshots"])


@snapshot.command()
@click.argument("name")
@output_option
@click.pass_context
def save(ctx: click.Context, name: str) -> None:
    """Save everything, and the clock, as NAME. A snapshot that has the name is replaced."""
    show(ctx, admin_client(ctx).call("PUT", f"snapshots/{quote(name, safe='')}"))


@snapshot.command()
@click.argument("name")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output_option
@click.pass_context
def restore(ctx: click.Context, name: str, yes: bool) -> None:
    """Replace everything by the snapshot NAME. A virtual clock returns to its instant."""
    ask_to_confirm(f"Replace everything on {ctx.find_root().obj['url']} by the snapshot {name}?", yes=yes)
    show(ctx, admin_client(ctx).call("POST", f"snapshots/{quote(name, safe='')}/restore"))


@snapshot.command()
@click.argument("name")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@output_option
@click.pass_context
def export(ctx: click.Context, name: str, file: Path) -> None:
    """Write the snapshot NAME to FILE, which must not exist. It holds everything that is stored, credentials included."""
    client = admin_client(ctx, silent=True)
    # Asked first: the answer with the bytes does not tell how many there are.
    total = next((row["bytes"] for row in client.get("snapshots")["snapshots"] if row["name"] == name), None)
    if file.exists():
        raise CommandFailed(f"{file} exists")
    place = file.with_name(f"{file.name}.unfinished")
    try:
        with ProgressLine("exporting", "bytes") as line, open(place, "xb", opener=_open_private) as out:
            for part in client.download(f"snapshots/{quote(name, safe='')}"):
                out.write(part)
                line.update(out.tell(), total)
            size = out.tell()
        # Fails if FILE is there by now.
        os.link(place, file)
    except FileExistsError as error:
        raise CommandFailed(
            f"{error.filename2 or error.filename} exists", hint="remove it, if it is none of yours"
        ) from error
    except OSError as error:
        raise CommandFailed(f"{error.filename or file}: {error.strerror}") from error
    finally:
        place.unlink(missing_ok=True)
    show(ctx, {"name": name, "to": str(file), "bytes": size})


@snapshot.command("import")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.argument("name", required=False)
@click.option("-y", "--yes", is_flag=True, help="Do not ask before a snapshot that has the name is replaced.")
@output_option
@click.pass_context
def import_(ctx: click.Context, file: Path, name: str | None, yes: bool) -> None:
    """Take FILE, which `export` wrote, as the snapshot NAME; without NAME as that of the file. It is not restored yet."""
    client, wanted = admin_client(ctx, silent=True), name or file.name.removesuffix(".snapshot")
    if any(row["name"] == wanted for row in client.get("snapshots")["snapshots"]):
        ask_to_confirm(f"Replace the snapshot {wanted} on {ctx.find_root().obj['url']}?", yes=yes)
    try:
        with file.open("rb") as source, ProgressLine("importing", "bytes") as line:
            size = os.fstat(source.fileno()).st_size

            def parts() -> Iterator[bytes]:
                while part := source.read(DOWNLOADED):
                    line.update(source.tell(), size)
                    yield part

            taken = client.upload(f"snapshots/{quote(wanted, safe='')}", parts(), size)
    except OSError as error:
        raise CommandFailed(f"{error.filename or file}: {error.strerror}") from error
    show(ctx, taken)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


@snapshot.command()
@click.argument("name")
@click.option("-y", "--yes", is_flag=True, help="Do not ask.")
@output_option
@click.pass_context
def delete(ctx: click.Context, name: str, yes: bool) -> None:
    """Delete the snapshot NAME."""
    ask_to_confirm(f"Delete the snapshot {name}?", yes=yes)
    show(ctx, admin_client(ctx).call("DELETE", f"snapshots/{quote(name, safe='')}"))
