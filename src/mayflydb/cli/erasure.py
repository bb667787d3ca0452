"""`mayfly erasure`: the log of what expired. Lines are verified here, so that no server is asked whether it tells the truth."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import click
import msgspec

from mayflydb.cli.admin import CommandFailed, admin_client
from mayflydb.cli.output import output_option, show
from mayflydb.cli.progress import ProgressLine
from mayflydb.expiry.erasure_chain import FileEnd, Head, Line, Tampered, Verifier
from mayflydb.expiry.erasure_counts import ErasureCounts

DAMAGED: Final = 5
"""The exit code for a chain that does not hold."""

NOT_PROVED: Final = (
    "The log proves that expired records left the database. It says nothing of exports, backups and snapshots that were made"
    " before, nor of clients' copies."
)


def _read_heads(ctx: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> tuple[Head, ...]:
    heads = []
    for value in values:
        found = re.fullmatch(r"(\d+):([0-9a-f]{64})", value)
        if found is None:
            raise click.BadParameter("LINES:HASH, as `mayfly erasure status` shows them", ctx, parameter)
        heads.append(Head(int(found[1]), found[2]))
    return tuple(heads)


_file = click.argument("file", required=False, type=click.Path(path_type=Path, dir_okay=False, exists=True))
_noted = click.option(
    "--head",
    "heads",
    metavar="LINES:HASH",
    multiple=True,
    callback=_read_heads,
    help="A head that was written down earlier: the log must contain it. May be repeated.",
)


@click.group()
def erasure() -> None:
    """Prove what expired: a chain of lines, one for each record (`mayfly serve --erasure-log`)."""


@erasure.command()
@output_option
@click.pass_context
def status(ctx: click.Context) -> None:
    """Show the state of the log. Write `lines` and `head` down elsewhere: `verify --head` compares them later."""
    show(ctx, admin_client(ctx).get("erasure"))


@erasure.command()
@_file
@_noted
@output_option
@click.pass_context
def verify(ctx: click.Context, file: Path | None, heads: tuple[Head, ...]) -> None:
    """Verify the whole chain, of the running server or of an exported FILE. Exit code 5: lines were changed, added or removed."""
    source = _Source(ctx, file, heads)
    gaps = sum(line.kind == "gap" for _, line in source.read())
    head = source.head
    show(ctx, {"verified": True, "lines": head.lines, "head": head.hash, "gaps": gaps})


@erasure.command()
@click.argument("file", type=click.Path(path_type=Path))
@output_option
@click.pass_context
def export(ctx: click.Context, file: Path) -> None:
    """Write all lines and the head to a new FILE, which `verify`, `report` and `find` read without a server."""
    if file.exists():
        raise CommandFailed(f"{file} exists")
    source = _Source(ctx, None, ())
    place = file.with_name(f"{file.name}.unfinished")
    try:
        with place.open("wb") as out:
            for data, _ in source.read():
                out.write(data + b"\n")
            out.write(msgspec.json.encode(FileEnd(source.head)) + b"\n")
        place.rename(file)
    except OSError as error:
        raise CommandFailed(f"{error.filename or file}: {error.strerror}") from error
    finally:
        place.unlink(missing_ok=True)
    show(ctx, {"to": str(file), "lines": source.head.lines, "head": source.head.hash})


@erasure.command()
@_file
@_noted
@output_option
@click.pass_context
def report(ctx: click.Context, file: Path | None, heads: tuple[Head, ...]) -> None:
    """Verify the chain and count what expired, by container and cause: for an auditor. `overwritten`: so many of these records
    secure erase has overwritten. `shredded`: so many keys were destroyed, and with them all copies of what they sealed.
    """
    source = _Source(ctx, file, heads)
    counted = ErasureCounts()
    for _, line in source.read():
        counted.add(line)
    document = {
        "verified": True,
        "lines": source.head.lines,
        "head": source.head.hash,
        "first": counted.first,
        "last": counted.last,
        "records": counted.erased.total(),
        "overwritten": counted.overwritten,
        "shredded": counted.shredded,
        "gaps": counted.gaps,
        "erased": counted.list_erased(),
        "notes": [NOT_PROVED],
    }
    show(ctx, document)


@erasure.command()
@_file
@click.option("--target", required=True, metavar="TARGET", help="The record's container.")
@click.option("--id", "id_", required=True, metavar="ID", help="The record's id; for YDB the key.")
@click.option("--pk", metavar="PK", help="Cosmos DB: the partition key, as JSON or plain text.")
@output_option
@click.pass_context
def find(ctx: click.Context, file: Path | None, target: str, id_: str, pk: str | None) -> None:
    """Find the lines of one record, verified with all others. The running server computes the hash of its key."""
    given = {"target": target, "id": id_} | ({} if pk is None else {"pk": pk})
    keys = set(admin_client(ctx).get("erasure/key", given)["keys"])
    source = _Source(ctx, file, ())
    lines = [msgspec.to_builtins(line) for _, line in source.read() if line.key in keys]
    if not lines:
        raise CommandFailed(f"no record {id_} of {target} expired, according to {source.head.lines} lines")
    show(ctx, {"lines": lines, "head": source.head.hash}, lines)


class _Source:
    """The lines of a running server, or of a file, and the head at which they have to end."""

    def __init__(self, ctx: click.Context, file: Path | None, noted: tuple[Head, ...]) -> None:
        self._ctx = ctx
        self._file = file
        self._verifier = Verifier(noted)
        self.head = Head()

    def read(self) -> Iterator[tuple[bytes, Line]]:
        """Yield each line as it is hashed, and decoded. CommandFailed at the first that does not hold."""
        try:
            for data in self._read_server() if self._file is None else self._read_file(self._file):
                yield data, self._verifier.add(data)
            self._verifier.finish(self.head)
        except Tampered as error:
            raise CommandFailed(f"the log was tampered with, {error}", exit_code=DAMAGED) from error

    def _read_server(self) -> Iterator[bytes]:
        client = admin_client(self._ctx, silent=True)
        # Lines that come after this head are left out.
        status = client.get("erasure")
        self.head = Head(status["lines"], status["head"])
        done = after = 0
        with ProgressLine("verifying") as progress:
            while done < self.head.lines:
                page = client.get("erasure/lines", {"after": after})
                if page["last"] == after:
                    return
                after = page["last"]
                for line in page["lines"][: self.head.lines - done]:
                    done += 1
                    yield line.encode()
                progress.update(done, self.head.lines)

    def _read_file(self, file: Path) -> Iterator[bytes]:
        before: bytes | None = None
        try:
            with file.open("rb") as lines:
                for line in lines:
                    if before is not None:
                        yield before
                    before = line.removesuffix(b"\n")
            self.head = msgspec.json.decode(before or b"", type=FileEnd).head
        except OSError as error:
            raise CommandFailed(f"{error.filename or file}: {error.strerror}") from error
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            hint = "its end may be missing; `mayfly erasure export` writes a whole one"
            raise CommandFailed(f"{file} does not end with a head", hint=hint, exit_code=DAMAGED) from error
