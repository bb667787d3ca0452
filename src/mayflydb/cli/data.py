"""`mayfly copy` and `mayfly data`: copies a whole store to another one, or to a file and back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from mayflydb.announcement import StartFailed
from mayflydb.cli.admin import CommandFailed, check_with
from mayflydb.cli.options import load_settings_of, start_failure
from mayflydb.cli.output import output_option, show
from mayflydb.cli.progress import ProgressLine
from mayflydb.config import StorageSettings
from mayflydb.config.values import storage as storage_url
from mayflydb.model.durations import parse_instant
from mayflydb.model.errors import InUse, MayflyError
from mayflydb.version import __version__

if TYPE_CHECKING:
    from mayflydb.moving.copy import CopyResult
    from mayflydb.store.interface import Store

T = TypeVar("T")
ReportProgress = Callable[[int, int], None]
"""A callback: the number of copied records, and that of all records."""
WHILE_SERVED = (
    "stop the server first; or, while it runs, `mayfly data export FILE --target TARGET` for one container,\n"
    "`mayfly snapshot save NAME` and `mayfly snapshot export NAME FILE` for everything"
)

_storage = click.option(
    "--storage",
    metavar="URL",
    callback=check_with(storage_url),
    help="The store, as for `serve`. Default: the one that `serve` would take.",
)


_paused = click.option("--paused", is_flag=True, help="No record expires in the new store until `mayfly ttl resume`.")


@click.command()
@click.argument("source", metavar="FROM", callback=check_with(storage_url))
@click.argument("target", metavar="TO", callback=check_with(storage_url))
@_paused
@click.option(
    "--storage-key-file",
    "key_file",
    metavar="PATH",
    type=click.Path(path_type=Path),
    help="The keys of sealed records of FROM. Default: beside it, with -keys.",
)
@output_option
@click.pass_context
def copy(ctx: click.Context, source: str, target: str, paused: bool, key_file: Path | None) -> None:
    """Copy everything FROM a store that is not being served TO a new one.

    FROM and TO are storages as for `serve`: sqlite:///./mayfly.db or postgresql://user@host:port/database. Ids, versions,
    times and remaining lives stay as they are; expiry events are not copied. After an interruption the same command goes on
    where it was. Sealed records are sealed with new keys, in the file of TO with -keys.
    """
    old, new = StorageSettings(storage_url(source), key_file=key_file), StorageSettings(storage_url(target))
    if old.shown == new.shown:
        raise click.UsageError(f"FROM and TO are the same: {old.shown}", ctx)

    async def work(report: ReportProgress) -> CopyResult:
        from mayflydb.moving.copy import copy
        from mayflydb.moving.source import PausedSource, StoreSource

        async def into(store: Store) -> CopyResult:
            opened = await StoreSource.open(store)
            beginning = PausedSource(opened) if paused else opened
            return await _with_store(new, True, lambda target: copy(beginning, target, report, new.kind == "sqlite"))

        return await _with_store(old, False, into)

    _show_result(ctx, old.shown, new.shown, _run_with_progress("copying", work))


@click.group()
def data() -> None:
    """Export a whole store to one file, or import one, while it is not served; export and import records of a running one."""


@data.command("export")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@_storage
@click.option("--target", metavar="TARGET", help="Export the records of this container of a running server instead.")
@click.option(
    "--as-of",
    metavar="TIME",
    callback=check_with(parse_instant),
    help="With --target: as it was or will be then.",
)
@output_option
@click.pass_context
def export_(ctx: click.Context, file: Path, storage: str | None, target: str | None, as_of: str | None) -> None:
    """Write everything but the expiry events to FILE, which must not exist; or (--target) the records of one container.

    Until it is complete it is called FILE.unfinished; after an interruption the same command goes on with that. Records are
    written as JSON Lines (.jsonl) or CSV (.csv), from a running server.
    """
    if target is not None:
        if storage is not None:
            raise click.UsageError("--target names a running server's container: leave --storage out", ctx)
        from mayflydb.cli.export_records import export_records

        export_records(ctx, file, target, as_of)
        return
    if as_of is not None:
        raise click.UsageError("--as-of reads a container of a running server: name it by --target", ctx)
    settings = _storage_settings(ctx, storage)

    async def work(report: ReportProgress) -> CopyResult:
        from mayflydb.moving.files import export
        from mayflydb.moving.source import StoreSource

        async def into(store: Store) -> CopyResult:
            return await export(await StoreSource.open(store), file, __version__, report)

        return await _with_store(settings, False, into)

    _show_result(ctx, settings.shown, str(file), _run_with_progress("exporting", work))


@data.command("import")
@click.argument("file", metavar="FILE", type=click.Path(path_type=Path))
@_storage
@_paused
@click.option("--target", metavar="TARGET", help="Import records into this container of a running server instead.")
@click.option(
    "--mode", type=click.Choice(["insert", "upsert"]), help="Of records: those that are there fail, or are replaced."
)
@click.option("--continue-on-error", is_flag=True, help="Of records: go on behind a record that cannot be written.")
@click.option("--dry-run", is_flag=True, help="Of records: read the file, and write nothing.")
@click.option(
    "--keep-life",
    is_flag=True,
    help="Of Cosmos DB's items: give each the rest of its life, counted from its _ts, and leave out those that have expired.",
)
@output_option
@click.pass_context
def import_(
    ctx: click.Context,
    file: Path,
    storage: str | None,
    paused: bool,
    target: str | None,
    mode: str | None,
    continue_on_error: bool,
    dry_run: bool,
    keep_life: bool,
) -> None:
    """Put an export into a new store, or (--target) records into a container of a running server.

    An export is checked as a whole before anything is taken from it; after an interruption the same command goes on where it was.
    Records are a JSON array (.json), JSON Lines (.jsonl) or CSV (.csv).
    """
    if target is not None:
        if storage is not None or paused:
            raise click.UsageError("--target names a running server's container: leave --storage and --paused out", ctx)
        from mayflydb.cli.import_records import import_records

        import_records(
            ctx,
            file,
            target,
            mode or "insert",
            continue_on_error=continue_on_error,
            dry_run=dry_run,
            keep_life=keep_life,
        )
        return
    if mode is not None or continue_on_error or dry_run or keep_life:
        raise click.UsageError("--mode, --continue-on-error, --dry-run and --keep-life need --target", ctx)
    settings = _storage_settings(ctx, storage)

    async def work(report: ReportProgress) -> CopyResult:
        from mayflydb.moving.copy import copy
        from mayflydb.moving.files import FileSource
        from mayflydb.moving.source import PausedSource

        # The file is read twice: `open` checks all of it before the first record is copied.
        with ExitStack() as closing:
            with ProgressLine("checking"):
                opened = closing.enter_context(FileSource.open(file))
            source = PausedSource(opened) if paused else opened
            return await _with_store(
                settings, True, lambda target: copy(source, target, report, settings.kind == "sqlite")
            )

    _show_result(ctx, str(file), settings.shown, _run_with_progress("importing", work))


# --- what they share -----------------------------------------------------------------------------------------------------


def _storage_settings(ctx: click.Context, storage: str | None) -> StorageSettings:
    return load_settings_of(ctx, storage).settings.storage


async def _with_store(settings: StorageSettings, create: bool, work: Callable[[Store], Awaitable[T]]) -> T:
    from mayflydb.serving.stores import open_alone

    store = await open_alone(settings, create=create)
    try:
        return await work(store)
    finally:
        await store.close()


def _run_with_progress(what: str, work: Callable[[ReportProgress], Awaitable[CopyResult]]) -> CopyResult:
    """Run the work with a line of progress. Errors of the store and of files become CommandFailed."""
    with ProgressLine(what) as line:

        async def run() -> CopyResult:
            return await work(line.update)

        try:
            return asyncio.run(run())
        except StartFailed as failed:
            raise start_failure(failed) from failed
        except InUse as error:
            raise CommandFailed(str(error), hint=WHILE_SERVED) from error
        except MayflyError as error:
            raise CommandFailed(str(error)) from error
        except OSError as error:
            raise CommandFailed(f"{error.filename or what}: {error.strerror or error}") from error


def _show_result(ctx: click.Context, source: str, target: str, result: CopyResult) -> None:
    counts = {"records": result.records, "there_before": result.before}
    show(ctx, {"from": source, "to": target} | counts)
