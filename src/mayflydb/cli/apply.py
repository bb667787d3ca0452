"""`mayfly apply`: makes what resource documents describe, on a running server."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from mayflydb.admin.hints import hint_of, word_hint
from mayflydb.cli.admin import AdminClient, CommandFailed, admin_client
from mayflydb.cli.output import output_option, show
from mayflydb.cli.progress import ProgressLine
from mayflydb.model.errors import MayflyError


@click.command()
@click.argument("paths", nargs=-1, required=True, metavar="PATH...", type=click.Path(path_type=Path))
@output_option
@click.pass_context
def apply(ctx: click.Context, paths: tuple[Path, ...]) -> None:
    """Make the databases, containers, tables and records that files, or the files of a folder, describe.

    Files are JSON, TOML or YAML, or YQL. Applied again, a file changes nothing: what is there with the same content stays as old
    as it is.
    """
    found: dict[str, str] = {}
    records: dict[str, Counter[str]] = {}
    differences: dict[tuple[str, str], dict[str, Any]] = {}
    now = ""
    try:
        with ProgressLine("apply", "resources") as line:
            for answer in _send(admin_client(ctx, silent=True), paths):
                now = answer["now"]
                for target, result in answer["resources"].items():
                    found.setdefault(target, result)
                line.update(len(found))
                for target, counts in answer["records"].items():
                    records.setdefault(target, Counter()).update(counts)
                differences |= {(row["target"], row["setting"]): row for row in answer["differences"]}
    except MayflyError as error:
        raise CommandFailed(error.message, hint=word_hint(hint_of(error), "cli")) from error
    except OSError as error:
        raise CommandFailed(f"{error.filename}: {error.strerror}") from error
    rows = [{"target": target, "result": result, **records.get(target, {})} for target, result in found.items()]
    rows += [{"target": target, "result": "", **counts} for target, counts in records.items() if target not in found]
    for row in differences.values():
        there = "none" if row["there"] is None else row["there"]
        click.echo(
            f"Left as it is: {row['setting']} of {row['target']} is {there}, declared {row['declared']}", err=True
        )
    document = {"now": now, "resources": found, "records": records, "differences": list(differences.values())}
    show(ctx, document, rows)


def _send(client: AdminClient, paths: Sequence[Path]) -> Iterator[dict[str, Any]]:
    """Send what the files describe, piece by piece, and yield the answers."""
    from mayflydb.admin import resource_files, resources

    for path in resource_files.find(list(paths)):
        for piece in resources.pieces(resource_files.read(path)):
            yield client.post("apply", msgspec.to_builtins(piece))
